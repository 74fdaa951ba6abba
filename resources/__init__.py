"""What assets borrow: storage, the encoder, tracking (MLflow) and quality (Great Expectations)."""

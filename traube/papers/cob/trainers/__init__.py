"""The paper's trainer, and the network before its first step."""

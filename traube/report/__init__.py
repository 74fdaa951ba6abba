"""Tables, figures and pages made from stored scores."""

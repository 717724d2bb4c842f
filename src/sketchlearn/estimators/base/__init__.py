"""What estimators share: from rows to a sketch, and from a sketch to a model."""

"""What estimators share: the way from rows to a sketch, and from a sketch to a model."""

"""Neural networks that generate rows."""

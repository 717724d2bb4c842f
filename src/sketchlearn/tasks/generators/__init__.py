"""Networks that generate rows."""

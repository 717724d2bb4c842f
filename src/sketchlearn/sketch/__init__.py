"""Sketches: exact sums of the features of records, and what travels beside them."""

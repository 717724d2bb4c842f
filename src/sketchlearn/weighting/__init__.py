"""Rows and points with weights that stand for all records, and what is learned from them."""

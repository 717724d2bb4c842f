"""Classes, from one sketch per class."""

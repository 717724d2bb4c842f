"""Classifiers, from one sketch per class."""

"""Mixtures of stable laws."""

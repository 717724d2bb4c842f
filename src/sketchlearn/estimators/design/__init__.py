"""Operators designed for estimators: from a sample, or from declared bounds."""

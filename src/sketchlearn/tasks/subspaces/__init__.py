"""Clusters that are subspaces."""

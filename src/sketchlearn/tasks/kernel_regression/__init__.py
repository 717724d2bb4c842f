"""Kernel regression."""

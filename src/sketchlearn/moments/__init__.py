"""Moments that sketches hold, with their noise."""

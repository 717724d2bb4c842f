"""Sketches, designs and their parts as files."""

"""Sketches, designs, schemas and checkpoints as files."""

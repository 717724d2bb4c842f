"""What is learned from sketches: a folder for each task, one row for each in registry.py."""

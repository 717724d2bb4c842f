"""A density from a sketch: which search, how many components, of which shapes."""

"""The number of clusters or components, chosen from a sketch."""

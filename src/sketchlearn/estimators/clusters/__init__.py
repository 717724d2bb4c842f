"""k-means and k-medians."""

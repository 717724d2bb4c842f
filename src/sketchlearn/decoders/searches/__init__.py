"""Ways to find a mixture's components: one algorithm per file, one common loop."""

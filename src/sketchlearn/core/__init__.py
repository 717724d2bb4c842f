"""The basis of all other packages: values with a JSON form, limits, randomness, files and messages."""

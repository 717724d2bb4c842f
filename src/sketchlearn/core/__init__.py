"""What every room builds on: values with a JSON form, limits, randomness, files and messages."""

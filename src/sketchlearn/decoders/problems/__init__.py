"""What is looked for: a mixture whose features have the sketch's means, and what it costs."""

"""What operators are designed from: a sample, or declared bounds alone."""

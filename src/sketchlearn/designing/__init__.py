"""What operators are designed from: a sample, or declared bounds alone."""

from sketchlearn.designing.scales import byrne_scale, keriven_scale

__all__ = ["byrne_scale", "keriven_scale"]

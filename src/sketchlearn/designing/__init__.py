"""The choice of an operator: from a sample, or from declared bounds alone."""

from sketchlearn.designing.design import design
from sketchlearn.designing.scales import byrne_scale, keriven_scale

__all__ = ["byrne_scale", "design", "keriven_scale"]

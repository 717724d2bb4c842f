"""Anything tabular as blocks of floating-point rows."""

from sketchlearn.sources.source import Source, source
from sketchlearn.sources.weights import WEIGHT_BITS, weight_units

__all__ = ["WEIGHT_BITS", "Source", "source", "weight_units"]

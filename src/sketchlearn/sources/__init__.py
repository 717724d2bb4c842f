"""Anything tabular as blocks of floating-point rows."""

from sketchlearn.sources.arrays import blocks, row_count
from sketchlearn.sources.weights import WEIGHT_BITS, weight_units

__all__ = ["WEIGHT_BITS", "blocks", "row_count", "weight_units"]

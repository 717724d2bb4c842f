"""Anything tabular as blocks of floating-point rows."""

from sketchlearn.sources.base import Source, missing
from sketchlearn.sources.beside import Beside
from sketchlearn.sources.blocks import Block
from sketchlearn.sources.sampling import sample
from sketchlearn.sources.source import is_array, register_reader, source
from sketchlearn.sources.weights import WEIGHT_BITS, weight_units

__all__ = [
    "WEIGHT_BITS",
    "Beside",
    "Block",
    "Source",
    "is_array",
    "missing",
    "register_reader",
    "sample",
    "source",
    "weight_units",
]

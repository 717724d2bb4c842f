"""Anything tabular as blocks of floating-point rows."""

from sketchlearn.sources.blocks import Block
from sketchlearn.sources.memory_tables import Beside
from sketchlearn.sources.row_weights import WEIGHT_BITS, weight_units
from sketchlearn.sources.sampling import sample
from sketchlearn.sources.source import is_array, register_reader, source
from sketchlearn.sources.source_base import Source
from sketchlearn.sources.weighted_source import first_rows, weighted

__all__ = [
    "WEIGHT_BITS",
    "Beside",
    "Block",
    "Source",
    "first_rows",
    "is_array",
    "register_reader",
    "sample",
    "source",
    "weight_units",
    "weighted",
]

"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.queries.changes import Change, ChangeDetector
from sketchlearn.queries.questions import Answer, Histogram, Questions
from sketchlearn.queries.sketch_distance import Distance, distance
from sketchlearn.queries.two_sample import ColumnDrift, Drift, two_sample_test

__all__ = [
    "Answer",
    "Change",
    "ChangeDetector",
    "ColumnDrift",
    "Distance",
    "Drift",
    "Histogram",
    "Questions",
    "distance",
    "two_sample_test",
]

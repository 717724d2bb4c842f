"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.queries.changes import Change, ChangeDetector
from sketchlearn.queries.column_drift import ColumnDrift, LevelShift
from sketchlearn.queries.questions import Answer, Questions
from sketchlearn.queries.sketch_distance import Distance, distance
from sketchlearn.queries.table_marginals import Histogram, LevelShares
from sketchlearn.queries.two_sample import Drift, two_sample_test

__all__ = [
    "Answer",
    "Change",
    "ChangeDetector",
    "ColumnDrift",
    "Distance",
    "Drift",
    "Histogram",
    "LevelShares",
    "LevelShift",
    "Questions",
    "distance",
    "two_sample_test",
]

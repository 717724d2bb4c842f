"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.questions.comparison import (
    Change,
    ChangeDetector,
    ColumnDrift,
    Distance,
    Drift,
    LevelShift,
    distance,
    two_sample_test,
)
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.questions import Answer, Questions

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

"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.estimators.number_of_clusters import ClusterChoice
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
from sketchlearn.questions.explain import Explanation
from sketchlearn.questions.intervals import CenterIntervals
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.profiles import Profiles
from sketchlearn.questions.questions import Answer, Questions

__all__ = [
    "Answer",
    "CenterIntervals",
    "Change",
    "ChangeDetector",
    "ClusterChoice",
    "ColumnDrift",
    "Distance",
    "Drift",
    "Explanation",
    "Histogram",
    "LevelShares",
    "LevelShift",
    "Profiles",
    "Questions",
    "distance",
    "two_sample_test",
]

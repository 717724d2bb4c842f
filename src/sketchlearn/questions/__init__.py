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
from sketchlearn.questions.summaries import ColumnSummary, Description, Statistic

__all__ = [
    "Answer",
    "CenterIntervals",
    "Change",
    "ChangeDetector",
    "ClusterChoice",
    "ColumnDrift",
    "ColumnSummary",
    "Description",
    "Distance",
    "Drift",
    "Explanation",
    "Histogram",
    "LevelShares",
    "LevelShift",
    "Profiles",
    "Questions",
    "Statistic",
    "distance",
    "two_sample_test",
]

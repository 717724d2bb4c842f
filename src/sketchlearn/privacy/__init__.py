"""Private releases: how far one record can move a sketch, the noise that hides it, and what was spent."""

from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.privacy.budget import Budget
from sketchlearn.privacy.class_selection import SelectedClasses, select_classes
from sketchlearn.privacy.forecast import Forecast, forecast
from sketchlearn.privacy.noise_plan import sensitivity
from sketchlearn.privacy.release import privatize
from sketchlearn.privacy.session import Session, SessionError
from sketchlearn.sketch.bits import PrivateBits
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Release

__all__ = [
    "Budget",
    "Forecast",
    "Ledger",
    "PrivateBits",
    "Release",
    "SelectedClasses",
    "Sensitivity",
    "Session",
    "SessionError",
    "forecast",
    "privatize",
    "select_classes",
    "sensitivity",
]

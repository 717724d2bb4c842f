"""Private releases: how far one record can move a sketch, the noise that hides it, and what was spent."""

from sketchlearn.ledger import Ledger
from sketchlearn.privacy.class_selection import SelectedClasses, select_classes
from sketchlearn.privacy.noise_forecast import Forecast, forecast
from sketchlearn.privacy.noise_plan import sensitivity
from sketchlearn.privacy.release import privatize
from sketchlearn.privacy.session import Session, SessionError
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.sketch import Release

__all__ = [
    "Forecast",
    "Ledger",
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

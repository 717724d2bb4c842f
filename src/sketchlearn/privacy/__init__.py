"""Private releases: how far one record can move a sketch, the noise that hides it, and what was spent."""

from sketchlearn.ledger import Ledger
from sketchlearn.privacy.class_selection import SelectedClasses, select_classes
from sketchlearn.privacy.release import privatize, sensitivity
from sketchlearn.sensitivity import Sensitivity

__all__ = ["Ledger", "SelectedClasses", "Sensitivity", "privatize", "select_classes", "sensitivity"]

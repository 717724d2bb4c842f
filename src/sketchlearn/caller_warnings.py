"""Warnings that point at the line of the user's own that led to them, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

PACKAGE_FOLDER = os.path.dirname(__file__) + os.sep


WARNED = set[str]()  # topics that were warned of once


def warn_caller_once(topic: str, message: str) -> None:
    """Warns of a topic the first time only that it arises in this process."""
    if topic not in WARNED:
        WARNED.add(topic)
        warn_caller(message)


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the nearest line outside this package and scikit-learn, whose pipelines call it."""
    inside = [PACKAGE_FOLDER]
    if "sklearn" in sys.modules:
        inside.append(os.path.dirname(sys.modules["sklearn"].__file__ or "") + os.sep)
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(tuple(inside)):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

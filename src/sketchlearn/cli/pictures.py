"""Pictures for --plot: drawn by `sketchlearn.diagnostics.pictures`, which needs matplotlib."""

from __future__ import annotations

import importlib
from typing import Any


def save_picture(function: str, first: Any, second: Any, path: str) -> None:
    """Calls one of the functions that draw two things to a file; a sentence says what is missing."""
    try:
        pictures = importlib.import_module("sketchlearn.diagnostics.pictures")
        importlib.import_module("matplotlib")
    except ModuleNotFoundError as error:
        if error.name == "matplotlib":
            raise ImportError("--plot needs matplotlib: pip install 'sketchlearn[plot]'") from None
        raise ImportError("this version of sketchlearn draws no pictures: leave --plot out") from None
    getattr(pictures, function)(first, second, path)

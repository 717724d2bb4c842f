"""Packages that only some users need, imported when they are."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

__version__ = version("sketchlearn")


def required(package: str, extra: str) -> Any:
    """The package, or one sentence that says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"this needs {package}: pip install 'sketchlearn[{extra}]'") from error

"""Optional packages, imported on demand."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

__version__ = version("sketchlearn")


def required(package: str, extra: str) -> Any:
    """Imports a package, or raises an error that says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"this needs {package}: pip install 'sketchlearn[{extra}]'") from error

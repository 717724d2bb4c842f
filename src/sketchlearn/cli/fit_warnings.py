"""Warnings about a fit: each is said once, whatever Python's settings are, and decides the exit code of --strict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sketchlearn.cli.error_messages import warn
from sketchlearn.cli.option_messages import in_options


@contextmanager
def fit_warnings() -> Iterator[list[str]]:
    """Collects and prints every `ConvergenceWarning` of a fit."""
    from sklearn.exceptions import ConvergenceWarning

    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always", ConvergenceWarning)
        yield sentences
    for warning in log:
        if not issubclass(warning.category, ConvergenceWarning):
            warn(warning.message)
            continue
        sentence = in_options(" ".join(str(warning.message).split()))
        if sentence not in sentences:
            sentences.append(sentence)
            warn(sentence)

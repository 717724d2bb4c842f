"""Warnings that a result may be poor: in plain words on standard error and, with --strict, as an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.cli.error_messages import DOUBTFUL, say
from sketchlearn.cli.option_messages import in_options


class Doubts:
    """What a fit has warned of, in the order it came."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def add(self, warning: Warning | str) -> None:
        """Says a warning, once."""
        sentence = in_options(" ".join(str(warning).split()))
        if sentence not in self.sentences:
            self.sentences.append(sentence)
            say(f"warning: {sentence}")

    def leave(self, strict: bool) -> None:
        """Ends the program with its own exit code, if that is asked for and there was a warning."""
        if strict and self.sentences:
            raise typer.Exit(DOUBTFUL)


@contextmanager
def doubts() -> Iterator[Doubts]:
    """Hears every `ConvergenceWarning` of a fit, whatever PYTHONWARNINGS says; errors come in options, too."""
    heard = Doubts()
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield heard
        except ValueError as error:
            raise ValueError(in_options(str(error))) from error
    for warning in log:
        if issubclass(warning.category, ConvergenceWarning):
            heard.add(warning.message)
        else:
            say(f"warning: {' '.join(str(warning.message).split())}")

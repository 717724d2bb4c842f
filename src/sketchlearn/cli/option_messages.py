"""Errors and warnings of the library in the words of the command line: options instead of Python's arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sketchlearn.cli.error_messages import warn

#: what Python calls an argument, and what the command line calls it, in the order in which they are replaced
OPTIONS = {
    r"n_samples=(\d+) rows\b": r"\1 records",
    r"design\(\.\.\., rows=(\d+)\)": r"sketchlearn design --rows \1",
    r"design\(\.\.\., standardize=True\)": "sketchlearn design --standardize",
    r"design\(\.\.\., task=['\"]([\w-]+)['\"]\)": r"sketchlearn design --task \1",
    r"(fit_sketch\(sketch, )?sample=(rows\b|\.\.\.)\)?": "--sample FILE",
    r"explain\(\w*\)": "sketchlearn explain",
    r"n_(components|clusters)=(\d+)": r"-k \2",
    r"n_(components|clusters)\b": "-k",
    r"task[= ]['\"]([\w-]+)['\"]": r"--task \1",
    r"rows and standardize\b": "--rows and --standardize",
    r"rows(?= must be a| must not be)": "--rows",
    r"leave out delta, or parties\b": "leave out --delta, or --parties",
    r"leave out (rows|epsilon|delta|neighbors)\b": r"leave out --\1",
    r"standardize(=True)?\b": "--standardize",
    r"random_state\b": "--seed",
    r"n_dimensions\b": "--dimensions",
    r"nulls=['\"](\w+)['\"]": r"--nulls \1",
    r"covariance_type(?:=['\"](\w+)['\"])?": r"--covariance-type \1",
    r"n_frequencies\b": "--n-frequencies",
    r"max_iter\b": "--max-iter",
    r"n_rows\b": "--n-rows",
    r"assume_public_design=True": "--assume-public-design",
    r"allow_weak=True": "--allow-weak",
}
NOT_IN_A_NAME = r"(?<![-\w'\"/.])"  # names of files and columns stay as they are


def in_options(message: str) -> str:
    """The message as the command line says it.

    >>> in_options("try more components or another covariance_type")
    'try more components or another --covariance-type'
    >>> in_options("design(..., rows=500) keeps rows; n_samples=3000 rows cannot have 4000 clusters")
    'sketchlearn design --rows 500 keeps rows; 3000 records cannot have 4000 clusters'
    """
    for python, option in OPTIONS.items():
        message = re.sub(NOT_IN_A_NAME + python, option, message)
    return message.rstrip()


@contextmanager
def errors_in_options() -> Iterator[None]:
    """Lets the message of a ValueError speak of options."""
    try:
        yield
    except ValueError as error:
        raise ValueError(in_options(str(error))) from error


@contextmanager
def fit_warnings() -> Iterator[list[str]]:
    """Collects and prints every `ConvergenceWarning` of a fit, whatever PYTHONWARNINGS says; errors name options."""
    from sklearn.exceptions import ConvergenceWarning

    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as log, errors_in_options():
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

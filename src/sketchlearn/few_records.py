"""A warning that exact sketches of few records give the records back."""

from __future__ import annotations

from sketchlearn.caller_warnings import warn_caller_once
from sketchlearn.plain_digits import counted

FEW_RECORDS = 100  # benchmarks/recovery.py tells whether a row is among so many, with an AUC of 0.8 to 0.99.


def few_records(count: float, remedy: str) -> str:
    """The warning in words: how many records there are, and what to do."""
    return (
        f"an exact sketch of few records gives them back, and this one has {counted(count, 'record')}: keep it as "
        f"you keep the records themselves; before you share it, {remedy}"
    )


def warn_of_few_records(count: float) -> None:
    """Warns once of a sketch that is to be saved, if it has records, but few."""
    if 0 < count < FEW_RECORDS:
        remedy = "release it with privatize, or merge it with sketches of more records"
        warn_caller_once("few records", few_records(count, remedy))

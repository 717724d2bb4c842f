"""How many of its frequencies a record touches: the fewer, the more records there are.

A record that touches r of m frequencies takes about r / m of the time, and each value of the sketch is then that of
n r / m records. Equal records touch the same frequencies, so that n counts as 1 / (sum of squared shares) of the
distinct ones. Errors of centers that come from this raise the squared error of k clusters by a share of about

    EXCESS_PER_CLUSTER k m / (r n),

whatever the number of columns, as m is in proportion to it. The fewest frequencies are taken that keep it below
MOST_EXCESS; all of them, where there is little to save.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.models import Double
from sketchlearn.plain_digits import in_digits
from sketchlearn.values import shortened, whole

AUTO = "auto"
EXCESS_PER_CLUSTER = 1.0  # times m / (r n): 0.15 to 0.85 were seen (docs/decisions.md)
MOST_EXCESS = 2e-4  # of the squared error: a tenth of what results are held to, beside k-means of all rows
WORTHWHILE_FEATURES = 2e8  # of all records: fewer take a third of a second, less than decoding does
FEWEST_TOUCHED = 25  # Fewer save little: centring, hashing and sorting a record take as long as forty features.
MOST_WARNED_EXCESS = 2e-3  # of the squared error, before anything is said of a number that was given
UNSEEN_PAIRS = 3.0  # of equal rows that a sample may have missed: less likely than one in twenty


def checked_subsample(subsample: Any) -> int | str | None:
    """What a user says of how many frequencies a record touches: a number, "auto", or None for all of them."""
    if subsample is None or (isinstance(subsample, str) and subsample == AUTO):
        return None if subsample is None else AUTO
    if isinstance(subsample, str):
        raise ValueError(
            'subsample must be "auto", None for all frequencies, or how many of them a record touches, '
            f"not {shortened(subsample)}"
        )
    return whole("subsample", subsample)


def touched(n_frequencies: int, n_components: int, n_rows: int, n_distinct: float) -> int | None:
    """The fewest frequencies that a record may touch, in groups of the same size; None where it must be all of them.

    >>> [touched(1000, 10, n, n) for n in (10**5, 3 * 10**5, 10**6, 10**7)]
    [None, 200, 50, 25]
    >>> touched(1000, 10, 10**6, 5000.0)
    """
    if n_frequencies * n_rows < WORTHWHILE_FEATURES:
        return None
    least = max(EXCESS_PER_CLUSTER / MOST_EXCESS * n_components * n_frequencies / n_distinct, FEWEST_TOUCHED)
    groups = next((g for g in range(int(n_frequencies / least), 1, -1) if n_frequencies % g == 0), 1)
    return None if groups == 1 else n_frequencies // groups


def warn_of_repetitions(rows: Double, n_frequencies: int, n_components: int, subsample: int) -> None:
    """Warns where records of a sample repeat so often that a given number of frequencies makes clusters worse."""
    distinct = distinct_records(rows, unseen=0.0)
    if EXCESS_PER_CLUSTER * n_components * (n_frequencies / subsample - 1) / distinct > MOST_WARNED_EXCESS:
        warn_caller(
            f"the rows repeat, as if there were about {in_digits(distinct, 2)} distinct ones, and equal rows "
            f"contribute to the same frequencies: with subsample={subsample} clusters are less exact; leave it out"
        )


def distinct_records(rows: Double, n_rows: float = math.inf, unseen: float = UNSEEN_PAIRS) -> float:
    """How many distinct records n_rows count as, at least, if they are like those of a random sample.

    That is 1 / (1 / n_rows + p), p the chance of two rows of the sample to be equal, were there `unseen` pairs more.

    >>> rows = np.random.default_rng(0).standard_normal((5000, 2))
    >>> round(distinct_records(rows, 10**6)), round(distinct_records(rows.round(), 10**6))
    (806420, 14)
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    pairs = float(counts @ (counts - 1)) / 2
    chance = (pairs + unseen) / math.comb(max(len(rows), 2), 2)
    return 1 / (1 / n_rows + chance) if chance or n_rows < math.inf else math.inf

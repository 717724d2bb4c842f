"""The priority sample (bottom-k) of rows beside a sketch. It depends on the records alone, not on their order.

Priority sampling (Duffield, Lund, Thorup 2007): each record has a priority, a uniform number given by a hash of its
values, divided by an inclusion weight that is larger far from the center. The sample has the records of the smallest
priorities, and the exact weight of each. So the samples of two sketches unite exactly, and a forgotten record leaves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, FrozenArrays, Integers
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.randomness import Stream
from sketchlearn.core.values import Value, finite_floats, shortened, whole
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import keep_candidates, row_hashes
from sketchlearn.rows.weights import WEIGHT_BITS

MOST_KEPT = 100_000
OUTLIER_SHARE = 0.002  # The share of the sample's rows, the farthest ones, that do not count for the scale.
CERTAIN_SHARE = 0.5  # At most this share of the rows is certain: records that the design's sample had more than once.
# A first piece of 400,000 candidates cost 10 % of the time of a million rows.
FIRST_PIECE_IN_KEPT_ROWS = 2
MOST_WAITING = 0.25  # New rows enter the sample once they are so many, as a share of its size.
NOT_ALL_THERE = "cannot subtract: those records are not all in the sketch"
ONLY_THERE = "take out only rows that were added, with the weights that they had"
LARGEST_CHANCE = 2.0**500  # With an infinite one, different rows would have the same priority, 0.


@dataclass(frozen=True)
class Keeping(Value):
    """The rule of a priority sample: it has the `size` records of the smallest priority.

    Parameters
    ----------
    size : how many different records the sample has.
    center, scale : a record's inclusion weight is (1 + the sum of ((x - center) scale)^2) / 2, so that tails, which
        decide squared errors, are well represented.
    seed : the hash follows from it.
    certain : hexadecimal hashes of common records, which are always sampled: otherwise all their copies could be lost.
    """

    size: int
    center: tuple[float, ...]
    scale: tuple[float, ...]
    seed: int = 0
    certain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        size = whole("size", self.size, most=MOST_KEPT)
        for name in ("center", "scale"):
            values = getattr(self, name)
            if not finite_floats(values) or len(values) != len(self.center):
                raise ValueError(f"{name} must be one finite number per column, not {shortened(values)}")
        if any(v < 0 for v in self.scale):
            raise ValueError("scale must not be negative")
        known = self.certain if isinstance(self.certain, tuple) else (None,)
        words = all(isinstance(h, str) and len(h) == 16 for h in known)
        if not words or not re.fullmatch("[0-9a-f]*", "".join(known)):  # all at once: a file may have thousands
            raise ValueError("certain must be hashes of 16 hexadecimal digits")
        if len(known) > CERTAIN_SHARE * size or list(known) != sorted(set(known)):
            raise ValueError("certain must be sorted hashes, each once, at most half as many as rows are kept")
        self._set(size=size, seed=whole("seed", self.seed, 0, 2**64 - 1))

    @classmethod
    def designed(cls, sample: Double, size: int, units: Double, seed: int) -> Keeping:
        """The rule for rows such as those of a sample, with distances measured in units."""
        center = sample.mean(axis=0)
        squares = np.sort(np.sum(((sample - center) / units) ** 2, axis=1))
        # a few rows far away, if they come into the sample, must not make others as far away look usual
        mean_square = float(np.mean(squares[: max(1, int((1 - OUTLIER_SHARE) * len(squares)))]))
        scale = 1 / (units * math.sqrt(mean_square)) if mean_square > 0 else np.zeros_like(units)
        plain = cls(size, tuple(center.tolist()), tuple(scale.tolist()), seed)
        hashes, counts = np.unique(row_hashes(np.ascontiguousarray(sample), plain.key, 1), return_counts=True)
        common = np.argsort(-counts, kind="stable")[: int(CERTAIN_SHARE * size)]
        certain = sorted(f"{h:016x}" for h in hashes[common[counts[common] > 1]].tolist())
        return replace(plain, certain=tuple(certain))

    @cached_property
    def key(self) -> int:
        return int(Stream(self.seed, "keeping").integers(1)[0])

    @cached_property
    def certain_hashes(self) -> NDArray[np.uint64]:
        return np.array([int(h, 16) for h in self.certain], np.uint64)

    def candidates(
        self, rows: NDArray[Any], weights: Integers | None, below: float, threads: int
    ) -> tuple[Integers, Double, Integers]:
        """The distinct rows of a priority below a limit: their first positions, priorities and total weights."""
        center, scale, certain = np.array(self.center), np.array(self.scale), self.certain_hashes
        return keep_candidates(kernel.active, rows, center, scale, self.key, certain, weights, below, threads)

    def chances(self, rows: Double) -> Double:
        """Inclusion probabilities, up to a common factor; infinite for records that are always sampled."""
        with np.errstate(over="ignore", invalid="ignore"):
            away = (rows - np.array(self.center)) * np.array(self.scale)
            weights = np.fmin(0.5 * (1 + np.sum(away * away, axis=1)), LARGEST_CHANCE)
        sure = np.isin(row_hashes(np.ascontiguousarray(rows), self.key, 1), self.certain_hashes)
        return np.where(sure, np.inf, weights)


@dataclass(frozen=True, eq=False)
class KeptRows(FrozenArrays):
    """The priority sample of all records that were sketched, in the order of priorities.

    Attributes
    ----------
    rule : the rule of the sample.
    rows : its records, (n, columns).
    units : the total weight of each record among all rows, in steps of 2^-16.
    below : every record of a priority below this is here: infinite where all records are.
    """

    rule: Keeping
    rows: Double
    units: Integers
    below: float = math.inf

    def __post_init__(self) -> None:
        self._set(rows=self.rows.view(), units=self.units.view())

    @classmethod
    def none(cls, rule: Keeping) -> KeptRows:
        return cls(rule, np.empty((0, len(rule.center))), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def complete(self) -> bool:
        """Whether the sample has all records."""
        return self.below == math.inf

    @cached_property
    def chances(self) -> Double:
        """The inclusion probability of each record: 1 for those that any hash would have sampled."""
        return self.chances_of(self.rows)

    def chances_of(self, rows: Double) -> Double:
        """The inclusion probabilities of records like these rows."""
        return np.minimum(1.0, self.rule.chances(rows) * self.below)

    @cached_property
    def calibration_slack(self) -> Double:
        """Calibration slack: how far each record's weight may change to agree with a sketch; 0 where it is known.

        It is small for records far from the center, or half of the worst tables became worse (docs/decisions/).
        """
        return (1 - self.chances) / np.maximum(self.rule.chances(self.rows), 1)

    def weights(self, count: float) -> Double:
        """The share of all rows, `count` in number, that each record stands for; they sum to one.

        Records that were certain to be sampled stand for themselves, the others for all the rest.
        """
        sure = self.chances == 1
        shares = self.units / (count * 2.0**WEIGHT_BITS)
        rest = 1 - float(np.sum(shares[sure]))
        others = np.where(sure, 0.0, self.units / self.chances)
        if rest > 0 and np.any(~sure):
            shares = np.where(sure, shares, others * (rest / others.sum()))
        return np.asarray(shares / shares.sum())

    @cached_property
    def priorities(self) -> Double:
        first, priorities, _ = self.rule.candidates(self.rows, None, math.inf, 1)
        if len(first) < len(self.rows):
            raise ValueError("the kept rows are not all different")
        return priorities

    def combined(self, other: KeptRows, sign: int) -> KeptRows:
        """The sample of all rows of both or, with sign -1, of those of this one without the other's."""
        return self.with_rows(other.rows, other.priorities, sign * other.units, min(self.below, other.below))

    def with_rows(self, rows: Double, priorities: Double, units: Integers, below: float) -> KeptRows:
        """The sample with these rows; equal priorities are equal records, but with probability 2^-53."""
        priorities, units = np.concatenate([self.priorities, priorities]), np.concatenate([self.units, units])
        distinct, first, inverse = np.unique(priorities, return_index=True, return_inverse=True)
        totals = np.zeros(len(distinct), np.int64)
        np.add.at(totals, inverse, units)
        if np.any(totals[distinct < below] < 0):
            raise InvalidValueError(NOT_ALL_THERE, ONLY_THERE)
        there = np.flatnonzero((totals > 0) & (distinct < below))
        if len(there) > self.rule.size:
            below, there = float(distinct[there[self.rule.size]]), there[: self.rule.size]
        kept = KeptRows(self.rule, _rows_of_both(self.rows, rows, first[there]), totals[there], below)
        kept.__dict__["priorities"] = distinct[there]
        return kept

    def tells_of(self, other: KeptRows) -> bool:
        """Whether this sample would have all records of the other sketch, if they were in this one."""
        return other.complete and bool(np.all(other.priorities < self.below))

    def among(self, total: int) -> KeptRows:
        """The same rows for records of this total weight: all records, if the weights agree."""
        return replace(self, below=math.inf) if sum(self.units.tolist()) == total and not self.complete else self

    def why_not_among(self, total: int) -> str | None:
        """Why these rows cannot be a sample of records of this total weight; None if they can."""
        own = sum(self.units.tolist())
        if own > total:
            return "the kept rows weigh more than all records do"
        if (own == total) == self.complete:
            return None
        return f"the kept rows are {'not ' if self.complete else ''}all records, but their limit says otherwise"

    def check(self) -> None:
        """Raises an error for rows that no sample by this rule can have."""
        d = len(self.rule.center)
        if self.rows.shape != (len(self.units), d) or len(self.units) > self.rule.size:
            raise ValueError("the kept rows do not have the size that their rule says")
        odd = ~np.isfinite(self.rows) | (np.signbit(self.rows) & (self.rows == 0))  # -0 is kept as +0
        if np.any(odd) or np.any(self.units <= 0) or not self.below > 0:
            raise ValueError("the kept rows have impossible values or weights")
        if len(self) and (np.any(np.diff(self.priorities) <= 0) or self.priorities[-1] >= self.below):
            raise ValueError("the kept rows are not those that their rule keeps")


class RowKeeper:
    """Samples rows as they come. New rows enter the sample many at a time, which is faster."""

    def __init__(self, rule: Keeping) -> None:
        self.rule, self._kept = rule, KeptRows.none(rule)
        self._waiting: list[tuple[Double, Double, Integers]] = []
        self._n_waiting = 0

    @property
    def kept(self) -> KeptRows:
        self._take_in()
        return self._kept

    @property
    def below(self) -> float:
        """Only rows of a priority below this can enter the sample."""
        return self._kept.below

    def add(self, rows: NDArray[Any], weights: Integers | None, bits: int, threads: int) -> None:
        """Rows of weights in steps of 2^-bits."""
        for piece in self.pieces(len(rows)):
            self.add_piece(rows[piece], None if weights is None else weights[piece], bits, threads)

    def pieces(self, n_rows: int) -> Iterator[slice]:
        """Consecutive parts of a block.

        The first rows are taken in small pieces: they set a limit that excludes most of the others.
        """
        start, step = 0, FIRST_PIECE_IN_KEPT_ROWS * self.rule.size if self.below == math.inf else n_rows
        while start < n_rows:
            yield slice(start, start + step)
            start, step = start + step, 4 * step

    def add_piece(self, rows: NDArray[Any], weights: Integers | None, bits: int, threads: int) -> None:
        """Rows of one piece; those above the limit may be left out before."""
        first, priorities, totals = self.rule.candidates(rows, weights, self.below, threads)
        if not len(first):
            return
        new = rows[first].astype(np.float64) + 0.0  # -0 is +0, so that equal records are equal bytes
        self._waiting.append((new, priorities, totals << (WEIGHT_BITS - bits)))
        self._n_waiting += len(new)
        if self._n_waiting > MOST_WAITING * self.rule.size:
            self._take_in()

    def _take_in(self) -> None:
        if self._waiting:
            rows, priorities, units = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._kept = self._kept.with_rows(rows, priorities, units, self.below)
            self._waiting, self._n_waiting = [], 0


def _rows_of_both(old: Double, new: Double, which: NDArray[np.intp]) -> Double:
    """Rows of two tables, one below the other, of which most are old: without a copy of both."""
    if not len(old):
        return new[which]
    rows, others = old.take(np.minimum(which, len(old) - 1), axis=0), np.flatnonzero(which >= len(old))
    rows[others] = new[which[others] - len(old)]
    return rows


def check_keeping(rule: Any, n_features: int) -> None:
    """Raises an error unless the rule is None or one for rows of so many columns."""
    if rule is not None and not (isinstance(rule, Keeping) and len(rule.center) == n_features):
        raise ValueError(f"keeping must be a rule for rows of {n_features} columns, not {shortened(rule)}")


def checked_rows(rule: Keeping | None, kept: KeptRows | None, weight: int) -> KeptRows | None:
    """The checked sample of records of this total weight; an empty one without records."""
    if kept is None:
        if rule is not None and weight:
            raise ValueError(
                "the operator samples rows, and none were given: make the sketch with operator.sketch(rows)"
            )
        return None if rule is None else KeptRows.none(rule)
    if kept.rule != rule:
        raise ValueError("the kept rows were chosen by another rule than the operator's")
    if reason := kept.why_not_among(weight):
        raise ValueError(reason)
    return kept

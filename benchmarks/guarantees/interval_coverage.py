"""How often 95 % intervals hold the truth over draws of known laws: which settings are tried, and the table of them."""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

import numpy as np
from rich.console import Console

from benchmarks.guarantees.known_laws import WAYS
from benchmarks.support.report import table_of, yes_or_no
from sketchlearn.core.arrays import Double

COVERED = (0.93, 0.97)
MOST_WIDTH = 1.15  # of what all rows tell: of exact sketches
NARROW_WAYS = ("exact", "rows")
GAPS = {"separated": 6.0, "overlapping": 3.0}
console = Console(width=160, highlight=False)


class Estimated(NamedTuple):
    """How far an attribute is from the truth, its stated standard errors, and those that all rows would give."""

    error: Double
    stated: Double
    by_rows: Double


class Setting(Protocol):
    """A law, how many rows of it are seen, and how."""

    way: str

    @property
    def name(self) -> str: ...

    def drawn(self, seed: int) -> list[Estimated] | None:
        """Each attribute of a model of fresh rows; None if its errors were withheld."""


def asked_settings() -> Iterator[tuple[int, str, int, int, str]]:
    """Components and columns, gaps, rows, frequencies per number that is learned, and the way to the sketch."""
    yield from ((*setting, "exact") for setting in itertools.product((5, 10), GAPS, (10_000, 100_000), (5, 10)))
    for k, kind, way in itertools.product((5, 10), GAPS, [way for way in WAYS if way != "exact"]):
        yield k, kind, 100_000, 10, way


def coverage(
    settings: argparse.Namespace, cases: Iterable[Setting], attributes: Sequence[str], measured: int
) -> Iterator[bool]:
    """A row of the table for each case; widths are those of the first attributes, so many as are `measured`."""
    columns = ["setting", *attributes, "width / rows'", "error / rows'", "withheld", "seconds", "asked"]
    table = table_of(f"95 % intervals that held the truth, {settings.draws} draws", columns)
    warnings.simplefilter("ignore")
    for case in cases:
        if settings.settings not in case.name:
            continue
        start = time.perf_counter()
        draws = [case.drawn(seed) for seed in range(settings.seed, settings.seed + settings.draws)]
        took = f"{(time.perf_counter() - start) / settings.draws:.1f}"
        found = [draw for draw in draws if draw is not None]
        withheld = str(len(draws) - len(found))
        if not found:
            table.add_row(case.name, *["-"] * (len(attributes) + 2), withheld, took, "-")
            continue
        held = [fmean(_held(draw[i]) for draw in found) for i in range(len(attributes))]
        width = median(float(np.nanmedian(_ratios(draw[:measured], "stated"))) for draw in found)
        error = fmean(float(np.mean(_ratios(draw[:measured], "error") ** 2)) for draw in found) ** 0.5
        reached = all(COVERED[0] <= own <= COVERED[1] for own in held)
        reached &= case.way not in NARROW_WAYS or width <= MOST_WIDTH
        figures = [*(f"{own:.3f}" for own in held), f"{width:.2f}", f"{error:.2f}"]
        table.add_row(case.name, *figures, withheld, took, yes_or_no(reached))
        Console(stderr=True, highlight=False).print(case.name, *figures, withheld, f"{took} s")
        yield reached
    console.print(table)


def _held(one: Estimated) -> float:
    """The share of an attribute's numbers whose intervals hold the truth, of those that have one."""
    return float(np.nanmean(np.where(np.isnan(one.stated), np.nan, np.abs(one.error) <= 1.96 * one.stated)))


def _ratios(several: Sequence[Estimated], what: str) -> Any:
    return np.concatenate([(getattr(one, what) / one.by_rows).ravel() for one in several])

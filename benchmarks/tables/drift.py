"""Are two-sample tests of sketches calibrated on real tables? python benchmarks/tables/drift.py

Public tables inside packages (benchmarks/support/public_tables.py), as they come: numbers, flags and codes. Each is
split at random into two halves, which are sketched by the operator that `SketchKMeans(8).design` makes from a sample:
a test at the 5 % level should reject 5 % of them. Then one column of the second half is shifted or spread, or permuted
so that only its dependence on the others changes: how often each test rejects, beside the frequencies of `skl.design`
alone and beside two-sample Kolmogorov-Smirnov tests of all columns (scipy.stats.ks_2samp) with Bonferroni's correction.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import binomtest, ks_2samp

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.public_tables import SOURCES, tables
from benchmarks.support.report import machine, table_of, yes_or_no

MOST_ROWS = 10_000  # of a table
SAMPLE_ROWS = 5000  # that operators are designed from
LEVEL = 0.05
SHIFT, SPREAD = 0.2, 1.25  # standard deviations; times
ASKED_SHARES, ASKED_SECONDS = (0.03, 0.07), 1.0
CLUSTERS = 8
Rows = NDArray[np.float64]
console = Console(width=140, highlight=False)


def public_tables(most: int, rng: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Tables of all sources, at random if there are more than `most`, and at most so many of their rows."""
    found = [(name, rows) for source in SOURCES for name, rows in tables(source).items()]
    for i in rng.permutation(len(found))[:most]:
        name, rows = found[i]
        rows = rows[:, rows.std(axis=0) > 0]
        if rows.shape[1]:
            yield name, rows[rng.permutation(len(rows))[:MOST_ROWS]]


def by_columns(before: Rows, after: Rows) -> float:
    """The least p-value of the columns' Kolmogorov-Smirnov tests, times their number."""
    return min(1.0, before.shape[1] * min(float(ks_2samp(x, y).pvalue) for x, y in zip(before.T, after.T, strict=True)))


def p_values(operator: skl.Operator, alone: skl.Operator | None, before: Rows, after: Rows) -> dict[str, float]:
    """Of each test by its name, and the processor seconds of the first."""
    pair = [operator.sketch(rows) for rows in (before, after)]
    started = time.process_time()
    drift = skl.two_sample_test(*pair)
    found = {"seconds": time.process_time() - started, "standard sketch": drift.p_value}
    found["its columns"] = min((column.p_value for column in drift.columns), default=1.0)
    if alone is not None:
        found["frequencies alone"] = skl.two_sample_test(*(alone.sketch(rows) for rows in (before, after))).p_value
        found["KS of columns"] = by_columns(before, after)
    return found


def changes(rng: np.random.Generator) -> dict[str, Callable[[Rows, int], Rows]]:
    """What is done to one column of the second half."""
    return {
        f"shift by {SHIFT} standard deviations": lambda rows, j: rows[:, j] + SHIFT * rows[:, j].std(),
        f"spread x {SPREAD}": lambda rows, j: rows[:, j].mean() + SPREAD * (rows[:, j] - rows[:, j].mean()),
        "permuted: dependence alone": lambda rows, j: rng.permutation(rows[:, j]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--splits", type=int, default=3, help="of each table into random halves")
    parser.add_argument("--power-tables", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(given.seed)
    same: dict[str, list[float]] = defaultdict(list)
    power: dict[tuple[str, str], list[bool]] = defaultdict(list)
    n_tables = 0
    for number, (name, rows) in enumerate(public_tables(given.tables, rng)):
        estimator = skl.SketchKMeans(CLUSTERS, random_state=int(rng.integers(1 << 31)))
        sample = rows[:SAMPLE_ROWS]
        operator = estimator.design(sample)
        own = []
        for _ in range(given.splits):
            rows = rows[rng.permutation(len(rows))]
            for test, value in p_values(operator, None, rows[::2], rows[1::2]).items():
                same[test].append(value)
            own.append(same["standard sketch"][-1])
        n_tables += 1
        print(name, *rows.shape, *(f"{p:.3f}" for p in own), file=sys.stderr, flush=True)
        if number >= given.power_tables or rows.shape[1] < 2:
            continue
        alone = skl.design(sample, n_components=CLUSTERS, seed=given.seed)
        for change, made in changes(rng).items():
            j, after = int(rng.integers(rows.shape[1])), rows[1::2].copy()
            after[:, j] = made(after, j)
            for test, value in p_values(operator, alone, rows[::2], after).items():
                if test != "seconds":
                    power[change, test].append(value <= LEVEL)
    table = table_of(f"Random halves of {n_tables} tables, {given.splits} splits of each", ("", "", "asked", "reached"))
    for test in ("standard sketch", "its columns"):
        hits = sum(p <= LEVEL for p in same[test])
        low, high = binomtest(hits, len(same[test])).proportion_ci(0.95)
        share = hits / len(same[test])
        asked = (
            f"{ASKED_SHARES[0]:.0%} to {ASKED_SHARES[1]:.0%}"
            if test == "standard sketch"
            else f"at most {ASKED_SHARES[1]:.0%}"
        )
        reached = share <= ASKED_SHARES[1] and (share >= ASKED_SHARES[0] or test != "standard sketch")
        table.add_row(f"{test}: rejected at 5 %", f"{share:.1%} ({low:.1%} to {high:.1%})", asked, yes_or_no(reached))
    seconds = np.array(same["seconds"])
    shown = f"median {np.median(seconds):.2f}, 95 % {np.quantile(seconds, 0.95):.2f}, most {seconds.max():.2f}"
    table.add_row("processor seconds of a comparison", shown, "at most 1", yes_or_no(seconds.max() <= ASKED_SECONDS))
    console.print(table)
    tests = ("standard sketch", "its columns", "frequencies alone", "KS of columns")
    table = table_of("Share rejected at 5 %, one column of the second half changed", ("change", "tables", *tests))
    for change in dict.fromkeys(change for change, _ in power):
        shares = (f"{np.mean(power[change, test]):.0%}" for test in tests)
        table.add_row(change, str(len(power[change, tests[0]])), *shares)
    console.print(table)
    quantiles = np.quantile(same["standard sketch"], (0.01, 0.05, 0.25, 0.5, 0.75, 0.95))
    console.print(f"p-values, at 1, 5, 25, 50, 75, 95 %: {', '.join(f'{p:.3f}' for p in quantiles)}")
    console.print(machine(["numpy", "scipy"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Generated rows of hundreds of columns: python benchmarks/wide_generators.py

Ten clusters in 20 of 256 columns' directions, and a little noise in all columns. A figure is the MMD of generated rows
over that of real ones, as in generators.py, of three samples of 4000 rows. `SketchGenerator` is fitted to all columns,
and to the rows' places in principal directions of 5000 rows, put back with noise of the deviation that each column has
left; beside it mixtures: of cells, in the same directions, and of 5000 rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import generators
import numpy as np
from generators import KERNELS, SAMPLES, Judge, Rows, timed
from report import machine, table_of
from rich.console import Console
from sklearn.mixture import GaussianMixture

import sketchlearn as skl

ROWS, COMPARED, SAMPLE, CLUSTERS, COLUMNS, RANK = 20_000, 4000, 5000, 10, 256, 20
VERSIONS = ("numpy", "scikit-learn", "torch")
console = Console(width=150, highlight=False)


def wide_clusters(n: int, rng: np.random.Generator) -> Rows:
    law = np.random.default_rng(COLUMNS)
    basis = np.linalg.qr(law.standard_normal((COLUMNS, RANK)))[0]
    centers, which = 2.5 * law.standard_normal((CLUSTERS, RANK)), rng.integers(CLUSTERS, size=n)
    return (centers[which] + rng.standard_normal((n, RANK))) @ basis.T + 0.2 * rng.standard_normal((n, COLUMNS))


def in_directions(model: Any, X: Rows, p: int, n: int, rng: np.random.Generator) -> Rows:
    """Rows of a model of places in p principal directions, in all columns."""
    some = X[:SAMPLE]
    mean = some.mean(axis=0)
    directions = np.linalg.svd(some - mean, full_matrices=False)[2][:p]
    drawn = model.fit((X - mean) @ directions.T).sample(n)
    places = drawn[0] if isinstance(drawn, tuple) else drawn
    left = (some - mean) - (some - mean) @ directions.T @ directions
    return np.asarray(mean + places @ directions + rng.standard_normal((n, COLUMNS)) * left.std(axis=0))


def ways(X: Rows, n: int, seed: int, steps: int, rng: np.random.Generator) -> dict[str, Callable[[], Rows]]:
    def network() -> Any:
        return skl.SketchGenerator(random_state=seed, max_iter=steps)

    cells = skl.SketchGaussianMixture(CLUSTERS, covariance_type="diag", random_state=seed)
    full = skl.SketchGaussianMixture(CLUSTERS, random_state=seed)
    return {
        "SketchGaussianMixture, diag, of cells": lambda: cells.fit(X).sample(n)[0],
        "SketchGaussianMixture in 16 directions": lambda: in_directions(full, X, 16, n, rng),
        "GaussianMixture, 5000 rows": lambda: GaussianMixture(CLUSTERS, random_state=seed).fit(X[:SAMPLE]).sample(n)[0],
        "SketchGenerator in 9 directions": lambda: in_directions(network(), X, CLUSTERS - 1, n, rng),
        "SketchGenerator in 16 directions": lambda: in_directions(network(), X, 16, n, rng),
        "SketchGenerator": lambda: network().fit(X).sample(n),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1000, help="of training; the default of SketchGenerator is 4000")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    generators.COMPARED = COMPARED
    rng = np.random.default_rng(given.seed)
    X = wide_clusters(ROWS, rng)
    judge = Judge(wide_clusters, rng)
    console.print(machine(VERSIONS))
    table = table_of(f"{ROWS:,} rows of {COLUMNS} columns, {CLUSTERS} clusters", ("method", *KERNELS, "seconds"))
    for name, made in ways(X, SAMPLES * COMPARED, given.seed, given.steps, rng).items():
        rows, seconds = timed(made)
        table.add_row(name, *(f"{ratio:.2f}" for ratio in judge.ratios(rows)), f"{seconds:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()

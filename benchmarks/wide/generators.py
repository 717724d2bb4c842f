"""Generated rows of hundreds of columns: python benchmarks/wide/generators.py

Ten clusters in 20 of 256 columns' directions and a little noise in all of them; embedding-like rows of 768 columns;
words of the standard library's own modules; and, with --mnist FILE.npz, images. A figure is the MMD of generated rows
over that of real ones, as in generators.py, of three samples of 4000 rows. `SketchGenerator` stands beside itself with
other numbers of directions (in all columns, as it was, with --all: minutes for each table) and beside mixtures.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.mixture import GaussianMixture

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of
from benchmarks.tasks import generators
from benchmarks.tasks.generators import KERNELS, SAMPLES, Judge, Maker, Rows, timed
from benchmarks.wide.clusters import embeddings, pixels, words

ROWS, COMPARED, SAMPLE, CLUSTERS, COLUMNS, RANK = 20_000, 4000, 5000, 10, 256, 20
VERSIONS = ("numpy", "scikit-learn", "torch")
console = Console(width=150, highlight=False)


def wide_clusters(n: int, rng: np.random.Generator) -> Rows:
    law = np.random.default_rng(COLUMNS)
    basis = np.linalg.qr(law.standard_normal((COLUMNS, RANK)))[0]
    centers, which = 2.5 * law.standard_normal((CLUSTERS, RANK)), rng.integers(CLUSTERS, size=n)
    return (centers[which] + rng.standard_normal((n, RANK))) @ basis.T + 0.2 * rng.standard_normal((n, COLUMNS))


def rows_of(table: Rows) -> Maker:
    """Random rows of a table, none of them twice."""
    left = np.random.default_rng(0).permutation(len(table))

    def dealt(n: int, rng: np.random.Generator) -> Rows:  # noqa: ARG001
        nonlocal left
        now, left = left[:n], left[n:]
        return table[now]

    return dealt


def cases(mnist: Path | None) -> dict[str, Callable[[], Maker]]:
    found: dict[str, Callable[[], Maker]] = {
        "clusters": lambda: wide_clusters,
        "embeddings": lambda: rows_of(embeddings(60_000, 20, 40, 1.0, unit=True, seed=3)),
        "words": lambda: rows_of(words()),
    }
    if mnist is not None:
        found["mnist"] = lambda: rows_of(pixels(mnist))
    return found


def ways(X: Rows, n: int, seed: int, *, in_all: bool) -> Mapping[str, Callable[[], Rows]]:
    def network(n_directions: int | str | None) -> Rows:
        rows: Rows = (
            skl.SketchGenerator(random_state=seed, features=skl.features.Fourier(n_directions=n_directions))
            .fit(X)
            .sample(n)
        )
        return rows

    def mixture(k: int) -> Rows:
        rows: Rows = skl.SketchGaussianMixture(k, covariance_type="diag", random_state=seed).fit(X).sample(n)[0]
        return rows

    found = {
        "SketchGenerator": lambda: network("auto"),
        "in 8 directions": lambda: network(8),
        "in 32 directions": lambda: network(32),
        "SketchGaussianMixture(10), diag": lambda: mixture(10),
        "SketchGaussianMixture(50), diag": lambda: mixture(50),
        "GaussianMixture(10), diag, 5000 rows": lambda: (
            GaussianMixture(CLUSTERS, covariance_type="diag", random_state=seed).fit(X[:SAMPLE]).sample(n)[0]
        ),
        "GaussianMixture(10), full, 5000 rows": lambda: (
            GaussianMixture(CLUSTERS, random_state=seed).fit(X[:SAMPLE]).sample(n)[0]
        ),
    }
    return found | ({"in all columns": lambda: network(None)} if in_all else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mnist", type=Path, help="a .npy or .npz file of images")
    parser.add_argument("--all", action="store_true", help="a network of all columns, too")
    add_only(parser, cases(Path()))
    given = parser.parse_args()
    if given.only == ["mnist"] and given.mnist is None:
        parser.error("mnist needs --mnist FILE.npz")
    warnings.simplefilter("ignore")
    generators.COMPARED = COMPARED
    console.print(machine(VERSIONS))
    for name, made in cases(given.mnist).items():
        if name not in given.only:
            continue
        rng, make = np.random.default_rng(given.seed), made()
        X = make(ROWS, rng)
        judge = Judge(make, rng)
        table = table_of(f"{name}: {ROWS:,} rows of {X.shape[1]:,} columns", ("method", *KERNELS, "seconds"))
        for method, drawn in ways(X, SAMPLES * COMPARED, given.seed, in_all=given.all).items():
            rows, seconds = timed(drawn)
            table.add_row(method, *(f"{ratio:.2f}" for ratio in judge.ratios(rows)), f"{seconds:.0f}")
        console.print(table)


if __name__ == "__main__":
    main()

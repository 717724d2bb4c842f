"""What epsilon buys for clusters of rows with 256 columns, beside a private PCA: python benchmarks/wide/private.py

Rows of unit length, ten clusters in a subspace of 40 directions. RSSE: the sum of squared distances to the nearest of
the centers, divided by that of KMeans(n_init=10) of 50,000 rows; both on 50,000 others. Three ways, each at the same
(epsilon, delta) for adding or removing a row:

- public rows: one pass, normalized cells designed on a sample, released. The sample is of public rows, 5000 here.
- random sums: one pass, and no public rows: `design(bounds=...)`, each value within 4 deviations of those of a
  random row of unit length.
- PCA first: no public rows, but two passes. Second moments are released with half of the budget (columns within -1 and
  1, as a row of unit length has them); in their 16 first directions, frequencies for the known box are released
  with the other half, and centers are put back into all columns.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of

COLUMNS, RANK, K, DIRECTIONS, PUBLIC, OTHERS = 256, 40, 10, 16, 5000, 50_000
BOUND = 4 / COLUMNS**0.5
BUDGETS = ((0.1, 1e-6), (0.3, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (1.0, 0.0))
WAYS = ("public rows", "random sums", "PCA first")
console = Console(width=120, highlight=False)


def rows_of(n: int, rng: np.random.Generator, basis: np.ndarray, centers: np.ndarray) -> np.ndarray:
    found = np.empty((n, COLUMNS), np.float32)
    for part in np.array_split(np.arange(n), max(1, n // 50_000)):
        inside = centers[rng.integers(K, size=len(part))] + rng.standard_normal((len(part), RANK)) * np.geomspace(
            1, 0.2, RANK
        )
        rows = inside @ basis.T + 0.02 * rng.standard_normal((len(part), COLUMNS))
        found[part] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def sse(rows: np.ndarray, centers: np.ndarray) -> float:
    return float(
        sum(np.min(((part[:, None] - centers) ** 2).sum(axis=2), axis=1).sum() for part in np.array_split(rows, 50))
    )


def of_cells(sketch: skl.Sketch, epsilon: float, delta: float) -> np.ndarray:
    release = skl.privatize(sketch, epsilon=epsilon, delta=delta, assume_public_design=True)
    return (
        skl.SketchKMeans(K, features=skl.features.Cells(normalize=True), random_state=0)
        .fit_sketch(release)
        .cluster_centers_
    )


def of_sums(rows: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    box = ([-BOUND] * COLUMNS, [BOUND] * COLUMNS)
    operator = skl.design(bounds=box, n_components=K, n_rows=len(rows), epsilon=epsilon, delta=delta)
    release = skl.privatize(operator.sketch(rows, batch=f"{epsilon}, {delta}"), epsilon=epsilon, delta=delta)
    return skl.SketchKMeans(K, random_state=0).fit_sketch(release).cluster_centers_


def after_pca(rows: np.ndarray, moments: skl.Sketch, epsilon: float, delta: float) -> np.ndarray:
    half = {"epsilon": epsilon / 2, "delta": delta / 2}
    components = skl.SketchPCA(DIRECTIONS).fit_sketch(skl.privatize(moments, **half))
    seen = (rows - components.mean_.astype(np.float32)) @ components.components_.T.astype(np.float32)
    box = ([-1.5] * DIRECTIONS, [1.5] * DIRECTIONS)
    operator = skl.design(bounds=box, n_components=K, n_rows=len(rows), **half)
    found = skl.SketchKMeans(K, random_state=0).fit_sketch(skl.privatize(operator.sketch(np.clip(seen, *box)), **half))
    return found.cluster_centers_ @ components.components_ + components.mean_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0)
    add_only(parser, WAYS)
    settings = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(settings.seed)
    basis, centers = np.linalg.qr(rng.standard_normal((COLUMNS, RANK)))[0], rng.standard_normal((K, RANK))
    rows, public, train, test = (rows_of(n, rng, basis, centers) for n in (int(settings.rows), PUBLIC, OTHERS, OTHERS))
    best = sse(test, KMeans(K, n_init=10, random_state=0).fit(train).cluster_centers_)
    plain = (
        sse(
            test,
            skl.SketchKMeans(K, features=skl.features.Cells(normalize=True), random_state=0).fit(rows).cluster_centers_,
        )
        / best
    )
    console.print(machine(("numpy", "scikit-learn", "opendp")))
    console.print(
        f"without noise, one pass: {plain:.4f}; one center for all: {sse(test, test.mean(axis=0)[None]) / best:.4f}"
    )
    cells = skl.design(public, n_components=K, features=skl.features.Cells(normalize=True), seed=0)
    moments = skl.design(bounds=([-1] * COLUMNS, [1] * COLUMNS), task="moments")
    every = {  # each budget by a name of its own: a second release of the same rows would be refused
        WAYS[0]: lambda e, d: of_cells(cells.sketch(rows, batch=f"{e}, {d}"), e, d),
        WAYS[1]: lambda e, d: of_sums(rows, e, d),
        WAYS[2]: lambda e, d: after_pca(rows, moments.sketch(rows, batch=f"{e}, {d}"), e, d),
    }
    ways = {name: every[name] for name in settings.only}
    table = table_of(f"RSSE, {len(rows):,} x {COLUMNS}", ["epsilon, delta", *ways, "seconds"])
    for epsilon, delta in BUDGETS:
        began = time.perf_counter()
        found = [f"{sse(test, way(epsilon, delta)) / best:.4f}" for way in ways.values()]
        table.add_row(f"{epsilon}, {delta}", *found, f"{time.perf_counter() - began:.0f}")
        console.print(f"{epsilon}, {delta}: {', '.join(found)}")
    console.print(table)


if __name__ == "__main__":
    main()

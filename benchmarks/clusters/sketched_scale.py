"""The scale that design(sketch) reads off a small sketch, beside that of a sample.

python benchmarks/clusters/sketched_scale.py

Clusters of deviation 1 around normal centers of deviation 4, first sketched by frequencies of many scales of loose
bounds. Scales are those of `design(sketch)` over those of `design(sample)`. Sketches of 2 k d frequencies then have
squared errors, over that of k-means on the rows, by each of the two and by bounds alone. A minute of one core.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import table_of

CASES = ((5, 2), (5, 5), (10, 3), (10, 10), (20, 5), (20, 10), (8, 4), (15, 8))  # clusters and columns: one draw each
FIRST_SIZES = (100, 200, 500)
BOUND = 40.0  # of each column, about three times what the rows reach
Rows = NDArray[np.float64]


def rows(n: int, k: int, d: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    return np.asarray(4 * rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d)))


def scale_of(operator: Any) -> float:
    """The scale of the frequencies that are there for clusters, after the probes; columns have units of their own."""
    probed = operator.part(skl.features.FourierFeatures).law
    law = probed.law.laws[0] if hasattr(probed.law, "laws") else probed.law
    return float(law.scale * np.exp(np.mean(np.log(probed.units))))


def loose_sketch(X: Rows, k: int, m: int, seed: int) -> skl.Sketch:
    bounds = ([-BOUND] * X.shape[1], [BOUND] * X.shape[1])
    operator: Any = skl.design(bounds=bounds, n_components=k, features=skl.features.Fourier(n_frequencies=m), seed=seed)
    found: skl.Sketch = operator.sketch(X)
    return found


def error(operator: Any, X: Rows, k: int, best: float) -> float:
    """Squared error of clusters from a sketch of the operator's frequencies alone, over that of k-means."""
    sketch = operator.part(skl.features.FourierFeatures).without_keeping().sketch(X)
    centers = skl.SketchKMeans(k, random_state=0).fit_sketch(sketch).cluster_centers_
    return float(np.sum(np.min(((X[:, None] - centers) ** 2).sum(axis=2), axis=1)) / best)


def measured(n: int, k: int, d: int, seed: int) -> list[dict[str, float]]:
    """A line for each first sketch of one draw of rows."""
    X = rows(n, k, d, seed)
    best = KMeans(k, n_init=5, random_state=0).fit(X).inertia_
    options: dict[str, Any] = {"n_components": k, "features": skl.features.Fourier(2 * k * d), "seed": seed}
    on_sample: Any = skl.design(X, **options)
    alone = error(loose_sketch(X, k, 2 * k * d, seed).operator, X, k, best)
    by_sample, found = error(on_sample, X, k, best), []
    for m in FIRST_SIZES:
        on_sketch: Any = skl.design(loose_sketch(X, k, m, seed), **options)
        ratio = scale_of(on_sketch) / scale_of(on_sample)
        line = {"k": k, "d": d, "first m": m, "scale": ratio, "design(sketch)": error(on_sketch, X, k, best)}
        found.append({**line, "design(sample)": by_sample, "bounds alone": alone})
    return found


def without_clusters(n: int) -> tuple[float, float]:
    """Scales for four clusters of rows of one Gaussian in three columns: design(sketch), design(sample)."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    by_sketch = skl.design(loose_sketch(X, 4, 200, 0), n_components=4)
    return scale_of(by_sketch), scale_of(skl.design(X, n_components=4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    n = parser.parse_args().rows
    warnings.simplefilter("ignore")  # small sketches are doubtful, and say so
    lines = [line for seed, (k, d) in enumerate(CASES) for line in measured(n, k, d, seed)]
    columns = list(lines[0])
    shown = table_of("The scale read off a first sketch, and squared errors over that of k-means", columns)
    for line in lines:
        shown.add_row(*(f"{value:g}" if name in columns[:3] else f"{value:.3f}" for name, value in line.items()))
    console = Console()
    console.print(shown)
    for name in columns[3:]:
        values = [line[name] for line in lines]
        console.print(f"{name}: {min(values):.3f} to {max(values):.3f}, median {np.median(values):.3f}")
    console.print("one Gaussian, k = 4: scale {:.2f} off a sketch, {:.2f} off rows".format(*without_clusters(n)))


if __name__ == "__main__":
    main()

"""Fifty parties with shares of noise, with noise of their own, and one curator: python benchmarks/noise_shares.py

Fifty parties of 4000 rows each. "Shares": each releases `privatize(..., parties=50)`, and the sum has the noise of one
release. "Own noise": each releases a private sketch. "Curator": someone trusted releases the exact sum. RSSE is that of
benchmarks/privacy.py: squared error relative to KMeans on all rows.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from statistics import median

import numpy as np
from privacy import Draw, clusters
from report import table_of, yes_or_no
from rich.console import Console

import sketchlearn as skl

PARTIES, ROWS = 50, 4000
EPSILONS = (0.1, 0.3, 1.0)
ASKED_EPSILON, ASKED_RSSE = 0.1, 1.003
CASES = {"k = d = 10": (10, 10), "k = 5, d = 2": (5, 2)}
console = Console(width=120, highlight=False)
progress = Console(stderr=True, highlight=False)


def releases(draw: Draw, epsilon: float) -> dict[str, skl.Sketch]:
    """The sum of all rows in three ways, by an operator that is designed from bounds alone."""
    d = draw.X.shape[1]
    bounds = ([-draw.bound] * d, [draw.bound] * d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nobody books the releases, and noise may hide clusters
        operator = skl.design(bounds=bounds, n_components=draw.k, n_rows=len(draw.X), epsilon=epsilon, seed=draw.seed)
        parts = np.array_split(draw.X, PARTIES)
        shares = [skl.privatize(operator.sketch(part), epsilon=epsilon, parties=PARTIES) for part in parts]
        own = [skl.privatize(operator.sketch(part), epsilon=epsilon) for part in parts]
        curator = skl.privatize(operator.sketch(draw.X), epsilon=epsilon)
    return {"shares": skl.merge(shares), "own noise": skl.merge(own, overlapping=False), "curator": curator}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5, help="draws of rows, operators and noise")
    settings = parser.parse_args()
    reached = False
    for name, (k, d) in CASES.items():
        found: dict[tuple[float, str], list[float]] = {}
        for seed in range(settings.draws):
            draw = clusters(PARTIES * ROWS, seed, k, d)
            for epsilon in EPSILONS:
                for way, sketch in releases(draw, epsilon).items():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)
                        model = skl.SketchKMeans(k, random_state=seed).fit_sketch(sketch)
                    found.setdefault((epsilon, way), []).append(draw.rsse(np.asarray(model.cluster_centers_)))
            progress.print(f"{name}, seed {seed}: " + ", ".join(f"{values[-1]:.4f}" for values in found.values()))
        title = f"{PARTIES} parties of {ROWS:,} rows, {name}: RSSE, median (worst) of {settings.draws}"
        ways = list(dict.fromkeys(way for _, way in found))
        table = table_of(title, ["epsilon", *ways])
        for epsilon in EPSILONS:
            values = [found[epsilon, way] for way in ways]
            table.add_row(f"{epsilon:g}", *(f"{median(own):.4f} ({max(own):.4f})" for own in values))
        console.print(table)
        enough = median(found[ASKED_EPSILON, "shares"]) <= ASKED_RSSE
        console.print(f"asked of shares: at most {ASKED_RSSE} at epsilon {ASKED_EPSILON:g}: {yes_or_no(enough)}")
        reached = reached or enough
    return not reached


if __name__ == "__main__":
    sys.exit(main())

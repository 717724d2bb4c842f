"""Fifty parties with shares of noise, with noise of their own, and one curator.

python benchmarks/privacy/noise_shares.py

Fifty parties of 4000 rows each. "Shares": each releases `privatize(..., parties=50)`, and the sum has the noise of one
release. "Own noise": each releases a private sketch. "Curator": someone trusted releases the exact sum. RSSE is that of
benchmarks/privacy/beside_peers.py: squared error relative to KMeans on all rows.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.privacy.beside_peers import Draw, clusters
from benchmarks.support.report import add_only, table_of, yes_or_no

PARTIES, ROWS = 50, 4000
EPSILONS = (0.1, 0.3, 1.0)
ASKED_EPSILON, ASKED_RSSE = 0.1, 1.003
ASKED_CASE = "k10d10"
console = Console(width=120, highlight=False)
progress = Console(stderr=True, highlight=False)


def ring(n: int, seed: int) -> Draw:
    """Five clusters on a ring, as in examples/many_parties.py, all of the same weight."""
    rng, angle = np.random.default_rng(seed), 2 * np.pi * np.arange(5) / 5
    centers = 5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return Draw.of(centers[rng.integers(5, size=n)] + rng.standard_normal((n, 2)), 5, centers, seed)


CASES: dict[str, Callable[[int, int], Draw]] = {
    ASKED_CASE: clusters,
    "k5d2": lambda n, seed: clusters(n, seed, 5, 2),
    "ring": ring,
}


def releases(draw: Draw, epsilon: float) -> dict[str, skl.Sketch]:
    """The sum of all rows in three ways, by an operator that is designed from bounds alone."""
    d = draw.X.shape[1]
    bounds = ([-draw.bound] * d, [draw.bound] * d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nobody books the releases, and noise may hide clusters
        operator = skl.design(bounds=bounds, n_components=draw.k, n_rows=len(draw.X), epsilon=epsilon, seed=draw.seed)
        parts = np.array_split(draw.X, PARTIES)
        # named apart: each way and budget is a world of its own, of which one would be real
        named = [
            [operator.sketch(part, batch=f"{way}, {epsilon}") for part in parts] for way in ("shares", "own noise")
        ]
        shares = [skl.privatize(sketch, epsilon=epsilon, parties=PARTIES) for sketch in named[0]]
        own = [skl.privatize(sketch, epsilon=epsilon) for sketch in named[1]]
        curator = skl.privatize(operator.sketch(draw.X, batch=f"curator, {epsilon}"), epsilon=epsilon)
    return {"shares": skl.merge(shares), "own noise": skl.merge(own, overlapping=False), "curator": curator}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, CASES)
    parser.add_argument("--draws", type=int, default=5, help="draws of rows, operators and noise")
    settings = parser.parse_args()
    reached = True
    for name in settings.only:
        found: dict[tuple[float, str], list[float]] = {}
        for seed in range(settings.draws):
            draw = CASES[name](PARTIES * ROWS, seed)
            for epsilon in EPSILONS:
                for way, sketch in releases(draw, epsilon).items():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)
                        model = skl.SketchKMeans(draw.k, random_state=seed).fit_sketch(sketch)
                    found.setdefault((epsilon, way), []).append(draw.rsse(np.asarray(model.cluster_centers_)))
            progress.print(f"{name}, seed {seed}: " + ", ".join(f"{values[-1]:.4f}" for values in found.values()))
        title = f"{PARTIES} parties of {ROWS:,} rows, {name}: RSSE, median (worst) of {settings.draws}"
        ways = list(dict.fromkeys(way for _, way in found))
        table = table_of(title, ["epsilon", *ways])
        for epsilon in EPSILONS:
            values = [found[epsilon, way] for way in ways]
            table.add_row(f"{epsilon:g}", *(f"{median(own):.4f} ({max(own):.4f})" for own in values))
        console.print(table)
        if name == ASKED_CASE:
            reached = median(found[ASKED_EPSILON, "shares"]) <= ASKED_RSSE
            console.print(f"asked of shares: at most {ASKED_RSSE} at epsilon {ASKED_EPSILON:g}: {yes_or_no(reached)}")
    return not reached


if __name__ == "__main__":
    sys.exit(main())

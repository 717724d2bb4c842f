"""Clusters from readings that send a few randomised bits each: python benchmarks/privacy/local.py

Each reading sends a randomised response (`operator.pack(rows, epsilon=...)`), and whoever receives them learns the
clusters. RSSE is the sum of squared distances to the nearest center, divided by that of scikit-learn's KMeans on the
raw rows (started at the true means for a million rows). The operator is designed from bounds alone; the responses come
from the secure source, so that two runs differ. "Flipped bits" is what the simplest response would leave in a sum,
where every bit is sent and flipped with its share of epsilon, times the deviation of ours.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.privacy.beside_peers import Draw, clusters
from benchmarks.support.report import table_of, yes_or_no

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
ASKED_EPSILON, ASKED_RSSE, ASKED_ROWS = 4.0, 1.1, 10**6
console = Console(width=130, highlight=False)
progress = Console(stderr=True, highlight=False)


def operator_of(draw: Draw) -> skl.features.FourierFeatures:
    d = draw.X.shape[1]
    bounds = ([-draw.bound] * d, [draw.bound] * d)
    operator = skl.design(
        bounds=bounds, n_components=draw.k, features=skl.features.Fourier(wave="square"), seed=draw.seed
    )
    return operator.part(skl.features.FourierFeatures)


def times_the_deviation(bits: skl.privacy.PrivateBits) -> float:
    """How much more noise flipping every bit would leave."""
    flipped = 1 / math.tanh(bits.epsilon / (2 * bits.n_bits)) ** 2 - 1
    return math.sqrt(flipped / bits.response.variance)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: [int(float(n)) for n in text.split(",")], default=[10**5, 10**6])
    parser.add_argument("--draws", type=int, default=5, help="draws of rows, operators and responses")
    settings = parser.parse_args()
    reached = True
    for n in settings.rows:
        found: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
        notes: dict[float, tuple[str, ...]] = {}
        for seed in range(settings.draws):
            draw = clusters(n, seed, 5, 5)
            operator = operator_of(draw)
            for epsilon in EPSILONS:
                bits = operator.pack(draw.X, epsilon=epsilon)
                model = skl.SketchKMeans(draw.k, random_state=seed).fit_sketch(operator.sketch_packed(bits))
                found[epsilon].append(draw.rsse(np.asarray(model.cluster_centers_)))
                sent = f"{bits.response.n_sent} of {bits.n_bits}"
                notes[epsilon] = (sent, f"{float(bits.response.truth):.3f}", f"{times_the_deviation(bits):.0f} times")
            progress.print(f"n = {n:,}, seed {seed}: " + ", ".join(f"{values[-1]:.4f}" for values in found.values()))
        columns = ["epsilon", "bits sent", "probability of truth", "flipped bits", "RSSE", "worst"]
        table = table_of(f"{n:,} readings, k = d = 5, medians of {settings.draws}", columns)
        for epsilon, values in found.items():
            table.add_row(f"{epsilon:g}", *notes[epsilon], f"{median(values):.4f}", f"{max(values):.4f}")
        console.print(table)
        if n == ASKED_ROWS:
            reached = median(found[ASKED_EPSILON]) <= ASKED_RSSE
            console.print(f"asked: at most {ASKED_RSSE} at epsilon {ASKED_EPSILON:g}: {yes_or_no(reached)}")
    return not reached


if __name__ == "__main__":
    sys.exit(main())

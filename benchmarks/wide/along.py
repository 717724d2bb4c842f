"""Columns that are not clustered on: means per cluster from the cells of all records, beside those of 4000 rows.

The truth is the mean over all rows that `predict` puts into the cluster. Errors are in standard deviations of a column,
root mean squares over clusters and columns, and medians over the seeds. `python benchmarks/wide/along.py`
"""

from __future__ import annotations

import argparse

import numpy as np
import statsmodels.api as sm
from sklearn.cluster import KMeans

import sketchlearn as skl

KEPT = 4000


def doctor_visits() -> tuple[np.ndarray, list[int]]:
    """20,190 persons of the RAND health insurance experiment; insurance and visits are clustered on, health is not."""
    table = sm.datasets.randhie.load_pandas().data.to_numpy(float)
    return table, [5, 6, 7, 8, 9]


def generated(width: float, seed: int) -> tuple[np.ndarray, list[int]]:
    """100,000 rows, six clusters in six columns, and four columns that depend on cluster and place."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(6, size=100_000)
    rows = 3 * rng.standard_normal((6, 6))[labels] + width * rng.standard_normal((len(labels), 6))
    more = rng.standard_normal((6, 4))[labels] + rows[:, :4] / 2 + 2 * rng.standard_normal((len(labels), 4))
    return np.concatenate([rows, more], axis=1), [6, 7, 8, 9]


def errors(table: np.ndarray, along: list[int], k: int, seed: int) -> tuple[float, float, float]:
    """Of the cells and of 4000 rows; and the squared error of the clusters over that of k-means on all rows."""
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    rng = np.random.default_rng(seed)
    model = skl.SketchKMeans(k, profile_columns=along, random_state=seed).fit(table)
    labels, some = model.labels_, rng.permutation(len(table))[:KEPT]
    truth = np.array([table[labels == j][:, along].mean(axis=0) for j in range(k)])
    kept = np.array([table[some][labels[some] == j][:, along].mean(axis=0) for j in range(k)])
    found = model.cluster_centers_[:, along]
    others = np.setdiff1d(np.arange(table.shape[1]), along)
    peer = KMeans(k, n_init=10, random_state=seed).fit(table[:, others])
    return (
        float(np.sqrt(np.mean((found - truth) ** 2))),
        float(np.sqrt(np.mean((kept - truth) ** 2))),
        float(model.inertia_ / peer.inertia_),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    print("table                            k    cells  4000 rows    RSSE")
    cases = [("visits to doctors", k, lambda seed: doctor_visits()) for k in (4, 8)]  # noqa: ARG005
    cases += [(f"generated, width {w}", 6, lambda seed, w=w: generated(w, seed)) for w in (0.5, 1.0, 2.0)]
    for name, k, make in cases:
        cells, kept, ratio = np.median([errors(*make(seed), k, seed) for seed in seeds], axis=0)
        print(f"{name:30} {k:3}   {cells:.4f}     {kept:.4f}  {ratio:.4f}", flush=True)


if __name__ == "__main__":
    main()

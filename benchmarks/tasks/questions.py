"""Questions to sketches, beside what the rows themselves say: python benchmarks/tasks/all.py --only questions

The level and power of the two-sample test (beside a permutation test of the maximum mean discrepancy on the same
rows), how often intervals of distances cover, histograms of columns, and changes in a stream.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from rich.table import Table
from sklearn.metrics.pairwise import euclidean_distances

import sketchlearn as skl
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture

COLUMNS, CLUSTERS = 3, 3
PERMUTATIONS = 200


def clusters(n: int, rng: np.random.Generator, shift: float = 0.0) -> np.ndarray:
    centers = 3 * np.random.default_rng(99).standard_normal((CLUSTERS, COLUMNS))
    rows = centers[rng.integers(CLUSTERS, size=n)] + rng.standard_normal((n, COLUMNS))
    rows[:, 0] += shift
    return rows


def permutation_test(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> float:
    """The p-value of the maximum mean discrepancy, with a Gaussian kernel of the median distance."""
    rows = np.concatenate([a, b])
    squares = euclidean_distances(rows, squared=True)
    kernel = np.exp(-squares / np.median(squares[squares > 0]))
    signs = np.concatenate([np.full(len(a), 1 / len(a)), np.full(len(b), -1 / len(b))])
    seen = signs @ kernel @ signs
    others = np.stack([rng.permutation(signs) for _ in range(PERMUTATIONS)])
    chance = np.einsum("pi,pi->p", others @ kernel, others)
    return float((1 + np.sum(chance >= seen)) / (1 + PERMUTATIONS))


def level(runs: int) -> tuple[Table, list[bool]]:
    """Rejections at 5 %, of records of one distribution and of shifted ones."""
    operator = skl.design(clusters(5000, np.random.default_rng(1)), n_components=CLUSTERS).part(
        skl.features.FourierFeatures
    )
    table = Table("shift of one column", "runs", "two_sample_test rejects", "asked", "permutation test rejects")
    reached = []
    for shift, n_runs in ((0.0, runs), (0.1, runs // 10), (0.2, runs // 10), (0.4, runs // 10)):
        ours, peers = [], []
        for run in range(n_runs):
            rng = np.random.default_rng([7, run, int(100 * shift)])
            a, b = clusters(500, rng), clusters(500, rng, shift)
            sketches = operator.sketch(a, n_jobs=1), operator.sketch(b, n_jobs=1)
            ours.append(skl.two_sample_test(*sketches, seed=run).p_value < 0.05)
            if run < runs // 10:
                peers.append(permutation_test(a, b, rng) < 0.05)
        if shift == 0:
            reached.append(abs(np.mean(ours) - 0.05) <= 0.01)
        asked = "0.05 +- 0.01" if shift == 0 else ""
        table.add_row(f"{shift:g}", str(n_runs), f"{np.mean(ours):.3f}", asked, f"{np.mean(peers):.3f} of {len(peers)}")
    return table, reached


def coverage(runs: int) -> tuple[Table, list[bool]]:
    """How often 95 % intervals of distances hold the true one."""
    operator = skl.design(clusters(5000, np.random.default_rng(1)), n_components=CLUSTERS).part(
        skl.features.FourierFeatures
    )
    centers = 3 * np.random.default_rng(99).standard_normal((CLUSTERS, COLUMNS))

    def exact(shift: float) -> np.ndarray:
        moved = centers + np.eye(1, COLUMNS) * shift
        shares, ones = np.full(CLUSTERS, 1 / CLUSTERS), np.ones((CLUSTERS, COLUMNS))
        return Mixture(DiagonalGaussian(), shares, moved, ones).sketch(operator)

    table = Table("shift", "true distance", "runs", "intervals that hold it", "asked")
    reached = []
    for shift in (0.05, 0.2, 0.8):
        true, held = np.sqrt(np.mean(np.abs(exact(0.0) - exact(shift)) ** 2)), []
        for run in range(runs):
            rng = np.random.default_rng([8, run, int(100 * shift)])
            pair = [operator.sketch(clusters(2000, rng, s), n_jobs=1) for s in (0.0, shift)]
            found = skl.distance(*pair, seed=run)
            held.append(found.low <= true <= found.high)
        reached.append(abs(np.mean(held) - 0.95) <= 0.015)
        table.add_row(f"{shift:g}", f"{true:.4f}", str(runs), f"{100 * np.mean(held):.1f} %", "95 +- 1.5 %")
    return table, reached


def histograms(n: int) -> tuple[Table, list[bool]]:
    """Total variation of 50 bins of each of 5 columns, m = 2000; the worst column."""
    rng = np.random.default_rng(5)
    centers = 3 * rng.standard_normal((10, 5))
    kinds = {
        "ten clusters": centers[rng.integers(10, size=n)] + rng.standard_normal((n, 5)),
        "log-normal": np.exp(0.5 * rng.standard_normal((n, 5))),
        "exponential": rng.exponential(size=(n, 5)),
        "uniform": rng.uniform(size=(n, 5)),
        "Student's t, 3": rng.standard_t(3, size=(n, 5)),
    }
    table = Table("records", "design for kmeans", "design for histograms", "asked", "seconds per column")
    reached = []
    for name, rows in kinds.items():
        found, seconds = [], 0.0
        for task in ("kmeans", "histograms"):
            operator = skl.design(rows, n_components=10, task=task, features=skl.features.Fourier(2000))
            ask = skl.Questions(operator.sketch(rows))
            begun = time.perf_counter()
            away = []
            for column in range(5):
                histogram = ask.marginal(column)
                true = np.histogram(rows[:, column], histogram.edges)[0] / n
                away.append(
                    0.5 * np.abs(true - histogram.shares).sum() + 0.5 * abs(true.sum() - histogram.shares.sum())
                )
            seconds = (time.perf_counter() - begun) / 5
            found.append(max(away))
        reached.append(found[1] <= 0.02)
        table.add_row(name, f"{found[0]:.4f}", f"{found[1]:.4f}", "0.02", f"{seconds:.2f}")
    return table, reached


def changes(streams: int) -> Table:
    """Streams of 60 sketches of 500 records, with a change at step 40."""
    operator = skl.design(clusters(5000, np.random.default_rng(1)), n_components=CLUSTERS).part(
        skl.features.FourierFeatures
    )
    table = Table(
        "shift at step 40",
        "streams",
        "false alarms per step before",
        "found",
        "median delay",
        "median error of the date",
    )
    for shift in (0.1, 0.2, 0.4):
        false, delays, dates = 0, [], []
        for stream in range(streams):
            rng, detector = np.random.default_rng([9, stream, int(100 * shift)]), skl.ChangeDetector()
            for step in range(60):
                change = detector.update(operator.sketch(clusters(500, rng, shift if step >= 40 else 0.0), n_jobs=1))
                if change.alarm and step < 40:
                    false += 1
                elif change.alarm:
                    delays.append(step - 40)
                    dates.append(abs((change.since or 0) - 40))
                    break
        delay, date = (f"{np.median(values):g}" if values else "" for values in (delays, dates))
        table.add_row(f"{shift:g}", str(streams), f"{false / (40 * streams):.4f}", f"{len(delays)}", delay, date)
    return table


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """Each table, and whether the figures asked for were reached."""
    runs, n = settings.repetitions, settings.histogram_rows
    yield titled("Two-sample test: rejections at the 5 % level, 500 and 500 records", *level(runs))
    yield titled("Intervals of distances, 2000 and 2000 records", *coverage(runs))
    yield titled(f"Histograms of columns: total variation, worst of five, n = {n:,}, m = 2000", *histograms(n))
    yield titled("Changes in a stream", changes(max(2, runs // 100)), [])


def titled(title: str, table: Table, reached: list[bool]) -> tuple[Table, list[bool]]:
    table.title = title
    return table, reached

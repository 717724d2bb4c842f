"""What exact sketches give away: rows that are computed back from them, and whose rows are in them.

python benchmarks/recovery.py --draw docs/recovery.png    # ten minutes; drawing needs matplotlib

The attacker has the sketch's file, with its operator and its number of records. Rows are uniform in the box of the
design, and sought by a greedy search and Gauss-Newton steps; the remaining difference shows whether all were found.
To tell membership, the attacker has a row, and the mean of the features of many rows like it.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import table_of
from rich.console import Console
from scipy.optimize import least_squares, linear_sum_assignment

import sketchlearn as skl

CANDIDATES, RESTARTS, FOUND = 8000, 6, 1e-4  # of the search; the difference below which all rows were found
POPULATION, TRIALS, ROWS_OF_TRIAL = 100_000, 50, 20  # of the test of membership
Rows = NDArray[np.float64]


def features_of_design(d: int) -> Any:
    """The Fourier features of a design for ten clusters in the box [-1, 1]^d."""
    design: Any = skl.design(bounds=([-1.0] * d, [1.0] * d), n_components=10)
    return design.part(skl.FourierFeatures)


def split(z: NDArray[np.complex128]) -> Rows:
    return np.concatenate([z.real, z.imag], axis=-1)


def recovered(sketch: skl.Sketch, rng: np.random.Generator) -> tuple[Rows, float]:
    """Rows whose features add up to the sketch, and by how much they do not."""
    operator: Any = sketch.operator
    omega, n, d = operator.frequencies, int(sketch.count), operator.n_features
    total = sketch.mean * n

    def features(rows: Rows) -> NDArray[np.complex128]:
        return np.exp(1j * ((rows.reshape(-1, d) - operator.middle) @ omega))

    def fitted(rows: Rows, target: NDArray[np.complex128], steps: int) -> tuple[Rows, float]:
        def slopes(x: Rows) -> Rows:
            return split((1j * features(x)[:, None] * omega).reshape(-1, omega.shape[1])).T

        def rest(x: Rows) -> Rows:
            return split(features(x).sum(axis=0) - target)

        found = least_squares(rest, rows.ravel(), slopes, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=steps)
        return found.x.reshape(-1, d), float(np.sqrt(2 * found.cost / len(target)))

    best: tuple[Rows, float] = (np.zeros((n, d)), np.inf)
    for _ in range(RESTARTS):
        rows = np.empty((0, d))
        for _ in range(n):
            rest = total - features(rows).sum(axis=0)
            some = rng.uniform(-1, 1, (CANDIDATES, d))
            first = some[np.argmax((features(some) @ rest.conj()).real)]
            rows = fitted(np.vstack([rows, fitted(first, rest, 20)[0]]), total, 5)[0]
        best = min(best, fitted(rows, total, 200), key=lambda pair: pair[1])
        if best[1] < FOUND:
            break
    return best


def membership_auc(operator: Any, n: int, rng: np.random.Generator) -> float:
    """How often a row that is in the sketch agrees better with it than a row that is not."""
    d, inside, outside = operator.n_features, [], []
    mean = split(operator.sketch(rng.uniform(-1, 1, (POPULATION, d))).mean)
    for _ in range(TRIALS):
        rows, others = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (ROWS_OF_TRIAL, d))
        shift = split(operator.sketch(rows).mean) - mean
        inside += list(split(operator.features(rows[:ROWS_OF_TRIAL])) @ shift - mean @ shift)
        outside += list(split(operator.features(others)) @ shift - mean @ shift)
    return float(np.mean(np.array(inside)[:, None] > np.array(outside)))


def draw(points: list[tuple[int, float, float]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes, (sizes, middle, largest) = figure.subplots(), zip(*points, strict=True)
    axes.semilogy(sizes, largest, "o-", markersize=4, label="worst row")
    axes.semilogy(sizes, middle, "o-", markersize=4, label="median row")
    axes.set(xlabel="rows in the exact sketch", ylabel="error, as a share of the range", ylim=(1e-9, 1))
    axes.set_xticks(range(2, 21, 2))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", metavar="PICTURE", help="draw the errors to this file")
    chosen, console, operator, points = parser.parse_args(), Console(highlight=False), features_of_design(3), []
    table = table_of("Rows from exact sketches", ["rows", "median error", "largest", "difference"])
    for n in range(1, 21):
        rng = np.random.default_rng(n)
        rows = rng.uniform(-1, 1, (n, 3))
        found, rest = recovered(operator.sketch(rows), rng)
        apart = np.abs(rows[:, None] - found[None]).max(axis=2) / 2  # a column's range is 2
        errors = apart[linear_sum_assignment(apart)]  # rows have no order
        points.append((n, float(np.median(errors)), float(errors.max())))
        table.add_row(str(n), f"{points[-1][1]:.1e}", f"{points[-1][2]:.1e}", f"{rest:.1e}")
    console.print(operator.in_words, table)
    for d, n in ((3, 100), (3, 1000), (10, 100), (10, 1000)):
        auc = membership_auc(features_of_design(d), n, np.random.default_rng(n))
        console.print(f"Membership among {n:,} rows of {d} columns: AUC {auc:.2f}")
    if chosen.draw:
        draw(points, chosen.draw)


if __name__ == "__main__":
    main()

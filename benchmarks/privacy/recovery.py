"""What exact sketches give away: rows that are computed back from them, and whose rows are in them.

python benchmarks/privacy/recovery.py --draw docs/reference/recovery.png    # 2.5 minutes; drawing needs matplotlib

The attacker has the sketch's file, with its operator and its number of records. Rows are uniform in the box of the
design, and sought by a greedy search and Gauss-Newton steps; the remaining difference shows whether all were found.
To tell membership, the attacker has a row, and the mean of the features of many rows like it. Of one reading of a
sensor (docs/how-to/sensors.md), he has the packed bits, and seeks values that have the same ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import least_squares, linear_sum_assignment

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import sensor_network as network

SKETCHES = {3: range(1, 21), 5: (5, 10, 15, 20)}  # numbers of rows, by the number of columns
CANDIDATES, RESTARTS, FOUND = 8000, 6, 1e-4  # of the search; the difference below which all rows were found
POPULATION, TRIALS, ROWS_OF_TRIAL = 100_000, 50, 20  # of the test of membership
READINGS, FREQUENCIES_OF_BITS = 20, 250  # readings whose packed bits, 2 for each frequency, are given
FIRST_VALUES, KEPT_VALUES, CHILDREN, ROUNDS = 100_000, 300, 10, 30  # of the search for values with the same bits
Rows = NDArray[np.float64]


def features_of_design(d: int) -> Any:
    """The Fourier features of a design for ten clusters in the box [-1, 1]^d."""
    design: Any = skl.design(bounds=([-1.0] * d, [1.0] * d), n_components=10)
    return design.part(skl.features.FourierFeatures)


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


def reading_of(bits: skl.features.PackedBits, operator: Any, rng: np.random.Generator) -> tuple[Rows, int]:
    """Values from 0 to 1 that have the packed bits of one reading, and how many bits differ.

    Of many values, those that share most bits have children nearby, nearer in each round; the mean of the best is
    taken.
    """

    def shared(values: Rows) -> Rows:
        return np.asarray(operator.pack(values).inner(bits)[:, 0], float)

    values = rng.uniform(0, 1, (FIRST_VALUES, operator.n_features))
    same = shared(values)
    for step in np.geomspace(0.1, 3e-4, ROUNDS):
        best = np.argsort(-same)[:KEPT_VALUES]
        children = np.repeat(values[best], CHILDREN, axis=0)
        children = np.clip(children + step * rng.standard_normal(children.shape), 0, 1)
        values, same = np.vstack([values[best], children]), np.concatenate([same[best], shared(children)])
    n_bits = 2 * operator.n_frequencies
    return values[same == same.max()].mean(axis=0), round((n_bits - same.max()) / 2)


def readings_of_bits(console: Console) -> None:
    """Uniform readings that are computed back from their packed bits, with the sensors' operator."""
    operator = network.operator_of(network.in_turn(1, 0)[1], FREQUENCIES_OF_BITS, "square", 0)
    rng, errors, differ = np.random.default_rng(0), list[float](), list[int]()
    for _ in range(READINGS):
        row = rng.uniform(0, 1, (1, operator.n_features))
        found, rest = reading_of(operator.pack(row), operator, rng)
        errors.append(float(np.abs(found - row).max()))
        differ.append(rest)
    console.print(
        f"{READINGS} readings of {operator.n_features} columns from {2 * FREQUENCIES_OF_BITS} packed bits each: the "
        f"worst column is off by {np.median(errors):.4f} of its range (median; {max(errors):.4f} at most), "
        f"with at most {max(differ)} bits that differ"
    )


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


def rows_of_sketches(console: Console) -> list[tuple[int, float, float]]:
    """Prints how well the rows of sketches come back; the figures of 3 columns: rows, median and largest error."""
    points = []
    for d, sizes in SKETCHES.items():
        operator = features_of_design(d)
        title = f"Rows from exact sketches: {operator.n_frequencies} frequencies of {d} columns"
        table = table_of(title, ["rows", "median error", "largest", "difference", "all found"])
        for n in sizes:
            rng = np.random.default_rng(n)
            rows = rng.uniform(-1, 1, (n, d))
            found, rest = recovered(operator.sketch(rows), rng)
            apart = np.abs(rows[:, None] - found[None]).max(axis=2) / 2  # a column's range is 2
            errors = apart[linear_sum_assignment(apart)]  # rows have no order
            middle, largest = float(np.median(errors)), float(errors.max())
            table.add_row(str(n), f"{middle:.1e}", f"{largest:.1e}", f"{rest:.1e}", yes_or_no(rest < FOUND))
            points += [(n, middle, largest)] if d == min(SKETCHES) else []
        console.print(table)
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", metavar="PICTURE", help="draw the errors to this file")
    chosen, console = parser.parse_args(), Console(highlight=False)
    points = rows_of_sketches(console)
    for d, n in ((3, 100), (3, 1000), (10, 100), (10, 1000)):
        operator = features_of_design(d)
        auc = membership_auc(operator, n, np.random.default_rng(n))
        size = f"{operator.n_frequencies:,} frequencies"
        console.print(f"Membership among {n:,} rows of {d} columns ({size}): AUC {auc:.3f}")
    readings_of_bits(console)
    if chosen.draw:
        draw(points, chosen.draw)


if __name__ == "__main__":
    main()

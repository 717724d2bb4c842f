"""What is learned from a sketch, beside scikit-learn: python benchmarks/tasks/all.py

Every figure is measured in this run, with default arguments, and printed beside what is asked of it. The parts are
chosen by --only. Where memory is told, each method runs in a process of its own, on rows that are in memory already.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.linalg import subspace_angles
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of, yes_or_no
from benchmarks.tasks import generators, ica, images, kernels, questions, sensors, stable, subspaces

VERSIONS = ("numpy", "scipy", "scikit-learn")
BLOCK = 100_000  # rows made at a time
Rows = NDArray[Any]
console = Console(width=150, highlight=False)
progress = Console(stderr=True, highlight=False)


# The rows


def regression_rows(n: int, seed: int, d: int = 20) -> tuple[Rows, Rows]:
    """Correlated columns with units from 0.01 to 100, and a target with as much noise as signal."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(d) + 0.2 * rng.standard_normal((d, d))
    units, coefficients = np.logspace(-2, 2, d), rng.standard_normal(d)
    X, y = np.empty((n, d)), np.empty(n)
    for first in range(0, n, BLOCK):
        z = rng.standard_normal((min(BLOCK, n - first), d)) @ mixing
        X[first : first + len(z)] = z * units + 3 * units
        y[first : first + len(z)] = z @ coefficients + np.sqrt(d) * rng.standard_normal(len(z)) + 7
    return X, y


def subspace_rows(n: int, seed: int, d: int, k: int, decay: float) -> Rows:
    """k strong directions, variances 10 to 5, and others that begin at a quarter of the last and decay."""
    rng = np.random.default_rng(seed)
    variances = np.concatenate([np.linspace(10, 5, k), 1.25 * np.arange(1, d - k + 1.0) ** -decay])
    turned = np.sqrt(variances)[:, None] * np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = np.empty((n, d))
    for first in range(0, n, BLOCK):
        X[first : first + BLOCK] = rng.standard_normal((min(BLOCK, n - first), d)) @ turned + 1
    return X


def scaled(load: Callable[..., Any]) -> tuple[Rows, Rows]:
    X, y = load(return_X_y=True)
    return 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1, y


# Methods whose time and memory are told


def largest_difference(own: Rows, other: Rows, X: Rows) -> float:
    """Of coefficients, each in units of its column's deviation, relative to the largest."""
    units = X[:BLOCK].std(axis=0)
    return float(np.max(np.abs(own - other) * units) / np.max(np.abs(other) * units))


def streamed(estimator: Any, *tables: Rows) -> Any:
    for first in range(0, len(tables[0]), BLOCK):
        estimator.partial_fit(*(table[first : first + BLOCK] for table in tables))
    return estimator


def sgd(X: Rows, y: Rows) -> Any:
    """One pass of SGDRegressor, with columns standardised by their first rows, as its users do."""
    mean, spread = X[:BLOCK].mean(axis=0), X[:BLOCK].std(axis=0)
    estimator = SGDRegressor(random_state=0)
    for first in range(0, len(X), BLOCK):
        estimator.partial_fit((X[first : first + BLOCK] - mean) / spread, y[first : first + BLOCK])
    estimator.coef_ = estimator.coef_ / spread
    return estimator


REGRESSIONS: dict[str, Callable[[Rows, Rows], Any]] = {
    "SketchLinearRegression": lambda X, y: skl.SketchLinearRegression().fit(X, y),
    "SketchLinearRegression, partial_fit": lambda X, y: _decoded(streamed(skl.SketchLinearRegression(), X, y)),
    "LinearRegression": lambda X, y: LinearRegression().fit(X, y),
    "SGDRegressor, one pass": sgd,
}
SUBSPACES: dict[str, Callable[[Rows], Any]] = {
    "SketchPCA": lambda X: skl.SketchPCA(5).fit(X),
    "SketchPCA, partial_fit": lambda X: _decoded(streamed(skl.SketchPCA(5), X)),
    "PCA": lambda X: PCA(5).fit(X),
    "IncrementalPCA": lambda X: IncrementalPCA(5).fit(X),
}


def _decoded(estimator: Any) -> Any:
    """A stream's model is learned when it is asked for."""
    _ = estimator.coef_ if hasattr(type(estimator), "coef_") else estimator.components_
    return estimator


def memory(field: str) -> float:
    """Megabytes of this process: "VmRSS" now, "VmHWM" at the most since `forget_peak`."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024


def forget_peak() -> float:
    """Makes the peak start anew: what made the rows is no part of the fit. Returns what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return function(), time.perf_counter() - started


def worker(method: str, n: int, seed: int) -> None:
    """Runs one method on rows in memory and prints its figures."""
    if method in REGRESSIONS:
        X, y = regression_rows(n, seed)
        before = forget_peak()
        model, spent = timed(lambda: REGRESSIONS[method](X, y))
        growth, result = memory("VmHWM") - before, np.ravel(model.coef_)
    else:
        X = subspace_rows(n, seed, 50, 5, 0.5)
        before = forget_peak()
        model, spent = timed(lambda: SUBSPACES[method](X))
        growth, result = memory("VmHWM") - before, model.components_
    print(json.dumps({"seconds": spent, "growth": growth, "result": result.tolist()}))


def run_worker(method: str, n: int, seed: int) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--worker", method, "--worker-rows", str(n), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        console.print(f"{method} is left out: {last}", markup=False)
        return None
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    progress.print(f"{method}: {figures['seconds']:.1f} s")
    return figures


# The tables


def side_by_side(
    title: str, methods: Sequence[str], n: int, settings: argparse.Namespace, what: str, limit: float,
    difference: Callable[[Rows, Rows], float], reference: str,
) -> Iterator[bool]:  # fmt: skip
    """Each method in a process of its own; those from a sketch must agree with the reference."""
    table = table_of(title, ("method", "fit, s", "MB above the data", what, "asked", "reached"))
    found = {method: figures for method in methods if (figures := run_worker(method, n, settings.seed))}
    exact = np.array(found[reference]["result"])
    for method, figures in found.items():
        away = difference(np.array(figures["result"]), exact)
        verdict = ("-", "-")
        if method.startswith("Sketch"):
            yield away <= limit
            verdict = (f"<= {limit:g}", yes_or_no(away <= limit))
        table.add_row(method, f"{figures['seconds']:.2f}", f"{figures['growth']:.0f}", f"{away:.2g}", *verdict)
    console.print(table)


def angle(own: Rows, other: Rows) -> float:
    """Largest angle between subspaces, in degrees."""
    return float(np.degrees(subspace_angles(own.T, other.T).max()))


def pca(settings: argparse.Namespace) -> Iterator[bool]:
    n = settings.pca_rows
    title = f"PCA of {n:,} x 50 rows in memory, 5 components, one run each"
    yield from side_by_side(title, list(SUBSPACES), n, settings, "degrees from PCA", 1e-3, angle, "PCA")


def compressive(settings: argparse.Namespace) -> Iterator[bool]:
    d, k, n = 500, 5, settings.compressive_rows
    m = 4 * k * d
    columns = ("spectrum", "variance explained, of PCA's", "asked", "decoding, s", "asked", "reached", "sums",
               "second moments", "sketching, s", "PCA, s", "IncrementalPCA, s")  # fmt: skip
    table = table_of(f"Compressive PCA, d = {d}, k = {k}, m = 4kd = {m}, {n:,} rows, {settings.draws} draws", columns)
    for name, decay in (("flat beyond the gap", 0.0), ("decaying as 1 / sqrt(i)", 0.5)):
        shares, decodings, sketchings, exact, incremental = [], [], [], [], []
        for seed in range(settings.seed, settings.seed + settings.draws):
            X = subspace_rows(n, seed, d, k, decay)
            other, spent = timed(lambda X=X: PCA(k).fit(X))
            exact.append(spent)
            incremental.append(timed(lambda X=X: IncrementalPCA(k).fit(X))[1])
            own, spent = timed(lambda X=X, seed=seed: skl.SketchPCA(k, m, random_state=seed).fit(X))
            again, decoding = timed(lambda own=own: skl.SketchPCA(k).fit_sketch(own.sketch_))
            decodings.append(decoding)
            sketchings.append(spent - decoding)
            variance = np.var((X - X.mean(axis=0)) @ again.components_.T, axis=0, ddof=1).sum()
            shares.append(float(variance / other.explained_variance_.sum()))
            progress.print(f"{name}, seed {seed}: {shares[-1]:.5f}, decoded in {decoding:.1f} s")
        reached = min(shares) >= 0.98 and max(decodings) <= 10
        yield reached
        table.add_row(
            name, f"{median(shares):.4f} (least {min(shares):.4f})", ">= 0.98", f"{median(decodings):.1f}", "<= 10",
            yes_or_no(reached), f"{m + 2 * d:,}", f"{d * (d + 3) // 2:,}", f"{median(sketchings):.1f}",
            f"{median(exact):.1f}", f"{median(incremental):.1f}",
        )  # fmt: skip
    console.print(table)


def regression(settings: argparse.Namespace) -> Iterator[bool]:
    n = settings.rows
    X, _ = regression_rows(min(n, BLOCK), settings.seed)
    title = f"Linear regression of {n:,} x 20 rows in memory, one run each"
    what = "coefficients' largest difference"
    methods = list(REGRESSIONS)

    def difference(own: Rows, other: Rows) -> float:
        return largest_difference(own, other, X)

    yield from side_by_side(title, methods, n, settings, what, 1e-6, difference, "LinearRegression")
    yield from ridge(settings)


def ridge(settings: argparse.Namespace) -> Iterator[bool]:
    table = table_of("Against scikit-learn on 100,000 rows", ("model", "largest difference", "asked", "reached"))
    X, y = regression_rows(100_000, settings.seed)
    Y = np.column_stack([y, X[:, 0] * 10 - y])
    pairs = {
        "two targets": (skl.SketchLinearRegression(), LinearRegression(), Y),
        "no intercept": (skl.SketchLinearRegression(fit_intercept=False), LinearRegression(fit_intercept=False), y),
        "ridge, alpha = 100": (skl.SketchRidge(100.0), Ridge(100.0), y),
    }
    for name, (own, other, target) in pairs.items():
        away = largest_difference(own.fit(X, target).coef_, other.fit(X, target).coef_, X)
        yield away <= 1e-6
        table.add_row(name, f"{away:.2g}", "<= 1e-06", yes_or_no(away <= 1e-6))
    console.print(table)


def classes(settings: argparse.Namespace) -> Iterator[bool]:
    """Mean test errors over random splits, two thirds to learn from."""
    table = table_of(
        f"Test error in percent, columns in [-1, 1], mean of {settings.splits} splits 2/3 : 1/3",
        ("data", "Parzen, m = 1000", "asked", "reached", "default rule", "asked", "reached", "seconds",
         "GaussianNB", "QDA", "RBF SVM"),
    )  # fmt: skip
    for name, load, limit in (("Iris", load_iris, 6.2), ("Wine", load_wine, 8.2), ("cancer", load_breast_cancer, 6.2)):
        X, y = scaled(load)
        errors: dict[str, list[float]] = {}
        spent = []
        for seed in range(settings.seed, settings.seed + settings.splits):
            X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed)
            peers = {
                "parzen": skl.SketchClassifier("parzen", random_state=seed),
                "auto": skl.SketchClassifier(random_state=seed),
                "nb": GaussianNB(),
                "qda": QuadraticDiscriminantAnalysis(reg_param=1e-4),  # without, it refuses classes of few rows
                "svm": SVC(),
            }
            for key, estimator in peers.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    _, seconds = timed(lambda e=estimator, a=X_fit, b=y_fit: e.fit(a, b))
                if key == "auto":
                    spent.append(seconds)
                errors.setdefault(key, []).append(100 * float(np.mean(estimator.predict(X_test) != y_test)))
        means = {key: float(np.mean(found)) for key, found in errors.items()}
        progress.print(f"{name}: {means}")
        windows, best = means["parzen"] <= limit, means["auto"] < limit
        yield windows
        yield best
        table.add_row(
            name, f"{means['parzen']:.2f}", f"<= {limit}", yes_or_no(windows), f"{means['auto']:.2f}", f"< {limit}",
            yes_or_no(best), f"{median(spent):.2f}", f"{means['nb']:.2f}", f"{means['qda']:.2f}", f"{means['svm']:.2f}",
        )  # fmt: skip
    console.print(table)


def tables_of(module: ModuleType) -> Callable[[argparse.Namespace], Iterator[bool]]:
    """The part that a file of its own measures, by its function `tables`."""

    def part(settings: argparse.Namespace) -> Iterator[bool]:
        for table, reached in module.tables(settings):
            console.print(table)
            yield from reached

    return part


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[bool]]] = {
    "pca": pca,
    "compressive": compressive,
    "regression": regression,
    "classes": classes,
    "images": tables_of(images),
    "kernels": tables_of(kernels),
    "questions": tables_of(questions),
    "generators": tables_of(generators),
    "sensors": tables_of(sensors),
    "stable": tables_of(stable),
    "ica": tables_of(ica),
    "subspaces": tables_of(subspaces),
}


def arguments() -> argparse.Namespace:
    def count(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, PARTS)
    parser.add_argument("--rows", type=count, default=10**7, help="rows of the part regression")
    parser.add_argument("--pca-rows", type=count, default=10**6, help="rows of the part pca")
    parser.add_argument("--compressive-rows", type=count, default=20_000, help="rows of the part compressive")
    parser.add_argument("--draws", type=int, default=3, help="draws of rows, where a part makes several")
    parser.add_argument("--splits", type=int, default=100, help="splits of the part classes")
    parser.add_argument("--mnist", type=Path, help="an npz file, or a folder of idx files, for the part images")
    parser.add_argument("--repetitions", type=int, default=2000, help="of tests and intervals in the part questions")
    parser.add_argument("--histogram-rows", type=count, default=10**6, help="rows of the histograms in that part")
    parser.add_argument("--ica-rows", type=count, default=10**6, help="rows of the part ica")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw; the next have the next seeds")
    parser.add_argument("--worker", choices=[*REGRESSIONS, *SUBSPACES], help=argparse.SUPPRESS)
    parser.add_argument("--worker-rows", type=count, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    settings = arguments()
    if settings.worker:
        worker(settings.worker, settings.worker_rows, settings.seed)
        return 0
    console.print(machine(VERSIONS))
    verdicts = [reached for name in settings.only for reached in PARTS[name](settings)]
    console.print(f"{sum(verdicts)} of {len(verdicts)} asked figures reached")
    return not all(verdicts)


if __name__ == "__main__":
    sys.exit(main())

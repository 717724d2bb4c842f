"""Conformance checks, which other packages run on their own operators, estimators and readers.

Each function raises an `AssertionError` with one sentence if a promise does not hold, and returns nothing otherwise.
Run them in a test:

>>> import numpy as np, sketchlearn as skl
>>> rows = np.random.default_rng(0).standard_normal((500, 3))
>>> skl.checks.check_operator(skl.features.SecondMoments(3, bound=10.0), rows)
"""

from __future__ import annotations

import json
import pickle
import tempfile
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import shortened
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.estimators.files import load, save
from sketchlearn.estimators.registry import task_of
from sketchlearn.features.composed import concatenate
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.operator import Operator
from sketchlearn.files.sketches import from_bytes
from sketchlearn.rows.source import source

__all__ = ["check_estimator", "check_operator", "check_reader", "check_sensitivity"]

PARTS = 3  # that rows are cut into
LEAST_ROWS = 10
ROUNDING = 1e-12  # of norms, which are computed in floating point
FAR = (1e-3, 1.0, 1e3, 1e6, 1e12)  # how far rows lie that are searched for large contributions


def _require(holds: Any, sentence: str) -> None:
    if not bool(holds):
        raise AssertionError(sentence)


def check_operator(operator: Operator, rows: Any) -> None:
    """Check that an operator keeps the promises of all operators.

    Sketches are exact: the same integers in any order, in any parts, by any number of threads; they add, subtract and
    forget to the bit. The operator is a value: its JSON form gives an equal one, files and pickles too. If it declares
    its sensitivity, `check_sensitivity` follows.

    Parameters
    ----------
    operator : Operator
    rows : array of shape (n_rows, n_features)
        At least 10 rows that the operator takes.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.random.default_rng(0).standard_normal((500, 2))
    >>> skl.checks.check_operator(skl.features.Histograms.even([-3, -3], [3, 3], 8), rows)
    """
    rows, name = np.asarray(rows, np.float64), type(operator).__name__
    if rows.ndim != 2 or len(rows) < LEAST_ROWS:
        raise ValueError(f"rows must be an array of at least {LEAST_ROWS} rows, not of shape {rows.shape}")
    integers, bad = operator.write_rows(rows, 1)
    _require(bad < 0, f"{name} refuses row {bad}: give rows that it takes")
    largest = np.abs(integers).max()
    _require(largest <= operator.largest_contribution, f"a record contributes more than {name}.largest_contribution")
    whole = operator.sketch(rows, n_jobs=1)
    _require(np.array_equal(integers.sum(axis=0), whole.sums), f"{name}.write_rows and add_rows differ")
    _require(len(whole.sums) == operator.n_sums, f"{name}.n_sums differs from the number of sums")
    _require(np.issubdtype(whole.sums.dtype, np.integer), f"sums of {name} are not integers")
    orders = np.random.default_rng(0).permutation(len(rows))
    _require(_same(operator.sketch(rows[orders]), whole), f"{name} depends on the order of rows")
    parts = [operator.sketch(part) for part in np.array_split(rows, PARTS)]
    added = reduce(add, parts)
    _require(_same(added, whole), f"sketches of parts by {name} do not add up to that of all rows")
    _require(_same(added - parts[0] + parts[0], added), f"what {name} subtracts is not what it added")
    _require(_same(operator.sketch(rows, n_jobs=PARTS), whole), f"{name} depends on the number of threads")
    twice = operator.sketch(rows, sample_weight=np.full(len(rows), 2))
    _require(np.array_equal(twice.sums, 2 * whole.sums), f"a weight of 2 is not twice the record for {name}")
    again: Operator = Operator.from_json(json.loads(json.dumps(operator.to_json())))
    _require(again == operator, f"the JSON form of {name} gives another operator")
    _require(_same(again.sketch(rows), whole), f"an operator of the JSON form of {name} sums other features")
    _require(hash(again) == hash(operator), f"equal operators of {name} have different hashes")
    _require(from_bytes(whole.to_bytes()) == whole, f"a file of a sketch by {name} gives another sketch")
    _require(pickle.loads(pickle.dumps(operator)) == operator, f"a pickle of {name} gives another operator")
    _require(operator.in_words, f"{name} has no description in_words")
    beside = Histograms.even(rows.min(axis=0) - 1, rows.max(axis=0) + 1, 4)
    both = concatenate([operator, beside])
    _require(_same(both.split(both.sketch(rows))[0], whole), f"{name} has other sums beside another operator")
    if type(operator).add_remove_sensitivity is not Operator.add_remove_sensitivity:
        check_sensitivity(operator, rows)


def check_sensitivity(operator: Operator, rows: Any, *, n_draws: int = 2000, seed: int = 0) -> None:
    """Check that no record, as far as a random search finds, changes a sketch by more than the operator declares.

    It does not replace a derivation: a record that violates the bound may exist though none is found.

    Parameters
    ----------
    operator : Operator
        With `add_remove_sensitivity`, and perhaps `replace_one_sensitivity`.
    rows : array of shape (n_rows, n_features)
        Where the search starts; it goes to rows 10^12 times as far, too.
    n_draws : int, default=2000
        Rows that are tried.
    seed : int, default=0
        Of the draws.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    >>> skl.checks.check_sensitivity(skl.features.Histograms.even([-1, -1], [1, 1], 4), rows)
    """
    name, rng = type(operator).__name__, np.random.default_rng(seed)
    start = np.asarray(rows, np.float64)
    drawn = start[rng.integers(len(start), size=n_draws)] * rng.choice(FAR, (n_draws, 1))
    drawn *= rng.choice([-1.0, 1.0], drawn.shape)
    taken = _taken(operator, np.concatenate([start, drawn]))
    _check_norms(taken, operator.add_remove_sensitivity(), f"{name}.add_remove_sensitivity")
    pairs = taken[rng.permutation(len(taken))] - taken
    _check_norms(pairs, operator.replace_one_sensitivity(), f"{name}.replace_one_sensitivity")


def check_estimator(estimator: SketchEstimator, rows: Any, y: Any = None) -> None:
    """Check that an estimator keeps the promises of all estimators, beyond scikit-learn's own checks.

    `fit` learns what `fit_sketch` learns from its sketch; a seed gives the same model twice; a saved model predicts the
    same; `fit` leaves parameters as they were. Run `sklearn.utils.estimator_checks.check_estimator` besides.

    Parameters
    ----------
    estimator : SketchEstimator
        With a `random_state`; it is cloned, and not changed.
    rows : array of shape (n_rows, n_features)
    y : array, default=None
        Targets.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.random.default_rng(0).standard_normal((500, 2)) + 8 * np.arange(500)[:, None] % 16
    >>> skl.checks.check_estimator(skl.SketchPCA(1, random_state=0), rows)
    """
    name, given = type(estimator).__name__, () if y is None else (y,)
    parameters = shortened(estimator.get_params(), 10**6)
    model, other = clone(estimator).fit(rows, *given), clone(estimator).fit(rows, *given)
    _require(shortened(model.get_params(), 10**6) == parameters, f"{name}.fit changes parameters")
    _require(model.sketch_ == other.sketch_, f"{name} makes other sketches of the same rows")
    for method in ("predict", "transform"):
        if not estimator.can(method):
            continue
        answers = getattr(model, method)(rows)
        _require(np.array_equal(answers, getattr(other, method)(rows)), f"{name}.{method} differs for the same seed")
        with tempfile.TemporaryDirectory() as folder:
            save(model, path := Path(folder) / task_of(estimator).name)
            loaded = load(path)
        _require(np.array_equal(getattr(loaded, method)(rows), answers), f"{name}.{method} differs after save and load")
    _require(clone(estimator).fit_sketch(model.sketch_).n_records_ == len(rows), f"{name}.fit_sketch lost records")


def check_reader(path: Any, rows: Any) -> None:
    """Check that a file of a registered kind is read as the given rows, in blocks, any number of times.

    Parameters
    ----------
    path : str or path
        A file that `skl.source` shall read.
    rows : array of shape (n_rows, n_features)
        What is in it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> rows = np.arange(12.0).reshape(4, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/rows.npy", rows)
    ...     skl.checks.check_reader(f"{folder}/rows.npy", rows)
    """
    rows = np.asarray(rows, np.float64)
    for _ in range(2):
        found = [np.asarray(block.rows, np.float64) for block in source(path).blocks(None)]
        read = np.concatenate(found) if found else np.empty((0, rows.shape[1]))
        _require(read.shape == rows.shape, f"{path} is read as an array of shape {read.shape}, not {rows.shape}")
        _require(np.array_equal(read, rows, equal_nan=True), f"{path} is read as other numbers")
    n_rows = source(path).n_rows
    _require(n_rows in (None, len(rows)), f"{path} says that it has {n_rows} rows, and has {len(rows)}")


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one.sums, other.sums) and one.count == other.count


def _taken(operator: Operator, rows: Double) -> Double:
    """The features of those rows that the operator does not refuse."""
    written = (operator.write_rows(row[None], 1) for row in rows)
    kept = [integers[0].astype(np.float64) for integers, bad in written if bad < 0]
    _require(kept, f"{type(operator).__name__} refuses all rows")
    return np.array(kept)


def _check_norms(changes: Double, declared: Any, name: str) -> None:
    norms = {"l1": np.abs(changes).sum(axis=1), "l2_squared": (changes * changes).sum(axis=1)}
    for norm, values in norms.items():
        found, bound = float(values.max()), float(getattr(declared, norm))
        _require(
            found <= bound * (1 + ROUNDING),
            f"a record changes sums by {found:,.6g} in {norm}, beyond {name}: {bound:,.6g}",
        )

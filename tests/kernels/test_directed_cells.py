"""Cells in directions: native kernels add the integers that NumPy finds by whole numbers in float64."""

import numpy as np
import pytest
from conftest import with_kernel

import sketchlearn as skl
from sketchlearn.features.directions import packed

N = 4000  # more than one thread takes at a time


def made(d, p=5, n_cells=23, seed=0, **options):
    rng = np.random.default_rng(seed)
    directions = rng.integers(-(2**14), 2**14 + 1, (p, d))
    directions[:, list(options.get("along", ()))] = 0
    points = rng.integers(-(2**15), 2**15, (n_cells, p))
    points[-1] = points[0]  # of equal ones the first counts
    if not options.get("normalize"):
        options = {"bound": rng.uniform(0.5, 8, d), "center": rng.normal(size=d), **options}
    options = {"bound": 1.0, "shift": 17, **options}
    forms = {"directions": packed(directions, "<i2"), "cells": packed(points, "<i4")}
    return skl.features.CellSums(d, n_directions=p, **forms, **options)


def rows_for(operator, n=N, kind=np.float64, seed=1):
    """Rows around the center: some on the bound, some at zero, some far away if those are clipped."""
    rng = np.random.default_rng(seed)
    bound, middle = np.array(operator.bound), operator.middle
    X = middle + bound * np.clip(rng.normal(scale=0.4, size=(n, operator.n_features)), -0.999, 0.999)
    X[5::50] = np.rint(X[5::50] / bound * 2.0**21) / 2.0**21 * bound
    X[::97] = middle
    if operator.outside == "clip":
        X[1::97] = 0.0
        X[2::31, 0] *= 1e4
        X[4::277] *= 1e30 if kind == np.float32 else 1e300
    return X.astype(kind)


def whole_values(operator, X):
    with np.errstate(all="ignore"):
        values = X.astype(np.float64)
        if operator.normalize:
            largest = np.abs(values).max(axis=1)
            values = np.rint(np.ldexp(values, (18 - np.frexp(largest)[1])[:, None]))
            lengths = np.sqrt(np.sum(values * values, axis=1))
            return np.rint(values / np.where(lengths == 0, 1.0, lengths)[:, None] * 2.0**22)
        values = np.rint((values - operator.middle) * (2.0**22 / np.array(operator.bound)))
        return np.clip(values, -(2.0**22), 2.0**22) if operator.outside == "clip" else values


def places(operator, values):
    y = np.rint(values @ operator._matrix * 2.0**-operator.shift)
    return np.clip(y, -(2.0**20), 2.0**20)


def cells_and_features(operator, X):
    values, c = whole_values(operator, X), operator._points
    cells = np.argmax(2 * places(operator, values) @ c.T - np.sum(c * c, axis=1), axis=1)
    if operator.squares == "columns":
        squares = np.rint(values * values * 2.0**-14)
    else:
        small = np.rint(values * 2.0**-6)
        squares = np.rint(np.sum(small * small, axis=1) * (0.25 / operator.n_features))[:, None]
    return cells, np.column_stack([np.full(len(X), 2.0**30), squares, values * 2.0**8]).astype(np.int64)


def integers(operator, X):
    """Of each row, (rows, cells, width)."""
    cells, features = cells_and_features(operator, X)
    table = np.zeros((len(X), operator.n_cells, operator.width), np.int64)
    table[np.arange(len(X)), cells] = features
    return table


def sums_of(operator, X, weights=None):
    cells, features = cells_and_features(operator, X)
    total = np.zeros((operator.n_cells, operator.width), np.int64)
    np.add.at(total, cells, features if weights is None else weights[:, None] * features)
    return total.ravel()


def added(operator, X, weights=None, threads=1):
    sums = np.arange(operator.n_sums, dtype=np.int64)
    found = operator.add_counted(X, weights, threads, sums)
    return sums - np.arange(operator.n_sums), found


KINDS = {
    "squares": {"squares": "columns"},
    "sum": {"squares": "sum"},
    "normalize": {"normalize": True, "shift": 16},
    "normalize-squares": {"normalize": True, "squares": "columns", "shift": 16},
    "along": {"squares": "columns", "along": (0, 3)},
    "refuse": {"squares": "columns", "outside": "refuse"},
    "one-direction": {"p": 1, "n_cells": 2, "shift": 20},
    "many-directions": {"p": 70, "n_cells": 130, "shift": 19},
    "not-shifted": {"shift": 0},
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", KINDS)
def test_sums_are_those_of_whole_numbers(name, kind, kernel_name, monkeypatch):
    operator = with_kernel(made(67, **KINDS[name]), kernel_name, monkeypatch)
    X = rows_for(operator, kind=kind)
    expected, beyond = sums_of(operator, X), int(np.count_nonzero(operator.beyond(X)))
    assert (beyond > 0) == (operator.outside == "clip" and not operator.normalize)
    for threads in (1, 2):
        sums, found = added(operator, X, threads=threads)
        assert np.array_equal(sums, expected)
        assert found == (-1, beyond)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 16, 65, 257, 520])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_any_number_of_columns(d, kind, kernel_name, monkeypatch):
    for options in ({"squares": "columns"}, {}, {"normalize": True, "shift": 16}):
        operator = with_kernel(made(d, p=min(d, 9), **options), kernel_name, monkeypatch)
        X = rows_for(operator, 300, kind)
        assert np.array_equal(added(operator, X)[0], sums_of(operator, X))


@pytest.mark.parametrize("name", ["squares", "sum", "normalize"])
def test_weights(name, kernel_name, monkeypatch):
    operator = with_kernel(made(66, **KINDS[name]), kernel_name, monkeypatch)
    X, rng = rows_for(operator), np.random.default_rng(2)
    for weights in (rng.integers(-5, 1000, N), np.ones(N, np.int64), rng.integers(0, 2, N), np.full(N, 2**20)):
        for threads in (1, 2):
            assert np.array_equal(added(operator, X, weights, threads)[0], sums_of(operator, X, weights))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["squares", "sum", "normalize"])
def test_rows_as_they_lie_in_memory(name, kind, kernel_name, monkeypatch):
    operator = with_kernel(made(33, **KINDS[name]), kernel_name, monkeypatch)
    X = rows_for(operator, 500, kind)
    wide = np.full((1000, 99), np.nan, kind)
    wide[::2, ::3] = X
    expected = sums_of(operator, X)
    for rows in (np.asfortranarray(X), wide[::2, ::3], X[::-1], X[:, ::-1].copy()[:, ::-1]):
        assert np.array_equal(added(operator, rows)[0], expected)


@pytest.mark.parametrize("name", KINDS)
def test_integers_and_cells_of_each_row(name, kernel_name, monkeypatch):
    operator = with_kernel(made(20, **KINDS[name]), kernel_name, monkeypatch)
    X = rows_for(operator, 400)
    table = integers(operator, X)
    for threads in (1, 2):
        written, bad = operator.write_rows(X, threads)
        assert bad == -1
        assert np.array_equal(written, table.reshape(len(X), -1))
    assert np.array_equal(operator.cells_of(X), np.argmax(table[:, :, 0], axis=1))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["squares", "normalize", "refuse"])
def test_values_that_are_not_finite_are_refused(name, value, kind, kernel_name, monkeypatch):
    operator = with_kernel(made(65, **KINDS[name]), kernel_name, monkeypatch)
    for row, column in ((0, 0), (777, 64), (N - 1, 13)):
        X = rows_for(operator, kind=kind)
        X[row, column] = value
        X[row:, 1] = value
        for threads in (1, 2):
            assert added(operator, X, threads=threads)[1][0] == row
        assert operator.write_rows(X[row:][:2], 1)[1] == 0


def test_rows_beyond_the_bound_are_refused_or_counted(kernel_name, monkeypatch):
    """Beyond the bound, but for what rounds to it, which is refused by nobody."""
    bound, center = 3.0, 0.125
    edge = np.nextafter(center + bound, np.inf)
    for outside, row in (("refuse", 2), ("clip", -1)):
        given = {"bound": bound, "center": [center] * 9, "outside": outside, "squares": "columns"}
        operator = with_kernel(made(9, **given), kernel_name, monkeypatch)
        X = np.full((4, 9), center + bound)
        X[1, 4] = edge
        assert added(operator, X[:2])[1] == (-1, int(outside == "clip"))
        X[2, 8], X[3, 0] = center + bound * (1 + 1e-6), -1e308
        assert added(operator, X)[1][0] == row
        if outside == "clip":
            assert added(operator, X)[1][1] == 3 == np.count_nonzero(operator.beyond(X))
            assert np.array_equal(added(operator, X)[0], sums_of(operator, X))


def test_differences_that_overflow_are_clipped(kernel_name, monkeypatch):
    operator = with_kernel(made(3, p=2, center=[-1e308] * 3, bound=1e150), kernel_name, monkeypatch)
    X = np.array([[1.7e308, 0.0, -1e308], [-1e308, -1e308, -1.7e308]])
    sums, found = added(operator, X)
    assert found == (-1, 2)
    assert np.array_equal(sums, sums_of(operator, X))


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-30, 1.0, 1e30, 1e300, 1.7e308])
def test_rows_of_any_length_are_divided_by_it(scale, kernel_name, monkeypatch):
    operator = with_kernel(made(12, normalize=True, shift=16), kernel_name, monkeypatch)
    X = np.random.default_rng(3).uniform(-1, 1, (200, 12)) * scale
    assert np.array_equal(added(operator, X)[0], sums_of(operator, X))
    assert np.array_equal(operator.of_length_one(X), whole_values(operator, X) / 2.0**22)


def test_no_rows(kernel_name, monkeypatch):
    operator = with_kernel(made(5), kernel_name, monkeypatch)
    sums, found = added(operator, np.empty((0, 5)))
    assert found == (-1, 0)
    assert not np.any(sums)
    assert operator.write_rows(np.empty((0, 5)), 1)[0].shape == (0, operator.n_sums)
    assert operator.cells_of(np.empty((0, 5))).shape == (0,)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("outside", ["clip", "refuse"])
def test_places_of_rows(outside, kind, kernel_name, monkeypatch):
    cells = made(130, p=19, outside=outside)
    inner = skl.features.SecondMoments(19, bound=2.0**20)
    box = {"bound": cells.bound, "center": cells.center, "shift": cells.shift, "outside": outside}
    directed = skl.features.SomeDirections(
        130, inner_operator=inner, n_directions=19, directions=cells.directions, **box
    )
    directed, X = with_kernel(directed, kernel_name, monkeypatch), rows_for(cells, kind=kind)
    expected = places(cells, whole_values(cells, X))
    X[40, 7] = np.nan
    expected[40] = np.nan
    if outside == "refuse":
        X[41, 7], expected[41] = 1e9, np.nan
    for threads in (1, 2):
        assert np.array_equal(directed.mapped(X, threads), expected, equal_nan=True)

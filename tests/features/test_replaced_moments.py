"""Replaced records and moments: no pair of rows in the box moves the sums further than the bound, and some reach it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import sketchlearn as skl
from sketchlearn.privacy.noise_plan import sensitivity

UNIT = 2**30
KINDS = {
    "second": (skl.features.SecondMoments, (1, 2, 3, 4, 5, 6)),
    "columns": (skl.features.ColumnMoments, (1, 2, 3, 6)),
    "veronese": (skl.features.VeroneseMoments, (1, 2, 3, 4)),
}
CASES = [(kind, d) for kind, (_, sizes) in KINDS.items() for d in sizes]


def operator_of(kind, d):
    return KINDS[kind][0](d, bound=1.0, outside="clip")


def exponents(kind, d):
    """The products that the operator sums: how often each has each column, in the operator's order."""
    one = np.eye(d, dtype=int)
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    if kind == "columns":
        return np.concatenate([one, 2 * one])
    products = np.array([one[i] + one[j] for i, j in pairs])
    if kind == "second":
        return np.concatenate([one, products])
    n = len(products)
    return np.concatenate([products, [products[i] + products[j] for i in range(n) for j in range(i + 1)]])


def true_change(rows, powers):
    """Of a pair of rows, side by side: the change of all products, and its derivatives."""
    x, y = np.split(rows, 2)
    values, slopes = [], []
    for row in (x, y):
        factors = row[None, :] ** powers
        values.append(factors.prod(axis=1))
        own = powers * row[None, :] ** np.maximum(powers - 1, 0)
        others = [np.delete(factors, i, axis=1).prod(axis=1) for i in range(len(row))]
        slopes.append(own * np.array(others).T)
    return values[0] - values[1], np.concatenate([slopes[0], -slopes[1]], axis=1)


def searched(kind, d, power, rng):
    """The largest sum of |change|^power that a search from many pairs of rows finds."""
    powers = exponents(kind, d)

    def loss(rows):
        change, slopes = true_change(rows, powers)
        return -np.sum(np.abs(change) ** power), -(power * np.abs(change) ** (power - 1) * np.sign(change)) @ slopes

    rough = rng.choice([-1.0, -0.3, 0.0, 0.5, 1.0], (16, 2 * d)) + 0.05 * rng.standard_normal((16, 2 * d))
    starts = np.clip(np.concatenate([rough, rng.uniform(-1, 1, (16, 2 * d))]), -1, 1)
    ways = ("L-BFGS-B", "TNC")
    found = [
        minimize(loss, start, jac=True, method=ways[i % 2], bounds=[(-1, 1)] * 2 * d) for i, start in enumerate(starts)
    ]
    return -min(each.fun for each in found)


def worst_pairs(kind, d):
    """The corner (1, ..., 1), and the rows that are said to be furthest from it in L1 and in L2."""
    ones = np.ones(d)
    signs = np.where(np.arange(d) < (d // 2 if kind == "veronese" else (d + 1) // 2), -1.0, 1.0)
    l1 = {"second": -ones / (d + 1), "columns": -0.5 * ones, "veronese": 0 * ones}[kind]
    l2 = {"second": signs, "columns": -ones, "veronese": signs if d > 1 else 0 * ones}[kind]
    return ones, l1, l2


def changed(operator, x, y):
    integers, bad = operator.write_rows(np.stack([x, y]), 1)
    assert bad == -1
    return integers[0].astype(object) - integers[1].astype(object)


@pytest.mark.parametrize(("kind", "d"), CASES)
def test_no_pair_of_rows_goes_further(kind, d):
    """Gradients from 32 pairs find the bound, and nothing beyond it."""
    bound, rng = sensitivity(operator_of(kind, d), "replace"), np.random.default_rng(d)
    for power, limit in ((1, bound.l1 / UNIT), (2, bound.l2_squared / UNIT**2)):
        found = searched(kind, d, power, rng)
        assert 0.999 * limit <= found <= limit


@pytest.mark.parametrize(("kind", "d"), CASES)
def test_the_bound_is_reached_but_for_rounding(kind, d):
    operator = operator_of(kind, d)
    bound, (x, near_l1, near_l2) = sensitivity(operator, "replace"), worst_pairs(kind, d)
    l1 = sum(map(abs, changed(operator, x, near_l1)))
    squares = sum(map(pow, changed(operator, x, near_l2), [2] * operator.n_sums))
    assert l1 <= bound.l1 <= l1 + 2.1 * operator.n_sums + 1
    assert squares <= bound.l2_squared
    assert bound.l2 <= np.sqrt(float(squares)) + 1.1 * np.sqrt(operator.n_sums) + 1


@pytest.mark.parametrize(("kind", "d"), CASES)
def test_rounding_is_allowed_for(kind, d):
    """Rows next to the worst ones, where integers are rounded in all ways."""
    operator, rng = operator_of(kind, d), np.random.default_rng(d)
    bound, (x, *others) = sensitivity(operator, "replace"), worst_pairs(kind, d)
    for y in others:
        for step in (1e-9, 1e-7):
            moved = np.clip(y + step * rng.standard_normal((300, d)), -1, 1)
            integers = operator.write_rows(np.concatenate([x[None], moved]), 1)[0].astype(np.float64)
            change = np.abs(integers[1:] - integers[0])
            assert change.sum(axis=1).max() <= bound.l1
            assert (change**2).sum(axis=1).max() <= bound.l2_squared


def test_rounding_does_count():
    """Without room for it, the bound would be too small: some pair goes beyond the true maximum."""
    operator, rng = operator_of("second", 4), np.random.default_rng(0)
    rows = -np.ones(4) / 5 + 1e-8 * rng.standard_normal((5000, 4))
    integers = operator.write_rows(np.concatenate([np.ones((1, 4)), rows]), 1)[0]
    assert np.abs(integers[1:] - integers[0]).sum(axis=1).max() > 14.4 * UNIT


def test_all_products_change_least_at_once():
    """The lemma behind the bounds, of products of any order: |m(x) - m(y)| <= 1 - m(c)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        x, y = rng.uniform(-1, 1, (2, 5)) ** rng.choice([1, 3], (2, 5))
        powers = rng.integers(0, 4, (50, 5))
        changes = np.abs((x**powers).prod(axis=1) - (y**powers).prod(axis=1))
        assert np.all(changes <= 1 - ((1 - np.abs(x - y)) ** powers).prod(axis=1) + 1e-12)


@pytest.mark.parametrize("d", [1, 2, 9, 40])
def test_replacing_costs_little_more_than_adding(d):
    """Half the noise of before: less than half an entry more in L1, at most sqrt(2) times as much in L2."""
    operator = operator_of("second", d)
    one, both = sensitivity(operator), sensitivity(operator, "replace")
    assert one.l1 < both.l1 < one.l1 + UNIT / 2 + 2 * operator.n_sums
    assert both.l2_squared < 2 * one.l2_squared * (1 + 1e-8)
    deviations = [
        skl.privatize(operator.sketch(np.zeros((9, d))), epsilon=1.0, neighbors=neighbors, **TRIAL).ledger.sum_scale
        for neighbors in ("add-remove", "replace")
    ]
    assert deviations[1] < 1.13 * deviations[0]


TRIAL = {"seed_for_tests_not_private": 0, "assume_public_design": True}


def test_releases_with_the_noise_of_before_load():
    """The bounds of a release are in its ledger: files that were written with larger ones keep them."""
    operator = operator_of("second", 3)
    private = skl.privatize(operator.sketch(np.zeros((9, 3))), epsilon=1.0, neighbors="replace", **TRIAL)
    before = replace(private.ledger, sensitivity=UNIT * 15, sum_scale=UNIT * 15.5)
    older = skl.privacy.Release(operator, private.sums, private.units, before)
    assert skl.from_bytes(older.to_bytes()).ledger == before

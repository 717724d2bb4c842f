"""Features times values: exact on every kernel, computed with the features, refused or clipped outside their bounds."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases import WAVES
from conftest import with_kernel
from twin import record_integers

import sketchlearn as skl
from sketchlearn.features.composed import Mapped
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.inference.decoders.target import fourier_part
from sketchlearn.kernels import dispatch as kernel

D = 5
WAVES_OF_ROWS = skl.features.FourierFeatures(D, 40, law=Gaussian(1.0), seed=2)


def rows(n, d=D, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).clip(-3, 3)


@pytest.mark.parametrize("name", WAVES)
def test_every_wave(name, kernel_name, monkeypatch):
    """Units of 2^20 and of 1, one part and two; ties and tiny values would be rounded by the sums that they meet."""
    waves = skl.features.FourierFeatures(D, 7, law=Gaussian(1.0), wave=WAVES[name], seed=1)
    operator = with_kernel(
        skl.features.CrossFeatures(waves, bound=4.0, n_crossed=3, values=[4, 0]), kernel_name, monkeypatch
    )
    ties = 4 * 2.0 ** -np.arange(8 * D).reshape(8, D)
    tiny = np.resize([0.0, -0.0, 5e-324, -1e-310, 4.0], (5, D))
    X = np.concatenate([rows(40), ties, -ties, tiny, np.zeros((1, D))])
    expected, weights = record_integers(operator, X), np.arange(len(X)) % 4
    assert np.array_equal(operator.sketch(X).sums, expected.sum(axis=0))
    assert np.array_equal(operator.sketch(X, sample_weight=weights).sums, weights @ expected)
    assert np.array_equal(operator.write_rows(X, 1)[0], expected)
    means = operator.split(operator.sketch(X).mean)
    assert np.allclose(means, waves.features(X)[:, :3].T @ X[:, [4, 0]] / len(X), atol=1e-8)


@pytest.mark.parametrize(("r", "d"), [(1, 1), (4, 7), (9, 24), (4, 25), (33, 50), (5, 200), (70, 3)])
def test_any_number_of_features_and_values(r, d, monkeypatch):
    """Tiles that are not whole, several panels and blocks, rows of any layout."""
    X = rows(300, d).astype(np.float32)
    operator = skl.features.CrossFeatures(
        skl.features.FourierFeatures(d, 70, law=Gaussian(d**0.5)), bound=3.0, n_crossed=r
    )
    found = [with_kernel(operator, name, monkeypatch).sketch(X, n_jobs=1).sums for name in kernel.available()]
    assert all(np.array_equal(sums, found[0]) for sums in found)
    assert np.array_equal(operator.sketch(np.asfortranarray(X.astype(np.float64)), n_jobs=3).sums, found[0])
    assert np.array_equal(operator.sketch(X[:3]).sums, record_integers(operator, X[:3]).sum(axis=0))


@dataclass(frozen=True)
class Halves(Mapped):
    """Fourier features of half a row; `seen` counts how often rows were mapped."""

    features_of_half: skl.features.FourierFeatures
    columns = None
    seen = []  # noqa: RUF012

    @property
    def n_features(self):
        return 2 * self.inner.n_features

    @property
    def inner(self):
        return self.features_of_half

    def mapped(self, rows, threads):  # noqa: ARG002
        self.seen.append(len(rows))
        return np.ascontiguousarray(rows[:, : self.inner.n_features])

    def explain_refusal(self, row):
        return self.inner.explain_refusal(row[: self.inner.n_features])


def test_mapped_rows_are_computed_once():
    halves = Halves(WAVES_OF_ROWS)
    both = skl.features.concatenate(
        [
            skl.features.SecondMoments(2 * D, bound=3.0),
            halves,
            skl.features.CrossFeatures(halves, bound=3.0, values=[7]),
        ]
    )
    X = rows(100, 2 * D)
    halves.seen.clear()
    sketch = both.sketch(X, sample_weight=np.arange(100))
    assert halves.seen == [100]
    moments, waves, products = both.split(sketch)
    assert moments == both.parts[0].sketch(X, sample_weight=np.arange(100))
    assert np.array_equal(waves.sums, WAVES_OF_ROWS.sketch(X[:, :D], sample_weight=np.arange(100)).sums)
    assert products == both.parts[2].sketch(X, sample_weight=np.arange(100))
    weighted = np.arange(100)[:, None] * X[:, 7:8]
    expected = WAVES_OF_ROWS.features(X[:, :D]).T @ weighted / np.arange(100).sum()
    assert np.allclose(products.operator.split(products.mean), expected, atol=1e-7)


def test_the_features_beside_are_those_that_are_crossed():
    """Others of another seed are computed by themselves."""
    cross = skl.features.CrossFeatures(WAVES_OF_ROWS, bound=3.0, n_crossed=4)
    other = skl.features.FourierFeatures(D, 40, law=Gaussian(1.0), seed=3)
    cases = [
        ([WAVES_OF_ROWS, cross], {0: 1}),
        ([cross, WAVES_OF_ROWS, cross], {1: 0}),
        ([other, cross], {}),
        ([cross, cross], {}),
        ([WAVES_OF_ROWS.with_origin("declared"), cross], {0: 1}),
    ]
    for parts, users in cases:
        both = skl.features.concatenate(parts)
        assert both._users == users
        X = rows(50)
        assert both.split(both.sketch(X)) == [part.sketch(X) for part in parts]


def test_decoders_find_the_features_beside():
    both = skl.features.concatenate([WAVES_OF_ROWS, skl.features.CrossFeatures(WAVES_OF_ROWS, bound=3.0)])
    found, operator = fourier_part(both.sketch(rows(50)))
    assert (found, operator) == (WAVES_OF_ROWS.sketch(rows(50)), WAVES_OF_ROWS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"crossed": skl.features.SecondMoments(2, bound=1.0)}, "crossed must be Fourier features of rows"),
        ({"crossed": "waves"}, "crossed must be Fourier features of rows"),
        ({"bound": 0.0}, "bound must be a positive number"),
        ({"bound": [1.0, 2.0]}, "one for each of the 5 columns"),
        ({"center": [1.0]}, "center must be 5 finite numbers"),
        ({"n_crossed": 41}, "n_crossed must be a whole number from 1 to 40"),
        ({"values": [5]}, "values must be a whole number from 0 to 4"),
        ({"values": [1, 1]}, "values must be different numbers of columns"),
        ({"values": []}, "values must be different numbers of columns"),
        ({"outside": "drop"}, "outside must be 'refuse' or 'clip'"),
    ],
)
def test_what_is_wrong_is_said(fields, message):
    with pytest.raises(ValueError, match=message):
        skl.features.CrossFeatures(**{"crossed": WAVES_OF_ROWS, "bound": 1.0, **fields})


def test_too_many_products_are_refused():
    waves = skl.features.FourierFeatures(60_000, 20_000, law=Gaussian(1.0))
    with pytest.raises(ValueError, match="products are too many"):
        skl.features.CrossFeatures(waves, bound=1.0)


def test_the_first_refused_row_is_named():
    names = ("a", "b", "c", "d", "e")
    operator = skl.features.CrossFeatures(WAVES_OF_ROWS.with_columns(names), bound=[1.0, 2.0], values=[3, 1])
    X = np.zeros((600, D))
    X[500, 3], X[450, 1] = 1.5, -2.5
    with pytest.raises(ValueError, match=r"row 450, column 'b' is -2.5, beyond the bound 2.0"):
        operator.sketch(X)
    X[450, 1], X[470, 0] = 0.0, 1e30
    with (
        pytest.warns(UserWarning, match=r"1 row clipped: column 'a' is 1e\+30, too far from the center"),
        pytest.raises(ValueError, match=r"row 500, column 'd' is 1.5, beyond the bound 1.0"),
    ):
        operator.sketch(X)
    X[470, 0] = np.nan
    with pytest.raises(ValueError, match=r"row 470, column .* missing|column 'a'"):
        operator.sketch(X)


def test_values_are_clipped_and_features_are_not():
    clipping = skl.features.CrossFeatures(WAVES_OF_ROWS, bound=1.0, center=[0.5] * D, outside="clip")
    X = rows(200)
    sketch = clipping.sketch(X)
    assert sketch.clipped == np.count_nonzero(np.any(np.abs(X - 0.5) > 1, axis=1))
    expected = WAVES_OF_ROWS.features(X).T @ (X - 0.5).clip(-1, 1) / 200
    assert np.allclose(clipping.split(sketch.mean), expected, atol=1e-8)


def test_releases_have_noise_of_each_part():
    waves = WAVES_OF_ROWS.with_origin("declared")
    refusing = skl.features.concatenate([waves, skl.features.CrossFeatures(waves, bound=3.0).with_origin("declared")])
    with pytest.raises(ValueError, match="CrossFeatures that refuses rows outside its bound"):
        skl.privatize(refusing.sketch(rows(50)), epsilon=1.0)
    clipping = skl.features.concatenate(
        [waves, skl.features.CrossFeatures(waves, bound=3.0, outside="clip").with_origin("declared")]
    )
    assert clipping.origin.value == "declared"
    released = skl.privatize(clipping.sketch(rows(50)), epsilon=1.0, seed_for_tests_not_private=0)
    of_waves, of_products = clipping.split(released)
    assert of_products.ledger.sensitivity > 1000 * of_waves.ledger.sensitivity
    undeclared = skl.features.CrossFeatures(WAVES_OF_ROWS, bound=3.0)._twin(_origin=waves.origin)
    assert undeclared.origin.value == "unknown"  # that of its features


def test_files_check_the_features():
    operator = skl.features.CrossFeatures(WAVES_OF_ROWS, bound=[1.0, 2.0], values=[1, 2]).with_origin("sample")
    form = json.loads(json.dumps(operator.to_json()))
    again = skl.extend.Operator.from_json(form)
    assert (again, again.origin) == (operator, operator.origin)
    assert set(form) == {"type", "crossed", "bound", "center", "values", "origin", "digest"}
    with pytest.raises(ValueError, match="not those that its digest was made of"):
        skl.extend.Operator.from_json({**form, "crossed": {**form["crossed"], "seed": 5}})
    with pytest.raises(ValueError, match="bound must be a list of numbers"):
        skl.extend.Operator.from_json({**form, "bound": 1.0})


def test_what_is_not_compared_is_not_repeated():
    waves = replace(WAVES_OF_ROWS, units=[2.0] * D)
    cross = skl.features.CrossFeatures(waves, bound=3.0)
    assert (cross.crossed, cross.crossed.units, cross.keeping) == (waves, None, None)


def test_means_of_other_columns_by_cluster():
    """Clusters of two columns are given; the mean of the third in each follows from crosses, over all rows."""
    rng = np.random.default_rng(0)
    centers, means, which = 6 * np.eye(3)[:, :2], np.array([1.0, -2.0, 5.0]), rng.integers(0, 3, 20_000)
    X = np.column_stack([centers[which] + rng.standard_normal((20_000, 2)), means[which] + rng.standard_normal(20_000)])
    waves = skl.features.FourierFeatures(2, 60, law=Gaussian(2.0))
    some = skl.features.SomeColumns(waves, 3, which=[0, 1])
    both = skl.features.concatenate([some, skl.features.CrossFeatures(some, bound=12.0, values=[2])])
    products = both.split(both.sketch(X))[1]
    omega = waves.frequencies
    inside = np.exp(1j * (centers @ omega) - 0.5 * np.sum(omega**2, axis=0)).T * np.bincount(which) / 20_000
    sums = products.operator.split(products.mean)[:, 0]
    found = np.linalg.lstsq(np.r_[inside.real, inside.imag], np.r_[sums.real, sums.imag], rcond=None)[0]
    own = [X[which == c, 2].mean() for c in range(3)]
    assert np.abs(found - own).max() < 0.05  # the means' own errors are 0.012


def test_some_columns_keep_names_origins_and_parts():
    names = ("a", "b", "c")
    waves = skl.features.FourierFeatures(2, 20, law=Gaussian(1.0)).with_origin("declared")
    some = skl.features.SomeColumns(waves, 3, which=[2, 0], columns=names)
    assert (some.inner.columns, some.origin.value, some.part(skl.features.FourierFeatures)) == (
        ("c", "a"),
        "declared",
        some.inner,
    )
    assert some.with_columns(None).inner == waves
    found, operator = fourier_part(some.sketch(rows(30, 3)))
    assert (operator, found.count) == (some.inner, 30)
    again = skl.extend.Operator.from_json(json.loads(json.dumps(some.to_json())))
    assert (again, again.origin) == (some, some.origin)
    refusing = skl.features.SomeColumns(skl.features.SecondMoments(2, bound=1.0), 3, which=[2, 0], columns=names)
    assert refusing.data_dependent_errors
    with pytest.raises(ValueError, match=r"row 0, column 'c' is 5.0, beyond the bound"):
        refusing.sketch([[0.5, 9.0, 5.0]])
    with pytest.raises(ValueError, match="which must be 2 columns"):
        skl.features.SomeColumns(waves, 3, which=[0])
    with pytest.raises(ValueError, match="inner_operator must be an operator"):
        skl.features.SomeColumns("waves", 3, which=[0])

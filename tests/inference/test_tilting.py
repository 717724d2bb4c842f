"""Clusters from histograms and waves alone: weights of maximum entropy, atoms, and centers of theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.features.outline import LEAST_ROWS_PER_CELL, Outline
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import FrequencySet
from sketchlearn.inference.tilting import (
    Column,
    SupportPoints,
    histogram_residual,
    tempered,
    tilt,
    tilted_points,
)
from sketchlearn.inference.weighted_clusters import RowSample, SquaredLoss, clusters_of_rows

Double = NDArray[np.float64]
BINS = 64


def table(rng: np.random.Generator, n: int = 6000) -> Double:
    """Three groups in columns as people have them: lognormal, counts, a share, a flag."""
    y = rng.integers(3, size=n)
    money = np.exp(rng.normal(np.array([0.0, 1.0, 2.0])[y], 0.4))
    visits = rng.poisson(np.array([1, 9, 4])[y])
    share = 4 * rng.beta(np.array([1, 5, 2])[y], 3)
    flag = 4.0 * (rng.random(n) < np.array([0.1, 0.9, 0.5])[y])
    return np.stack([money, visits, share, flag], axis=1)


def histogram(values: Double, bins: int = BINS, noise: float = 0.0, rng: np.random.Generator | None = None) -> Column:
    edges = np.linspace(values.min(), values.max(), bins + 1)
    counts = np.concatenate([[0], np.histogram(values, edges)[0], [0]]) / len(values)
    if rng is not None:
        counts = counts + noise * rng.standard_normal(len(counts))
    return Column(edges, counts)


def waves(rows: Double, rng: np.random.Generator, m: int = 100, variance: float = 0.0) -> Target:
    d = rows.shape[1]
    omega = rng.standard_normal((m, d))
    lengths = np.exp(rng.uniform(np.log(0.3), np.log(3), (m, 1)))
    omega *= lengths / np.linalg.norm(omega, axis=1, keepdims=True)
    unit = np.full(d, np.sqrt(rows.var(axis=0).mean()))
    values = np.exp(1j * ((rows - rows.mean(axis=0)) / unit) @ omega.T).mean(axis=0)
    noise = rng.standard_normal((2, m)) * np.sqrt(variance)
    return Target(
        frequencies=FrequencySet(omega),
        values=values + noise[0] + 1j * noise[1],
        weights=np.ones(m),
        imaginary=1.0,
        sampling=0.0,
        subsampling=0.0,
        released=2 * variance,
        origin=rows.mean(axis=0),
        unit=unit,
        declared=np.zeros(d),
        shapes=np.zeros((0, d, d)),
        whole=True,
        one_scale=False,
        dither=np.zeros(m),
        harmonics=(),
        places=np.arange(m),
        group_size=m,
    )


def error(rows: Double, centers: Double) -> float:
    return float(np.sum(np.min(np.sum((rows[:, None] - centers) ** 2, axis=2), axis=1)))


def clusters(atoms: SupportPoints, k: int, units: Double | None = None) -> Double:
    scale = np.ones(atoms.points.rows.shape[1]) if units is None else units
    return clusters_of_rows(RowSample(atoms.points, scale), k, SquaredLoss(), np.random.default_rng(0))[0]


def relative(rows: Double, atoms: SupportPoints, k: int) -> float:
    reference = float(KMeans(k, n_init=10, random_state=0).fit(rows).inertia_)
    return error(rows, clusters(atoms, k)) / reference


def test_tilted_features_have_the_given_means() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((5000, 20)).astype(np.float32)
    target = 0.2 * rng.standard_normal(20)
    found = tilt(features, target, 1e-8)
    np.testing.assert_allclose(found.weights @ features, target, atol=1e-4)
    assert found.weights.sum() == pytest.approx(1)
    assert np.all(found.weights >= 0)
    assert found.effective < 5000


def test_no_tilt_where_base_weights_explain_everything() -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((2000, 5)).astype(np.float32)
    base = rng.random(2000)
    base /= base.sum()
    found = tilt(features, base @ features, 1e-6, base)
    np.testing.assert_allclose(found.weights, base, rtol=1e-3)


def test_left_is_what_the_dual_says() -> None:
    rng = np.random.default_rng(2)
    features = rng.standard_normal((3000, 8)).astype(np.float32)
    target = rng.standard_normal(8)
    found = tilt(features, target, 0.1, caution=2.0)
    np.testing.assert_allclose(target - found.weights @ features, 0.2 * found.dual, atol=1e-3)


def test_caution_keeps_atoms() -> None:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((4000, 10)).astype(np.float32)
    target = np.full(10, 1.2)
    assert tilt(features, target, 1e-3).effective < 400
    found = tempered(features, target, 1e-3, least_effective=400)
    assert found.caution > 1
    assert found.effective < 4000


@pytest.mark.parametrize("wave", ["exponential", "square", "sawtooth", "cosine"])
def test_features_are_those_of_the_sketch(wave: str) -> None:
    rng = np.random.default_rng(4)
    rows = table(rng, 500)
    operator = skl.design(rows, n_components=3, features=skl.features.Fourier(wave=wave, n_frequencies=40))
    target = Target.of(operator.sketch(rows), highest=201)
    left = target.features(rows).mean(axis=0) - target.numbers
    assert np.sqrt(np.mean(left**2)) < (1e-4 if wave in ("exponential", "cosine") else 0.01)


def test_outline_keeps_no_single_row() -> None:
    rng = np.random.default_rng(5)
    rows = table(rng, 400)
    outline = Outline.of(rows, 4)
    assert outline is not None
    assert len(outline.shares) == 60
    assert min(outline.shares) >= LEAST_ROWS_PER_CELL / 400
    np.testing.assert_allclose(np.array(outline.shares) @ np.array(outline.means), rows.mean(axis=0), rtol=1e-3)
    drawn = outline.draw(40_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), rows.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(drawn.var(axis=0), rows.var(axis=0), rtol=0.05)


def test_outline_of_few_or_equal_rows() -> None:
    for rows in (np.ones((100, 2)), np.arange(6.0)[:, None]):
        outline = Outline.of(rows, 4)
        assert outline is not None
        assert len(outline.shares) == 1


def test_outline_survives_json_and_refuses_nonsense() -> None:
    outline = Outline.of(table(np.random.default_rng(0), 500), 4)
    assert outline is not None
    assert Outline.from_json(outline.to_json()) == outline
    with pytest.raises(ValueError, match="for each cell"):
        Outline(outline.means, outline.deviations, outline.shares[:-1])
    with pytest.raises(ValueError, match="finite"):
        Outline(((float("nan"),),), ((1.0,),), (1.0,))
    assert Outline.of(np.ones((100, 1000)), 4) is None


def test_quantiles_follow_the_histogram() -> None:
    column = Column(np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.5, 0.5, 0.0]))
    np.testing.assert_allclose(column.quantiles(np.array([0.0, 0.25, 0.5, 0.75, 1.0])), [0.0, 0.5, 1.0, 2.0, 3.0])
    assert column.mean == pytest.approx(1.25)
    known = Column(np.array([-0.5, 0.5, 1.5]), np.array([0.0, 0.9, 0.1, 0.0]), np.array([0.0, 1.0]))
    assert set(known.quantiles(np.linspace(0, 1, 50)).tolist()) == {0.0, 1.0}
    assert known.spread == pytest.approx(0.09)


def test_noisy_shares_become_chances() -> None:
    noisy = Column(np.array([0.0, 1.0, 2.0, 3.0]), np.array([-0.2, 0.6, 0.5, 0.1, -0.1]))
    np.testing.assert_allclose(noisy.chances, [0.0, 0.6 - 0.2 / 3, 0.5 - 0.2 / 3, 0.1 - 0.2 / 3, 0.0])
    assert noisy.chances.sum() == pytest.approx(1)


def test_values_beyond_the_edges_count_at_the_edges() -> None:
    column = Column(np.array([0.0, 1.0]), np.array([0.25, 0.5, 0.25]))
    drawn = column.quantiles(np.array([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(drawn, [0.0, 0.5, 1.0])


@pytest.mark.parametrize("with_outline", [False, True])
def test_centers_of_a_table(with_outline: bool) -> None:
    rng = np.random.default_rng(6)
    rows = table(rng)
    known = Outline.of(rows[:300], 4)
    assert known is not None
    outline = known.draw(3000, rng) if with_outline else None
    columns = [histogram(column) for column in rows.T]
    fit = tilted_points(waves(rows, rng), columns, 4000, rng, outline=outline)
    assert relative(rows, fit, 4) < 1.02
    assert fit.points.weights.sum() == pytest.approx(1)
    assert fit.explain
    assert fit.unexplained < 1e-4


def test_centers_in_other_units() -> None:
    rng = np.random.default_rng(7)
    rows, units = table(rng), np.array([1.0, 10.0, 1.0, 1.0])
    columns = [histogram(column) for column in rows.T]
    atoms = tilted_points(waves(rows, rng), columns, 4000, rng, units=units)
    reference = KMeans(3, n_init=10, random_state=0).fit(rows / units).inertia_
    assert error(rows / units, clusters(atoms, 3, units) / units) < 1.03 * reference


def test_columns_that_are_copies_of_each_other() -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(np.array([-3.0, 0.0, 4.0])[rng.integers(3, size=5000)], 0.7)[:, None]
    rows = rows + 0.1 * rng.standard_normal((5000, 3))
    columns = [histogram(column) for column in rows.T]
    assert relative(rows, tilted_points(waves(rows, rng), columns, 4000, rng), 3) < 1.05


def test_noise_moves_centers_little() -> None:
    rng = np.random.default_rng(9)
    rows = table(rng)
    columns = [histogram(column, noise=0.002, rng=rng) for column in rows.T]
    fit = tilted_points(waves(rows, rng, variance=0.01**2), columns, 4000, rng)
    assert relative(rows, fit, 4) < 1.06
    low, high = (np.array([pick(column.edges) for column in columns]) for pick in (np.min, np.max))
    assert np.all(fit.points.rows >= low)
    assert np.all(fit.points.rows <= high)


def test_the_same_seed_gives_the_same_centers() -> None:
    rows = table(np.random.default_rng(10), 2000)
    means = waves(rows, np.random.default_rng(0))
    columns = [histogram(column) for column in rows.T]
    first, second = (tilted_points(means, columns, 2000, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.points.weights, second.points.weights)


def test_constant_columns_and_more_clusters_than_values() -> None:
    rng = np.random.default_rng(11)
    rows = np.stack([np.full(500, 7.0), rng.integers(0, 2, 500).astype(float)], axis=1)
    constant = Column(np.array([6.5, 7.5]), np.array([0.0, 1.0, 0.0]), np.array([7.0]))
    shares = np.bincount(rows[:, 1].astype(int)) / 500
    flag = Column(np.array([-0.5, 0.5, 1.5]), np.array([0.0, *shares, 0.0]), np.array([0.0, 1.0]))
    centers = clusters(tilted_points(waves(rows, rng, m=20), [constant, flag], 1000, rng), 3)
    assert centers.shape == (3, 2)
    np.testing.assert_allclose(centers[:, 0], 7.0)
    assert error(rows, centers) < 1e-6


def test_clusters_follow_the_weights() -> None:
    rows = np.array([[0.0], [1.0], [10.0], [11.0], [500.0]])
    weights = np.array([3.0, 1.0, 1.0, 1.0, 0.0]) / 6
    sample = RowSample(WeightedRows(rows, weights), np.ones(1))
    centers, shares = clusters_of_rows(sample, 2, SquaredLoss(), np.random.default_rng(0))
    order = np.argsort(centers[:, 0])
    np.testing.assert_allclose(centers[order, 0], [0.25, 10.5])
    np.testing.assert_allclose(shares[order], [4 / 6, 2 / 6])


def test_wide_bins_of_tails_are_filled_near_their_inner_edge() -> None:
    """Filled evenly, the last bin alone would give a variance of 33."""
    rng = np.random.default_rng(12)
    values = rng.standard_t(3, 100_000)
    edges = np.array([-1000.0, -100, -10, *np.linspace(-4, 4, 41), 10, 100, 1000])
    counts = np.concatenate([[0], np.histogram(values, edges)[0], [0]]) / len(values)
    column = Column(edges, counts)
    assert column.spread == pytest.approx(values.var(), rel=0.25)
    drawn = column.quantiles((np.arange(100_000) + 0.5) / 100_000)
    assert drawn.var() == pytest.approx(column.spread, rel=0.1)
    assert column.mean == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_columns_that_depend_on_each_other(noise) -> None:
    """Twenty columns of three numbers: independent ones lie far from all of them, correlated ones do not."""
    rng = np.random.default_rng(13)
    hidden = rng.normal(np.array([[-2.0, 0, 1], [1, 2, -1], [2, -2, 0], [0, 0, 3]])[rng.integers(4, size=6000)], 0.5)
    rows = np.tanh(hidden @ rng.normal(size=(3, 20)) / 3) + 0.05 * rng.standard_normal((6000, 20))
    columns, means = [histogram(column) for column in rows.T], waves(rows, rng, m=300)
    seen = rng.standard_normal((20, 20))
    correlation = np.corrcoef(rows.T) + noise * (seen + seen.T) / np.sqrt(2)
    independent, correlated = (
        relative(rows, tilted_points(means, columns, 4000, rng, correlation=given), 4) for given in (None, correlation)
    )
    assert correlated < 1.05 < independent


def test_rows_of_the_same_law_leave_noise_of_histograms() -> None:
    rng, noise = np.random.default_rng(0), 0.003
    rows, same, others = table(rng), table(rng), table(rng) * 1.2
    found = [replace(histogram(column, noise=noise, rng=rng), noise=noise**2) for column in rows.T]
    # the mean square of 256 normal numbers is 1 with a deviation of 0.09
    assert 0.7 < histogram_residual(found, WeightedRows.of(same), len(rows)) < 1.3
    assert histogram_residual(found, WeightedRows.of(others), len(rows)) > 3

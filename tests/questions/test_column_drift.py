"""Tests of columns' counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sketchlearn as skl
from sketchlearn.questions.column_drift import counts_drift
from sketchlearn.questions.marginals import ColumnCounts


def counts(values: np.ndarray, edges: np.ndarray) -> ColumnCounts:
    found = skl.features.Histograms(1, edges=[tuple(edges)]).sketch(values[:, None])
    return ColumnCounts.of(found, 0)


def test_two_shares_are_compared_by_chi_square() -> None:
    edges = np.array([-0.5, 0.5, 1.5])
    a, b = (np.repeat([0.0, 1.0], n) for n in ([700, 300], [650, 350]))
    table = [[700, 300], [650, 350]]
    p = stats.chi2_contingency(table, correction=False).pvalue
    assert counts_drift(counts(a, edges), counts(b, edges)).p_value == pytest.approx(
        p, rel=0.06
    )  # of the saddlepoint formula, a few per cent


@pytest.mark.parametrize("law", ["normal", "lognormal", "few values"])
def test_p_values_are_uniform_where_nothing_changed(law: str) -> None:
    rng, found = np.random.default_rng(5), []
    draws = {
        "normal": lambda n: rng.standard_normal(n),
        "lognormal": lambda n: rng.lognormal(0, 2, n),
        "few values": lambda n: rng.integers(0, 4, n).astype(float),
    }
    edges = np.unique(np.quantile(draws[law](2000), np.linspace(0, 1, 100)))
    for _ in range(400):
        found.append(counts_drift(counts(draws[law](300), edges), counts(draws[law](500), edges)).p_value)
    rejected = np.mean(np.array(found) < 0.05)
    assert 0.05 - 4 * np.sqrt(0.05 * 0.95 / 400) < rejected < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_a_shift_and_a_wider_spread_are_found_and_measured() -> None:
    rng = np.random.default_rng(6)
    edges = np.linspace(-6, 6, 121)
    a, b = rng.standard_normal(4000), 0.2 + 1.3 * rng.standard_normal(4000)
    drift = counts_drift(counts(a, edges), counts(b, edges))
    assert drift.p_value < 1e-6
    assert drift.shift == pytest.approx(0.2, abs=0.1)
    assert drift.spread_ratio == pytest.approx(1.3, abs=0.08)


def test_noise_of_a_release_is_no_drift() -> None:
    rng, found = np.random.default_rng(7), []
    operator = skl.features.Histograms.even([-4.0], [4.0], 32)
    for seed in range(60):
        parts = [
            skl.privatize(
                operator.sketch(rng.standard_normal((2000, 1)).clip(-4, 4)),
                epsilon=0.2,
                seed_for_tests_not_private=seed * 2 + i,
            )
            for i in (0, 1)
        ]
        found.append(counts_drift(*(ColumnCounts.of(part, 0) for part in parts)).p_value)
    assert np.mean(np.array(found) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)


def test_a_column_of_one_value_has_no_drift() -> None:
    a = counts(np.full(50, 3.0), np.array([2.5, 3.5]))
    assert counts_drift(a, a).p_value == 1


def test_the_shift_of_a_column_with_gaps_is_that_of_its_known_values() -> None:
    def table(mean: float, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        known = rng.normal(mean, 1, 20_000)
        return pd.DataFrame({"x": np.where(rng.random(20_000) < 0.5, np.nan, known), "y": rng.standard_normal(20_000)})

    first, second = table(0, 0), table(1, 1)
    sample = pd.concat([table(0, 2), table(1, 3)])
    operator = skl.design(sample, n_components=3, schema=skl.schema(sample))
    moved = skl.two_sample_test(operator.sketch(first), operator.sketch(second)).columns[0]
    truth = second.x.mean() - first.x.mean()
    assert moved.column == "x"
    assert moved.shift == pytest.approx(truth, abs=0.02)
    assert moved.spread_ratio == pytest.approx(second.x.std() / first.x.std(), abs=0.05)

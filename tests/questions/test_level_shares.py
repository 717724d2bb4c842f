"""Shares of levels are never more than all records, and what they say of themselves is what `explain` says, too."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.questions.marginals import shares_of_levels
from sketchlearn.questions.profiles import column_profile, profiles_of_centers
from sketchlearn.rows.schemas.columns import Category


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 3000)
    codes = np.array(["C3", "B2", "A1"])[group]
    return pd.DataFrame(
        {
            "code": np.where(rng.random(3000) < 0.9, codes, rng.choice(["D4", "E5", "F6"], 3000)),
            "kind": rng.choice(list("abcdef"), 3000),
            "x": rng.normal(3 * group, 1),
        }
    )


@given(values=st.lists(st.floats(-2, 2), min_size=1, max_size=6), room=st.floats(0.1, 1))
def test_levels_fit_into_their_room(values, room):
    shares, off = shares_of_levels(np.array(values), room)
    total = sum(max(value, 0.0) for value in values)
    assert np.all(shares >= 0)
    assert shares.sum() <= room + 1e-9
    assert off == pytest.approx(min(abs(total - room), 1.0), abs=2e-9)
    if total <= room:
        assert np.array_equal(shares, np.maximum(values, 0.0))


def test_a_column_of_a_center():
    """99 % and 4 % were shown of one column."""
    code = Category("code", ["C3", "B2", "A1"], weight=2.0)
    profile = column_profile(code, np.array([1.98, 0.08, -0.04, 0.0]), np.nan, 0.0)
    assert str(profile) == "C3 96 %, B2 4 %"
    assert {round(share.error, 2) for share in profile.estimates.values()} == {0.03}
    doubtful = column_profile(code, np.array([2.4, 0.6, 0.0, 0.0]), np.nan, 0.0)
    assert str(doubtful) == "C3 80 +- 50 %, B2 20 +- 50 %"
    exact = column_profile(code, np.array([1.5, 0.5, 0.0, 0.0]), np.nan, 0.0)
    assert [(share.value, share.error) for share in exact.estimates.values()] == [(0.75, 0), (0.25, 0), (0, 0), (0, 0)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("k", [3, 6])
def test_no_column_of_a_cluster_has_more_than_all_records(table, k):
    sketch = skl.design(table, n_components=k, schema="auto").sketch(table)
    model = skl.SketchKMeans(k, random_state=0).fit_sketch(sketch)
    for profile in profiles_of_centers(model):
        for column in profile.columns:
            if column.kind == "levels":
                assert sum(share.value for share in column.estimates.values()) <= 1 + 1e-9


def test_shares_that_a_sketch_does_not_tell_say_so(table):
    """Frequencies that are not along the axes: shares added up to half, with errors of a percent."""
    columns = skl.source(table, schema="auto").columns
    law = skl.features.frequencies.Gaussian(2.0)
    waves = skl.features.FourierFeatures(len(columns), 100, law=law, columns=columns, seed=0)
    found = skl.Questions(waves.sketch(table)).marginal("code")
    truth = table["code"].value_counts(normalize=True).reindex(found.levels).fillna(0.0).to_numpy()
    assert found.shares.sum() <= 1 + 1e-9
    assert np.all(np.abs(found.shares - truth) <= 3 * found.errors)
    assert "not 1, so each may be off by the rest" in str(found)
    counted = skl.Questions(skl.design(table, n_components=3, schema="auto").sketch(table)).marginal("code")
    assert counted.note == "exact counts"
    np.testing.assert_allclose(counted.shares, truth[[found.levels.index(level) for level in counted.levels]])


def test_explain_does_not_contradict_itself():
    """A box is no two Gaussians, and yet the two clusters are fine: they are made of more components."""
    X = np.random.default_rng(0).uniform(size=(4000, 2))
    told = skl.explain(skl.design(X, n_components=2).sketch(X), n_components=2)
    assert told.verdict.name == "FINE"
    finely, last = told.sentences[-2:]
    assert finely.startswith(
        "Measured more finely, by the covariance of its noise, a mixture of 3 Gaussians explains more"
    )
    assert "components, of which the 2 clusters are made, explains the sketch up to sampling noise" in last

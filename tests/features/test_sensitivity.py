"""No record moves a sketch further than its sensitivity says: random, extreme and searched records."""

from dataclasses import replace

import numpy as np
import pytest
from cases import NAMES, WAVES, clipping, operators

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.privacy.noise_plan import sensitivity


def contributions(operator, rows):
    integers, bad = operator.write_rows(rows, 1)
    assert bad == -1
    return integers.astype(np.float64)  # integers of up to 2^30: exact, and so are sums of their sizes


def sizes(change):
    """L1 and squared L2 norms. Squares round, by far less than a bound is loose where it is not tight."""
    return {"l1": np.abs(change).sum(axis=1), "l2_squared": (change * change).sum(axis=1)}


def starts(operator, rng):
    """Random rows of many sizes, and extreme ones: the center, corners, axes, far away, at a bound."""
    d = operator.n_features
    random = rng.standard_normal((60, d)) * np.geomspace(1e-3, 1e6, 60)[:, None]
    corners = rng.choice([-1.0, 1.0], (30, d)) * np.array([1.0, 60.0, 1e9])[np.arange(30) % 3][:, None]
    axes = np.concatenate([np.eye(d), -1e12 * np.eye(d)])
    return np.concatenate([random, corners, axes, np.zeros((1, d)), np.full((1, d), 60.0)])


def climbed(operator, norm, rng, *, pairs, rounds=200):
    """The largest change that hill climbing finds, over rows or over pairs of rows."""
    rows = starts(operator, rng)
    if pairs:
        rows = np.concatenate([rows, rows[rng.permutation(len(rows))]], axis=1)

    def measured(candidates):
        d = operator.n_features
        change = contributions(operator, candidates[:, :d])
        if pairs:
            change = change - contributions(operator, candidates[:, d:])
        return sizes(change)[norm]

    score = measured(rows)
    best = np.argsort(score)[-30:]
    rows, score = rows[best], score[best]
    for step in np.geomspace(1.0, 1e-3, rounds):
        moved = rows + step * np.abs(rows).mean(axis=1, keepdims=True) * rng.standard_normal(rows.shape)
        found = measured(moved)
        rows = np.where((found > score)[:, None], moved, rows)
        score = np.maximum(score, found)
    return score.max()


# What the search reaches of the bounds, in norms: those of moments and histograms are exact. A record far away can have
# any phases, which no search of this kind finds for 60 frequencies at once.
REACHED = {
    "moments": 0.995,
    "veronese": 0.995,
    "histograms": 1.0,
    "cells": 0.5,
    "columns": 0.97,
    "quadratic": 0.7,
    "convolutional": 0.55,
    "cumulants": 0.45,
    "concatenated": 0.99,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_no_record_exceeds_the_sensitivity(name, neighbors):
    operator = clipping(operators(9)[name])
    bound, rng = sensitivity(operator, neighbors), np.random.default_rng(0)
    for norm in ("l1", "l2_squared"):
        largest = climbed(operator, norm, rng, pairs=neighbors == "replace")
        assert largest <= getattr(bound, norm) * (1 + 1e-12)
        share = largest / getattr(bound, norm)
        assert (share if norm == "l1" else np.sqrt(share)) >= REACHED.get(name, 0.3)


@pytest.mark.parametrize("name", NAMES)
def test_replacing_covers_leaving_out(name):
    """A replaced record may be dropped for its new values, or leave its class: then it is removed."""
    operator = clipping(operators(9)[name])
    one, both = sensitivity(operator), sensitivity(operator, "replace")
    assert one.l1 <= both.l1
    assert one.l2_squared <= both.l2_squared


@pytest.mark.parametrize("name", WAVES)
def test_bounds_of_waves_are_tight(name):
    """One frequency, every phase of a fine grid: the bound holds, and some phase comes within a few integers of it."""
    wave = WAVES[name]
    operator = skl.features.FourierFeatures(1, 1, law=Gaussian(1.0), wave=wave, seed=1)
    turn = 2 * np.pi / abs(operator.frequencies[0, 0])
    rows = np.linspace(0, turn, 400_003)[:, None]
    found, bound = sizes(contributions(operator, rows)), wave.add_remove_sensitivity()
    assert found["l1"].max() <= bound.l1
    assert found["l2_squared"].max() <= bound.l2_squared
    loose = 0.003 * 2**20 if "series" in name else 8  # a series is looked at on a coarser grid
    assert found["l1"].max() >= bound.l1 - loose
    assert np.sqrt(found["l2_squared"].max()) >= bound.l2 - loose


def test_second_moments_are_tight():
    operator = skl.features.SecondMoments(4, bound=2.0, outside="clip")
    found = sizes(contributions(operator, np.full((1, 4), 2.0)))
    bound = sensitivity(operator)
    assert (found["l1"][0], found["l2_squared"][0]) == (bound.l1, bound.l2_squared)


def test_quadratic_features_count_their_energy():
    """Many directions share what one row has: the bound is near m / d, not m."""
    operator = skl.features.QuadraticFeatures(20, 2000, bound=1.0, outside="clip")
    assert sensitivity(operator).l1 < 0.1 * 2000 * 2**20
    values, vectors = np.linalg.eigh(operator.directions @ operator.directions.T)
    worst = contributions(operator, (0.999999 * vectors[:, -1:]).T)
    assert 0.999 * sensitivity(operator).l1 < np.abs(worst).sum() <= sensitivity(operator).l1
    assert values[-1] > 0


def test_subsampling_lowers_the_sensitivity():
    whole = skl.features.FourierFeatures(2, 40, law=Gaussian(1.0))
    assert sensitivity(replace(whole, subsample=10)).l1 * 4 == sensitivity(whole).l1


def test_parts_add_up():
    moments, waves = skl.features.SecondMoments(2, bound=1.0), skl.features.FourierFeatures(2, 3, law=Gaussian(1.0))
    for neighbors in ("add-remove", "replace"):
        both = sensitivity(skl.features.concatenate([moments, waves]), neighbors)
        assert both == sensitivity(moments, neighbors) + sensitivity(waves, neighbors)


def test_l2_is_rounded_up():
    assert [Sensitivity(0, n).l2 for n in (0, 1, 2, 4, 5, 9)] == [0, 1, 2, 2, 3, 3]


class Unbounded(skl.features.SecondMoments):
    """An operator whose class does not say what a record changes."""

    add_remove_sensitivity = skl.extend.Operator.add_remove_sensitivity
    replace_one_sensitivity = skl.extend.Operator.replace_one_sensitivity


def test_unknown_operators_and_neighbors_are_refused():
    with pytest.raises(ValueError, match="neighbors must be 'add-remove' or 'replace', not 'swap'"):
        sensitivity(skl.features.SecondMoments(2, bound=1.0), "swap")
    for neighbors in ("add-remove", "replace"):
        with pytest.raises(ValueError, match="one record of a Unbounded has no known bound"):
            sensitivity(Unbounded(2, bound=1.0), neighbors)


CLIPPED = {
    "quadratic": skl.features.QuadraticFeatures(3, 5, bound=1.0, center=[0.1, 0.2, 0.3], outside="clip"),
    "moments": skl.features.SecondMoments(3, bound=[1.0, 0.3, 0.1], center=[0.1, 0.2, 0.3], outside="clip"),
    "columns": skl.features.ColumnMoments(3, bound=[1.0, 0.3, 0.1], center=[0.1, 0.2, 0.3], outside="clip"),
    "cumulants": skl.features.CumulantFeatures(
        3, unmixing=np.eye(3)[:2], frequencies=[1.0, 2.0], bound=[1.0, 0.3, 0.1], center=[0.1, 0.2, 0.3], outside="clip"
    ),
    "far center": skl.features.QuadraticFeatures(3, 5, bound=1e-5, center=[1e9, 0.2, 0.3], outside="clip"),
    "tiny bound": skl.features.SecondMoments(3, bound=[1e-300, 0.3, 0.1], center=[1e9, 0.2, 0.3], outside="clip"),
}


@pytest.mark.parametrize("name", CLIPPED)
def test_clipping_depends_on_the_row_alone(name):
    operator, rng = CLIPPED[name], np.random.default_rng(1)
    rows = rng.standard_normal((600, 3)) * np.array([0.1, 10.0, 1e300])[rng.integers(0, 3, 600)][:, None]
    sketch = operator.sketch(rows)
    parts = sum(operator.sketch(part) for part in np.array_split(rows[rng.permutation(600)], 7))
    assert parts == sketch
    assert parts.clipped == sketch.clipped > 100
    single = rows[np.abs(rows).max(axis=1) < 1e30].astype(np.float32)
    assert operator.sketch(single) == operator.sketch(single.astype(np.float64))
    assert skl.from_bytes(sketch.to_bytes()).clipped == sketch.clipped


def test_rows_within_the_bound_are_left_as_they_are():
    operator, rows = CLIPPED["quadratic"], np.full((4, 3), 0.3)
    refusing = replace(operator, outside="refuse")
    assert np.array_equal(operator.sketch(rows).sums, refusing.sketch(rows).sums)
    assert operator.sketch(rows).clipped == 0
    assert operator != refusing
    with pytest.raises(ValueError, match=r"their outsides differ \('clip' and 'refuse'\)"):
        operator.sketch(rows) + refusing.sketch(rows)


def test_clipped_rows_lie_on_the_bound():
    operator = skl.features.SecondMoments(2, bound=2.0, center=[1.0, 0.0], outside="clip")
    mean, _ = operator.split(operator.sketch([[100.0, -0.5]]).mean)
    assert np.allclose(mean, [2.0, -0.5])
    squares = skl.features.QuadraticFeatures(1, 1, bound=2.0, outside="clip")
    assert np.allclose(squares.sketch([[-1e200]]).mean, 4.0, rtol=1e-5)


def test_values_that_are_not_finite_are_refused_still():
    for operator in CLIPPED.values():
        with pytest.raises(ValueError, match="fill or drop"):
            operator.sketch([[np.inf, 0.0, 0.0]])


def test_outside_is_checked_and_old_forms_load():
    with pytest.raises(ValueError, match="outside must be 'refuse' or 'clip', not 'drop'"):
        skl.features.SecondMoments(2, bound=1.0, outside="drop")
    assert "outside" not in skl.features.SecondMoments(2, bound=1.0).to_json()
    clip = skl.features.SecondMoments(2, bound=1.0, outside="clip")
    assert skl.extend.Operator.from_json(clip.to_json()) == clip

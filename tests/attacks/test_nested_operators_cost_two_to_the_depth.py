"""Operators in operators: the cost of each level was computed twice, so that 2,082 bytes took 11.8 s at depth 22."""

import json

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.core.containers import DESIGN, to_document
from sketchlearn.features.directions import packed
from sketchlearn.features.frequencies import Gaussian, Mixture
from sketchlearn.files.designs import design_from_bytes, design_to_bytes
from sketchlearn.files.sketches import KnownOperator

DEEPEST = 8
WAVES = skl.features.FourierFeatures(1, 4, law=Gaussian(1.0))
ONE_DIRECTION = {"n_directions": 1, "directions": packed(np.array([[1]]), "<i2"), "shift": 0, "bound": 1.0}
COMPOSING = {
    "some columns": lambda inner: skl.features.SomeColumns(inner, 1, which=[0]),
    "some directions": lambda inner: skl.features.SomeDirections(1, inner_operator=inner, **ONE_DIRECTION),
    "concatenated": lambda inner: skl.features.concatenate([inner]),
    "concatenated twice": lambda inner: skl.features.concatenate([skl.features.SecondMoments(1, bound=1.0), inner]),
}
OUTERMOST = {
    "crosses": lambda inner: skl.features.CrossFeatures(inner, bound=1.0),
    "feature moments": lambda inner: skl.features.FeatureMoments(inner, bound=1.0),
}


def nested(compose, depth, inner=WAVES):
    """An operator with so many operators in each other."""
    for _ in range(depth - 1):
        inner = compose(inner)
    return inner


def nested_form(form, depth):
    """The JSON form of columns of columns, as a forger writes it: no digest is right."""
    for _ in range(depth - 1):
        form = {"type": "SomeColumns", "inner_operator": form, "n_features": 1, "which": [0], "digest": ""}
    return form


@pytest.fixture
def visits(monkeypatch):
    """How often the cost of the frequencies is computed, and how often they are asked for to be digested."""
    seen = {"cost": 0, "digests": 0}
    cost, parts = Gaussian.cost, skl.features.FourierFeatures.random_parts

    def counted_cost(self, n_features, n_frequencies):
        seen["cost"] += 1
        return cost(self, n_features, n_frequencies)

    def counted_parts(self):
        seen["digests"] += 1
        return parts(self)

    monkeypatch.setattr(Gaussian, "cost", counted_cost)
    monkeypatch.setattr(skl.features.FourierFeatures, "random_parts", counted_parts)
    return seen


@pytest.mark.parametrize("depth", [2, 5, DEEPEST])
@pytest.mark.parametrize("compose", COMPOSING.values(), ids=COMPOSING)
def test_each_level_is_visited_once(compose, depth, visits):
    operator = nested(compose, depth)
    data = design_to_bytes(operator)
    visits.update(cost=0, digests=0)
    assert design_from_bytes(data)[0] == operator
    assert visits["cost"] == 1
    assert visits["digests"] == depth  # each level has a digest of all that is in it


@pytest.mark.parametrize("outermost", OUTERMOST.values(), ids=OUTERMOST)
def test_crossed_features_are_visited_once(outermost, visits):
    operator = outermost(nested(COMPOSING["some columns"], DEEPEST - 1))
    data = design_to_bytes(operator)
    visits.update(cost=0, digests=0)
    assert design_from_bytes(data)[0] == operator
    assert visits == {"cost": 1, "digests": DEEPEST}


@pytest.mark.parametrize("depth", [DEEPEST + 1, 22, 100, 300])
def test_deeper_files_are_refused_before_any_cost_is_computed(depth, visits):
    data = to_document(DESIGN, 1, {"operator": nested_form(WAVES.to_json(), depth), "made": {}})
    sketch = json.dumps({"operator": nested_form(WAVES.to_json(), depth)})
    visits.update(cost=0, digests=0)
    with pytest.raises(skl.FormatError, match=r"nested (at most 8 deep|too deeply)"):
        design_from_bytes(data)
    with pytest.raises(ValueError, match=r"nested (at most 8 deep|too deeply)"):
        KnownOperator(WAVES)._require_equal(json.loads(sketch)["operator"])
    assert visits["cost"] == 0


@pytest.mark.parametrize("compose", COMPOSING.values(), ids=COMPOSING)
def test_operators_that_no_file_may_have_are_not_made(compose):
    deepest = nested(compose, DEEPEST)
    with pytest.raises(ValueError, match="operators are nested at most 8 deep"):
        compose(deepest)


def test_mixtures_of_mixtures_are_bounded():
    law = Gaussian(1.0)
    for _ in range(DEEPEST - 1):
        law = Mixture((law,))
    operator = nested(COMPOSING["some columns"], DEEPEST, skl.features.FourierFeatures(1, 4, law=law))
    assert design_from_bytes(design_to_bytes(operator))[0] == operator
    with pytest.raises(ValueError, match="mixtures are nested at most 8 deep"):
        Mixture((law,))

"""A schema that was read off rows, inside operators made of others: their levels and means would be in the release."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.features.composed import Mapped
from sketchlearn.features.directions import packed
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.outline import Outline
from sketchlearn.features.provenance import Origin
from sketchlearn.files.sketches import KnownOperator
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.priority_sample import Keeping

SECRET = "rare disease"
FRAME = pd.DataFrame({
    "age": [20.0, 35.5, 61.0, 44.0] * 10,
    "illness": [SECRET, "none", "cold", "cold"] * 10,
})  # fmt: skip
PROPOSED = skl.schema(FRAME)
D = len(PROPOSED.encoded_names)


def waves(d=D, **options):
    return skl.features.FourierFeatures(d, 6, law=Gaussian(1.0), wave="square", seed=1, **options)


def directions(d=D, p=2):
    return packed(np.ones((p, d)) * 2000, "<i2")


def some(columns):
    return skl.features.SomeColumns(waves(2), D, which=[D - 1, 0], columns=columns)


#: operators made of others, for tables of these columns
MADE = {
    "some columns": some,
    "some of some": lambda c: skl.features.SomeColumns(
        skl.features.SomeColumns(waves(1), 2, which=[1]), D, which=[0, 1], columns=c
    ),
    "concatenated": lambda c: skl.features.concatenate(
        [skl.features.Histograms.even([-5] * D, [5] * D, columns=c), some(c)]
    ),
    "some of concatenated": lambda c: skl.features.SomeColumns(
        skl.features.concatenate([waves(2), skl.features.SecondMoments(2, bound=9.0, outside="clip")]),
        D,
        which=[1, 0],
        columns=c,
    ),
    "crosses": lambda c: skl.features.CrossFeatures(some(c), bound=9.0, outside="clip"),
    "feature moments": lambda c: skl.features.FeatureMoments(some(c), bound=9.0, outside="clip"),
    "directions": lambda c: skl.features.SomeDirections(
        D, bound=9.0, inner_operator=waves(2), n_directions=2, directions=directions(), shift=20, columns=c
    ),
    "cells": lambda c: skl.features.CellSums(
        D,
        bound=9.0,
        n_directions=2,
        directions=directions(),
        cells=packed([[0, 0], [99, 0]], "<i4"),
        shift=20,
        columns=c,
    ),
    "images": lambda c: skl.features.ConvolutionalFeatures((1, D), 4, pixels=(-9, 9), outside="clip", columns=c),
    "waves": lambda c: waves(columns=c),
}


def said(operator):
    return json.dumps(operator.to_json())


def refused(sketch):
    """Whether no release is made of it."""
    with pytest.raises(ValueError, match=r"designed on a sample|it is not known whether"):
        skl.privatize(sketch, epsilon=1.0)
    return True


def ways_out(operator):
    """The operator again, by all ways in which it is copied, told or sent."""
    yield operator
    yield operator.with_origin("declared")
    yield operator.with_origin("unknown").with_origin("declared")
    yield skl.extend.Operator.from_json(json.loads(said(operator)))
    yield pickle.loads(pickle.dumps(operator))
    yield skl.features.concatenate([operator]).with_origin("declared")
    yield operator.with_columns(SchemaColumns(PROPOSED)).with_origin("declared")
    yield operator.with_worse_origin(operator)
    if operator.can_keep:
        yield operator.with_keeping(Keeping(5, (0.0,) * D, (1.0,) * D))


@pytest.mark.parametrize("name", MADE)
def test_no_way_makes_it_declared(name):
    operator = MADE[name](PROPOSED).with_origin("declared")
    assert SECRET in said(operator)
    for other in ways_out(operator):
        assert other.origin is not Origin.DECLARED
        assert refused(other.sketch(FRAME))


@pytest.mark.parametrize("name", MADE)
def test_the_same_schema_written_by_hand_is_declared(name):
    """What is refused is the proposal, not schemas."""
    operator = MADE[name](skl.Schema(PROPOSED.columns)).with_origin("declared")
    assert operator.origin is Origin.DECLARED
    assert skl.extend.Operator.from_json(json.loads(said(operator))).origin is Origin.DECLARED
    assert skl.privatize(operator.sketch(FRAME), epsilon=1.0).ledger.design == "declared"


@pytest.mark.parametrize("name", MADE)
def test_parts_do_not_leave_it_behind(name):
    """Sketches of the operators inside have names, or numbers, that the schema gave them."""
    operator = MADE[name](PROPOSED).with_origin("declared")
    sketch = operator.sketch(FRAME)
    inside = operator.leaves(sketch)
    if isinstance(operator, Mapped) and not isinstance(
        operator, skl.features.FeatureMoments | skl.features.ConvolutionalFeatures
    ):
        inside.append(operator.inner_sketch(sketch))
        assert operator.inner.origin is not Origin.DECLARED or operator.inner.columns is None
    if isinstance(operator, skl.features.Concatenated):
        inside += operator.split(sketch)
    for leaf in inside:
        assert leaf.operator.origin is not Origin.DECLARED
        assert refused(leaf)


@pytest.mark.parametrize("name", MADE)
def test_sums_with_a_declared_twin(name):
    """Equal operators: that a schema was proposed is not compared."""
    proposed = MADE[name](PROPOSED).with_origin("declared")
    written = MADE[name](skl.Schema(PROPOSED.columns)).with_origin("declared")
    assert proposed == written
    for both in (proposed.sketch(FRAME) + written.sketch(FRAME), written.sketch(FRAME) + proposed.sketch(FRAME)):
        assert refused(both)
    known = KnownOperator(proposed)
    assert refused(known.from_kept(known.to_kept(written.sketch(FRAME))))


def test_directions_do_not_make_what_is_inside_declared():
    operator = MADE["directions"](None).with_origin("declared")
    inside = operator.with_inner(waves(2).with_origin("sample"))
    assert inside.origin is Origin.SAMPLE
    form = {**operator.to_json(), "inner_operator": waves(2).with_origin("sample").to_json()}
    assert skl.extend.Operator.from_json(form).origin is Origin.SAMPLE


def test_descriptions_of_a_sample_are_not_declared():
    """An outline has the means of five rows each; cells have their covariances."""
    rows = np.random.default_rng(0).normal(size=(400, 2))
    outline = Outline.of(rows, 2)
    told = waves(2, outline=outline).with_origin("declared")
    assert (told.origin, told.with_columns(("a", "b")).origin) == (Origin.SAMPLE, Origin.SAMPLE)
    assert refused(told.sketch(rows))
    wide = np.random.default_rng(0).normal(size=(400, 80))
    cells = skl.design(wide, n_components=2, features=skl.features.Cells()).with_origin("declared")
    assert cells.spread > 0
    assert refused(cells.sketch(wide))


def test_a_release_has_no_rule_for_keeping_rows():
    """Its hashes are of records of the sample, and its center is their mean."""
    rule = Keeping(4, (0.1234567, 0.0), (1.0, 1.0), certain=("0123456789abcdef",))
    declared = waves(2).with_origin("declared")
    moments = skl.features.SecondMoments(2, bound=9.0, outside="clip").with_origin("declared")
    for operator in (
        declared.with_keeping(rule),
        moments.with_keeping(rule),
        skl.features.concatenate([declared, moments]).with_keeping(rule),
        skl.features.concatenate([moments.with_keeping(rule), declared.with_keeping(rule)]),
        skl.features.concatenate([skl.features.concatenate([declared.with_keeping(rule)]), moments.with_keeping(rule)]),
    ):
        release = skl.privatize(operator.sketch(np.zeros((3, 2))), epsilon=1.0)
        for told in (release.to_bytes(), pickle.dumps(release), repr(release).encode()):
            assert b"0123456789abcdef" not in told
            assert b"0.1234567" not in told

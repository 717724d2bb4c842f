"""Packed bits that no reading has: of several bits a feature, both parts of a complex one at their largest."""

import itertools

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.waves import QuantizedCosine, QuantizedSawtooth, Square
from sketchlearn.privacy.noise_plan import sensitivity

WAVES = {
    f"{kind.__name__} {bits} {'complex' if form else 'real'}": kind(bits, form)
    for kind in (QuantizedCosine, QuantizedSawtooth)
    for bits in (2, 3, 4, 5, 8)
    for form in (True, False)
} | {"Square complex": Square(), "Square real": Square(complex=False)}


def operator_of(name, m=3):
    return skl.features.FourierFeatures(2, m, law=Gaussian(1.0), wave=WAVES[name], seed=1).with_origin("declared")


def within(operator, sketch):
    """Whether one row adds no more than is claimed."""
    sums, claimed = sketch.sums.tolist(), sensitivity(operator)
    return sum(map(abs, sums)) <= claimed.l1 and sum(n * n for n in sums) <= claimed.l2_squared


@pytest.mark.parametrize("name", WAVES)
def test_patterns_of_bits(name):
    """All of them, of few bits; of more, those that are alike in each part, and random ones."""
    operator = operator_of(name, m=1)
    n, parts = operator.packed_bits, operator.n_sums
    patterns = np.array(list(itertools.product([1, -1], repeat=n * parts)))
    patterns = (
        patterns if len(patterns) <= 1024 else patterns[np.random.default_rng(0).integers(len(patterns), size=500)]
    )
    planes = np.array(list(itertools.product([1, -1], repeat=parts)))
    alike = np.repeat(planes, n, axis=0).reshape(-1, n, parts).reshape(len(planes), -1)
    for pattern in np.concatenate([patterns, alike]):
        assert within(operator, operator.sketch_packed(skl.features.PackedBits.from_signs(pattern[None])))


@pytest.mark.parametrize("name", WAVES)
def test_every_way_in(name):
    operator = operator_of(name)
    ones = skl.features.PackedBits.from_signs(np.ones((1, operator.packed_bits * operator.n_sums)))
    some = skl.features.SomeColumns(operator, 4, which=[3, 1])
    sent = skl.features.PackedBits.from_bytes(ones.to_bytes())
    for sketch in (
        operator.sketch_packed(sent),
        skl.Sketch(operator).update_packed(sent),
        some.sketch_packed(ones),
        skl.features.SomeColumns(some, 5, which=[0, 1, 2, 3]).sketch_packed(ones),
    ):
        assert within(operator, sketch)
    expected = operator.sketch_packed(ones)
    assert operator.sketch_packed(ones, sample_weight=[5]).sums.tolist() == (5 * expected.sums).tolist()


@pytest.mark.parametrize("name", WAVES)
def test_bits_of_readings_stay_what_they_are(name):
    operator, rows = operator_of(name), np.random.default_rng(1).normal(size=(400, 2)) * 100
    ones = skl.features.PackedBits.from_signs(np.ones((1, operator.packed_bits * operator.n_sums)))
    packed = operator.pack(rows)
    assert operator.sketch_packed(packed) == operator.sketch(rows)
    assert operator.sketch_packed(packed).clipped == 0
    both = operator.sketch(rows).update_packed(ones)
    assert np.array_equal(both.sums - operator.sketch(rows).sums, operator.sketch_packed(ones).sums)

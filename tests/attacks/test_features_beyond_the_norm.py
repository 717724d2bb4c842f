"""Features of a wave's largest values in both parts: a row that moves the sums further than the noise is made for."""

import itertools
import warnings

import numpy as np
import pytest
from cases import WAVES

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.waves import FourierSeries, QuantizedCosine, QuantizedSawtooth, Square
from sketchlearn.privacy.noise_plan import sensitivity

EVERY_WAVE = {
    **WAVES,
    "small series": FourierSeries((0.005,)),
    "small complex series": FourierSeries((0.005, 0.002j), complex=True),
    **{f"{kind.__name__} {bits}": kind(bits) for bits in (2, 5, 8) for kind in (QuantizedCosine, QuantizedSawtooth)},
}
SIZES = [0.0, 0.01, 0.3, 0.5, 0.7071, 0.75, 1.0, 1.0000001, 3.0, 1e308]


def operator_of(wave, m=2):
    return skl.features.FourierFeatures(2, m, law=Gaussian(1.0), wave=wave, seed=1).with_origin("declared")


def norms(operator, features):
    """L1 and squared L2 norm of what a row of features adds, over those that are claimed; 0 if it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            sums = operator.sketch_features(features[None]).sums.tolist()
        except ValueError:
            return 0.0, 0.0
    claimed = sensitivity(operator)
    return sum(map(abs, sums)) / claimed.l1, sum(n * n for n in sums) / claimed.l2_squared


def as_features(operator, parts):
    """Features of numbers, one for each part of each frequency."""
    halves = np.asarray(parts, float).reshape(operator.wave.parts, -1)
    return halves[0] + 1j * halves[1] if operator.wave.complex else halves[0]


@pytest.mark.parametrize("name", EVERY_WAVE)
def test_extreme_features(name):
    operator = operator_of(EVERY_WAVE[name], m=1)
    values = [sign * size for size in SIZES for sign in (1, -1)]
    for parts in itertools.product(values, repeat=operator.wave.parts):
        assert max(norms(operator, as_features(operator, parts))) <= 1, parts


@pytest.mark.parametrize("name", EVERY_WAVE)
@pytest.mark.parametrize("norm", [0, 1])
def test_features_found_by_climbing(name, norm):
    operator, rng = operator_of(EVERY_WAVE[name]), np.random.default_rng(0)
    best = rng.uniform(-1, 1, operator.n_sums)
    score = norms(operator, as_features(operator, best))[norm]
    for step in np.geomspace(1.0, 1e-4, 150):
        tried = best + step * rng.standard_normal(operator.n_sums)
        found = norms(operator, as_features(operator, tried))[norm]
        best, score = (tried, found) if found > score else (best, score)
    assert 0.5 < score <= 1


@pytest.mark.parametrize("name", EVERY_WAVE)
def test_features_of_many_types(name):
    operator = operator_of(EVERY_WAVE[name])
    kinds = [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint64]
    for kind in kinds + ([np.complex64, np.clongdouble] if operator.wave.complex else []):
        largest = np.iinfo(kind).max if np.issubdtype(kind, np.integer) else np.finfo(kind).max
        assert max(norms(operator, np.full(operator.n_frequencies, largest, kind))) <= 1
        assert max(norms(operator, np.full(operator.n_frequencies, -1, np.int64).astype(kind))) <= 1


@pytest.mark.parametrize(
    "wave", [skl.features.waves.Exponential(), skl.features.waves.Triangle(), FourierSeries((0.005,))]
)
def test_a_row_beyond_is_clipped_and_counted_wherever_it_comes_in(wave):
    operator = operator_of(wave)
    good = operator.features([[0.3, -0.2]])
    beyond = np.full((1, 2), 1 + 1j if wave.complex else 1.0)
    sketch = operator.sketch([[0.3, -0.2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        alone = operator.sketch_features(beyond)
        sketch.update_features(np.concatenate([good, beyond, good]))
    assert (alone.count, alone.clipped, sketch.clipped) == (1, 1, 1)
    assert np.array_equal(sketch.sums, 3 * operator.sketch_features(good).sums + alone.sums)
    assert operator.sketch_features(good).clipped == 0


@pytest.mark.parametrize("name", EVERY_WAVE)
@pytest.mark.parametrize("n_records", [1, 7])
def test_sketches_made_by_hand_of_more_than_records_add_up_to(name, n_records):
    operator = operator_of(EVERY_WAVE[name])
    one, parts = operator.wave.add_remove_sensitivity(), operator.wave.parts
    corner = np.full(operator.n_sums, n_records * operator.largest_contribution)
    if parts * operator.largest_contribution <= one.l1 and parts * operator.largest_contribution**2 <= one.l2_squared:
        assert skl.Sketch(operator, corner, n_records).count == n_records
    else:
        with pytest.raises(ValueError, match="larger than"):
            skl.Sketch(operator, corner, n_records)
    with pytest.raises(ValueError, match="larger than"):
        skl.Sketch(operator, corner + 1, n_records)


def test_square_waves_have_no_values_beyond():
    operator = operator_of(Square())
    assert sensitivity(operator).l1 == operator.n_sums
    assert operator.sketch_features(np.array([[1 + 1j, -1 - 1j]])).clipped == 0

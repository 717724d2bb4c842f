"""Noise on a few integers: what discrete Gaussian noise tells, summed term by term, and the ratio that it is given."""

import math
from itertools import product

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.privacy.mechanisms import DiscreteGaussian, ratio_of, smallest_scale, sum_of_noise
from sketchlearn.privacy.noise_plan import sensitivity
from sketchlearn.sketch.ledger import largest_ratio, profile

EPSILONS = (-1.0, 0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0)


def law(scale, reach):
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    return weights / weights.sum()


def told(scale, shifts, epsilon):
    """Delta of noise on as many integers as there are shifts, over all of their values."""
    reach = int(12 * scale) + 2 * max(shifts) + 4
    still, moved = np.ones(1), np.ones(1)
    for shift in shifts:
        one = law(scale, reach)
        still, moved = np.multiply.outer(still, one).ravel(), np.multiply.outer(moved, np.roll(one, shift)).ravel()
    return float(np.maximum(moved - math.exp(epsilon) * still, 0.0).sum())


@pytest.mark.parametrize(
    ("scale", "n", "largest"),
    [
        *product([0.35, 0.6, 1.0, 1.7, 2.5, 4.0], [1, 2], [1, 2]),
        *product([0.35, 0.6, 1.0, 1.7], [3], [1]),
        *product([0.35, 1.0, 4.0], [1], [3]),
    ],
)
def test_no_record_tells_more_than_the_ratio_says(scale, n, largest):
    """Every way to move n integers by up to `largest`."""
    mu = ratio_of(scale, n, largest)
    for shifts in product(range(largest + 1), repeat=n):
        for epsilon in EPSILONS:
            assert told(scale, shifts, epsilon) <= profile(epsilon, mu) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("scales", [(0.4, 0.4), (0.6, 1.1), (0.5, 3.0)])
def test_releases_of_few_integers_add_up(scales):
    """Two releases of one integer each, seen together: their squared ratios add up."""
    mu = math.hypot(*(ratio_of(scale, 1, 1) for scale in scales))
    laws = [law(scale, int(12 * scale) + 6) for scale in scales]
    still = np.multiply.outer(*laws)
    moved = np.multiply.outer(*(np.roll(one, 1) for one in laws))
    for epsilon in EPSILONS:
        together = np.maximum(moved - math.exp(epsilon) * still, 0.0).sum()
        assert together <= profile(epsilon, mu) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("scale", [0.35, 1.0, 2.5])
@pytest.mark.parametrize("n", [1, 2])
def test_the_ratio_is_the_smallest(scale, n):
    """With a ratio a hundredth smaller, some test of the n integers tells more than continuous noise would."""
    mu = 0.99 * ratio_of(scale, n, 1)
    assert any(told(scale, (1,) * n, epsilon) > profile(epsilon, mu) for epsilon in np.linspace(0, 12, 200))


@pytest.mark.parametrize(("scale", "n"), [(0.5, 1), (0.5, 7), (1.9, 6), (2.0, 2), (2.0, 40), (3.0, 9)])
def test_sums_of_noise_are_convolutions(scale, n):
    """From a scale of 2 on, sums of discrete Gaussians are taken for discrete Gaussians."""
    one, total = law(scale, int(38 * scale)), np.ones(1)
    for _ in range(n):
        total = np.convolve(total, one)
    reach, middle = int(10 * scale * math.sqrt(n)), len(total) // 2
    found, exact = sum_of_noise(scale, n, reach), total[middle - reach : middle + reach + 1]
    assert np.all(np.abs(found / np.where(exact > 0, exact, 1.0) - 1)[exact > 1e-250] < 1e-12)


def smallest_exact(epsilon, delta, n):
    """The smallest scale of noise on n integers that are moved by 1, by the profile of their sum."""
    low, high = 0.2, 2000.0
    while high / low > 1 + 1e-5:
        scale = math.sqrt(low * high)
        reach = int(14 * scale * math.sqrt(n)) + 2 * n + 30
        still = sum_of_noise(scale, n, reach)
        moved = np.concatenate([np.zeros(n), still[:-n]])
        sound = np.maximum(moved - math.exp(epsilon) * still, 0.0).sum() <= delta
        low, high = (low, scale) if sound else (scale, high)
    return high


# The noise on n integers that a record moves by 1 is at most 0.5 % above the smallest discrete Gaussian up to a given
# epsilon. Beyond that it is more, because noise must be as private as continuous noise at every epsilon, or releases
# would not add up (docs/reference/privacy.md). The smallest one of a single epsilon and delta need not be.
UP_TO = {1: 2.0, 2: 2.0, 3: 3.0, 5: 5.0, 8: 10.0, 10: 10.0, 50: 10.0}
BEYOND = {1: 1.25, 2: 1.08, 3: 1.04, 5: 1.02}


@pytest.mark.parametrize("n", UP_TO)
@pytest.mark.parametrize("delta", [1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize("epsilon", [0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0])
def test_noise_on_counts_is_the_smallest(n, delta, epsilon):
    (scale,) = DiscreteGaussian(epsilon, delta).scales_of([Sensitivity.of_integers(n, 1)], [1.0])
    most = 1.005 if epsilon <= UP_TO[n] else BEYOND[n]
    assert 1 - 1e-4 <= scale / smallest_exact(epsilon, delta, n) <= most


@pytest.mark.parametrize("d", [1, 2, 3, 30])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_histograms_have_the_noise_of_their_norm(d, neighbors):
    """Norms were rounded up to integers: two columns had sqrt(2) times the noise that they need."""
    operator = skl.features.Histograms.even([0.0] * d, [1.0] * d, bins=4)
    exact = operator.sketch(np.full((20, d), 0.5))
    ledger = skl.privatize(exact, epsilon=1.0, delta=1e-6, neighbors=neighbors, seed_for_tests_not_private=0).ledger
    needed = math.sqrt(sensitivity(operator, neighbors).l2_squared / 0.98) / largest_ratio(1.0, 1e-6)
    assert needed <= ledger.sum_scale <= 1.005 * needed


def test_the_pattern_of_a_change_is_known_where_it_is_certain():
    """Replaced records of a subsampled operator may change other integers than those of the record that leaves."""
    squares = skl.features.FourierFeatures(2, 40, law=Gaussian(1.0), wave="square")
    few = skl.features.FourierFeatures(2, 40, law=Gaussian(1.0), wave="square", subsample=10)
    assert (sensitivity(squares).each, sensitivity(squares, "replace").each) == (1, 2)
    assert (sensitivity(few).each, sensitivity(few, "replace").each) == (1, None)
    assert sensitivity(skl.features.FourierFeatures(2, 40, law=Gaussian(1.0)), "replace").each is None
    assert (sensitivity(squares).counted(1).each, sensitivity(squares).counted(3).each) == (1, None)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 30.0, 1e5])
@pytest.mark.parametrize("delta", [1e-200, 1e-50, 1e-12, 0.9])
@pytest.mark.parametrize("n", [1, 300, 10**7])
def test_extreme_budgets_have_noise(epsilon, delta, n):
    (scale,) = DiscreteGaussian(epsilon, delta).scales_of([Sensitivity.of_integers(n, 1)], [1.0])
    assert 0 < scale < math.inf
    if scale < 1e4 and n < 10**4:
        assert ratio_of(scale, n, 1) <= largest_ratio(epsilon, delta)


def test_what_no_record_changes_has_noise_all_the_same():
    (scale,) = DiscreteGaussian(1.0, 1e-6).scales_of([Sensitivity.of_integers(0, 1)], [1.0])
    assert scale > 0


def test_the_smallest_scale_is_sound_from_wherever_it_starts():
    for ratio in (0.05, 0.3, 1.0, 3.0, 10.0):
        for n, shift in ((1, 1), (1, 7), (6, 1), (90, 2)):
            assert ratio_of(smallest_scale(ratio, n, shift), n, shift) <= ratio

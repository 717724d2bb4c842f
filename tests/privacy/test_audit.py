"""Audits: what a million released numbers per mechanism tell about one record, and whether the noise has its law."""

import math
from dataclasses import replace

import numpy as np
import pytest
from audit import (
    CONCENTRATED,
    PURE,
    goodness_of_fit,
    log_likelihood,
    losses,
    measured_delta,
    measured_epsilon,
    released,
)
from audit_claims import cases, epsilon_of
from scipy import stats

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, opendp

SIZE = 1_000_000
NAMES = ["Laplace", "Gaussian"]


@pytest.fixture(scope="module")
def audits():
    return {name: (m, *released(m, SIZE)) for name, m in zip(NAMES, (PURE, CONCENTRATED), strict=True)}


@pytest.mark.slow
def test_privacy_loss_is_what_is_claimed(audits):
    less, more = losses(*audits["Laplace"])
    above, measured = measured_epsilon(less, more)
    assert above <= PURE.epsilon
    assert measured >= 0.95 * PURE.epsilon


@pytest.mark.slow
def test_loss_with_delta_is_what_is_claimed(audits):
    less, more = losses(*audits["Gaussian"])
    above, _ = measured_epsilon(less, more, CONCENTRATED.delta)
    assert above <= CONCENTRATED.epsilon
    above, measured = measured_delta(less, more, CONCENTRATED.epsilon)
    assert above <= CONCENTRATED.delta
    assert measured >= 0.2 * CONCENTRATED.delta  # the conversion from concentrated privacy is not tight


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_noise_has_its_law(audits, name):
    mechanism, numbers, values, ledger = audits[name]
    for which, scale in ((0, ledger.sum_scale), (1, ledger.count_scale)):
        noise = np.concatenate([pair[which] - value[which] for pair, value in zip(numbers, values, strict=True)])
        check_law(mechanism, noise, scale)


def check_law(mechanism, noise, scale):
    """Mean, variance, and a chi-square test, each failing by chance once in a million times."""
    deviation = math.sqrt(mechanism.variance(scale))
    assert abs(noise.mean()) < 5 * deviation / math.sqrt(len(noise))
    fourth = np.mean((noise / deviation) ** 4) - 1
    assert abs(noise.var() / deviation**2 - 1) < 5 * math.sqrt(fourth / len(noise))
    assert goodness_of_fit(mechanism, noise, scale) > 1e-6


@pytest.mark.parametrize("scale", [0.4, 3.7, 60.0])
@pytest.mark.parametrize("mechanism", [PURE, CONCENTRATED], ids=NAMES)
def test_seeded_noise_has_the_same_law(mechanism, scale):
    rng = np.random.default_rng(0)
    noise = mechanism.release(np.zeros(200_000, np.int64), scale, rng)
    check_law(mechanism, noise, scale)
    wrong = mechanism.release(np.zeros(200_000, np.int64), 1.1 * scale, rng)
    assert goodness_of_fit(mechanism, wrong, scale) < 1e-6


@pytest.mark.parametrize("mechanism", [PURE, CONCENTRATED], ids=NAMES)
def test_the_audit_finds_too_little_noise(mechanism):
    """Noise of half the scale, as a wrong sensitivity would give it, is caught."""
    ledger = released(mechanism, 4)[2]
    halved = replace(ledger, sum_scale=ledger.sum_scale / 2, count_scale=ledger.count_scale / 2)
    rng, values = np.random.default_rng(0), [(-1, 10), (0, 11)]
    scales = (halved.sum_scale, halved.count_scale)
    numbers = [
        [mechanism.release(np.full(SIZE // 4, x, np.int64), s, rng) for x, s in zip(pair, scales, strict=True)]
        for pair in values
    ]
    less, more = losses(mechanism, numbers, values, halved)
    if isinstance(mechanism, DiscreteLaplace):
        assert measured_epsilon(less, more, thresholds=(0.5, 1.0, 1.5, 1.9))[0] > ledger.epsilon
    else:
        assert measured_delta(less, more, ledger.epsilon)[0] > ledger.delta


@pytest.mark.parametrize("mechanism", [PURE, CONCENTRATED], ids=NAMES)
@pytest.mark.parametrize("scale", [1000.0, 2.0**55])
def test_low_bits_tell_nothing(mechanism, scale):
    """Neighboring inputs 0 and 1: all remainders modulo 8 are equally likely. Noise in floating point has none of them
    at a scale of 2^55 but 0."""
    for value in (0, 1):
        out = mechanism.release(np.full(5000, value, np.int64), scale, None)
        assert stats.chisquare(np.bincount(out % 8, minlength=8)).pvalue > 1e-6


def test_low_bits_of_a_release_tell_nothing():
    operator = skl.features.FourierFeatures(2, 8000, law=Gaussian(1.0), seed=1).with_origin("declared")
    for rows in ([[1.0, 2.0]] * 7, [[1.0, 2.0]] * 8):
        sums = skl.privatize(operator.sketch(rows), epsilon=1.0).sums
        assert stats.chisquare(np.bincount(sums % 8, minlength=8)).pvalue > 1e-6


def test_opendp_agrees_that_the_budget_is_kept():
    """Of Laplace noise exactly; of Gaussian noise its conversion asks for up to a tenth more than the profile."""
    sensitivities, shares = [10**9, 5, 1], [0.5, 0.48, 0.02]
    spent = {}
    for mechanism in (DiscreteLaplace(0.3), DiscreteGaussian(0.3, 1e-7)):
        scales = mechanism.scales(sensitivities, shares)
        maps = (mechanism.measurement(3, s).map(d_in=d) for d, s in zip(sensitivities, scales, strict=True))
        spent[mechanism.name] = sum(maps)
    assert 0.2997 <= spent["discrete Laplace"] <= 0.3 * (1 + 1e-12)
    dp, rho = opendp(), spent["discrete Gaussian"]
    assert rho == pytest.approx(DiscreteGaussian(0.3, 1e-7).rho, rel=1e-3)
    one = DiscreteGaussian(0.3, 1e-7).measurement(1, math.sqrt(0.5 / rho))
    epsilon = dp.combinators.make_zCDP_to_approxDP(one).map(1).epsilon(1e-7)
    assert 0.3 <= epsilon <= 0.33


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-12), (1.0, 1e-6), (1.0, 0.5), (10.0, 1e-9), (1e4, 1e-6)])
def test_gaussian_scales_suffice(epsilon, delta):
    """Against the exact privacy profile of the continuous Gaussian (Balle and Wang 2018), which is a little smaller."""
    scale = DiscreteGaussian(epsilon, delta).scales([10**6], [1.0])[0] / 10**6
    a, b = 0.5 / scale - epsilon * scale, -0.5 / scale - epsilon * scale
    exact = stats.norm.cdf(a) - np.exp(epsilon + stats.norm.logcdf(b))
    assert 0 <= exact <= delta
    assert scale < (math.sqrt(math.log(1 / delta) + epsilon) + math.sqrt(math.log(1 / delta))) / epsilon


def test_variances_are_those_of_the_laws():
    k = np.arange(-4000, 4001)
    for mechanism in (PURE, CONCENTRATED):
        for scale in (0.05, 0.3, 1.0, 3.9, 4.1, 50.0):
            weights = np.exp(log_likelihood(mechanism, k, scale))
            assert mechanism.variance(scale) == pytest.approx(float(k**2 @ weights / weights.sum()), rel=1e-9)


def test_no_ledger_is_exceeded():
    """With seeded noise, which is fast; `make audit` takes a million releases of private noise."""
    found = list(cases(60_000, seed=0))
    assert all(bound <= ledger.epsilon for _, ledger, bound in found)
    assert sum(bound > 0.3 * ledger.epsilon for _, ledger, bound in found) >= len(found) // 2


def test_records_that_count_twice_would_be_found():
    """The noise of a sketch on a sum with itself: the loss is twice what is claimed."""
    scales = PURE.scales([1, 1], [0.5, 0.5])
    assert epsilon_of(PURE, [5, 5], [6, 6], scales, 200_000, seed=0) <= PURE.epsilon
    assert epsilon_of(PURE, [10, 10], [12, 12], scales, 200_000, seed=0) > 1.5 * PURE.epsilon

"""Audits of private releases: what a million released numbers tell about one record. `make audit` runs them all.

Two neighboring datasets, one with a record more that moves one sum by its whole sensitivity. The numbers are released
as `privatize` releases them, by its mechanism at its scales. The best test there is, the likelihood ratio of sum and
count together, then tries to tell the datasets apart; from how often it does, a lower bound of the privacy loss
follows, at a stated confidence.
"""

import math
import sys

import numpy as np
from scipy import stats

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace

CONFIDENCE = 1 - 1e-6
PURE, CONCENTRATED = DiscreteLaplace(1.0), DiscreteGaussian(0.5, 0.05)


def released(mechanism, size, rng=None):
    """Sums and counts of two neighbors, `size` numbers in all, and the ledger that says how private they are."""
    wave = skl.features.waves.Square(complex=False)
    operator = skl.features.FourierFeatures(1, 1, law=Gaussian(1.0), wave=wave).with_origin("declared")
    name = type(mechanism).__name__  # of a batch: the same rows are released by each mechanism
    less, more = operator.sketch([[0.0]] * 10, batch=name), operator.sketch([[0.0]] * 11, batch=name)
    assert abs(int(more.sums[0] - less.sums[0])) == 1
    delta = getattr(mechanism, "delta", 0.0)
    ledger = skl.privatize(more, epsilon=mechanism.epsilon, delta=delta, allow_weak=True).ledger
    numbers = [
        [
            mechanism.release(np.full(size // 4, value, np.int64), scale, rng)
            for value, scale in ((int(sketch.sums[0]), ledger.sum_scale), (sketch.units, ledger.count_scale))
        ]
        for sketch in (less, more)
    ]
    values = [(int(sketch.sums[0]), sketch.units) for sketch in (less, more)]
    return numbers, values, ledger


def log_likelihood(mechanism, noise, scale):
    """Of integer noise, but for a constant."""
    distance = np.abs(noise) / scale
    return -distance if isinstance(mechanism, DiscreteLaplace) else -0.5 * distance**2


def losses(mechanism, numbers, values, ledger):
    """The logarithm of the likelihood ratio of each release of the two datasets: positive speaks for `more`."""
    scales = (ledger.sum_scale, ledger.count_scale)
    return [
        sum(
            log_likelihood(mechanism, x - more, scale) - log_likelihood(mechanism, x - less, scale)
            for x, less, more, scale in zip(pair, *values, scales, strict=True)
        )
        for pair in numbers
    ]


def at_least(hits, n, confidence=CONFIDENCE):
    """Clopper and Pearson's lower bound of a probability."""
    return stats.beta.ppf(1 - confidence, hits, n - hits + 1) if hits else 0.0


def at_most(hits, n, confidence=CONFIDENCE):
    return stats.beta.ppf(confidence, hits + 1, n - hits) if hits < n else 1.0


def measured_epsilon(less, more, delta=0.0, thresholds=(0.0, 0.25, 0.5, 0.75, 0.95, 0.99)):
    """Lower bound of epsilon, and its plain estimate, from events that one dataset makes likelier than the other."""
    bounds, plain = [0.0], [0.0]
    for low, high in ((less, more), (-more, -less)):
        for t in thresholds:
            often, seldom = np.count_nonzero(high >= t), np.count_nonzero(low >= t)
            if min(often, seldom) > 100:
                top = at_least(often, len(high)) - delta
                bounds.append(math.log(max(top, 1e-9) / at_most(seldom, len(low))))
                plain.append(math.log(max(often / len(high) - delta, 1e-9) / (seldom / len(low))))
    return max(bounds), max(plain)


def measured_delta(less, more, epsilon):
    """Lower bound of delta at an epsilon, and its plain estimate: the excess of the likelihood-ratio event."""
    found = []
    for low, high in ((less, more), (-more, -less)):
        often, seldom = np.count_nonzero(high >= epsilon), np.count_nonzero(low >= epsilon)
        n, k = len(high), len(low)
        found.append(
            (at_least(often, n) - math.exp(epsilon) * at_most(seldom, k), often / n - math.exp(epsilon) * seldom / k)
        )
    return max(found)


def exact_law(mechanism, scale, reach):
    """Probabilities of the noise from -reach to reach."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(log_likelihood(mechanism, k, scale))
    return k, weights / weights.sum()


def goodness_of_fit(mechanism, noise, scale):
    """The p-value of a chi-square test of noise against the exact law, values in the tails together."""
    reach = math.ceil(40 * scale)
    k, law = exact_law(mechanism, scale, reach)
    seen = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=len(k))
    many = law * len(noise) >= 20
    observed = np.append(seen[many], seen[~many].sum())
    expected = np.append(law[many], law[~many].sum()) * len(noise)
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def main(size):
    for mechanism in (PURE, CONCENTRATED):
        numbers, values, ledger = released(mechanism, size)
        less, more = losses(mechanism, numbers, values, ledger)
        claim = f"epsilon {ledger.epsilon}, delta {ledger.delta}"
        bound, plain = measured_epsilon(less, more, ledger.delta)
        print(f"{mechanism.name}, {size:,} numbers, claimed {claim}")
        print(f"  epsilon measured {plain:.4f}, above {bound:.4f} at confidence {CONFIDENCE}")
        if ledger.delta:
            bound, plain = measured_delta(less, more, ledger.epsilon)
            print(f"  delta at that epsilon measured {plain:.4f}, above {bound:.4f}")
        for which, scale in ((0, ledger.sum_scale), (1, ledger.count_scale)):
            noise = np.concatenate([pair[which] - value[which] for pair, value in zip(numbers, values, strict=True)])
            p = goodness_of_fit(mechanism, noise, scale)
            ratio = noise.var() / mechanism.variance(scale)
            print(f"  scale {scale:.4f}: mean {noise.mean():+.4f}, variance {ratio:.4f} of the law's, fit p = {p:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

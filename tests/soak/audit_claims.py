"""Audits of what ledgers claim: lower bounds of epsilon, at 99.9 % confidence, from a million releases per case.

`make audit` prints the table. Two neighboring datasets are released by `privatize`'s own scales. Half of the releases
choose the best threshold of the likelihood ratio, the other half bound its probabilities (Clopper and Pearson), so that
the bound holds however the threshold was found.
"""

import math
import sys
import warnings

import numpy as np
from audit import at_least, at_most, log_likelihood

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from sketchlearn.privacy.noise_shares import DiscreteLaplaceShare
from sketchlearn.sketch.batches import RELEASED
from sketchlearn.sketch.bits import sent_columns

CONFIDENCE = 1 - 1e-3
UNIT_ROWS = 5  # Rows of one person that count, in the claims about people.
PARTIES, LOCAL_BITS = 3, 16
GAUSSIAN_CLAIMS = ((0.5, 0.01), (1.0, 1e-2), (1.0, 1e-3), (3.0, 1e-3))


def signs(m):
    """An operator of m integers, each of which a record moves by 1."""
    wave = skl.features.waves.Square(complex=False)
    return skl.features.FourierFeatures(1, m, law=Gaussian(1.0), wave=wave, seed=1).with_origin("declared")


def several(mechanism, values, scales, size, seed=None):
    """Many releases of these integers at once: an array (values, size)."""
    rng = None if seed is None else np.random.default_rng(seed)
    pairs = zip(values, scales, strict=True)
    return np.array([mechanism.release(np.full(size, int(value), np.int64), scale, rng) for value, scale in pairs])


def loss_of(mechanism, numbers, less, more, scales):
    """The logarithm of the likelihood ratio of each release: positive speaks for `more`."""
    rows = zip(numbers, less, more, scales, strict=True)
    return sum(log_likelihood(mechanism, x - b, s) - log_likelihood(mechanism, x - a, s) for x, a, b, s in rows)


def least_epsilon(low, high, delta):
    """What epsilon is at least, at this delta, by the losses of releases of both datasets."""
    found = [0.0]
    for seldom, often in ((low, high), (-high, -low)):
        half, rest = (seldom[::2], often[::2]), (seldom[1::2], often[1::2])
        thresholds = np.quantile(half[1], np.linspace(0.02, 0.999, 60))
        rates = [[np.mean(losses >= t) for losses in half] for t in thresholds]
        scores = [math.log(max(b - delta, 1e-9) / a) if a * len(half[0]) > 50 else 0.0 for a, b in rates]
        t = thresholds[int(np.argmax(scores))]
        hits, n = [np.count_nonzero(losses >= t) for losses in rest], len(rest[0])
        top = at_least(hits[1], n, 1 - (1 - CONFIDENCE) / 4) - delta
        if top > 0:
            found.append(math.log(top / at_most(hits[0], n, 1 - (1 - CONFIDENCE) / 4)))
    return max(found)


def epsilon_of(mechanism, less, more, scales, size, seed=None):
    """The lower bound, from `size` numbers released of each dataset."""
    each, delta = size // len(less), getattr(mechanism, "delta", 0.0)
    numbers = [
        several(mechanism, values, scales, each, None if seed is None else seed + i)
        for i, values in enumerate((less, more))
    ]
    return least_epsilon(*(loss_of(mechanism, x, less, more, scales) for x in numbers), delta)


def mechanism_of(ledger):
    return DiscreteGaussian(ledger.epsilon, ledger.delta) if ledger.delta else DiscreteLaplace(ledger.epsilon)


def ledger_of(sketch, **options):
    RELEASED.forget()  # one dataset, released in many ways
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skl.privatize(sketch, allow_weak=True, **options).ledger


def integers(sketch):
    return [*sketch.sums.tolist(), sketch.units]


def scales_of(ledger, sketch):
    return [ledger.sum_scale] * len(sketch.sums) + [ledger.count_scale]


def overlapping(size, seed=None, **options):
    """Each record counts twice: in a sum with itself, and in one with the same rows sketched anew, if that is said."""
    operator = signs(1)
    for name, anew in (("a sum with itself", False), ("rows sketched twice, said to overlap", True)):
        less, more = (operator.sketch([[0.0]] * n) for n in (5, 6))
        twice = [s.merged(operator.sketch([[0.0]] * s.units) if anew else s, overlapping=True) for s in (less, more)]
        ledger = ledger_of(twice[1], **options)
        pair = [integers(s) for s in twice]
        yield name, ledger, epsilon_of(mechanism_of(ledger), *pair, scales_of(ledger, more), size, seed)


def classes(size, seed=None, **options):
    """A record that is replaced leaves class a for class b: both releases change."""
    operator = skl.features.Histograms.even([0], [1], bins=1)
    rows = [[0.5]] * 5
    before = [operator.sketch(rows), operator.sketch(rows)]
    after = [operator.sketch(rows[:-1]), operator.sketch([*rows, [0.5]])]
    ledgers = [ledger_of(s, neighbors="replace", **options) for s in before]
    total = ledgers[0].merged(ledgers[1], overlapping=False).across_classes()
    pair = [[n for s in both for n in integers(s)] for both in (before, after)]
    scales = [scale for ledger, s in zip(ledgers, before, strict=True) for scale in scales_of(ledger, s)]
    mechanism = mechanism_of(ledgers[0])
    each = size // len(scales)
    numbers = [
        several(mechanism, values, scales, each, None if seed is None else seed + i) for i, values in enumerate(pair)
    ]
    bound = least_epsilon(*(loss_of(mechanism, x, *pair, scales) for x in numbers), total.delta)
    yield "a record changes its class", total, bound


def units(size, seed=None, **options):
    """A person of 40 rows: there or not (their rows in one sketch, or in two that are added), or all replaced."""
    others, person = np.zeros((20, 1)), np.zeros((40, 1))
    ids = np.array(["other"] * 20 + ["person"] * 40)

    def sketch(operator, *parts):
        rows = np.concatenate(parts)
        return operator.sketch(rows, unit=ids[: len(rows)], rows_per_unit=UNIT_ROWS)

    signed, bins = signs(1), skl.features.Histograms.even([-1], [1], bins=2)
    less, more = sketch(signed, others), sketch(signed, others, person)
    pairs = {"a person of 40 rows": (less, more, "add-remove")}
    twice = less + sketch(signed, others), more + sketch(signed, others, person)
    pairs["a person of 40 rows in each of two parts"] = (*twice, "add-remove")
    replaced = (sketch(bins, others, person + 0.5), sketch(bins, others, person - 0.5))
    pairs["a person whose 40 rows are replaced"] = (*replaced, "replace")
    for name, (a, b, neighbors) in pairs.items():
        ledger = ledger_of(b, neighbors=neighbors, **options)
        yield name, ledger, epsilon_of(mechanism_of(ledger), integers(a), integers(b), scales_of(ledger, b), size, seed)


def shares(size, seed=None):
    """Three parties add shares of noise; the sum is what is known of a record of one of them."""
    operator = signs(1)
    less, more = (operator.sketch([[0.0]] * n) for n in (5, 6))
    parts = []
    for party in range(PARTIES):
        RELEASED.forget()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [[0.0]] * (5 + 1000 * party)  # equal ones are often released as the same two integers: refused
            parts.append(skl.privatize(operator.sketch(rows), epsilon=1.0, parties=PARTIES))
    ledger = sum(parts[1:], parts[0]).ledger
    share, scales = DiscreteLaplaceShare(ledger.epsilon, PARTIES), scales_of(ledger, more)
    each, pair, found = size // len(scales), [integers(less), integers(more)], []
    for i, values in enumerate(pair):
        nothing = [0] * len(values)
        drawn = [
            several(share, nothing, scales, each, None if seed is None else seed + 9 * i + p) for p in range(PARTIES)
        ]
        found.append(np.array(values)[:, None] + sum(drawn))
    laplace = [1 / math.log1p(1 / scale) for scale in scales]  # P(k) is in proportion to (1 + 1 / scale)^-|k|
    losses = (loss_of(DiscreteLaplace(ledger.epsilon), numbers, *pair, laplace) for numbers in found)
    yield "shares of three parties, added", ledger, least_epsilon(*losses, 0.0)


def local_bits(size, seed=None):  # noqa: ARG001
    """What one reading sends under local privacy tells which of two readings it was."""
    operator = signs(LOCAL_BITS)
    readings = np.array([[0.0], [3.0]])
    for epsilon in (1.0, 4.0):
        sketch = operator.sketch(np.zeros((0, 1)))
        sketch.update_packed(operator.pack(readings, epsilon=epsilon))
        bits, losses = operator.features(readings).real > 0, []
        for reading in readings:
            sent = operator.pack(np.repeat(reading[None], size, axis=0), epsilon=epsilon)
            columns = sent_columns(sent.response, sent.positions)
            answers = (sent.answers[:, None] >> np.arange(sent.response.n_sent, dtype=np.uint64)) & np.uint64(1) == 1
            first, second = (np.all(answers == own[columns], axis=1).astype(int) for own in bits)
            losses.append(second - first)
        yield f"a reading's bits, epsilon {epsilon:g}", sketch.ledger, least_epsilon(*losses, 0.0)


def gaussian(size, seed=None):
    """Noise that is as small as its profile allows, on one integer and on several."""
    for epsilon, delta in GAUSSIAN_CLAIMS:
        for m in (1, 4):
            operator = signs(m)
            less, more = (operator.sketch([[0.0]] * n) for n in (5, 6))
            ledger = ledger_of(more, epsilon=epsilon, delta=delta)
            scales = scales_of(ledger, more)
            bound = epsilon_of(mechanism_of(ledger), integers(less), integers(more), scales, size, seed)
            yield f"{m + 1} integers", ledger, bound


def cases(size, seed=None):
    for options in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3}):
        yield from overlapping(size, seed, **options)
        yield from classes(size, seed, **options)
        yield from units(size, seed, **options)
    yield from shares(size, seed)
    yield from local_bits(size, seed)
    yield from gaussian(size, seed)


def main(size):
    print(f"{size:,} numbers of each dataset; epsilon is at least, at a confidence of {CONFIDENCE}:")
    print(f"{'case':41} {'mechanism':18} {'epsilon':>8} {'delta':>7} {'at least':>9}")
    exceeded = 0
    for name, ledger, bound in cases(size):
        wrong = bound > ledger.epsilon
        exceeded += wrong
        figures = f"{ledger.epsilon:8.4g} {ledger.delta:7.2g} {bound:9.4f}"
        print(f"{name:41} {ledger.mechanism:18} {figures}{'  EXCEEDED' if wrong else ''}", flush=True)
    return f"{exceeded} ledgers were exceeded" if exceeded else None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))

"""Randomised response: a few bits of each reading, true with a known probability, fair coins otherwise.

Of the N signs x_1, ..., x_N of a reading, r neighbouring ones are sent, from a random position on (after the last comes
the first). Position and number say nothing about the reading. With probability t all r signs are the true ones, and
otherwise r fair coins.

Privacy. One outcome of the r bits is likelier by t if it is the true one; every outcome has (1 - t) 2^-r from the
coins. The ratio for any two readings is at most 1 + t 2^r / (1 - t), which is e^epsilon or less if

    t / (1 - t) <= (e^epsilon - 1) / 2^r.                                                                       (1)

Debiasing. A sign x_j is sent in r of N readings and is then t x_j on average. Times c = N / (r t) that is x_j. We take
the smallest whole number c that (1) allows, so t = N / (r c) exactly, and sums stay integers: nothing is rounded.

Variance. A sum's noise has, per reading, c^2 r / N - 1 (a sent sign counts c^2, in r of N readings; the true sum
is fixed). Without the rounding of c that is (N / r) ((e^epsilon + 2^r - 1) / (e^epsilon - 1))^2 - 1, so the best r is
the one with the smallest (e^epsilon + 2^r - 1)^2 / r: where e^epsilon = 1 + 2^r (2 r ln 2 - 1), about epsilon / ln 2
less a bit or two. Flipping all N bits with epsilon / N each would have 1 / tanh(epsilon / (2 N))^2, about
4 N^2 / epsilon^2: N / epsilon times as much and more. Flipping each of r bits with epsilon / r has
(N / r) / tanh(epsilon / (2 r))^2, never less than the joint response, since then t is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sketchlearn.exponential_bound import exponential_excess
from sketchlearn.secure_draws import uniform_below, words
from sketchlearn.values import positive, whole

MOST_SENT = 64  # Bits of a report fit into a word.
MOST_BITS = 2**30
LARGEST_FACTOR = 2**40  # Beyond, 2^23 readings could overflow a sum.
LARGEST_EPSILON = 20.0  # Beyond, a response protects next to nothing.


@dataclass(frozen=True)
class RandomisedResponse:
    """How many of a reading's bits are sent, and by which whole number each of them counts.

    Parameters
    ----------
    epsilon : the privacy loss of one reading, all of its bits together.
    n_bits : bits of a reading.
    n_sent : how many of them are sent.
    factor : by how much each sent sign counts; they are true with probability n_bits / (n_sent * factor).

    Examples
    --------
    >>> RandomisedResponse.best(4.0, 200)
    RandomisedResponse(epsilon=4.0, n_bits=200, n_sent=4, factor=65)
    """

    epsilon: float
    n_bits: int
    n_sent: int
    factor: int

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        whole("n_bits", self.n_bits, most=MOST_BITS)
        whole("n_sent", self.n_sent, most=min(self.n_bits, MOST_SENT))
        whole("factor", self.factor, most=LARGEST_FACTOR)
        # the largest epsilon first: the series has twice as many terms as epsilon says
        if self.epsilon > LARGEST_EPSILON or self.factor < self._least_factor():
            raise ValueError(f"the response would spend more than epsilon {self.epsilon:g}, or more than 20")

    def _least_factor(self) -> int:
        return _least_factor(self.n_bits, self.n_sent, exponential_excess(Fraction(self.epsilon)))

    @classmethod
    def best(cls, epsilon: float, n_bits: int) -> RandomisedResponse:
        """The response of least variance within a budget."""
        epsilon, n_bits = positive("epsilon", epsilon), whole("n_bits", n_bits, most=MOST_BITS)
        if epsilon > LARGEST_EPSILON:
            raise ValueError(f"epsilon above {LARGEST_EPSILON:g} protects next to nothing: ask for less, or send all")
        excess = exponential_excess(Fraction(epsilon))
        if excess * LARGEST_FACTOR < 4 * n_bits:
            raise ValueError(f"epsilon {epsilon!r} is so small that its noise does not fit into 64 bits: ask for more")
        sizes = range(1, min(n_bits, MOST_SENT) + 1)
        found = [(r, _least_factor(n_bits, r, excess)) for r in sizes]
        return cls(epsilon, n_bits, *min(found, key=lambda size: size[0] * size[1] ** 2))

    @property
    def truth(self) -> Fraction:
        """The probability that the true bits are sent."""
        return Fraction(self.n_bits, self.n_sent * self.factor)

    @property
    def loss_ratio(self) -> Fraction:
        """The largest ratio of probabilities of the same report for two readings: at most e^epsilon."""
        return 1 + self.truth * (1 << self.n_sent) / (1 - self.truth)

    @property
    def variance(self) -> float:
        """What one reading adds to the variance of each debiased sum, beside its own sign."""
        return float(Fraction(self.factor**2 * self.n_sent, self.n_bits) - 1)

    def positions(self, n_rows: int) -> NDArray[np.uint32]:
        """The first bit that each reading sends."""
        return uniform_below(self.n_bits, n_rows).astype(np.uint32)

    def answers(self, signs: NDArray[np.integer], positions: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """What is sent of signs (rows, n_bits): bits 0 to n_sent - 1 of a word are those from the position on."""
        n_rows, shifts = len(signs), np.arange(self.n_sent, dtype=np.uint64)
        chosen = np.take_along_axis(signs, sent_columns(self, positions), axis=1) > 0
        true_bits = np.bitwise_or.reduce(chosen.astype(np.uint64) << shifts, axis=1)
        coins = words(n_rows) >> np.uint64(64 - self.n_sent)
        is_true = uniform_below(self.n_sent * self.factor, n_rows) < np.uint64(self.n_bits)
        return np.where(is_true, true_bits, coins)


def sent_columns(response: RandomisedResponse, positions: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Which bits each reading sends: (rows, n_sent)."""
    return (positions[:, None].astype(np.int64) + np.arange(response.n_sent)) % response.n_bits


def _least_factor(n_bits: int, n_sent: int, excess: Fraction) -> int:
    """The least whole number c for which t = n_bits / (n_sent c) satisfies (1)."""
    least = n_bits * (1 + (1 << n_sent) / excess) / n_sent
    return -(-least.numerator // least.denominator)

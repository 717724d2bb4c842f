"""Random numbers that are the same on every machine and with every version of NumPy.

The bits come from the counter-based generator Philox 4x64, whose stream is fixed by its publication (Salmon et al.
2011). All derived numbers use only additions, multiplications, divisions and square roots in a fixed order, which
IEEE 754 defines to the last bit: no logarithm and no normal distribution of a library.
docs/reference/arithmetic.md gives the definition.
"""

from __future__ import annotations

import hashlib
import secrets
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.limits import Cost

Floats = NDArray[np.float64]
CHOOSING = 0x726F7773  # distinguishes the numbers that choose rows from all others of the same seed
NUMBERS_PER_CHUNK = 1 << 15  # Normal numbers that are computed at a time: intermediate results stay in the cache.


def row_chooser(seed: int) -> np.random.Generator:
    """The generator that samples rows of a table by a seed.

    It is not `default_rng(seed)`, which often generated the rows, with the same seed. The same numbers would then
    choose among the rows: a sample of 5000 rows had one of three clusters.
    """
    return np.random.default_rng([seed, CHOOSING])


class Stream:
    """A stream of random numbers named by a seed and a purpose.

    >>> Stream(7, "example").uniform(2).round(6)
    array([0.123833, 0.476421])
    """

    def __init__(self, seed: int, purpose: str) -> None:
        _require_default_rounding()
        name = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
        self._bits = np.random.Philox(key=np.array([seed, name], dtype=np.uint64))

    def integers(self, size: int) -> NDArray[np.uint64]:
        """Uniform 64-bit integers."""
        return self._bits.random_raw(size).astype(np.uint64, copy=False)

    def uniform(self, size: int) -> Floats:
        """Uniform numbers strictly between 0 and 1: (k + 1/2) 2^-52, k the top 52 bits."""
        return ((self.integers(size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def signs(self, size: int) -> Floats:
        """-1 or +1, by the top bit."""
        return 1.0 - 2.0 * (self.integers(size) >> np.uint64(63)).astype(np.float64)

    def normal(self, size: int) -> Floats:
        """Standard normal numbers, by the inverse of their distribution function."""
        numbers = np.empty(size)
        for first in range(0, size, NUMBERS_PER_CHUNK):
            chunk = numbers[first : first + NUMBERS_PER_CHUNK]
            chunk[:] = normal_quantile(self.uniform(len(chunk)))
        return numbers

    def chi(self, degrees: int, size: int) -> Floats:
        """Lengths of standard normal vectors of `degrees` coordinates."""
        if degrees <= 2:
            return lengths(self.normal(degrees * size).reshape(degrees, size))
        return np.sqrt(2.0 * self._gamma(0.5 * degrees, size))

    def _gamma(self, shape: float, size: int) -> Floats:
        """Gamma numbers by the rejection method of Marsaglia and Tsang (2000), for a shape of at least 1."""
        d = shape - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)
        kept = np.empty(0)
        while len(kept) < size:
            x, u = self.normal(size), self.uniform(size)
            root = np.maximum(1.0 + c * x, 1e-300)
            v = root * root * root
            accepted = logarithm(u) < 0.5 * (x * x) + d - d * v + d * logarithm(v)
            kept = np.concatenate([kept, (d * v)[accepted & (root > 1e-300)]])
        return kept[:size]


def uniform_cost(size: int) -> Cost:
    """The cost of `uniform`, `signs` and `integers`; this and the costs below were measured in nanoseconds."""
    return Cost.of_numbers(size, bytes_each=32, operations_each=20)


def normal_cost(size: int) -> Cost:
    """The cost of `normal`."""
    return Cost.of_numbers(size, operations_each=62) + Cost(128 * min(size, NUMBERS_PER_CHUNK), 150_000)


def chi_cost(degrees: int, size: int) -> Cost:
    """The cost of `chi`; with more than two degrees, numbers are drawn about twice, because a few are rejected."""
    if degrees <= 2:
        return normal_cost(degrees * size) + Cost.of_numbers(size, bytes_each=24, operations_each=10)
    return Cost.of_numbers(size, bytes_each=120, operations_each=400) + Cost(0, 500_000)


def _require_default_rounding() -> None:
    """Raises an error in a process whose floating-point arithmetic would give other numbers."""
    one, little, tiny = (np.array([x]) for x in (1.0, 2.0**-60, 2.0**-1070))
    if (one + little)[0] != 1.0 or (-one - little)[0] != -1.0 or (tiny * one)[0] == 0.0:
        raise RuntimeError(
            "this process does not round to nearest, or flushes denormal numbers, so a seed would give other numbers: "
            "restore the default floating-point environment first"
        )


def squares(vectors: Floats) -> Floats:
    """The sum of squares of each column, coordinates added in order: the same bits everywhere."""
    total = np.zeros(vectors.shape[1])
    for row in vectors:
        total += row * row
    return total


def lengths(vectors: Floats) -> Floats:
    """Euclidean length of each column, coordinates added in order."""
    return np.asarray(np.sqrt(squares(vectors)))


def logarithm(x: Floats) -> Floats:
    """Natural logarithm of positive numbers, from the series of the inverse hyperbolic tangent."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < np.sqrt(0.5)
    mantissa = np.where(low, 2.0 * mantissa, mantissa)
    exponent = np.where(low, exponent - 1, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = np.full_like(s, 1.0 / 23.0)
    for k in range(21, 0, -2):
        series *= square
        series += 1.0 / k
    return np.asarray(2.0 * s * series + exponent * 0.6931471805599453)


def exponential(x: Floats) -> Floats:
    """exp(x), by its series after a power of two is taken out."""
    n = np.rint(x / 0.6931471805599453)
    r = x - n * 0.6931471805599453
    series = np.ones_like(r)
    for k in range(16, 0, -1):
        series = 1.0 + series * r / k
    return np.asarray(np.ldexp(series, n.astype(np.int64)))


# Wichura's algorithm AS 241 (PPND16), accurate to about 1e-16: numerator and denominator, highest power first.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    first, *others = zip(*coefficients, strict=True)
    above, below = (np.full_like(x, c) for c in first)
    for pair in others:
        for total, c in zip((above, below), pair, strict=True):
            total *= x
            total += c
    above /= below
    return above


def normal_quantile(p: Floats) -> Floats:
    """Inverse of the standard normal distribution function, for 0 < p < 1."""
    q = p - 0.5
    result = q * _ratio(_CENTRE, 0.180625 - q * q)
    outer = np.abs(q) > 0.425
    r = np.sqrt(-logarithm(np.minimum(p, 1.0 - p)[outer]))
    size = np.where(r <= 5.0, _ratio(_MIDDLE, r - 1.6), _ratio(_TAIL, r - 5.0))
    result[outer] = np.where(q[outer] < 0.0, -size, size)
    return result


Words = NDArray[np.uint64]
WORD = 2**64


def words(size: int) -> Words:
    """Uniform words of 64 bits from the operating system."""
    return np.frombuffer(secrets.token_bytes(8 * size), np.uint64)


def uniform_below(limit: int | NDArray[np.integer], size: int) -> Words:
    """Uniform whole numbers from 0 to limit - 1, one limit for all or one for each: 1 to 2^63.

    Words from the largest multiple of the limit on are drawn again, so that all numbers are equally likely.

    >>> bool(np.all(uniform_below(10, 1000) < 10))
    True
    """
    limits = np.broadcast_to(np.asarray(limit, np.uint64), (size,))
    # the largest multiple of the limit that fits, less one
    highest = np.uint64(WORD - 1) - (np.uint64(WORD - 1) % limits + np.uint64(1)) % limits
    drawn = words(size).copy()
    while len(again := np.flatnonzero(drawn > highest)):
        drawn[again] = words(len(again))
    return drawn % limits


RELATIVE_ERROR = Fraction(1, 2**60)


def exponential_excess(x: Fraction) -> Fraction:
    """A fraction at most e^x - 1, for x > 0, and within 2^-60 of it: the first terms x + x^2 / 2 + x^3 / 6 + ...

    All terms are positive, so that leaving some out gives less. From n >= 2 x on, each is at most half of the one
    before, so that the rest is at most the last one.

    >>> round(float(exponential_excess(Fraction(1))), 12)
    1.718281828459
    """
    total = term = x
    n = 1
    while n < 2 * x or term > total * RELATIVE_ERROR:
        n += 1
        term *= x / n
        total += term
    return total

"""Packed bits: one-bit features as signs, 64 to a word, and randomised responses of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import FrozenArrays
from sketchlearn.core.limits import Cost, check_cost
from sketchlearn.core.randomness import exponential_excess, uniform_below, words
from sketchlearn.core.values import positive, shortened, whole
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import bit_products, signed_sums

MAGIC = b"SKLBITS\x01"
PRIVATE_MAGIC = b"SKLRESP\x01"  # of PrivateBits
HEADER = struct.Struct("<8sQQ")  # magic, rows, bits per row
MOST_BITS = 2**30
ROWS_PER_BLOCK = 255  # The counts of ones in a block fit into bytes.


@dataclass(frozen=True, eq=False)
class PackedBits(FrozenArrays):
    """Rows of signs: bit j of a row, from the low end of its words, is 1 for +1 and 0 for -1.

    Parameters
    ----------
    words : uint64 array (rows, ceil(n_bits / 64)); bits beyond n_bits are zero.
    n_bits : signs per row.

    Examples
    --------
    >>> bits = PackedBits.from_signs([[1, -1, 1], [-1, -1, -1]])
    >>> bits.words.tolist(), bits.signs().tolist()
    ([[5], [0]], [[1, -1, 1], [-1, -1, -1]])
    >>> PackedBits.from_bytes(bits.to_bytes()) == bits
    True
    """

    words: NDArray[np.uint64]
    n_bits: int

    def __post_init__(self) -> None:
        n_bits = whole("n_bits", self.n_bits, most=MOST_BITS)
        words, width = np.array(self.words, order="C"), -(-n_bits // 64)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != width:
            raise ValueError(f"words must be a uint64 array of {width} columns (64 bits each), not {shortened(words)}")
        if n_bits % 64 and np.any(words[:, -1] >> np.uint64(n_bits % 64)):
            raise ValueError(f"the bits of words beyond the first {n_bits} must be zero")
        self._set(words=words, n_bits=n_bits)

    @classmethod
    def from_signs(cls, signs: Any) -> PackedBits:
        """Packs an array (rows, n_bits) of +1 and -1."""
        values = np.asarray(signs)
        if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiu" or not np.all(np.abs(values) == 1):
            raise ValueError(f"signs must be rows of +1 and -1, not {shortened(signs)}")
        return cls(_words_of(np.packbits(values > 0, axis=1, bitorder="little")), values.shape[1])

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedBits:
        """Reads the bytes that `to_bytes` wrote."""
        n_rows, n_bits = _header(data, HEADER, MAGIC, "packed bits")
        width = -(-n_bits // 8)
        if not 1 <= n_bits <= MOST_BITS or len(data) != HEADER.size + n_rows * width:
            raise ValueError(f"these packed bits are damaged: {n_rows} rows of {n_bits} bits do not have this length")
        in_words = 8 * n_rows * -(-n_bits // 64)
        check_cost("adding them up", Cost(3 * in_words + 24 * n_bits, 10 * in_words + 10 * n_bits))
        octets = np.frombuffer(data, np.uint8, offset=HEADER.size).reshape(n_rows, width)
        return cls(_words_of(octets), n_bits)

    def _octets(self) -> NDArray[np.uint8]:
        return self.words.astype("<u8", copy=False).view(np.uint8)[:, : -(-self.n_bits // 8)]

    def to_bytes(self) -> bytes:
        """The bits for sending: 24 bytes of header, then each row in whole bytes, the lowest bit first."""
        return HEADER.pack(MAGIC, len(self), self.n_bits) + self._octets().tobytes()

    def signs(self) -> NDArray[np.int8]:
        """The signs, +1 or -1: (rows, n_bits)."""
        ones = np.unpackbits(self._octets(), axis=1, count=self.n_bits, bitorder="little")
        return np.asarray(2 * ones.view(np.int8) - np.int8(1))

    @property
    def nbytes(self) -> int:
        """The size of the words in bytes."""
        return self.words.nbytes

    def sums(self, weights: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The sum of the rows' signs, each row times its weight, for each of the n_bits.

        >>> PackedBits.from_signs([[1, -1, 1], [-1, -1, -1]]).sums()
        array([ 0, -2,  0])
        """
        if weights is not None and (np.shape(weights) != (len(self),) or np.asarray(weights).dtype.kind not in "iu"):
            raise ValueError(f"weights must be {len(self)} whole numbers, one for each row")
        weights = None if weights is None else np.asarray(weights, np.int64)
        octets = self.words.astype("<u8", copy=False).view(np.uint8)
        ones = np.zeros(8 * octets.shape[1], np.int64)
        for start in range(0, len(self), ROWS_PER_BLOCK):
            rows = slice(start, start + ROWS_PER_BLOCK)
            bits = np.unpackbits(octets[rows], axis=1, bitorder="little")
            if weights is None:  # bytes of ones add up inside of words
                ones += bits.view(np.uint64).sum(axis=0).view(np.uint8)
            else:
                ones += weights[rows] @ bits.astype(np.int64)
        total = len(self) if weights is None else int(weights.sum())
        return (2 * ones - total)[: self.n_bits]

    def inner(self, other: PackedBits, *, n_jobs: int | None = None) -> NDArray[np.int32]:
        """Inner products of the signs of each row with those of each row of `other`, by counting differing bits.

        >>> PackedBits.from_signs([[1, -1, 1], [-1, -1, -1]]).inner(PackedBits.from_signs([[1, 1, 1]]))
        array([[ 1],
               [-3]], dtype=int32)
        """
        if not isinstance(other, PackedBits):
            raise TypeError(f"inner takes PackedBits, not {type(other).__name__}: for numbers, use bits @ weights")
        if self.n_bits != other.n_bits:
            raise ValueError(f"both must have the same number of bits, not {self.n_bits} and {other.n_bits}")
        products = np.empty((len(self), len(other)), np.int32)
        threads = kernel.n_threads(n_jobs)
        bit_products(kernel.active, self.words, other.words, self.n_bits, threads, products)
        return products

    def dot(self, weights: Any, *, n_jobs: int | None = None) -> NDArray[np.float32]:
        """The signs times an array (n_bits, columns) or (n_bits,), in float32; `bits @ weights` is the same.

        >>> PackedBits.from_signs([[1, -1, 1], [-1, -1, -1]]) @ [0.5, 2.0, 1.0]
        array([-0.5, -3.5], dtype=float32)
        """
        if isinstance(weights, PackedBits):
            raise TypeError("use a.inner(b) for the products of packed rows with each other")
        values = np.asarray(weights)
        if values.dtype.kind not in "fiub" or values.ndim not in (1, 2) or len(values) != self.n_bits:
            raise ValueError(f"weights must have {self.n_bits} rows of numbers, one per bit, not {shortened(weights)}")
        columns = np.ascontiguousarray(values.reshape(self.n_bits, -1), np.float32)
        sums = np.empty((len(self), columns.shape[1]), np.float32)
        signed_sums(kernel.active, self.words, self.n_bits, columns, kernel.n_threads(n_jobs), sums)
        return sums if values.ndim == 2 else sums[:, 0]

    __matmul__ = dot

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> PackedBits:
        """Some of the rows: a number, a slice, numbers or a mask."""
        return PackedBits(np.atleast_2d(self.words[rows]), self.n_bits)

    def __repr__(self) -> str:
        return f"<PackedBits: {len(self):,} rows of {self.n_bits:,} bits>"


MOST_SENT = 64  # Bits of a report fit into a word.
LARGEST_FACTOR = 2**40  # Beyond, 2^23 readings could overflow a sum.
LARGEST_EPSILON = 20.0  # Beyond, a response protects next to nothing.


@dataclass(frozen=True)
class RandomisedResponse:
    """Randomised response: how many of a reading's bits are sent, and the whole number that each counts.

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
        """The response of least variance for this epsilon."""
        epsilon, n_bits = positive("epsilon", epsilon), whole("n_bits", n_bits, most=MOST_BITS)
        if epsilon > LARGEST_EPSILON:
            raise ValueError(f"epsilon above {LARGEST_EPSILON:g} protects next to nothing: ask for less, or send all")
        excess = exponential_excess(Fraction(epsilon))
        if excess * LARGEST_FACTOR < 4 * n_bits:
            raise ValueError(f"epsilon {epsilon!r} is so small that its noise exceeds 64 bits: use a larger one")
        sizes = range(1, min(n_bits, MOST_SENT) + 1)
        found = [(r, _least_factor(n_bits, r, excess)) for r in sizes]
        return cls(epsilon, n_bits, *min(found, key=lambda size: size[0] * size[1] ** 2))

    @property
    def truth(self) -> Fraction:
        """The probability that the true bits are sent."""
        return Fraction(self.n_bits, self.n_sent * self.factor)

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


PRIVATE_HEADER = struct.Struct("<8sQdQQQ")  # magic, rows, epsilon, bits of a reading, bits sent, factor


@dataclass(frozen=True, eq=False)
class PrivateBits(FrozenArrays):
    """Randomised responses (local differential privacy): the receiver learns little about each reading.

    `operator.pack(rows, epsilon=...)` gives them, and `operator.sketch_packed(bits)` takes them.

    Parameters
    ----------
    positions : uint32 array, the first bit that each reading sends.
    answers : uint64 array, the bits sent, from the low end on.
    response : the rule by which they were sent, which says epsilon, and how sums are freed of their bias.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> law = skl.features.frequencies.Gaussian(2.0)
    >>> operator = skl.features.FourierFeatures(3, 100, law=law, wave="square", seed=7)
    >>> bits = operator.with_origin("declared").pack(np.eye(3), epsilon=2.0)
    >>> bits
    <PrivateBits: 3 rows, 2 of 200 bits of each, epsilon 2>
    >>> PrivateBits.from_bytes(bits.to_bytes()) == bits, len(bits.to_bytes())
    (True, 54)
    """

    positions: NDArray[np.uint32]
    answers: NDArray[np.uint64]
    response: RandomisedResponse

    def __post_init__(self) -> None:
        if not isinstance(self.response, RandomisedResponse):
            raise TypeError(
                "response must be a RandomisedResponse: make private bits with operator.pack(rows, epsilon)"
            )
        positions, answers = np.array(self.positions), np.array(self.answers)
        if positions.dtype != np.uint32 or answers.dtype != np.uint64 or not positions.ndim == answers.ndim == 1:
            raise ValueError("positions must be a uint32 array, and answers a uint64 array")
        n_sent = self.response.n_sent
        too_long = n_sent < 64 and np.any(answers >> np.uint64(n_sent))
        if len(positions) != len(answers) or np.any(positions >= self.response.n_bits) or too_long:
            raise ValueError(f"each reading needs a position below {self.response.n_bits} and {n_sent} bits")
        self._set(positions=positions, answers=answers)

    @property
    def n_bits(self) -> int:
        """Bits of a reading, of which some are sent."""
        return self.response.n_bits

    @property
    def epsilon(self) -> float:
        """The privacy loss of one reading."""
        return self.response.epsilon

    def sums(self) -> NDArray[np.int64]:
        """Sums of all signs of the readings as far as the answers tell: integers with the right expectation."""
        if len(self) * self.response.factor >= 2**63:
            raise OverflowError("a sum could overflow: take in fewer readings at a time")
        columns = sent_columns(self.response, self.positions)
        ones = (self.answers[:, None] >> np.arange(self.response.n_sent, dtype=np.uint64)) & np.uint64(1) == 1
        sent, true = (np.bincount(of.ravel(), minlength=self.n_bits) for of in (columns, columns[ones]))
        return np.asarray(self.response.factor * (2 * true - sent), np.int64)

    def to_bytes(self) -> bytes:
        """The answers for sending: 48 bytes of header, then each reading's position and bits, in whole bytes each."""
        of = self.response
        header = PRIVATE_HEADER.pack(PRIVATE_MAGIC, len(self), of.epsilon, of.n_bits, of.n_sent, of.factor)
        both = (self.positions.astype(np.uint64), self.answers)
        octets = [
            values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
            for values, width in zip(both, _widths(of), strict=True)
        ]
        return header + np.concatenate(octets, axis=1).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> PrivateBits:
        """Reads the bytes that `to_bytes` wrote."""
        n_rows, epsilon, n_bits, n_sent, factor = _header(data, PRIVATE_HEADER, PRIVATE_MAGIC, "private bits")
        try:
            response = RandomisedResponse(epsilon, n_bits, n_sent, factor)
        except ValueError as error:
            raise ValueError(f"these private bits are damaged: {error}") from None
        first, second = _widths(response)
        if len(data) != PRIVATE_HEADER.size + n_rows * (first + second):
            raise ValueError(f"these private bits are damaged: {n_rows} readings do not have this length")
        each = Cost(100 + 50 * n_sent, 100 + 50 * n_sent)
        check_cost("adding them up", Cost(n_rows * each.bytes + 40 * n_bits, n_rows * each.operations + 10 * n_bits))
        octets = np.frombuffer(data, np.uint8, offset=PRIVATE_HEADER.size).reshape(n_rows, first + second)
        positions, answers = _words_of(octets[:, :first])[:, 0], _words_of(octets[:, first:])[:, 0]
        return cls(positions.astype(np.uint32), answers, response)

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        of = self.response
        return f"<PrivateBits: {len(self):,} rows, {of.n_sent} of {of.n_bits:,} bits of each, epsilon {of.epsilon:g}>"


def _widths(response: RandomisedResponse) -> tuple[int, int]:
    """Bytes of a position, and of the bits sent."""
    return max(1, -(-(response.n_bits - 1).bit_length() // 8)), -(-response.n_sent // 8)


def _words_of(octets: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows of bytes, filled up to whole words: (rows, words)."""
    padded = np.zeros((len(octets), -(-octets.shape[1] // 8) * 8), np.uint8)
    padded[:, : octets.shape[1]] = octets
    return padded.view("<u8").astype(np.uint64, copy=False)


def _header(data: bytes, form: struct.Struct, magic: bytes, what: str) -> tuple[Any, ...]:
    """The fields after the magic."""
    try:
        found, *fields = form.unpack_from(data)
    except (struct.error, TypeError):
        found = None
    if found == PRIVATE_MAGIC != magic:
        raise ValueError("these bytes are private bits: read them with PrivateBits.from_bytes")
    if found != magic:
        raise ValueError(f"these bytes are not {what} in a format that this version of sketchlearn reads")
    return tuple(fields)

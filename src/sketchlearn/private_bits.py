"""What readings send of their signs under local privacy: a position and a few bits each, and by which rule."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.cost import Cost
from sketchlearn.loading_limit import check_cost
from sketchlearn.packed import PRIVATE_MAGIC as MAGIC
from sketchlearn.randomised_response import RandomisedResponse, sent_columns

HEADER = struct.Struct("<8sQdQQQ")  # magic, rows, epsilon, bits of a reading, bits sent, factor


@dataclass(frozen=True, eq=False)
class PrivateBits:
    """Randomised responses of readings, made where the readings are: whoever receives them learns little of each.

    `operator.pack(rows, epsilon=...)` gives them, and `operator.sketch_packed(bits)` takes them.

    Parameters
    ----------
    positions : uint32 array, the first bit that each reading sends.
    answers : uint64 array, the bits sent, from the low end on.
    response : the rule by which they were sent, which says epsilon, and how sums are freed of their bias.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.FourierFeatures(3, 100, law=skl.frequencies.Gaussian(2.0), wave="square", seed=7)
    >>> bits = operator.with_origin("declared").pack(np.eye(3), epsilon=2.0)
    >>> bits
    <PrivateBits: 3 rows, 2 of 200 bits of each, epsilon 2>
    >>> PrivateBits.from_bytes(bits.to_bytes()) == bits, len(bits.to_bytes())
    (True, 54)
    """

    positions: NDArray[np.uint32]
    answers: NDArray[np.uint64]
    response: RandomisedResponse

    __hash__ = None  # type: ignore[assignment]

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
        for name, values in (("positions", positions), ("answers", answers)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

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
        header = HEADER.pack(MAGIC, len(self), of.epsilon, of.n_bits, of.n_sent, of.factor)
        both = (self.positions.astype(np.uint64), self.answers)
        octets = [
            values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
            for values, width in zip(both, _widths(of), strict=True)
        ]
        return header + np.concatenate(octets, axis=1).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> PrivateBits:
        """What `to_bytes` wrote."""
        try:
            magic, n_rows, epsilon, n_bits, n_sent, factor = HEADER.unpack_from(data)
        except (struct.error, TypeError):
            magic = b""
        if magic != MAGIC:
            raise ValueError("these bytes are not private bits in a format that this version of sketchlearn reads")
        try:
            response = RandomisedResponse(epsilon, n_bits, n_sent, factor)
        except ValueError as error:
            raise ValueError(f"these private bits are damaged: {error}") from None
        first, second = _widths(response)
        if len(data) != HEADER.size + n_rows * (first + second):
            raise ValueError(f"these private bits are damaged: {n_rows} readings have another length")
        each = Cost(100 + 50 * n_sent, 100 + 50 * n_sent)
        check_cost("adding them up", Cost(n_rows * each.bytes + 40 * n_bits, n_rows * each.operations + 10 * n_bits))
        octets = np.frombuffer(data, np.uint8, offset=HEADER.size).reshape(n_rows, first + second)
        positions, answers = _numbers(octets[:, :first]), _numbers(octets[:, first:])
        return cls(positions.astype(np.uint32), answers, response)

    def __len__(self) -> int:
        return len(self.positions)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, PrivateBits):
            return NotImplemented
        same = self.response == other.response and np.array_equal(self.positions, other.positions)
        return same and np.array_equal(self.answers, other.answers)

    def __repr__(self) -> str:
        of = self.response
        return f"<PrivateBits: {len(self):,} rows, {of.n_sent} of {of.n_bits:,} bits of each, epsilon {of.epsilon:g}>"


def _widths(response: RandomisedResponse) -> tuple[int, int]:
    """Bytes of a position, and of the bits sent."""
    return max(1, -(-(response.n_bits - 1).bit_length() // 8)), -(-response.n_sent // 8)


def _numbers(octets: NDArray[np.uint8]) -> NDArray[np.uint64]:
    whole_words = np.zeros((len(octets), 8), np.uint8)
    whole_words[:, : octets.shape[1]] = octets
    return whole_words.view("<u8").astype(np.uint64)[:, 0]

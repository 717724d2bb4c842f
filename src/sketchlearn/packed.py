"""Signs, 64 to a word: what one-bit features take to keep and to send."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import bit_products, signed_sums
from sketchlearn.cost import Cost
from sketchlearn.loading_limit import check_cost
from sketchlearn.values import shortened, whole

MAGIC = b"SKLBITS\x01"
PRIVATE_MAGIC = b"SKLRESP\x01"  # of PrivateBits
HEADER = struct.Struct("<8sQQ")  # magic, rows, bits per row
MOST_BITS = 2**30
ROWS_PER_BLOCK = 255  # The counts of ones in a block fit into bytes.


@dataclass(frozen=True, eq=False)
class PackedBits:
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

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        n_bits = whole("n_bits", self.n_bits, most=MOST_BITS)
        words, width = np.array(self.words, order="C"), -(-n_bits // 64)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != width:
            raise ValueError(f"words must be a uint64 array of {width} columns (64 bits each), not {shortened(words)}")
        if n_bits % 64 and np.any(words[:, -1] >> np.uint64(n_bits % 64)):
            raise ValueError(f"the bits of words beyond the first {n_bits} must be zero")
        words.flags.writeable = False
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "n_bits", n_bits)

    @classmethod
    def from_signs(cls, signs: Any) -> PackedBits:
        """Packs an array (rows, n_bits) of +1 and -1."""
        values = np.asarray(signs)
        if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiu" or not np.all(np.abs(values) == 1):
            raise ValueError(f"signs must be rows of +1 and -1, not {shortened(signs)}")
        return cls._from_octets(np.packbits(values > 0, axis=1, bitorder="little"), values.shape[1])

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedBits:
        """What `to_bytes` wrote."""
        try:
            magic, n_rows, n_bits = HEADER.unpack_from(data)
        except (struct.error, TypeError):
            magic = b""
        if magic == PRIVATE_MAGIC:
            raise ValueError("these bytes are private bits: read them with PrivateBits.from_bytes")
        if magic != MAGIC:
            raise ValueError("these bytes are not packed bits in a format that this version of sketchlearn reads")
        width = -(-n_bits // 8)
        if not 1 <= n_bits <= MOST_BITS or len(data) != HEADER.size + n_rows * width:
            raise ValueError(f"these packed bits are damaged: {n_rows} rows of {n_bits} bits have another length")
        in_words = 8 * n_rows * -(-n_bits // 64)
        check_cost("adding them up", Cost(3 * in_words + 24 * n_bits, 10 * in_words + 10 * n_bits))
        octets = np.frombuffer(data, np.uint8, offset=HEADER.size).reshape(n_rows, width)
        return cls._from_octets(octets, n_bits)

    @classmethod
    def _from_octets(cls, octets: NDArray[np.uint8], n_bits: int) -> PackedBits:
        whole_words = np.zeros((len(octets), -(-n_bits // 64) * 8), np.uint8)
        whole_words[:, : octets.shape[1]] = octets
        return cls(whole_words.view("<u8").astype(np.uint64, copy=False), n_bits)

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
        """Bytes that the words take."""
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
            raise TypeError(f"inner takes PackedBits, not {type(other).__name__}: numbers go after @")
        if self.n_bits != other.n_bits:
            raise ValueError(f"rows of {self.n_bits} bits have no inner product with rows of {other.n_bits}")
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
            raise ValueError(f"rows of {self.n_bits} bits need as many rows of weights, not {shortened(weights)}")
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

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, PackedBits):
            return NotImplemented
        return self.n_bits == other.n_bits and np.array_equal(self.words, other.words)

    def __repr__(self) -> str:
        return f"<PackedBits: {len(self):,} rows of {self.n_bits:,} bits>"

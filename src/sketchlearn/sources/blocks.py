"""Blocks of rows of a bounded size, whatever the batches they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

BLOCK_BYTES = 1 << 25
GATHERED_BYTES = 1 << 21  # Small batches are put together up to this size: the kernel is slow for ten rows at a time.


@dataclass(frozen=True)
class Block:
    """Rows of the data, in C order, float32 or float64."""

    rows: Floats
    start: int  # number of the first row, in all of the data, before rows with missing values were dropped
    numbers: NDArray[np.int64] | None = None  # number of each row, where some between them were dropped
    place: str = ""  # the file that they come from, if it is one
    before: int = 0  # number of rows in the files before that one
    dropped: int = 0  # number of rows that were dropped here

    @property
    def end(self) -> int:
        """Number of the first row after the block."""
        return self.start + len(self.rows) + self.dropped

    @property
    def which(self) -> slice | NDArray[np.int64]:
        """The rows' numbers in the data, as an index."""
        return slice(self.start, self.end) if self.numbers is None else self.numbers

    def name(self, i: int) -> str:
        """Row i of the block in words: "row 17", or "row 17 of day.csv", counted in its file from 0."""
        number = self.start + i if self.numbers is None else int(self.numbers[i])
        return f"row {number - self.before}" + (f" of {self.place}" if self.place else "")


def rows_per_block(width: int) -> int:
    """How many rows of that many columns a block holds at most."""
    return max(1, BLOCK_BYTES // (8 * max(1, width)))


def gathered(chunks: Iterable[Floats], width: int) -> Iterator[Floats]:
    """The same rows in arrays of at most a block and, where they come in small ones, of about GATHERED_BYTES.

    Large arrays are cut without a copy. Small ones are copied at once: a generator may use one buffer again and again.
    """
    step = rows_per_block(width)
    enough = min(step, max(1, GATHERED_BYTES // (8 * max(1, width))))
    held, filled = np.empty((0, width)), 0
    for chunk in chunks:
        if filled and (len(chunk) >= enough or chunk.dtype != held.dtype):
            yield held[:filled]
            filled = 0
        if len(chunk) >= enough:
            for first in range(0, len(chunk), step):
                yield chunk[first : first + step]
            continue
        done = 0
        while done < len(chunk):
            if not filled:
                held = np.empty((enough, width), chunk.dtype)
            taken = min(enough - filled, len(chunk) - done)
            held[filled : filled + taken] = chunk[done : done + taken]
            filled, done = filled + taken, done + taken
            if filled == enough:
                yield held
                filled = 0
    if filled:
        yield held[:filled]


def one_ahead(arrays: Iterator[Floats]) -> Iterator[Floats]:
    """The same arrays, the next one read by a thread while this one is in use: the kernel does not hold Python's lock.

    Errors are raised where the array would have come; the thread ends with the iterator. The garbage collector may
    close an abandoned iterator at any moment, such as the start of another thread: so the array that is being read is
    waited for, but no thread is joined, which would wait for locks that may be held there.
    """
    reader = ThreadPoolExecutor(1, thread_name_prefix="sketchlearn-reader")
    coming = reader.submit(next, arrays, None)
    try:
        while (array := coming.result()) is not None:
            coming = reader.submit(next, arrays, None)
            yield array
    finally:
        wait([coming])
        reader.shutdown(wait=False)


def has_missing(rows: Floats) -> bool:
    """Whether any value is NaN or infinite. The sum tells in one pass that none is."""
    with np.errstate(all="ignore"):
        return not np.isfinite(rows.sum()) and not np.isfinite(rows).all()

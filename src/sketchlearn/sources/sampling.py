"""Some rows of a source, from all over where that is possible, without losing any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from sketchlearn.sources.blocks import Block, Floats
from sketchlearn.sources.joined import Joined
from sketchlearn.sources.source_base import Source, check_width

MOST_HEADS = 64  # files whose first rows are taken, if there is nothing better


def sample(source: Source, n_rows: int, rng: np.random.Generator) -> tuple[Floats, bool, Source]:
    """At most n_rows rows, whether they come from all over, and a source of *all* rows, those of the sample included.

    Arrays, frames and files that can be read anywhere give random rows. Of others the first rows are taken, and those
    of a stream, which cannot be read twice, are kept for the pass over it. Rows with values that are missing or
    infinite are left out of the sample; the pass drops or refuses them.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> stream = skl.source(iter([np.zeros((3, 2)), np.ones((4, 2))]))
    >>> rows, representative, rest = sample(stream, 5, np.random.default_rng(0))
    >>> rows.shape, representative, sum(len(block.rows) for block in rest.blocks())
    ((5, 2), False, 7)
    """
    if not source.replayable:
        return _buffered(source, n_rows)
    found = source.some(n_rows, rng)
    if found is not None:
        rows = _finite(found)
        return (rows if len(rows) <= n_rows else rng.permutation(rows)[:n_rows]), True, source
    parts = _spread(source, rng)
    firsts = [_first_rows(part, -(-n_rows // len(parts))) for part in parts]
    everything = all(ended for _, ended in firsts) and parts == _parts(source)
    return _finite(np.concatenate([rows for rows, _ in firsts])), everything, source


class Begun(Source):
    """A stream of which some blocks were read already."""

    replayable = False

    def __init__(self, source: Source, read: Sequence[Block], rest: Iterator[Block]) -> None:
        self.source, self.read, self.rest = source, read, rest
        self.columns, self.nulls, self.width = source.columns, source.nulls, source.width
        self.n_rows, self.n_bytes = source.n_rows, source.n_bytes

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        for block in chain(self.read, self.rest):
            check_width(block.rows.shape[1], n_features)
            self.dropped, self.bytes_read = self.source.dropped, self.source.bytes_read
            yield block
        self.dropped, self.bytes_read = self.source.dropped, self.source.bytes_read

    def only(self, columns: tuple[str, ...]) -> Source:
        if self.columns is not None and columns != self.columns:
            raise ValueError(f"the stream was begun with the columns {self.columns}, not {columns}")
        return self


def _buffered(source: Source, n_rows: int) -> tuple[Floats, bool, Source]:
    rest = source.blocks()
    read: list[Block] = []
    ended = False
    while not ended and sum(len(block.rows) for block in read) <= n_rows:
        block = next(rest, None)
        ended = block is None
        if block is not None:
            read.append(_kept(block))
    rows = np.concatenate([block.rows for block in read]) if read else np.empty((0, source.width or 0))
    return _finite(rows[:n_rows]), ended and len(rows) <= n_rows, Begun(source, read, rest)


def _kept(block: Block) -> Block:
    """A block of its own memory: a generator may use one buffer again and again."""
    return Block(block.rows.copy(), block.start, block.numbers, block.place, block.before, block.dropped)


def _parts(source: Source) -> list[Source]:
    many = isinstance(source, Joined) and isinstance(source.parts, Sequence)
    return list(source.parts) if many and source.parts else [source]  # type: ignore[attr-defined]


def _spread(source: Source, rng: np.random.Generator) -> list[Source]:
    """The source's files, some of them if there are many."""
    parts = _parts(source)
    if len(parts) <= MOST_HEADS:
        return parts
    return [parts[i] for i in np.sort(rng.choice(len(parts), MOST_HEADS, replace=False))]


def _first_rows(source: Source, n_rows: int) -> tuple[Floats, bool]:
    """The first rows, and whether these are all."""
    rows: Floats = np.empty((0, source.width or 0))
    blocks = source.blocks()
    for block in blocks:
        rows = np.concatenate([rows, block.rows[: n_rows + 1]])
        if len(rows) > n_rows:
            blocks.close()  # type: ignore[attr-defined]
            return rows[:n_rows], False
    return rows, True


def _finite(rows: Floats) -> Floats:
    return rows[np.isfinite(rows).all(axis=1)]

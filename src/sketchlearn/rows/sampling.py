"""Samples of the rows of a source, without losing rows of streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain

import numpy as np

from sketchlearn.core.progress import showing_progress
from sketchlearn.rows.source_base import (
    MOST_SAMPLED_PARTS,
    Block,
    Floats,
    Joined,
    Source,
    check_width,
    listed,
    nothing_left,
)


def sample(
    source: Source, n_rows: int, rng: np.random.Generator, *, progress: bool = False
) -> tuple[Floats, bool, Source]:
    """At most n_rows rows, whether they are a random sample, and a source of *all* rows, including the sample.

    Arrays, frames and files that can be read anywhere give random rows. Of others the first rows are taken, and those
    of a stream, which cannot be read twice, are kept for the pass over it. Rows with values that are missing or
    infinite are left out of the sample; the pass drops or refuses them. Some files with a schema must be read to the
    end for random rows: `progress` shows how far that is.

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
    with showing_progress(progress):
        found = source.some(n_rows, rng)
    if found is not None:
        rows = _finite(found)
        if len(found) and not len(rows) and source.nulls == "drop":
            raise nothing_left(source)
        return (rows if len(rows) <= n_rows else rng.permutation(rows)[:n_rows]), True, source
    parts: Sequence[Source] = [source]
    if isinstance(source, Joined) and isinstance(source.parts, Sequence) and source.parts:
        parts = source.parts
    chosen = parts
    if len(parts) > MOST_SAMPLED_PARTS:
        chosen = [parts[i] for i in np.sort(rng.choice(len(parts), MOST_SAMPLED_PARTS, replace=False))]
    firsts = [_first_rows(part, -(-n_rows // len(chosen))) for part in chosen]
    if any(part.dropped for part in chosen) and not any(len(rows) for rows, _ in firsts):
        raise nothing_left(source)
    everything = chosen is parts and all(ended for _, ended in firsts)
    return _finite(np.concatenate([rows for rows, _ in firsts])), everything, source


class Begun(Source):
    """A pass over a source that was begun: the blocks that were read already, then the others."""

    replayable = False

    def __init__(self, source: Source, blocks: Iterator[Block]) -> None:
        self.source, self.begun = source, blocks
        self.columns, self.nulls, self.width = source.columns, source.nulls, source.width
        self.n_rows, self.n_bytes = source.n_rows, source.n_bytes

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        for block in self.begun:
            check_width(block.rows.shape[1], n_features)
            self.dropped, self.bytes_read = self.source.dropped, self.source.bytes_read
            yield block
        self.dropped, self.bytes_read = self.source.dropped, self.source.bytes_read

    def only(self, columns: tuple[str, ...]) -> Source:
        if self.columns is not None and columns != self.columns:
            raise ValueError(f"the stream was started with the columns {listed(self.columns)}, not {listed(columns)}")
        return self


def _buffered(source: Source, n_rows: int) -> tuple[Floats, bool, Source]:
    rest, read, found = source.blocks(), [], 0
    for block in rest:
        read.append(replace(block, rows=block.rows.copy()))  # a generator may use one buffer again and again
        found += len(block.rows)
        if found > n_rows:
            break
    if source.dropped and not found:
        raise nothing_left(source)
    rows = np.concatenate([block.rows for block in read]) if read else np.empty((0, source.width or 0))
    return _finite(rows[:n_rows]), found <= n_rows, Begun(source, chain(read, rest))


def _first_rows(source: Source, n_rows: int) -> tuple[Floats, bool]:
    """The first rows, and whether there are no others."""
    rows: Floats = np.empty((0, source.width or 0))
    with closing(source.blocks()) as blocks:  # type: ignore[type-var]
        for block in blocks:
            rows = np.concatenate([rows, block.rows[: n_rows + 1]])
            if len(rows) > n_rows:
                return rows[:n_rows], False
    return rows, True


def _finite(rows: Floats) -> Floats:
    return rows[np.isfinite(rows).all(axis=1)]

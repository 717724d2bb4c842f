"""Several sources one after the other: the files of a folder, the arrays of a list or of a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.rows.source_base import Block, Floats, Source, check_width, gathered, listed
from sketchlearn.rows.tables import Tabular

MOST_SAMPLED_PARTS = 64  # A sample opens no more files than this, however many there are.


class Joined(Source):
    """Sources with the same columns, in order.

    Parts in memory are put together where they are small; each file gives blocks of its own, so that errors can name
    it. If `parts` is an iterator, they can be read once. Where columns were `chosen` by name, other columns may differ.
    """

    def __init__(self, parts: Sequence[Source] | Iterator[Source], nulls: str, *, chosen: bool) -> None:
        self.nulls, self.chosen = nulls, chosen
        self.parts: Iterable[Source] = parts
        self._first_part = next(iter(parts), None)
        if isinstance(parts, Iterator):
            self.parts, self.replayable = chain([] if self._first_part is None else [self._first_part], parts), False
        else:
            self.replayable = all(part.replayable for part in parts)
            self.n_rows = _total([part.n_rows for part in parts])
            self.n_bytes = _total([part.n_bytes for part in parts]) if parts else None
            self.remarks = {text: place for part in reversed(parts) for text, place in part.remarks.items()}
        if self._first_part is not None:
            self.columns, self.width = self._first_part.columns, self._first_part.width

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        self.dropped = self.bytes_read = 0
        start = 0
        for in_memory, run in groupby(self._checked(n_features), self._is_in_memory):
            if in_memory:
                chunks = chain.from_iterable(part.chunks(n_features) for part in run if isinstance(part, Tabular))
                for block in self._accepted(gathered(chunks, self.width or 0), start):
                    start = block.end
                    yield block
                continue
            for part in run:
                before, dropped, done = start, self.dropped, self.bytes_read
                for block in part.blocks(n_features):
                    start = before + block.end
                    self.dropped, self.bytes_read = dropped + part.dropped, done + part.bytes_read
                    yield _moved(block, before)
                self.dropped, self.bytes_read = dropped + part.dropped, done + part.bytes_read

    def check(self, n_features: int | None = None) -> None:
        if isinstance(self.parts, Sequence):
            for part in self.parts:
                self._check_part(part, n_features)

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> Source:
        return Joined(self._each(lambda part: part.only(columns, any_order=any_order)), self.nulls, chosen=True)

    def without(self, column: str | int) -> Source:
        return Joined(self._each(lambda part: part.without(column)), self.nulls, chosen=self.chosen)

    def ids(self, column: str | int) -> Iterator[NDArray[Any]]:
        return chain.from_iterable(part.ids(column) for part in self.parts)

    def raw_columns(self, columns: Sequence[str], *, points: bool = False) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(part.raw_columns(columns, points=points) for part in self.parts)

    def with_nulls(self, nulls: str) -> Source:
        return Joined(self._each(lambda part: part.with_nulls(nulls)), nulls, chosen=self.chosen)

    def _each(self, change: Callable[[Source], Source]) -> Sequence[Source] | Iterator[Source]:
        changed = map(change, self.parts)
        return list(changed) if isinstance(self.parts, Sequence) else changed

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if not isinstance(self.parts, Sequence) or not self.parts:
            return None
        self.check()
        counts = _proportional(self.parts, n_rows, rng)
        samples = [part.some(count, rng) for part, count in zip(self.parts, counts, strict=True) if count]
        found = [sample for sample in samples if sample is not None]
        return np.concatenate(found) if found and len(found) == len(samples) else None

    def _checked(self, n_features: int | None) -> Iterator[Source]:
        """The parts, all checked before the first is read, if there is more than one pass; otherwise one by one."""
        self.check(n_features)
        for part in self.parts:
            if not isinstance(self.parts, Sequence):
                self._check_part(part, n_features)
            yield part

    def _is_in_memory(self, part: Source) -> bool:
        return isinstance(part, Tabular) and not part.place and part.nulls == self.nulls

    def _check_part(self, part: Source, n_features: int | None) -> None:
        if not self.chosen and self._first_part is not None:
            _check_alike(self._first_part, part)
        if part.width is not None:
            check_width(part.width, n_features)
        part.check(n_features)


def _proportional(parts: Sequence[Source], n_rows: int, rng: np.random.Generator) -> list[int]:
    """The number of rows of a sample that each part gives: proportional to its rows or, if unknown, bytes."""
    sizes = [part.n_rows for part in parts]
    if None in sizes:
        sizes = [part.n_bytes for part in parts]
    weights = np.array([1 if size is None else size for size in sizes], np.float64)
    if len(parts) > MOST_SAMPLED_PARTS:
        weights[rng.permutation(len(parts))[MOST_SAMPLED_PARTS:]] = 0
    return [int(count) for count in np.ceil(n_rows * weights / max(1.0, weights.sum()))]


def _check_alike(first: Source, part: Source) -> None:
    """Raises an error if a part has other columns than the first."""
    if part.columns == first.columns and part.width == first.width:
        return
    here, there = part.place or "a later part", first.place or "the first"
    if part.columns and first.columns:
        for name in first.columns:
            if name not in part.columns:
                raise ValueError(f"{here} has no column {name!r}, which {there} has: choose columns that all have")
        for name in part.columns:
            if name not in first.columns:
                raise ValueError(f"{here} has a column {name!r}, which {there} lacks: choose columns that all have")
    own, others = (listed(s.columns) if s.columns else f"{s.width} without names" for s in (part, first))
    raise ValueError(
        f"{here} has the columns {own}, but {there} has {others}: give all parts the same columns in order"
    )


def _moved(block: Block, by: int) -> Block:
    numbers = None if block.numbers is None else block.numbers + by
    return replace(block, start=block.start + by, numbers=numbers, before=block.before + by if block.place else 0)


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None

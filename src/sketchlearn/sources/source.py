"""One face for everything that holds rows: arrays, tables, streams and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from sketchlearn.sources.arrays import Block, blocks, row_count


class Source(ABC):
    """Rows of numbers, in blocks of bounded size.

    Attributes
    ----------
    columns : names of the columns that are read, if they have names.
    n_rows : how many rows there are, if that is known without reading them; None otherwise.
    n_bytes : how many bytes will be read from files, if that is known; None otherwise.
    replayable : whether `blocks` can be called more than once.
    dropped : rows left out because of missing values, in the pass made last.
    """

    columns: tuple[str, ...] | None = None
    n_rows: int | None = None
    n_bytes: int | None = None
    replayable: bool = True
    dropped: int = 0

    @abstractmethod
    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        """The rows, in order; rows of another number of columns than n_features are refused."""

    @abstractmethod
    def only(self, columns: tuple[str, ...]) -> Source:
        """The same rows with these columns, which must come in this order; sources without names are left alone."""


class Rows(Source):
    """Arrays, and iterables of arrays."""

    def __init__(self, data: Any) -> None:
        self.data, self.n_rows = data, row_count(data)

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        assert n_features is not None
        return blocks(self.data, n_features)

    def only(self, columns: tuple[str, ...]) -> Source:  # noqa: ARG002
        return self


def source(data: Any, *, columns: Any = None, nulls: str = "error") -> Source:  # noqa: ARG001
    """A source of whatever holds rows."""
    return data if isinstance(data, Source) else Rows(data)

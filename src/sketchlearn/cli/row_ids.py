"""The column of `--id`, read beside the rows: what it holds goes to the output as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import STANDARD
from sketchlearn.rows.source_base import listed

if TYPE_CHECKING:
    from sketchlearn.rows.source_base import Source

WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # which is written again as it was read, unlike 007


class RowIds:
    """The ids of the rows of files, in their order.

    Those of CSV are text, whatever they look like. Where the output has types and all of them are whole numbers, they
    become such, so that they can be joined with what others make of the same file.
    """

    def __init__(self, paths: list[str], rows: Source, name: str, *, typed: bool) -> None:
        if STANDARD in paths:
            raise misused("--id needs files: save standard input to one first")
        if rows.columns is None:
            raise ValueError(f"{paths[0]} has no column names: --id {name} needs them")
        if name not in rows.columns:
            raise ValueError(f"{paths[0]} has no column {name!r} for --id: its columns are {listed(rows.columns)}")
        self.rows, self.name = rows, name
        first = next(self._arrays(), None)
        text = first is None or str(first.type) in ("string", "large_string")
        whole = typed and text and all(map(_is_whole, self._arrays()))
        self.type: Any = "string" if first is None else "int64" if whole else first.type
        lists = (array.to_pylist() for array in self._arrays())
        self._values = chain.from_iterable(map(_as_whole, lists) if whole else lists)

    def take(self, n_rows: int) -> list[Any]:
        """The ids of the next rows."""
        return list(islice(self._values, n_rows))

    def _arrays(self) -> Iterator[Any]:
        return (raw[self.name] for raw in self.rows.raw_columns([self.name]))


def _is_whole(array: Any) -> bool:
    """Whether text is whole numbers alone, or nothing."""
    import pyarrow.compute as pc

    found = pc.or_(pc.match_substring_regex(array, WHOLE_NUMBER), pc.equal(array, ""))
    return found.is_null().to_numpy(zero_copy_only=False).all() or pc.all(found).as_py()  # type: ignore[no-any-return]


def _as_whole(chunk: list[str | None]) -> list[int | None]:
    return [int(text) if text else None for text in chunk]

"""JSON lines: one object per line, plain or compressed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sketchlearn.core.errors import InvalidValueError
from sketchlearn.rows.arrow import ArrowFile, pyarrow, remedy_for
from sketchlearn.rows.schemas.cell_values import arrow_array
from sketchlearn.rows.source_base import Columns, decompressed, other_columns, reading

PARSED_BYTES = 1 << 22  # Bytes that are parsed at a time, at least one line.
CHANGED_TYPE = re.compile(r"JSON parse error: Column\(/(.*?)\) (?:changed from|was specified)")
NUMBERS = ("int64", "double", "null")
PLAIN: dict[type, type] = {int: float, float: float, bool: bool}  # Other JSON values are text, lists or objects.


class JsonLines(ArrowFile):
    """A file of JSON objects, one per line: their fields are the columns, and one that an object lacks is missing.

    Fields and types are inferred from the first megabytes: numbers are read as float64, true and false as 1 and 0.
    pyarrow's own streaming reader, `open_json`, refuses fields with values of several kinds.
    """

    def __init__(self, path: Path) -> None:
        pa = pyarrow(str(path))
        with reading(path), decompressed(path) as stream:
            first = next(_whole_lines(stream), b"")
            if not first:
                raise ValueError(f"{path} is empty: it should have a JSON object on each line")
            found, self.mixed = _inferred(first)
        kinds = [pa.float64() if str(kind) in NUMBERS else kind for kind in found.types]
        super().__init__(path, pa.schema(list(zip(found.names, kinds, strict=True))))

    def not_numbers(self, position: int) -> tuple[str, str] | None:
        if self.fields[position] in self.mixed:
            return "values of several kinds", remedy_for("text")
        return super().not_numbers(position)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        import pyarrow as pa

        self.bytes_read = 0
        wanted = set(names or self.fields[:1])  # without any field, rows would not be counted
        schema = pa.schema([field for field in self.schema if field.name in wanted])
        with decompressed(self.path, self) as stream:
            for lines in _whole_lines(stream):
                try:
                    yield from _parsed(lines, schema).to_batches(max_chunksize=n_rows)
                except ValueError as error:
                    found = CHANGED_TYPE.match(str(error))
                    if found is None:
                        raise
                    problem = f"column {found[1]!r} holds something else than numbers after its first values"
                    remedy = f"{remedy_for('text')}, or {other_columns()}"
                    raise InvalidValueError(f"{self.place}: {problem}", remedy) from None

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        names = [self.fields[position] for position in chosen]
        self.bytes_read = 0
        with reading(self.path), decompressed(self.path, self) as stream:
            for lines in _whole_lines(stream):  # by Python: pyarrow would infer one type from all values together
                rows = _objects(lines)
                yield {name: arrow_array([row.get(name) for row in rows]) for name in names}


def _inferred(lines: bytes) -> tuple[Any, frozenset[str]]:
    """Infers fields and types from lines, and which fields have values of several kinds, which pyarrow refuses."""
    import pyarrow as pa

    try:
        return _parsed(lines).schema, frozenset()
    except ValueError as error:
        if CHANGED_TYPE.match(str(error)) is None:
            raise
    kinds: dict[str, set[type]] = {}
    for row in _objects(lines):
        for name, value in row.items():
            kinds.setdefault(name, set()).update([] if value is None else [PLAIN.get(type(value), str)])
    mixed = frozenset(name for name, found in kinds.items() if len(found) > 1)
    types = {float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    fields = [(name, types[str] if name in mixed else types[next(iter(found), float)]) for name, found in kinds.items()]
    return pa.schema(fields), mixed


def _objects(lines: bytes) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in lines.splitlines() if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line of it is not a JSON object")
    return rows


def _parsed(lines: bytes, schema: Any = None) -> Any:
    import pyarrow as pa
    from pyarrow import json as reader

    return reader.read_json(
        pa.BufferReader(lines),
        read_options=reader.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=reader.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _whole_lines(stream: Any) -> Iterator[bytes]:
    """Whole lines, many at a time, without blank parts."""
    held: list[bytes] = []
    while more := stream.read(PARSED_BYTES):
        cut = more.rfind(b"\n") + 1
        if not cut:
            held.append(more)
            continue
        lines = b"".join([*held, more[:cut]])
        held = [more[cut:]]
        if lines.strip():
            yield lines
    if (last := b"".join(held)).strip():
        yield last

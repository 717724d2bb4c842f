"""Files of labels, one line per row of the data: CSV, Parquet or lines of JSON, by the end of their name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sketchlearn.cli.csv_cells import csv_lines
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import STANDARD


@dataclass(frozen=True)
class Labels:
    """Columns with their names and Arrow types, block by block; what is missing is None."""

    names: list[str]
    types: list[Any]
    blocks: Iterator[list[list[Any]]]
    safe_csv: bool = False


def _write_csv(file: BinaryIO, labels: Labels) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        csv_lines(text, [labels.names], safe=labels.safe_csv)
        for columns in labels.blocks:
            csv_lines(text, zip(*columns, strict=True), safe=labels.safe_csv)
            text.flush()
    finally:
        text.detach()  # which writes what is left, and leaves the file open


def _write_json_lines(file: BinaryIO, labels: Labels) -> None:
    for columns in labels.blocks:
        rows = (dict(zip(labels.names, row, strict=True)) for row in zip(*columns, strict=True))
        file.writelines(f"{json.dumps(row, ensure_ascii=False, default=str)}\n".encode() for row in rows)


def _write_parquet(file: BinaryIO, labels: Labels) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    for columns in labels.blocks:
        arrays = [pa.array(values, kind) for values, kind in zip(columns, labels.types, strict=True)]
        batch = pa.record_batch(arrays, names=labels.names)
        writer = writer or parquet.ParquetWriter(file, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        writer = parquet.ParquetWriter(file, pa.schema(list(zip(labels.names, labels.types, strict=True))))
    writer.close()


WRITERS: dict[str, Callable[[BinaryIO, Labels], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".jsonl": _write_json_lines,
}


def writer_for(output: str) -> Callable[[BinaryIO, Labels], None]:
    """What writes a file of this name; standard output gets CSV."""
    ending = ".csv" if output == STANDARD else Path(output).suffix.lower()
    if ending not in WRITERS:
        raise misused(f"-o {output}: give a name that ends in .csv, .parquet or .jsonl")
    if ending == ".parquet":
        from sketchlearn.rows.arrow import pyarrow

        pyarrow(output)
    return WRITERS[ending]

"""`sketchlearn predict` and `sample`: labels of rows, and rows of a model."""

from __future__ import annotations

import io
import json
import json as json_module
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from sketchlearn.cli import options
from sketchlearn.cli.errors import misused
from sketchlearn.cli.files import (
    STANDARD,
    check_paths,
    csv_lines,
    files_from,
    model_from,
    rows_from,
    safe_cells,
    tell,
)
from sketchlearn.core.messages import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sketchlearn.rows.source_base import Source


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


WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # which is written again as it was read, unlike 007


class RowIds:
    """The ids of the rows of files, in their order.

    Those of CSV are text, whatever they look like. Where the output has types and all of them are whole numbers, they
    become such, so that they can be joined with what others make of the same file.
    """

    def __init__(self, paths: list[str], rows: Source, name: str, *, typed: bool) -> None:
        from sketchlearn.rows.source_base import listed

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


@options.grouped
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    data: options.Data,
    tables: options.ReadingOptions,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write .csv, .parquet or .jsonl, instead of printing."),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Put this column of DATA before each label.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of components as CSV, for mixtures.")] = False,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
) -> None:
    """Tell what a model says of each row: one line per row, in their order.

    That is its cluster, component or class; its targets; or its coordinates. DATA may have more columns than the
    model, in any order: its own are found by name. With --nulls drop, rows with missing values get an empty label.

    \b
    Example:
      sketchlearn predict model.json day1.csv
      sketchlearn predict model.json day1.csv -o labels.parquet
      sketchlearn predict model.json day1.csv --id a -o labels.csv
      head -n 4 day1.csv | sketchlearn predict model.json -
    """
    paths = files_from(data)
    check_paths([model, *paths], [output], json=json and output == STANDARD)
    writer = None if output is None else writer_for(output)
    learned: Any = model_from(model)
    if not learned.can("predict") and not learned.can("transform"):
        raise misused("a generator says nothing of rows: sketchlearn sample makes new ones")
    if proba and not learned.can("predict_proba"):
        raise misused("--proba needs a mixture (fit gmm or fit stable) or classes: others have no probabilities")
    typed = json or (output or "").lower().endswith((".parquet", ".jsonl"))

    arguments = tables.arguments()
    ids = None if id_column is None else _ids(paths, arguments, id_column, typed)
    with warnings.catch_warnings():  # rows have the model's columns in its order, but no names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        answers = Answers(learned, _rows(paths, arguments, learned), ids, proba)
        if output is not None and writer is not None:
            _write(output, writer, answers, safe_csv, json)
        elif json:
            _print_json(answers)
        else:
            _print_csv(answers, safe_csv)


class Answers:
    """What a model says of rows, block by block, with their ids."""

    def __init__(self, learned: Any, rows: Source, ids: RowIds | None, proba: bool) -> None:
        import numpy as np

        self.learned, self.rows, self.ids, self.proba = learned, rows, ids, proba
        self.n_rows = self.n_empty = 0
        kind = learned.predict_proba if proba else learned.predict if learned.can("predict") else learned.transform
        self.answer: Callable[[Any], NDArray[Any]] = kind
        example = self.answer(np.zeros((1, learned.n_features_in_)))
        self.dtype, self.width = example.dtype, None if example.ndim == 1 else example.shape[1]

    @property
    def what(self) -> str:
        """What a model tells of rows."""
        from sklearn.base import is_regressor

        if self.proba:
            return "probabilities"
        named = self.learned
        return "coordinates" if not named.can("predict") else "targets" if is_regressor(named) else "labels"

    @property
    def names(self) -> list[str]:
        """Of the columns of a table of them."""
        from sklearn.base import is_classifier

        if self.proba and is_classifier(self.learned):
            return [str(label) for label in self.learned.classes_]
        one = "component" if self.proba else self.what.removesuffix("s")
        return [one] if self.width is None else [f"{one}_{i}" for i in range(self.width)]

    def blocks(self) -> Iterator[Block]:
        for block in self.rows.blocks(self.learned.n_features_in_):
            n_rows = block.end - block.start
            told = self.answer(block.rows).tolist() if len(block.rows) else []
            if block.numbers is not None:  # of the rows that were not dropped
                empty: Any = None if self.width is None else [None] * self.width
                known = dict(zip(block.numbers.tolist(), told, strict=True))
                told = [known.get(number, empty) for number in range(block.start, block.end)]
            self.n_rows, self.n_empty = self.n_rows + n_rows, self.n_empty + n_rows - len(block.rows)
            if n_rows:
                yield Block(told, None if self.ids is None else self.ids.take(n_rows))

    def table(self, safe_csv: bool) -> Labels:
        """As columns of a file."""
        kind = {"i": "int32", "u": "int32", "f": "double", "b": "bool"}.get(self.dtype.kind, "string")
        text = kind == "string"
        names, types = self.names, [kind] * len(self.names)
        if self.ids is not None:
            names, types = [self.ids.name, *names], [self.ids.type, *types]

        def columns() -> Iterator[list[list[Any]]]:
            for block in self.blocks():
                told = [[None if x is None else str(x) for x in block.told]] if text else _columns(block, self.width)
                yield told if block.ids is None else [block.ids, *told]

        return Labels(names, types, columns(), safe_csv)


@dataclass(frozen=True)
class Block:
    """Answers of some rows, None for those with missing values; and their ids, if there are any."""

    told: list[Any]
    ids: list[Any] | None


def _columns(block: Block, width: int | None) -> list[list[Any]]:
    return [block.told] if width is None else [list(column) for column in zip(*block.told, strict=True)]


def _ids(paths: list[str], arguments: dict[str, Any], name: str, typed: bool) -> RowIds:
    everything = {**arguments, "columns": None, "exclude": (), "numeric_only": False}
    return RowIds(paths, rows_from(paths, **everything), name, typed=typed)


def _rows(paths: list[str], arguments: dict[str, Any], learned: Any) -> Source:
    """Rows with the model's own columns, found by name where there are names; or with those that --columns says."""
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    rows, wanted, columns = rows_from(paths, **arguments), learned.columns_, arguments["columns"]
    if wanted is None or rows.columns is None or (columns is not None and not set(wanted) <= set(rows.columns)):
        return rows
    needed = wanted.schema.names if isinstance(wanted, SchemaColumns) else wanted
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        from sketchlearn.rows.source_base import listed

        where = "standard input" if paths == [STANDARD] else paths[0]
        some = f"column {missing[0]!r}" if len(missing) == 1 else f"columns {listed(missing)}"
        raise ValueError(f"{where} has no {some}, which the model needs: its columns are {listed(rows.columns)}")
    if needed is not wanted:  # the schema drops rows with missing values, unless they are to be refused
        return rows.only(wanted).refusing() if arguments["nulls"] == "error" else rows.only(wanted)
    return rows.only(wanted) if paths == [STANDARD] else rows_from(paths, **{**arguments, "columns": wanted})


def _write(output: str, writer: Callable[..., None], answers: Answers, safe_csv: bool, json: bool) -> None:
    from sketchlearn.core.containers import whole_file

    if output == STANDARD:
        writer(sys.stdout.buffer, answers.table(safe_csv))
        sys.stdout.buffer.flush()
    else:
        with whole_file(output) as file:
            writer(file, answers.table(safe_csv))
    lines = [f"{answers.what} of {answers.n_rows:,} rows"]
    lines += [f"{answers.n_empty:,} of them are empty: these rows have missing values"] if answers.n_empty else []
    figures = {"output": output, "rows": answers.n_rows, "empty": answers.n_empty, "what": answers.what}
    tell(json, figures, *lines, output=output)


def _print_csv(answers: Answers, safe_csv: bool) -> None:
    """One line per row, written while rows are read; labels alone have no heading."""
    alone = answers.ids is None and not answers.proba
    if not alone:
        heads = [*([] if answers.ids is None else [answers.ids.name]), *answers.names]
        csv_lines(sys.stdout, [map(printable, safe_cells(heads) if safe_csv else heads)])
    for block in answers.blocks():
        if answers.ids is None and answers.width is None:
            told = ["" if label is None else label for label in block.told]
            if answers.dtype.kind not in "iufb":
                told = [printable(str(label)) for label in (safe_cells(told) if safe_csv else told)]
            print(*told, sep="\n", flush=True)
            continue
        rows = zip(*([] if block.ids is None else [block.ids]), *_columns(block, answers.width), strict=True)
        csv_lines(sys.stdout, ([printable(c) if isinstance(c, str) else c for c in row] for row in rows), safe=safe_csv)
        sys.stdout.flush()


def _print_json(answers: Answers) -> None:
    """One object, written while rows are read."""
    out, between, ids = sys.stdout, "", list[Any]()
    out.write(f'{{"{answers.what}": [')
    for block in answers.blocks():
        told = [None if row is None or (isinstance(row, list) and None in row) else row for row in block.told]
        out.write(between + json_module.dumps(told)[1:-1])
        between = ", "
        ids += block.ids or []
    named = "" if answers.ids is None else f', "ids": {json_module.dumps(ids, default=str)}'
    out.write(f'], "rows": {answers.n_rows}, "empty": {answers.n_empty}{named}}}\n')
    out.flush()


def sample(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file of a generator or a mixture.")],
    n_rows: Annotated[int, typer.Option("-n", "--n-rows", min=1, help="How many rows.")] = 1000,
    label: Annotated[str | None, typer.Option(help="The class of all rows, if the generator has classes.")] = None,
    seed: options.Seed = 0,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
) -> None:
    """Print random rows of a model, as CSV.

    \b
    Example:
      sketchlearn fit gmm -k 3 day1.sketch -o gmm.json
      sketchlearn sample gmm.json -n 10
    """
    from sketchlearn.rows.schemas.table_schema import SchemaColumns
    from sketchlearn.rows.source import source

    check_paths([model], [])
    learned: Any = model_from(model).set_params(random_state=seed)
    if not learned.can("sample"):
        raise misused("sample needs a generator or a mixture (fit generator, fit gmm or fit stable)")
    if label is None:
        made = learned.sample(n_rows)
    elif getattr(learned.fitted_model(), "labels", None) is None:
        raise misused("--label is for generators that were learned with labels")
    else:
        labels = {str(known): known for known in learned.classes_}
        made = learned.sample(n_rows, y=labels.get(label, label))
    made = made[0] if isinstance(made, tuple) else made
    names: Any = learned.columns_ or [f"column_{i}" for i in range(learned.n_features_in_)]
    if isinstance(names, SchemaColumns):
        names = names.schema.names
        pieces = [[raw[name].to_pylist() for name in names] for raw in source(made).raw_columns(names)]
        rows = [list(row) for columns in pieces for row in zip(*columns, strict=True)]
    else:
        rows = made.tolist()
    if json:
        plain = [[cell if isinstance(cell, str | int | float | None) else str(cell) for cell in row] for row in rows]
        tell(json, {"columns": list(names), "rows": plain})
        return
    heads = safe_cells(names) if safe_csv else list(names)
    if sys.stdout.isatty():  # a table keeps names as they are, but they must not steer a terminal
        heads = list(map(printable, heads))
    csv_lines(sys.stdout, [heads])
    csv_lines(sys.stdout, rows, safe=safe_csv)

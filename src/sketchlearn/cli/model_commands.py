"""`sketchlearn predict` and `sample`: labels of rows, and rows of a model."""

from __future__ import annotations

import io
import json as json_module
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options
from sketchlearn.cli.errors import misused
from sketchlearn.core.messages import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _write_csv(file: BinaryIO, answers: Answers, safe: bool) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    try:
        files.csv_lines(text, [answers.heads], safe=safe)
        for columns in answers.columns():
            files.csv_lines(text, zip(*columns, strict=True), safe=safe)
            text.flush()
    finally:
        text.detach()  # which writes what is left, and leaves the file open


def _write_json_lines(file: BinaryIO, answers: Answers, _safe: bool) -> None:
    for columns in answers.columns():
        rows = (dict(zip(answers.heads, row, strict=True)) for row in zip(*columns, strict=True))
        file.writelines(f"{json_module.dumps(row, ensure_ascii=False, default=str)}\n".encode() for row in rows)


def _write_parquet(file: BinaryIO, answers: Answers, _safe: bool) -> None:
    from sketchlearn.rows.lazy_pyarrow import pa, parquet

    schema = pa.schema(list(zip(answers.heads, answers.types, strict=True)))
    writer = None
    for columns in answers.columns():
        arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
        writer = writer or parquet.ParquetWriter(file, schema)
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    (writer or parquet.ParquetWriter(file, schema)).close()


WRITERS = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_json_lines}


WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # which is written again as it was read, unlike 007


class RowIds:
    """The ids of the rows of files, in their order.

    Those of CSV are text, whatever they look like. Where the output has types and all of them are whole numbers, they
    become such, so that they can be joined with what others make of the same file.
    """

    def __init__(self, paths: list[str], rows: skl.extend.Source, name: str, *, typed: bool) -> None:
        from sketchlearn.rows.source_base import listed

        if files.STANDARD in paths:
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
        as_whole = ([int(text) if text else None for text in texts] for texts in lists)
        self._values = chain.from_iterable(as_whole if whole else lists)

    def take(self, n_rows: int) -> list[Any]:
        return list(islice(self._values, n_rows))

    def _arrays(self) -> Iterator[Any]:
        return (raw[self.name] for raw in self.rows.raw_columns([self.name]))


def _is_whole(array: Any) -> bool:
    """Whether text is whole numbers alone, or nothing."""
    from sketchlearn.rows.lazy_pyarrow import pc

    found = pc.or_(pc.match_substring_regex(array, WHOLE_NUMBER), pc.equal(array, ""))
    return pc.all(found, min_count=0).as_py()  # type: ignore[no-any-return]


@options.grouped
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    data: options.Data,
    tables: options.ReadingOptions,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write .csv, .parquet or .jsonl, instead of printing."),
    ] = None,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="Put this column of DATA before each label; may be repeated."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of components as CSV, for mixtures.")] = False,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
) -> None:
    """Predict for each row: one line per row, in their order.

    The answer is its cluster, component or class; its targets; or its coordinates. DATA may have more columns than the
    model, in any order: its own are found by name. With --nulls drop, rows with missing values get an empty label.

    \b
    Example:
      sketchlearn predict model.json day1.csv
      sketchlearn predict model.json day1.csv -o labels.parquet
      sketchlearn predict model.json day1.csv --id a -o labels.csv
      head -n 4 day1.csv | sketchlearn predict model.json -
    """
    from sketchlearn.core.packages import required

    paths = files.files_from(data)
    files.check_paths([model, *paths], [output], json=json and output == files.STANDARD)
    ending = "" if output is None else ".csv" if output == files.STANDARD else Path(output).suffix.lower()
    if output is not None and ending not in WRITERS:
        raise misused(f"-o {output}: give a name that ends in .csv, .parquet or .jsonl")
    if output is not None and ending == ".parquet":
        required("pyarrow", "arrow")
    learned: Any = files.model_from(model)
    if not learned.can("predict") and not learned.can("transform"):
        raise misused("a generator cannot predict: sketchlearn sample generates new rows")
    if proba and not learned.can("predict_proba"):
        raise misused("--proba needs a mixture (fit gmm or fit stable) or classes: others have no probabilities")
    arguments, ids = tables.arguments(), list[RowIds]()
    for name in dict.fromkeys(id_columns or ()):
        everything = files.rows_from(paths, **{**arguments, "columns": None, "exclude": (), "numeric_only": False})
        ids.append(RowIds(paths, everything, name, typed=json or ending in (".parquet", ".jsonl")))
    with warnings.catch_warnings():  # rows have the model's columns in its order, but no names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        answers = Answers(learned, _rows(paths, arguments, learned), ids, proba)
        if output is not None:
            _write(output, ending, answers, safe_csv, json)
        elif json:
            _print_json(answers)
        else:
            _print_csv(answers, safe_csv)


class Answers:
    """Predictions of rows, block by block, with their ids."""

    def __init__(self, learned: Any, rows: skl.extend.Source, ids: list[RowIds], proba: bool) -> None:
        import numpy as np

        self.learned, self.rows, self.ids, self.proba = learned, rows, ids, proba
        self.n_rows = self.n_empty = 0
        kind = learned.predict_proba if proba else learned.predict if learned.can("predict") else learned.transform
        self.answer: Callable[[Any], NDArray[Any]] = kind
        example = self.answer(np.zeros((1, learned.n_features_in_)))
        self.dtype, self.width = example.dtype, None if example.ndim == 1 else example.shape[1]

    @property
    def what(self) -> str:
        from sklearn.base import is_regressor

        if self.proba:
            return "probabilities"
        named = self.learned
        return "coordinates" if not named.can("predict") else "targets" if is_regressor(named) else "labels"

    @property
    def names(self) -> list[str]:
        """Of the columns of a table of them, without the ids."""
        from sklearn.base import is_classifier

        if self.proba and is_classifier(self.learned):
            return [str(label) for label in self.learned.classes_]
        one = "component" if self.proba else self.what.removesuffix("s")
        return [one] if self.width is None else [f"{one}_{i}" for i in range(self.width)]

    @property
    def heads(self) -> list[str]:
        """Of the columns of a table of them, with the ids."""
        return [*(one.name for one in self.ids), *self.names]

    @property
    def types(self) -> list[Any]:
        """The Arrow types of these columns."""
        kind = {"i": "int32", "u": "int32", "f": "double", "b": "bool"}.get(self.dtype.kind, "string")
        return [*(one.type for one in self.ids), *[kind] * len(self.names)]

    def blocks(self) -> Iterator[tuple[list[Any], list[list[Any]]]]:
        """Answers of some rows, None for those with missing values; and the columns of their ids."""
        for block in self.rows.blocks(self.learned.n_features_in_):
            n_rows = block.end - block.start
            told = self.answer(block.rows).tolist() if len(block.rows) else []
            if block.numbers is not None:  # of the rows that were not dropped
                empty: Any = None if self.width is None else [None] * self.width
                known = dict(zip(block.numbers.tolist(), told, strict=True))
                told = [known.get(number, empty) for number in range(block.start, block.end)]
            self.n_rows, self.n_empty = self.n_rows + n_rows, self.n_empty + n_rows - len(block.rows)
            if n_rows:
                yield told, [one.take(n_rows) for one in self.ids]

    def columns(self) -> Iterator[list[list[Any]]]:
        """The columns of a table of them, block by block: ids, if there are any, and answers."""
        for told, ids in self.blocks():
            own = [told] if self.width is None else [list(column) for column in zip(*told, strict=True)]
            if self.dtype.kind not in "iufb":
                own = [[None if label is None else str(label) for label in column] for column in own]
            yield [*ids, *own]


def _rows(paths: list[str], arguments: dict[str, Any], learned: Any) -> skl.extend.Source:
    """Rows with the model's own columns, found by name where there are names; or with those that --columns says."""

    rows, wanted, columns = files.rows_from(paths, **arguments), learned.columns_, arguments["columns"]
    if wanted is None or rows.columns is None or (columns is not None and not set(wanted) <= set(rows.columns)):
        return rows
    needed = wanted.schema.names if isinstance(wanted, skl.schemas.SchemaColumns) else wanted
    missing = [name for name in needed if name not in rows.columns]
    if missing:
        from sketchlearn.rows.source_base import listed

        where = "standard input" if paths == [files.STANDARD] else paths[0]
        some = f"column {missing[0]!r}" if len(missing) == 1 else f"columns {listed(missing)}"
        raise ValueError(f"{where} has no {some}, which the model needs: its columns are {listed(rows.columns)}")
    if needed is not wanted:  # the schema drops rows with missing values, unless they are to be refused
        return rows.only(wanted).refusing() if arguments["nulls"] == "error" else rows.only(wanted)
    return (
        rows.only(wanted) if paths == [files.STANDARD] else files.rows_from(paths, **{**arguments, "columns": wanted})
    )


def _write(output: str, ending: str, answers: Answers, safe_csv: bool, json: bool) -> None:
    from sketchlearn.core.containers import whole_file

    if output == files.STANDARD:
        WRITERS[ending](sys.stdout.buffer, answers, safe_csv)
        sys.stdout.buffer.flush()
    else:
        with whole_file(output) as file:
            WRITERS[ending](file, answers, safe_csv)
    lines = [f"{answers.what} of {answers.n_rows:,} rows"]
    lines += [f"{answers.n_empty:,} of them are empty: these rows have missing values"] if answers.n_empty else []
    figures = {"output": output, "rows": answers.n_rows, "empty": answers.n_empty, "what": answers.what}
    files.tell(json, figures, *lines, output=output)


def _print_csv(answers: Answers, safe_csv: bool) -> None:
    """One line per row, written while rows are read; labels alone have no heading."""
    if answers.ids or answers.proba:
        files.csv_lines(sys.stdout, [map(printable, files.safe_cells(answers.heads) if safe_csv else answers.heads)])
    if answers.ids or answers.width is not None:
        for columns in answers.columns():
            rows = ([printable(c) if isinstance(c, str) else c for c in row] for row in zip(*columns, strict=True))
            files.csv_lines(sys.stdout, rows, safe=safe_csv)
            sys.stdout.flush()
        return
    for told, _ in answers.blocks():
        labels = ["" if label is None else label for label in told]
        if answers.dtype.kind not in "iufb":
            labels = [printable(str(label)) for label in (files.safe_cells(labels) if safe_csv else labels)]
        print(*labels, sep="\n", flush=True)


def _print_json(answers: Answers) -> None:
    """One object, written while rows are read."""
    out, between, known = sys.stdout, "", list[Any]()
    out.write(f'{{"{answers.what}": [')
    for told, ids in answers.blocks():
        rows = [None if isinstance(row, list) and None in row else row for row in told]
        out.write(between + json_module.dumps(rows)[1:-1])
        between = ", "
        known += ids[0] if len(ids) == 1 else map(list, zip(*ids, strict=True))
    named = "" if not answers.ids else f', "ids": {json_module.dumps(known, default=str)}'
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

    files.check_paths([model], [])
    learned: Any = files.model_from(model).set_params(random_state=seed)
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
    if isinstance(names, skl.schemas.SchemaColumns):
        names = names.schema.names
        pieces = [[raw[name].to_pylist() for name in names] for raw in skl.source(made).raw_columns(names)]
        rows = [list(row) for columns in pieces for row in zip(*columns, strict=True)]
    else:
        rows = made.tolist()
    if json:
        plain = [[cell if isinstance(cell, str | int | float | None) else str(cell) for cell in row] for row in rows]
        files.tell(json, {"columns": list(names), "rows": plain})
        return
    heads = files.safe_cells(names) if safe_csv else list(names)
    if sys.stdout.isatty():  # a table keeps names as they are, but they must not steer a terminal
        heads = list(map(printable, heads))
    files.csv_lines(sys.stdout, [heads])
    files.csv_lines(sys.stdout, rows, safe=safe_csv)

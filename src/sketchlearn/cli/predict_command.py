"""`sketchlearn predict`: labels of rows, while they are read."""

from __future__ import annotations

import csv
import json as json_module
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.csv_cells import safe_cells
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import STANDARD, check_paths, columns_from, files_from, model_from, rows_from
from sketchlearn.cli.options import Columns, Data, Json, Nulls, NullsOption, SafeCsv
from sketchlearn.control_characters import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    data: Data,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of components as CSV, for mixtures.")] = False,
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    safe_csv: SafeCsv = False,
    json: Json = False,
) -> None:
    """Print what a model says of each row, line by line.

    That is its cluster, component or class; its targets; or its coordinates.

    \b
    Example:
      sketchlearn predict model.json day1.csv
      head -n 4 day1.csv | sketchlearn predict model.json -
    """
    paths = files_from(data)
    check_paths([model, *paths], [])
    learned: Any = model_from(model)
    if not learned.can("predict") and not learned.can("transform"):
        raise misused("a generator says nothing of rows: sketchlearn sample makes new ones")
    if proba and not learned.can("predict_proba"):
        raise misused("--proba needs a mixture (fit gmm or fit stable) or classes: others have no probabilities")
    answer = learned.predict_proba if proba else learned.predict if learned.can("predict") else learned.transform
    blocks = _blocks(paths, columns_from(columns), nulls.value, learned)
    answers = (answer(rows) for rows in blocks if len(rows))
    with warnings.catch_warnings():  # rows have the model's columns in its order, but no names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if json:
            _print_json(answers, "probabilities" if proba else _what(learned))
        else:
            _print_csv(answers, _heads(learned) if proba else None, safe_csv)


def _what(learned: Any) -> str:
    """What a model tells of a row."""
    from sklearn.base import is_regressor

    return "coordinates" if not learned.can("predict") else "targets" if is_regressor(learned) else "labels"


def _heads(learned: Any) -> list[str]:
    """Names of the probabilities."""
    from sklearn.base import is_classifier

    if is_classifier(learned):
        return [str(label) for label in learned.classes_]
    return [f"component_{i}" for i in range(len(learned.weights_))]


def _blocks(paths: list[str], columns: Any, nulls: str, learned: Any) -> Iterator[NDArray[Any]]:
    """Rows with the model's own columns."""
    rows = rows_from(paths, columns, nulls)
    if learned.columns_ is not None and (columns is None or paths != [STANDARD]):
        rows = rows.only(learned.columns_, any_order=True)
    for block in rows.blocks(learned.n_features_in_):
        yield block.rows


def _print_csv(answers: Iterator[NDArray[Any]], heads: list[str] | None, safe_csv: bool) -> None:
    """One line per row, written while rows are read."""
    if heads is not None:
        csv.writer(sys.stdout, lineterminator="\n").writerow(map(printable, safe_cells(heads) if safe_csv else heads))
    for part in answers:
        lines = part.tolist() if part.ndim == 1 else (",".join(map(repr, row)) for row in part.tolist())
        if part.ndim == 1 and part.dtype.kind not in "iufb":
            lines = [printable(str(label)) for label in (safe_cells(lines) if safe_csv else lines)]
        print(*lines, sep="\n", flush=True)


def _print_json(answers: Iterator[NDArray[Any]], name: str) -> None:
    """One object, written while rows are read."""
    out, between, n_rows = sys.stdout, "", 0
    out.write(f'{{"{name}": [')
    for part in answers:
        out.write(between + json_module.dumps(part.tolist())[1:-1])
        between, n_rows = ", ", n_rows + len(part)
    out.write(f'], "rows": {n_rows}}}\n')
    out.flush()

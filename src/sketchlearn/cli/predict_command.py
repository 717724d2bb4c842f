"""`sketchlearn predict`: labels of rows, while they are read."""

from __future__ import annotations

import json as json_module
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.options import Columns, Data, Json, Nulls, NullsOption

if TYPE_CHECKING:
    from numpy.typing import NDArray


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    data: Data,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of components as CSV, for mixtures.")] = False,
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    json: Json = False,
) -> None:
    """Print what a model says of each row, line by line.

    That is its cluster, component or class; its targets; or its coordinates.

    \b
    Example:
      sketchlearn predict model.json day1.csv
      head -n 4 day1.csv | sketchlearn predict model.json -
    """
    from sketchlearn.cli.error_messages import misused
    from sketchlearn.cli.row_input import columns_from, files_from
    from sketchlearn.cli.standard_streams import check_paths

    paths = files_from(data)
    check_paths([model, *paths], [])
    learned: Any = model_from(model)
    if hasattr(learned, "network_"):
        raise misused("a generator says nothing of rows: sketchlearn sample makes new ones")
    if proba and not hasattr(learned, "predict_proba"):
        raise misused("--proba needs a mixture (fit gmm or fit stable) or classes: others have no probabilities")
    answer = learned.predict_proba if proba else learned.predict if hasattr(learned, "predict") else learned.transform
    blocks = _blocks(paths, columns_from(columns), nulls.value, learned)
    answers = (_answered(answer, rows) for rows in blocks if len(rows))
    out = sys.stdout
    if json:
        _print_json(answers, "probabilities" if proba else _what(learned))
        return
    if proba:
        out.write(",".join(_heads(learned)) + "\n")
    for part in answers:
        out.write("\n".join(_lines(part)) + "\n")
        out.flush()


def _answered(answer: Callable[[NDArray[Any]], NDArray[Any]], rows: NDArray[Any]) -> NDArray[Any]:
    """What a model says of rows that have its columns in its order, but no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return answer(rows)


def _what(learned: Any) -> str:
    """What a model tells of a row."""
    return "coordinates" if not hasattr(learned, "predict") else "targets" if hasattr(learned, "coef_") else "labels"


def _heads(learned: Any) -> list[str]:
    """Names of the probabilities."""
    if hasattr(learned, "classes_"):
        return [str(label) for label in learned.classes_]
    return [f"component_{i}" for i in range(len(learned.weights_))]


def model_from(path: str) -> Any:
    """The estimator of a model file."""
    from sketchlearn.cli.standard_streams import named, read
    from sketchlearn.storage.container import FormatError
    from sketchlearn.tasks.model_files import model_from_bytes

    data = read(path)
    try:
        return model_from_bytes(data)
    except FormatError as error:
        raise FormatError(f"{named(path)}: {error}") from None


def _blocks(paths: list[str], columns: Any, nulls: str, learned: Any) -> Iterator[NDArray[Any]]:
    """Rows with the model's own columns."""
    from sketchlearn.cli.row_input import rows_from
    from sketchlearn.cli.standard_streams import STANDARD

    rows = rows_from(paths, columns, nulls)
    if learned.columns_ is not None and (columns is None or paths != [STANDARD]):
        rows = rows.only(learned.columns_)
    for block in rows.blocks(learned.n_features_in_):
        yield block.rows


def _lines(part: NDArray[Any]) -> Iterator[str]:
    if part.ndim == 1:
        yield from map(str, part.tolist())
    else:
        for row in part.tolist():
            yield ",".join(map(repr, row))


def _print_json(answers: Iterator[NDArray[Any]], name: str) -> None:
    """One object, written while rows are read."""
    import numpy as np

    out, between, n_rows = sys.stdout, "", 0
    out.write(f'{{"{name}": [')
    for part in answers:
        out.write(between + json_module.dumps(np.asarray(part).tolist())[1:-1])
        between, n_rows = ", ", n_rows + len(part)
    out.write(f'], "rows": {n_rows}}}\n')
    out.flush()

"""`sketchlearn sample`: random rows of a model, as CSV."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from sketchlearn.cli.csv_cells import csv_lines, safe_cells
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import check_paths, model_from, report
from sketchlearn.cli.options import Json, SafeCsv, Seed
from sketchlearn.core.messages import printable


def sample(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file of a generator or a mixture.")],
    n_rows: Annotated[int, typer.Option("-n", "--n-rows", min=1, help="How many rows.")] = 1000,
    label: Annotated[str | None, typer.Option(help="The class of all rows, if the generator has classes.")] = None,
    seed: Seed = 0,
    safe_csv: SafeCsv = False,
    json: Json = False,
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
        report(json, {"columns": list(names), "rows": plain})
        return
    heads = safe_cells(names) if safe_csv else list(names)
    if sys.stdout.isatty():  # a table keeps names as they are, but they must not steer a terminal
        heads = list(map(printable, heads))
    csv_lines(sys.stdout, [heads])
    csv_lines(sys.stdout, rows, safe=safe_csv)

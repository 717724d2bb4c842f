"""`sketchlearn marginal`: the histogram of one column, from a sketch alone."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Json, Plot, SketchFile


def marginal(
    sketch: SketchFile,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="Name of the column, or its position from 0.")],
    bins: Annotated[int, typer.Option(min=1, help="Number of bins.")] = 20,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Draw the histogram of one column, from the sketch alone.

    \b
    Example:
      sketchlearn marginal day1.sketch 0
    """
    from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch
    from sketchlearn.diagnostics.pictures import plot_marginal
    from sketchlearn.queries import Questions

    check_paths([sketch], [plot], json=False)
    ask = Questions(read_sketch(sketch))
    found = ask.marginal(int(column) if column.isdecimal() and column not in ask.columns else column, bins)
    if plot is not None:
        plot_marginal(found, plot)
    figures = {name: getattr(found, name).tolist() for name in ("edges", "shares", "errors")}
    figures["note"] = found.note
    figures["exact"] = None if found.exact is None else found.exact.tolist()
    Report(json).give({"sketch": sketch, "column": found.column, "plot": plot, **figures}, str(found))

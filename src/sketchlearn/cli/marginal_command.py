"""`sketchlearn marginal`: the histogram of one column, from a sketch alone."""

from __future__ import annotations

from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch
from sketchlearn.diagnostics.pictures import plot_marginal
from sketchlearn.queries import Questions


def run(sketch: str, column: str, bins: int, plot: str | None, json: bool) -> None:
    """Draws the histogram of a column in letters, or as a picture."""
    check_paths([sketch], [plot], json=False)
    ask = Questions(read_sketch(sketch))
    found = ask.marginal(int(column) if column.isdecimal() and column not in ask.columns else column, bins)
    if plot is not None:
        plot_marginal(found, plot)
    figures = {name: getattr(found, name).tolist() for name in ("edges", "shares", "errors")}
    figures["note"] = found.note
    figures["exact"] = None if found.exact is None else found.exact.tolist()
    Report(json).give({"sketch": sketch, "column": found.column, "plot": plot, **figures}, str(found))

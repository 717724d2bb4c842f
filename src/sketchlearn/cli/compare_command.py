"""`sketchlearn compare`: whether two sketches differ by more than chance."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from sketchlearn.cli.options import Json, Plot


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A sketch file; - is standard input.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another of the same operator.")],
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Say how far two sketches are apart, and if that is chance.

    \b
    Example:
      sketchlearn compare day1.sketch day2.sketch
    """
    from sketchlearn.cli.descriptions import records_in_words
    from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch
    from sketchlearn.diagnostics.pictures import plot_comparison
    from sketchlearn.queries import distance, two_sample_test

    check_paths([a, b], [plot], json=False)
    first, second = read_sketch(a), read_sketch(b)
    drift = two_sample_test(first, second)
    if plot is not None:
        plot_comparison(first, second, plot)
    apart = distance(first, second)
    figures = {"a": a, "b": b, "plot": plot, **dataclasses.asdict(drift), "apart": dataclasses.asdict(apart)}
    lines = [
        f"A: {records_in_words(first.count)}; B: {records_in_words(second.count)}",
        str(drift),
        f"Distance of the two distributions: {apart}.",
    ]
    Report(json).give(figures, *lines)

"""The verbs that ask a sketch something. What each does is in the file of its name; verbs.py attaches them."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Components, Decoder, Json, Plot, Seed, SketchFile


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
    from sketchlearn.cli.compare_command import run

    run(a, b, plot, json)


def watch(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files, the oldest first.")],
    level: Annotated[float, typer.Option(help="Part of the steps that may raise a false alarm.")] = 0.001,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Say whether, and since when, the records of a stream changed.

    \b
    Example:
      sketchlearn watch day1.sketch day2.sketch
    """
    from sketchlearn.cli.watch_command import run

    run(sketches, level, plot, json)


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
    from sketchlearn.cli.marginal_command import run

    run(sketch, column, bins, plot, json)


def explain(
    sketch: SketchFile,
    n_components: Components,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say whether a sketch can tell clusters apart, or why not.

    The sketch's size, its scale, the decoder or the model may be at fault.

    \b
    Example:
      sketchlearn explain day1.sketch -k 3
    """
    from sketchlearn.cli.explain_command import run

    run(sketch, n_components, decoder, seed, json)

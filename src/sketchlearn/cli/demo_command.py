"""`sketchlearn demo`: the same rows, sketched in two ways, to the bit."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Json


def demo(
    rows: Annotated[int, typer.Option(min=100_000, help="How many rows to generate.")] = 10_000_000,
    json: Json = False,
) -> None:
    """Sketch rows twice, in different ways: the same, to the bit.

    \b
    Example:
      sketchlearn demo --rows 200000
    """
    from sketchlearn.cli.demonstration import run

    run(rows, json)

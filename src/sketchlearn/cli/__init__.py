"""The command line: one file per verb, imported when it is used."""

from __future__ import annotations

import typer

app = typer.Typer(help="Learn from data that you saw once.", no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """Learn from data that you saw once."""


@app.command()
def demo(rows: int = typer.Option(10_000_000, min=100_000, help="How many rows to generate.")) -> None:
    """Sketch ten million generated rows twice, in different ways, and compare the two to the bit."""
    from sketchlearn.cli.demo import run

    run(rows)

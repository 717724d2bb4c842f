"""The command line: one file per verb, imported when it is used."""

from __future__ import annotations

import typer

app = typer.Typer(help="Learn from data that you saw once.", no_args_is_help=True, add_completion=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        from sketchlearn.version import __version__

        typer.echo(f"sketchlearn {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn from data that you saw once."""
    del version


@app.command()
def demo(rows: int = typer.Option(10_000_000, min=100_000, help="How many rows to generate.")) -> None:
    """Sketch generated rows twice, in different ways, and compare the two to the bit."""
    from sketchlearn.cli.demo import run

    run(rows)

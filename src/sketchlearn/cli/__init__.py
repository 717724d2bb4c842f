"""The command line. NumPy is imported only when a command runs: help and shell completion must be quick."""

from __future__ import annotations

import typer

from sketchlearn.cli import errors
from sketchlearn.cli.commands import app


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 if all went well, 1 if it failed, 2 if it was called wrongly."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="sketchlearn", standalone_mode=False)
    except typer.Abort:
        code = errors.interrupted()
    except Exception as error:
        code = errors.usage(error)
    errors.leave(code if isinstance(code, int) else 0)

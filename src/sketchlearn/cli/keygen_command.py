"""`sketchlearn keygen`: a pair of keys, to sign sketches and to check signatures."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.input_output import report
from sketchlearn.cli.options import Json


def keygen(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Writes NAME.key, to be kept secret, and NAME.pub.")],
    json: Json = False,
) -> None:
    """Make a pair of keys: one signs sketches, the other checks who signed them.

    Needs cryptography. Existing files are never overwritten.

    \b
    Example:
      sketchlearn keygen mine
      sketchlearn sketch day1.csv --design design.json --key mine.key -o signed.sketch
      sketchlearn info signed.sketch --trusted mine.pub
    """
    from sketchlearn.core.signatures import write_keys

    key = write_keys(name)
    report(
        json,
        {"private": f"{name}.key", "public": f"{name}.pub", "key": key},
        f"{name}.key signs: sketchlearn sketch --key {name}.key. Whoever has it signs as you: keep it to yourself.",
        f"{name}.pub checks: sketchlearn merge --trusted {name}.pub. Give it to those who read your sketches.",
        f"The public key is {key}.",
    )

"""`sketchlearn merge`: the sum of sketches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sketchlearn.cli.options import Json, Output


def merge(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files; - is standard input.")],
    output: Output,
    overlapping: Annotated[
        bool,
        typer.Option("--overlapping/--disjoint", help="Of private sketches: may a record be in more than one of them?"),
    ] = True,
    json: Json = False,
) -> None:
    """Add sketches: what all their rows together give, to the bit.

    Epsilons of private sketches add up, unless they are --disjoint: then the largest holds.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
    """
    from sketchlearn.cli.descriptions import kept_in_words, records_in_words
    from sketchlearn.cli.error_messages import say
    from sketchlearn.cli.standard_streams import Report, check_paths, named, read_sketch, write

    check_paths(sketches, [output], json=json)
    total, with_rows, without = None, 0, list[str]()
    for path in sketches:
        sketch = read_sketch(path)
        with_rows += sketch.kept is not None
        without += [named(path)] if sketch.kept is None and sketch.count else []
        try:
            total = sketch if total is None else total.merged(sketch, overlapping=overlapping)
        except ValueError as error:
            raise ValueError(f"{named(path)}: {error}") from None
    assert total is not None
    write(output, total.to_bytes())
    if with_rows and total.kept is None:
        say(f"the sum keeps no rows: {_why(without)}")
    figures: dict[str, Any] = {
        "output": output,
        "records": total.count,
        "sketches": len(sketches),
        "skipped": total.skipped,
        "rows": None if total.kept is None else len(total.kept),
    }
    lines = [f"{records_in_words(total.count)} of {len(sketches):,} sketches"]
    if total.kept is not None:
        lines.append(f"rows: {kept_in_words(total.kept)}")
    if total.ledger is not None:
        figures["ledger"] = total.ledger.to_json()
        lines.append(f"private: {total.ledger}")
    Report(json, [output]).give(figures, *lines)


def _why(without: list[str]) -> str:
    """Why a sum of sketches, some of which keep rows, keeps none."""
    if not without:
        return "the sketches keep rows by different rules, of designs with another sample or another --rows"
    others = f" and {len(without) - 1:,} more" if len(without) > 1 else ""
    return f"{without[0]}{others} keep{'' if others else 's'} none"

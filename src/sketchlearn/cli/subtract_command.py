"""`sketchlearn subtract`: rows taken out of a sketch."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Json, Output


def subtract(
    whole: Annotated[str, typer.Argument(metavar="WHOLE", help="A sketch file; - is standard input.")],
    part: Annotated[str, typer.Argument(metavar="PART", help="The sketch of rows to take out.")],
    output: Output,
    json: Json = False,
) -> None:
    """Take rows out of a sketch, as if they had never been there.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn subtract all.sketch day1.sketch -o rest.sketch
    """
    from sketchlearn.cli.descriptions import kept_in_words, records_in_words
    from sketchlearn.cli.error_messages import say
    from sketchlearn.cli.standard_streams import Report, check_paths, named, read_sketch, write

    check_paths([whole, part], [output], json=json)
    a, b = read_sketch(whole), read_sketch(part)
    try:
        rest = a - b
    except ValueError as error:
        raise ValueError(f"{named(part)}: {error}") from None
    write(output, rest.to_bytes())
    if a.kept is not None and rest.kept is None:
        why = "keeps none" if b.kept is None else "keeps rows by another rule"
        say(f"what is left keeps no rows: {named(part)} {why}")
    figures = {"output": output, "records": rest.count, "rows": None if rest.kept is None else len(rest.kept)}
    rows = [] if rest.kept is None else [f"rows: {kept_in_words(rest.kept)}"]
    Report(json, [output]).give(figures, f"{records_in_words(rest.count)} left", *rows)

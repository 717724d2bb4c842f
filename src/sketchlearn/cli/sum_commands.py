"""`sketchlearn merge` and `subtract`: sums and differences of sketches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sketchlearn.cli.descriptions import contents, records_in_words
from sketchlearn.cli.error_messages import say
from sketchlearn.cli.input_output import check_paths, named, naming, read_sketch, report, signing_key, write_sketch
from sketchlearn.cli.options import Json, Key, MinRecords, Output, Trusted
from sketchlearn.sketch.sums import FEW_RECORDS

if TYPE_CHECKING:
    from sketchlearn.sketch.sums import Sketch


def merge(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files; - is standard input.")],
    output: Output,
    overlapping: Annotated[
        bool | None,
        typer.Option("--overlapping/--disjoint", help="May a record (or unit) be in several of the sketches, or not?"),
    ] = None,
    key: Key = None,
    trusted: Trusted = None,
    min_records: MinRecords = FEW_RECORDS,
    json: Json = False,
) -> None:
    """Add sketches: the sum is the sketch of all their rows.

    Exact sketches that share rows are refused, unless --overlapping says that those shall count several times.
    Epsilons of private sketches add up; with --disjoint, the largest one holds. So it is with the rows that count of
    each unit, in exact sketches that were made with --unit. Shares of noise (privatize --parties) are private once
    those of all parties are added.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn keygen mine
      sketchlearn sketch day1.csv --design design.json --key mine.key -o signed.sketch
      sketchlearn merge signed.sketch --trusted mine.pub -o trusted.sketch
    """
    check_paths([*sketches, key, *(trusted or [])], [output], json=json)
    signing = signing_key(key)
    total, with_rows, without = None, 0, list[str]()
    for path in sketches:
        sketch = read_sketch(path, trusted)
        with_rows += sketch.kept is not None
        without += [named(path)] if sketch.kept is None and sketch.count else []
        with naming(path):
            _check_one_design("add", total, sketch)
            total = sketch if total is None else total.merged(sketch, overlapping=overlapping)
    assert total is not None
    write_sketch(output, total, min_records, key=signing)
    if with_rows and total.kept is None:
        say(f"the sum keeps no rows: {_why(without)}")
    figures, rows = contents(total)
    figures |= {"output": output, "sketches": len(sketches), "skipped": total.skipped}
    lines = [f"{records_in_words(total.count)} of {len(sketches):,} sketches", *rows]
    lines += [] if total.unit is None else [f"units: {total.unit}"]
    if total.ledger is not None:
        figures["ledger"] = total.ledger.to_json()
        lines.append(f"{'NOT private yet' if total.lacks_shares else 'private'}: {total.ledger}")
    report(json, figures, *lines, output=output)


def subtract(
    whole: Annotated[str, typer.Argument(metavar="WHOLE", help="A sketch file; - is standard input.")],
    part: Annotated[str, typer.Argument(metavar="PART", help="The sketch of rows to take out.")],
    output: Output,
    key: Key = None,
    trusted: Trusted = None,
    min_records: MinRecords = FEW_RECORDS,
    json: Json = False,
) -> None:
    """Take rows out of a sketch, as if they had never been there.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn subtract all.sketch day1.sketch -o rest.sketch
    """
    check_paths([whole, part, key, *(trusted or [])], [output], json=json)
    signing = signing_key(key)
    a, b = read_sketch(whole, trusted), read_sketch(part, trusted)
    with naming(part):
        _check_one_design("subtract", a, b)
        rest = a - b
    write_sketch(output, rest, min_records, key=signing)
    if a.kept is not None and rest.kept is None:
        why = "keeps none" if b.kept is None else "keeps rows by another rule"
        say(f"what is left keeps no rows: {named(part)} {why}")
    figures, rows = contents(rest)
    report(json, {"output": output, **figures}, f"{records_in_words(rest.count)} left", *rows, output=output)


def _check_one_design(verb: str, total: Sketch | None, sketch: Sketch) -> None:
    """Refuses sketches of different designs, such as two runs of `sketch -k` make."""
    from sketchlearn.core.values import difference

    if total is not None and (reason := difference(total.operator, sketch.operator)):
        remedy = "share one design: sketchlearn design ... -o design.json, then sketch with --design design.json"
        why = "" if "..." in reason else f": {reason}"  # long descriptions are shortened, and say nothing
        raise ValueError(f"cannot {verb} sketches of different designs{why}; {remedy}")


def _why(without: list[str]) -> str:
    """Why a sum of sketches, some of which keep rows, keeps none."""
    if not without:
        return "the sketches keep rows by different rules, of designs with another sample or another --rows"
    if len(without) == 1:
        return f"{without[0]} keeps none"
    return f"{without[0]} and {len(without) - 1:,} more keep none"

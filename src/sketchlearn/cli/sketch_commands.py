"""`sketchlearn sketch`, `merge` and `subtract`: sketches of rows, their sums and differences."""

from __future__ import annotations

import hashlib
import json as json_module
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli import options
from sketchlearn.cli.design_commands import Choices, design_on_rows, read_design
from sketchlearn.cli.errors import misused, say
from sketchlearn.cli.files import (
    STANDARD,
    check_paths,
    files_from,
    named,
    naming,
    read_sketch,
    remarks_said_once,
    rows_from,
    signing_key,
    tell,
    write_sketch,
)
from sketchlearn.cli.tables import contents, extras_in_words, records_in_words
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.estimators.registry import DESIGNS

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator
    from sketchlearn.files.checkpoints import Reading, Run
    from sketchlearn.sketch.sums import Sketch


@options.grouped
def sketch(
    data: options.Data,
    output: options.Output,
    choices: Choices,
    tables: options.ReadingOptions,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", help="A design file; without one, an operator is designed for -k.")
    ] = None,
    unit: options.UnitColumn = None,
    rows_per_unit: options.RowsPerUnit = None,
    checkpoint: Annotated[
        str | None, options.running(metavar="FOLDER", help="Save finished parts here: an interrupted run continues.")
    ] = None,
    checkpoint_every: Annotated[float, options.running(min=0.0, help="Seconds between parts of one file.")] = 20.0,
    skip_bad: Annotated[
        bool, options.running("--skip-bad", help="Leave out files that cannot be read, and list them.")
    ] = False,
    batch: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name that tells this batch from another one of equal rows.")
    ] = None,
    min_records: options.MinRecords = FEW_RECORDS,
    jobs: options.Jobs = None,
    device: options.DeviceOption = None,
    progress: options.Progress = None,
    key: options.Key = None,
    json: options.Json = False,
) -> None:
    """Turn rows into a sketch: exact sums that merge. The operator is in it.

    \b
    Example:
      sketchlearn sketch day1.csv day2.csv --design design.json -o days.sketch
      sketchlearn sketch day1.csv -k 3 -o day1.sketch
      sketchlearn sketch day1.csv -k 3 --rows 500 -o rows.sketch
      sketchlearn sketch visits.csv --unit patient_id --rows-per-unit 5 --design design.json -o visits.sketch
      cat day1.csv | sketchlearn sketch - --design design.json -o - > day1.sketch
      sketchlearn sketch day1.csv day2.csv --design design.json --checkpoint parts --skip-bad -o days.sketch
    """
    from sketchlearn.core.progress import row_bar
    from sketchlearn.files.checkpoints import Reading, Work, sketch_files

    if design is not None and choices.of_design_alone:
        given = "--rows, --standardize, --normalize, --directions and --profile-columns"
        raise misused(f"{given} belong to the design: give them to sketchlearn design")
    has_k, needs_k = choices.n_components is not None, design is None and DESIGNS.get(choices.task, False)
    if (design is not None and has_k) or (needs_k and not has_k):
        raise misused("give either --design FILE, or -k to have an operator designed on the first rows")
    paths = files_from(data)
    check_paths([*paths, design, key], [output], json=json)
    signing = signing_key(key)
    folder = None if checkpoint is None else Path(checkpoint)
    reading = Reading(jobs, device, skip_bad, folder, checkpoint_every, tables.arguments())
    shown = sys.stderr.isatty() if progress is None else progress
    operator = None if design is None else read_design(design)
    if unit is not None or rows_per_unit is not None:
        result = _sketch_units(operator, paths, choices, reading, shown, (unit, rows_per_unit))
    elif paths == [STANDARD]:
        if folder is not None:
            raise misused("--checkpoint needs files: standard input cannot be read again")
        result = _sketch_standard_input(operator, choices, reading, shown)
    else:
        work = Work(paths)
        if operator is None:
            operator = _designed(paths, choices, reading)  # which says the remarks on all files
        else:
            work.note = remarks_said_once()
        with row_bar(work, shown) as work.show:
            result = sketch_files(operator, paths, reading, work)
    if result.dropped and not result.sketch.count:
        raise ValueError(f"all {result.dropped:,} rows lack a value in some column that is read: nothing was sketched")
    if batch is not None:
        result.sketch = result.sketch.as_one_batch(batch)
    write_sketch(output, result.sketch, min_records, key=signing)
    _report(result, output, len(paths), json)


def _sketch_standard_input(operator: Operator | None, choices: Choices, reading: Reading, shown: bool) -> Run:
    from sketchlearn.files.checkpoints import Run

    rows = rows_from([STANDARD], **reading.arguments)
    if operator is None:
        (operator, made), rows = design_on_rows(rows, choices)
        _say_designed(operator, made)
    return Run(operator.sketch(rows, n_jobs=reading.n_jobs, progress=shown, device=reading.device), rows.dropped, 0, {})


def _sketch_units(
    operator: Operator | None,
    paths: list[str],
    choices: Choices,
    reading: Reading,
    shown: bool,
    units: tuple[Any, int | None],
) -> Run:
    """The sketch of at most so many rows of each unit of all files."""
    from sketchlearn.files.checkpoints import Run
    from sketchlearn.rows.units import rows_of_units

    column, most = units
    if column is None or most is None or len(column) != 1:
        raise misused("--unit and --rows-per-unit belong together: give one column of ids, and how many rows count")
    if paths == [STANDARD]:
        raise misused("--unit reads all rows twice, and standard input can be read only once: give files")
    if reading.folder is not None or reading.skip_bad:
        raise misused("--checkpoint and --skip-bad take file by file, and --unit all files together: choose one")
    rows = rows_from(paths, **reading.arguments)
    if operator is None:
        (operator, made), _ = design_on_rows(rows.without(column[0]), choices)
        _say_designed(operator, made)
    chosen = rows_of_units(rows, column[0], most, operator.columns)
    return Run(operator.sketch(chosen, n_jobs=reading.n_jobs, progress=shown, device=reading.device), chosen.dropped)


def _designed(paths: list[str], choices: Choices, reading: Reading) -> Operator:
    """An operator for these files; a checkpoint keeps it, so that a run that goes on uses the same one."""
    from sketchlearn.core.owner_folder import LinkError, make_folder, read_file, write_file
    from sketchlearn.files.designs import design_from_bytes, design_to_bytes

    kept = None
    if reading.folder is not None:
        facts = [asdict(choices), *reading.facts, [os.path.abspath(path) for path in paths]]
        name = hashlib.sha256(json_module.dumps(facts, sort_keys=True).encode()).hexdigest()
        kept = reading.folder / f"design-{name[:32]}.json"
        try:
            operator, _ = design_from_bytes(read_file(kept))
        except LinkError:
            raise
        except (OSError, ValueError):
            pass
        else:
            say(f"using the design that was saved as {kept}")
            return operator
    (operator, made), _ = design_on_rows(rows_from(paths, **reading.arguments), choices)
    if kept is not None:
        make_folder(kept.parent)
        write_file(kept, design_to_bytes(operator, made))
    _say_designed(operator, made)
    return operator


def _say_designed(operator: Operator, made: dict[str, Any]) -> None:
    say(f"no --design given, so one was made on {made['from']}: {operator.in_words}")
    for sentence in extras_in_words(operator):
        say(sentence)


def _report(result: Run, output: str, n_files: int, json: bool) -> None:
    sketch = result.sketch
    skipped = dict(result.skipped or {})
    figures, rows = contents(sketch)
    figures |= {
        "output": output,
        "files": n_files,
        "from_checkpoint": result.kept,
        "dropped": result.dropped,
        "skipped": skipped,
        "sums": len(sketch.sums),
    }
    words = [f"{records_in_words(sketch.count)} of {'1 file' if n_files == 1 else f'{n_files:,} files'}"]
    words += [] if sketch.unit is None else [str(sketch.unit)]
    words += [f"{result.kept:,} of them from the checkpoint"] if result.kept else []
    words += [f"{result.dropped:,} rows with missing values dropped"] if result.dropped else []
    lines = [", ".join(words), *(f"skipped: {reason}" for reason in skipped.values()), *rows]
    tell(json, figures, *lines, output=output)


def merge(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files; - is standard input.")],
    output: options.Output,
    overlapping: Annotated[
        bool | None,
        typer.Option("--overlapping/--disjoint", help="May a record (or unit) be in several of the sketches, or not?"),
    ] = None,
    key: options.Key = None,
    trusted: options.Trusted = None,
    min_records: options.MinRecords = FEW_RECORDS,
    json: options.Json = False,
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
    tell(json, figures, *lines, output=output)


def subtract(
    whole: Annotated[str, typer.Argument(metavar="WHOLE", help="A sketch file; - is standard input.")],
    part: Annotated[str, typer.Argument(metavar="PART", help="The sketch of rows to take out.")],
    output: options.Output,
    key: options.Key = None,
    trusted: options.Trusted = None,
    min_records: options.MinRecords = FEW_RECORDS,
    json: options.Json = False,
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
    tell(json, {"output": output, **figures}, f"{records_in_words(rest.count)} left", *rows, output=output)


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

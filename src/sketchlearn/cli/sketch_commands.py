"""`sketchlearn sketch`, `merge` and `subtract`: sketches of rows, their sums and differences."""

from __future__ import annotations

import hashlib
import json as json_module
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options
from sketchlearn.cli.design_commands import Choices, design_on_rows
from sketchlearn.cli.errors import refuse, say
from sketchlearn.cli.tables import contents, extras_in_words
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.messages import counted
from sketchlearn.estimators.registry import DESIGNS

if TYPE_CHECKING:
    from sketchlearn.files.checkpoints import Reading, Run


@options.grouped
def sketch(
    data: options.Data,
    output: options.Output,
    choices: Choices,
    tables: options.ReadingOptions,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", help="A design file; without one, an operator is designed for -k.")
    ] = None,
    unit: Annotated[
        Any,
        typer.Option(
            parser=options.columns_from,
            metavar="COLUMN",
            help="Ids of people (or the like) to protect instead of rows.",
        ),
    ] = None,
    rows_per_unit: Annotated[
        int | None, typer.Option(min=1, help="With --unit: how many rows of each of them count at most.")
    ] = None,
    checkpoint: Annotated[
        str | None, options.running(metavar="FOLDER", help="Save finished parts here: an interrupted run continues.")
    ] = None,
    checkpoint_every: Annotated[float, options.running(min=0.0, help="Seconds between parts of one file.")] = 20.0,
    skip_bad: Annotated[
        bool, options.running("--skip-bad", help="Leave out files that cannot be read, and list them.")
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A name that distinguishes it from batches of equal rows."),
    ] = None,
    min_records: options.MinRecords = FEW_RECORDS,
    jobs: options.Jobs = None,
    device: Annotated[
        str | None,
        options.running("--device", metavar="NAME", help="Where features are computed: cpu, cuda, cuda:1 or auto."),
    ] = None,
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
    from sketchlearn.files.checkpoints import Reading, Run, Work, sketch_files
    from sketchlearn.files.designs import design_from_bytes
    from sketchlearn.rows.units import rows_of_units

    of_design = "--rows, --standardize, --normalize, --directions and --profile-columns"
    given, has_k = design is not None, choices.n_components is not None
    both_or_none = has_k if given else DESIGNS.get(choices.task, False) and not has_k
    mistakes = {
        f"{of_design} belong to the design: give them to sketchlearn design": given and choices.of_design_alone,
        "give either --design FILE, or -k to have an operator designed on the first rows": both_or_none,
    }
    refuse(mistakes)
    paths = files.files_from(data)
    files.check_paths([*paths, design, key], [output], json=json)
    signing = files.signing_key(key)
    folder = None if checkpoint is None else Path(checkpoint)
    reading = Reading(jobs, device, skip_bad, folder, checkpoint_every, tables.arguments())
    shown = bool(progress)
    operator = None if design is None else files.read_as("design", design, design_from_bytes)[0]
    piped, by_unit, by_file = paths == [files.STANDARD], unit is not None, folder is not None or skip_bad
    not_both = by_unit != (rows_per_unit is not None) or (unit is not None and len(unit) != 1)
    mistakes = {
        "give --unit and --rows-per-unit together: one column of ids, and how many rows of each count": not_both,
        "--unit reads all rows twice, and standard input can be read only once: give files": by_unit and piped,
        "--checkpoint and --skip-bad take file by file, and --unit all files together": by_unit and by_file,
        "--checkpoint needs files: standard input cannot be read again": folder is not None and piped,
    }
    refuse(mistakes)
    if unit is not None or piped:
        rows = files.rows_from(paths, **reading.arguments)
        if operator is None:
            (operator, made), rest = design_on_rows(rows if unit is None else rows.without(unit[0]), choices)
            rows = rest if unit is None else rows
            _say_designed(operator, made)
        chosen = rows if unit is None else rows_of_units(rows, unit[0], rows_per_unit, operator.columns)
        found = operator.sketch(chosen, n_jobs=jobs, progress=shown, device=device)
        result = Run(found, chosen.dropped)
    else:
        work = Work(paths)
        if operator is None:
            operator = _designed(paths, choices, reading)  # which says the remarks on all files
        else:
            work.note = files.remarks_said_once()
        with row_bar(work, shown) as work.show:
            result = sketch_files(operator, paths, reading, work)
    if result.dropped and not result.sketch.count:
        raise ValueError(f"all {result.dropped:,} rows lack a value in some column that is read: nothing was sketched")
    if batch is not None:
        result.sketch = result.sketch.as_one_batch(batch)
    files.write_sketch(output, result.sketch, min_records, key=signing)
    _report(result, output, len(paths), json)


def _designed(paths: list[str], choices: Choices, reading: Reading) -> skl.extend.Operator:
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
    (operator, made), _ = design_on_rows(files.rows_from(paths, **reading.arguments), choices)
    if kept is not None:
        make_folder(kept.parent)
        write_file(kept, design_to_bytes(operator, made))
    _say_designed(operator, made)
    return operator


def _say_designed(operator: skl.extend.Operator, made: dict[str, Any]) -> None:
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
    words = [f"{counted(sketch.count, 'record')} of {'1 file' if n_files == 1 else f'{n_files:,} files'}"]
    words += [] if sketch.unit is None else [str(sketch.unit)]
    words += [f"{result.kept:,} of them from the checkpoint"] if result.kept else []
    words += [f"{result.dropped:,} rows with missing values dropped"] if result.dropped else []
    lines = [", ".join(words), *(f"skipped: {reason}" for reason in skipped.values()), *rows]
    files.tell(json, figures, *lines, output=output)


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

    Exact sketches that share rows are refused, unless --overlapping says that these rows shall count several times.
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
    files.check_paths([*sketches, key, *(trusted or [])], [output], json=json)
    signing = files.signing_key(key)
    total, with_rows, without = None, 0, list[str]()
    for path in sketches:
        sketch = files.read_sketch(path, trusted)
        with_rows += sketch.kept is not None
        without += [files.named(path)] if sketch.kept is None and sketch.count else []
        with files.naming(path):
            _check_one_design("add", total, sketch)
            total = sketch if total is None else total.merged(sketch, overlapping=overlapping)
    assert total is not None
    files.write_sketch(output, total, min_records, key=signing)
    if with_rows and total.kept is None:
        say(f"the sum keeps no rows: {_why(without)}")
    figures, rows = contents(total)
    figures |= {"output": output, "sketches": len(sketches), "skipped": total.skipped}
    lines = [f"{counted(total.count, 'record')} of {len(sketches):,} sketches", *rows]
    lines += [] if total.unit is None else [f"units: {total.unit}"]
    if total.ledger is not None:
        figures["ledger"] = total.ledger.to_json()
        lines.append(f"{'NOT private yet' if total.lacks_shares else 'private'}: {total.ledger}")
    files.tell(json, figures, *lines, output=output)


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
    files.check_paths([whole, part, key, *(trusted or [])], [output], json=json)
    signing = files.signing_key(key)
    a, b = files.read_sketch(whole, trusted), files.read_sketch(part, trusted)
    with files.naming(part):
        _check_one_design("subtract", a, b)
        rest = a - b
    files.write_sketch(output, rest, min_records, key=signing)
    if a.kept is not None and rest.kept is None:
        why = "keeps none" if b.kept is None else "keeps rows by another rule"
        say(f"what is left keeps no rows: {files.named(part)} {why}")
    figures, rows = contents(rest)
    files.tell(json, {"output": output, **figures}, f"{counted(rest.count, 'record')} left", *rows, output=output)


def _check_one_design(verb: str, total: skl.Sketch | None, sketch: skl.Sketch) -> None:
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

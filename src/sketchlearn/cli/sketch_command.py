"""`sketchlearn sketch`: rows of files, or of standard input, as one sketch."""

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
from sketchlearn.cli.descriptions import contents, extras_in_words, records_in_words
from sketchlearn.cli.error_messages import misused, say
from sketchlearn.cli.input_output import (
    STANDARD,
    check_paths,
    columns_from,
    files_from,
    remarks_said_once,
    report,
    rows_from,
    signing_key,
    source_arguments,
    write_sketch,
)
from sketchlearn.cli.option_messages import in_options
from sketchlearn.estimators.registry import DESIGNS
from sketchlearn.sketch.sums import FEW_RECORDS

if TYPE_CHECKING:
    from sketchlearn.cli.operator_choice import Choices
    from sketchlearn.features.operator import Operator
    from sketchlearn.files.checkpoints import Reading, Run


def sketch(
    data: options.Data,
    output: options.Output,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", help="A design file; without one, an operator is designed for -k.")
    ] = None,
    n_components: options.DesignComponents = None,
    task: options.TaskOption = "kmeans",
    targets: options.DesignTargets = None,
    n_frequencies: options.Frequencies = None,
    wave: options.Wave = "exponential",
    seed: options.Seed = 0,
    rows: options.Rows = None,
    standardize: options.Standardize = False,
    normalize: options.Normalize = False,
    directions: options.Directions = options.AUTO,
    along: options.Along = None,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    numeric_only: options.NumericOnly = False,
    nulls: options.NullsOption = options.Nulls.error,
    unit: options.UnitColumn = None,
    rows_per_unit: options.RowsPerUnit = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Save finished parts here: an interrupted run continues.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(min=0.0, help="Seconds between parts of one file.")] = 20.0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and list them.")
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
    from sketchlearn.cli.operator_choice import Choices, read_design
    from sketchlearn.core.progress import row_bar
    from sketchlearn.files.checkpoints import Reading, Work, sketch_files

    asked = rows is not None or standardize or normalize or along is not None or directions != options.AUTO
    if design is not None and asked:
        given = "--rows, --standardize, --normalize, --directions and --along"
        raise misused(f"{given} belong to the design: give them to sketchlearn design")
    needs_components = design is None and DESIGNS.get(task, False)
    if (design is not None and n_components is not None) or (needs_components and n_components is None):
        raise misused("give either --design FILE, or -k to have an operator designed on the first rows")
    kept: dict[str, Any] = {"rows": rows, "standardize": standardize}
    kept |= {"n_directions": directions, "normalize": normalize}
    kept |= {"targets": columns_from(targets, "--targets"), "along": columns_from(along, "--along")}
    choices = Choices(n_components, task, n_frequencies, wave, seed, **kept)
    paths = files_from(data)
    check_paths([*paths, design, key], [output], json=json)
    signing = signing_key(key)
    folder = None if checkpoint is None else Path(checkpoint)
    arguments = source_arguments(columns, nulls.value, exclude, numeric_only, delimiter, decimal, header, encoding)
    reading = Reading(n_jobs=jobs, device=device, skip_bad=skip_bad, folder=folder, every=checkpoint_every, **arguments)
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
    from sketchlearn.cli.operator_choice import design_on_rows
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
    units: tuple[str | None, int | None],
) -> Run:
    """The sketch of at most so many rows of each unit of all files."""
    from sketchlearn.cli.operator_choice import design_on_rows
    from sketchlearn.files.checkpoints import Run
    from sketchlearn.rows.units import rows_of_units

    column = columns_from(units[0], "--unit")
    if column is None or units[1] is None or len(column) != 1:
        raise misused("--unit and --rows-per-unit belong together: give one column of ids, and how many rows count")
    if paths == [STANDARD]:
        raise misused("--unit reads all rows twice, and standard input can be read only once: give files")
    if reading.folder is not None or reading.skip_bad:
        raise misused("--checkpoint and --skip-bad take file by file, and --unit all files together: choose one")
    rows = rows_from(paths, **reading.arguments)
    if operator is None:
        (operator, made), _ = design_on_rows(rows.without(column[0]), choices)
        _say_designed(operator, made)
    chosen = rows_of_units(rows, column[0], units[1], operator.columns)
    return Run(operator.sketch(chosen, n_jobs=reading.n_jobs, progress=shown, device=reading.device), chosen.dropped)


def _designed(paths: list[str], choices: Choices, reading: Reading) -> Operator:
    """An operator for these files; a checkpoint keeps it, so that a run that goes on uses the same one."""
    from sketchlearn.cli.operator_choice import design_on_rows
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
    skipped = {path: in_options(reason) for path, reason in (result.skipped or {}).items()}
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
    report(json, figures, *lines, output=output)

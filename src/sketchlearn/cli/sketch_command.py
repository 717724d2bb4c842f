"""`sketchlearn sketch`: rows of files, or of standard input, as one sketch."""

from __future__ import annotations

import hashlib
import json as json_module
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.options import (
    Columns,
    Data,
    Frequencies,
    Jobs,
    Json,
    Nulls,
    NullsOption,
    Output,
    Progress,
    Rows,
    Seed,
    Standardize,
    TaskOption,
    Wave,
)
from sketchlearn.tasks.registry import DESIGNS

if TYPE_CHECKING:
    from sketchlearn.cli.operator_choice import Choices, Designed
    from sketchlearn.operators import Operator
    from sketchlearn.storage.checkpoints import Reading, Run


def sketch(
    data: Data,
    output: Output,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", help="The design; without one, it is made on first rows, for -k.")
    ] = None,
    n_components: Annotated[
        int | None, typer.Option("-k", "--n-components", min=1, help="Without --design: number of clusters.")
    ] = None,
    task: TaskOption = "kmeans",
    n_frequencies: Frequencies = None,
    wave: Wave = "exponential",
    seed: Seed = 0,
    rows: Rows = None,
    standardize: Standardize = False,
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep what is done here: a run that was killed goes on.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(min=0.0, help="Seconds between parts of one file.")] = 20.0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and list them.")
    ] = False,
    jobs: Jobs = None,
    progress: Progress = None,
    json: Json = False,
) -> None:
    """Turn rows into a sketch: exact sums that merge. The operator is in it.

    \b
    Example:
      sketchlearn sketch day1.csv day2.csv --design design.json -o days.sketch
      sketchlearn sketch day1.csv -k 3 -o day1.sketch
      sketchlearn sketch day1.csv -k 3 --rows 500 -o rows.sketch
      cat day1.csv | sketchlearn sketch - --design design.json -o - > day1.sketch
      sketchlearn sketch day1.csv day2.csv --design design.json --checkpoint parts --skip-bad -o days.sketch
    """
    from sketchlearn.cli.error_messages import misused
    from sketchlearn.cli.operator_choice import Choices, read_design
    from sketchlearn.cli.row_input import columns_from, files_from
    from sketchlearn.cli.standard_streams import STANDARD, check_paths, write
    from sketchlearn.progress import row_bar
    from sketchlearn.storage.checkpoints import Reading, Work, sketch_files

    if design is not None and (rows is not None or standardize):
        raise misused("--rows and --standardize belong to the design: give them to sketchlearn design")
    told = n_components is not None or (design is None and not DESIGNS.get(task, False))
    chosen = (n_components, task, n_frequencies, wave, seed)
    choices = Choices(*chosen, rows=rows, standardize=standardize) if told else None
    if (design is None) == (choices is None):
        raise misused("give either --design FILE, or -k to have an operator designed on the first rows")
    paths = files_from(data)
    check_paths([*paths, *([design] if design else [])], [output], json=json)
    folder = None if checkpoint is None else Path(checkpoint)
    reading = Reading(columns_from(columns), nulls.value, jobs, skip_bad, folder, checkpoint_every)
    shown = sys.stderr.isatty() if progress is None else progress
    operator = read_design(design) if design is not None else None
    if paths == [STANDARD]:
        if folder is not None:
            raise misused("--checkpoint needs files: standard input cannot be read again")
        result = _sketch_standard_input(operator, choices, reading, shown)
    else:
        if operator is None:
            assert choices is not None
            operator = _designed(paths, choices, reading).operator
        work = Work(paths)
        with row_bar(work, shown) as work.show:
            result = sketch_files(operator, paths, reading, work)
    write(output, result.sketch.to_bytes())
    _report(result, output, len(paths), json)


def _sketch_standard_input(operator: Operator | None, choices: Choices | None, reading: Reading, shown: bool) -> Run:
    from sketchlearn.cli.operator_choice import design_on_rows
    from sketchlearn.cli.row_input import rows_from
    from sketchlearn.cli.standard_streams import STANDARD
    from sketchlearn.storage.checkpoints import Run

    rows = rows_from([STANDARD], reading.columns, reading.nulls)
    if operator is None:
        assert choices is not None
        designed, rows = design_on_rows(rows, choices)
        _say_designed(designed)
        operator = designed.operator
    return Run(operator.sketch(rows, n_jobs=reading.n_jobs, progress=shown), rows.dropped, 0, {})


def _designed(paths: list[str], choices: Choices, reading: Reading) -> Designed:
    """An operator for these files; a checkpoint keeps it, so that a run that goes on uses the same one."""
    from sketchlearn.cli.error_messages import say
    from sketchlearn.cli.operator_choice import Designed, design_on_rows
    from sketchlearn.cli.row_input import rows_from
    from sketchlearn.cli.standard_streams import write
    from sketchlearn.storage.design_files import design_from_bytes, design_to_bytes

    if reading.folder is None:
        designed, _ = design_on_rows(rows_from(paths, reading.columns, reading.nulls), choices)
        _say_designed(designed)
        return designed
    facts = [choices.arguments(), reading.nulls, reading.columns, [os.path.abspath(path) for path in paths]]
    name = hashlib.sha256(json_module.dumps(facts, sort_keys=True).encode()).hexdigest()
    kept = reading.folder / f"design-{name[:32]}.json"
    with suppress(OSError, ValueError):
        designed = Designed(*design_from_bytes(kept.read_bytes()))
        say(f"uses the design that {kept} keeps")
        return designed
    designed, _ = design_on_rows(rows_from(paths, reading.columns, reading.nulls), choices)
    reading.folder.mkdir(parents=True, exist_ok=True)
    write(str(kept), design_to_bytes(designed.operator, designed.made))
    _say_designed(designed)
    return designed


def _say_designed(designed: Designed) -> None:
    from sketchlearn.cli.descriptions import extras_in_words
    from sketchlearn.cli.error_messages import say

    words = designed.operator.in_words
    say(f"no --design given, so one was made on {designed.made['from']}: {words}")
    for sentence in extras_in_words(designed.operator):
        say(sentence)


def _report(result: Run, output: str, n_files: int, json: bool) -> None:
    from sketchlearn.cli.descriptions import kept_in_words, records_in_words
    from sketchlearn.cli.standard_streams import Report

    sketch, skipped = result.sketch, result.skipped or {}
    figures: dict[str, Any] = {
        "output": output,
        "records": sketch.count,
        "files": n_files,
        "from_checkpoint": result.kept,
        "dropped": result.dropped,
        "skipped": skipped,
        "sums": len(sketch.sums),
        "rows": None if sketch.kept is None else len(sketch.kept),
    }
    words = [f"{records_in_words(sketch.count)} of {'1 file' if n_files == 1 else f'{n_files:,} files'}"]
    words += [f"{result.kept:,} of them from the checkpoint"] if result.kept else []
    words += [f"{result.dropped:,} rows with missing values dropped"] if result.dropped else []
    lines = [", ".join(words), *(f"skipped: {reason}" for reason in skipped.values())]
    lines += [] if sketch.kept is None else [f"rows: {kept_in_words(sketch.kept)}"]
    Report(json, [output]).give(figures, *lines)

"""`sketchlearn sketch`: rows of files, or of standard input, as one sketch."""

from __future__ import annotations

import hashlib
import json as json_module
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sketchlearn.cli.descriptions import extras_in_words, kept_in_words, records_in_words
from sketchlearn.cli.error_messages import misused, say
from sketchlearn.cli.operator_choice import Choices, Designed, design_on_rows, read_design
from sketchlearn.cli.row_input import columns_from, files_from, rows_from
from sketchlearn.cli.standard_streams import STANDARD, Report, check_paths, write
from sketchlearn.operators import Operator
from sketchlearn.progress import row_bar
from sketchlearn.storage.checkpoints import Reading, Run, Work, sketch_files
from sketchlearn.storage.design_files import design_from_bytes, design_to_bytes

__all__ = ["Choices", "Kept", "run"]


@dataclass(frozen=True)
class Kept:
    """Where what is done is kept, and after how many seconds within a file."""

    folder: str | None
    every: float


def run(
    data: list[str],
    output: str,
    design: str | None,
    choices: Choices | None,
    columns: str | None,
    nulls: str,
    kept: Kept,
    skip_bad: bool,
    jobs: int | None,
    progress: bool | None,
    json: bool,
) -> None:
    """Sketches all rows and writes the result."""
    if (design is None) == (choices is None):
        raise misused("give either --design FILE, or -k to have an operator designed on the first rows")
    paths = files_from(data)
    check_paths([*paths, *([design] if design else [])], [output], json=json)
    folder = Path(kept.folder) if kept.folder is not None else None
    reading = Reading(columns_from(columns), nulls, jobs, skip_bad, folder, kept.every)
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
    rows = rows_from([STANDARD], reading.columns, reading.nulls)
    if operator is None:
        assert choices is not None
        designed, rows = design_on_rows(rows, choices)
        _say_designed(designed)
        operator = designed.operator
    return Run(operator.sketch(rows, n_jobs=reading.n_jobs, progress=shown), rows.dropped, 0, {})


def _designed(paths: list[str], choices: Choices, reading: Reading) -> Designed:
    """An operator for these files; a checkpoint keeps it, so that a run that goes on uses the same one."""
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
    words = designed.operator.in_words
    say(f"no --design given, so one was made on {designed.made['from']}: {words}")
    for sentence in extras_in_words(designed.operator):
        say(sentence)


def _report(result: Run, output: str, n_files: int, json: bool) -> None:
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

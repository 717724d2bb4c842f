"""What Dask and Spark cost beside a plain run over the same Parquet files.

python benchmarks/sketching/engines.py [--rows 2e6]

Everything runs on this machine: two threads, two Dask workers, or two Spark slots. The first run of an engine includes
what its workers import; the second is what a longer run pays. Each result is compared to the plain one, byte by byte.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sketchlearn as skl

D, M, FILES, WORKERS, AGAIN = 10, 1000, 16, 2, 3


def write_files(folder: Path, n_rows: int) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = [folder / f"part-{number:02}.parquet" for number in range(FILES)]
    for path, size in zip(paths, np.diff(np.linspace(0, n_rows, FILES + 1).astype(int)), strict=True):
        pq.write_table(pa.table({f"x{i}": rng.standard_normal(size) for i in range(D)}), path)
    return paths


@contextmanager
def dask_client() -> Iterator[Client]:
    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, memory_limit=0) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    n_rows = int(parser.parse_args().rows)
    console = Console()
    operator = skl.features.FourierFeatures(D, M, law=skl.features.frequencies.Gaussian(3.0), seed=0)
    table = Table("run", "first s", "later s", "beside plain", "start s", "bytes", title=f"{n_rows:,} x {D}, m = {M}")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), n_rows)
        expected, plain = operator.sketch(paths, n_jobs=WORKERS).to_bytes(), 0.0

        def measure(name: str, run: Callable[[], Any], start: float) -> float:
            first, sketch = timed(run)
            later = statistics.median(timed(run)[0] for _ in range(AGAIN))
            same = "same" if sketch.to_bytes() == expected else "DIFFERENT"
            share = f"{later / plain:.2f}" if plain else "1"
            table.add_row(name, f"{first:.2f}", f"{later:.2f}", share, f"{start:.1f}" if start else "", same)
            return later

        plain = measure("plain, 2 threads", lambda: operator.sketch(paths, n_jobs=WORKERS), 0)
        started = time.perf_counter()
        with dask_client():
            start = time.perf_counter() - started
            measure("Dask, a task per path", lambda: skl.engines.dask.sketch(paths, operator), start)
            frame = dd.read_parquet(folder)
            measure("Dask, data frame", lambda: skl.engines.dask.sketch(frame, operator), 0)
        started = time.perf_counter()
        with spark_session() as session:
            start = time.perf_counter() - started
            df = session.read.parquet(folder)
            measure("Spark, data frame", lambda: skl.engines.spark.sketch(df, operator), start)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

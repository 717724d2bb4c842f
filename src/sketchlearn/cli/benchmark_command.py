"""`sketchlearn benchmark`: how fast this machine sketches and decodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sketchlearn.cli.options import Json

D, M, K = 10, 1000, 10

REPEATS = 3


def benchmark(
    n_rows: Annotated[int, typer.Option("--rows", min=1000, help="How many rows to sketch.")] = 200_000,
    json: Json = False,
) -> None:
    """Measure how fast this machine sketches and decodes.

    \b
    Example:
      sketchlearn benchmark --rows 20000
    """
    import numpy as np

    from sketchlearn import kernel
    from sketchlearn.cli.standard_streams import Report
    from sketchlearn.frequencies import Gaussian
    from sketchlearn.operators import FourierFeatures
    from sketchlearn.tasks.clusters.cluster_estimators import SketchKMeans
    from sketchlearn.tasks.task_design import design

    rng = np.random.default_rng(0)
    centers = 5 * rng.standard_normal((K, D), dtype=np.float32)
    rows = rng.standard_normal((n_rows, D), dtype=np.float32) + centers[rng.integers(0, K, n_rows)]
    cores = kernel.n_threads(None)
    figures: dict[str, Any] = {"kernel": kernel.active, "cores": cores, "d": D, "m": M, "k": K, "rows": n_rows}
    lines = [f"kernel {kernel.active}, {cores} cores; {n_rows:,} rows of {D} columns, {M} frequencies"]
    for wave in ("exponential", "square"):
        operator = FourierFeatures(D, M, law=Gaussian(3.0), wave=wave, seed=0)  # type: ignore[arg-type]
        for threads in dict.fromkeys((1, cores)):
            seconds = _seconds(lambda op=operator, n=threads: op.sketch(rows, n_jobs=n))  # type: ignore[misc]
            figures[f"{wave}_rows_per_second_{threads}_threads"] = n_rows / seconds
            name = f"sketching, {wave} wave, {threads} thread{'s' if threads > 1 else ''}"
            lines.append(f"  {name:44}{n_rows / seconds:14,.0f} rows/s")
    sketch = design(rows[:5000], n_components=K, n_frequencies=M).sketch(rows)
    seconds = _seconds(lambda: SketchKMeans(K, random_state=0).fit_sketch(sketch), 1)
    figures["decoding_seconds"] = seconds
    lines.append(f"  {f'decoding, {K} clusters':44}{seconds:14.2f} s")
    Report(json).give(figures, *lines)


def _seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of a few times."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - started)
    return best

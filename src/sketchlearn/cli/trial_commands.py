"""`sketchlearn benchmark` and `demo`: sketchlearn on generated rows."""

from __future__ import annotations

import timeit
from typing import Annotated, Any

import typer

import sketchlearn as skl
from sketchlearn.cli import options
from sketchlearn.cli.files import tell

D, M, K = 10, 1000, 10  # columns, frequencies and clusters
REPEATS = 3  # the shortest of a few times is the least disturbed one


def benchmark(
    n_rows: Annotated[int, typer.Option("--rows", min=1000, help="How many rows to sketch.")] = 200_000,
    json: options.Json = False,
) -> None:
    """Measure how fast this machine sketches and decodes.

    \b
    Example:
      sketchlearn benchmark --rows 20000
    """
    import numpy as np

    from sketchlearn.kernels import dispatch as kernel

    rng = np.random.default_rng(0)
    centers = 5 * rng.standard_normal((K, D), dtype=np.float32)
    rows = rng.standard_normal((n_rows, D), dtype=np.float32) + centers[rng.integers(0, K, n_rows)]
    cores = kernel.n_threads(None)
    figures: dict[str, Any] = {"kernel": kernel.active, "cores": cores, "d": D, "m": M, "k": K, "rows": n_rows}
    lines = [f"kernel {kernel.active}, {cores} cores; {n_rows:,} rows of {D} columns, {M} frequencies"]
    for wave in ("exponential", "square"):
        operator = skl.features.FourierFeatures(D, M, law=skl.features.frequencies.Gaussian(3.0), wave=wave, seed=0)  # type: ignore[arg-type]
        for threads in dict.fromkeys((1, cores)):
            work = {"sketch": operator.sketch, "rows": rows, "n": threads}
            speed = n_rows / min(timeit.repeat("sketch(rows, n_jobs=n)", globals=work, number=1, repeat=REPEATS))
            figures[f"{wave}_rows_per_second_{threads}_threads"] = speed
            name = f"sketching, {wave} wave, {threads} thread{'s' if threads > 1 else ''}"
            lines.append(f"  {name:44}{speed:14,.0f} rows/s")
    sketch = skl.design(rows[:5000], n_components=K, features=skl.features.Fourier(M)).sketch(rows)
    seconds = timeit.timeit(lambda: skl.SketchKMeans(K, random_state=0).fit_sketch(sketch), number=1)
    figures["decoding_seconds"] = seconds
    lines.append(f"  {f'decoding, {K} clusters':44}{seconds:14.2f} s")
    tell(json, figures, *lines)


def demo(
    rows: Annotated[int, typer.Option(min=100_000, help="How many rows to generate.")] = 10_000_000,
    json: options.Json = False,
) -> None:
    """Sketch rows in two ways: the results are identical.

    \b
    Example:
      sketchlearn demo --rows 250000
    """
    from sketchlearn.cli.demonstration import demonstrate

    demonstrate(rows, json)

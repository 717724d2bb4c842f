"""Sketches of rows on a real GPU, compared with the processor's, byte by byte: `make gpu`. Says so where there is none.

Arrays of torch, CuPy and JAX are tried if they are installed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sketchlearn as skl
from sketchlearn.gpu import DeviceError, devices
from sketchlearn.waves import FourierSeries

WAVES = ("exponential", "cosine", "square", "sawtooth", "triangle", FourierSeries((0.3, 0.1 - 0.05j)))
SHAPES = ((1, 40, None), (2, 200, None), (10, 1000, None), (17, 300, 50), (70, 640, None), (300, 128, None))
KINDS = (np.float16, np.float32, np.float64)


def carriers() -> dict[str, Callable[[np.ndarray], Any]]:
    """How rows come to the GPU: as arrays of whatever is installed, and out of the processor's memory."""
    found: dict[str, Callable[[np.ndarray], Any]] = {}
    if (torch := _module("torch")) is not None and torch.cuda.is_available():
        found["torch"] = lambda rows: torch.from_numpy(rows).cuda()
        found["torch, strided"] = lambda rows: torch.from_numpy(np.pad(rows, ((0, 0), (1, 2)))).cuda()[:, 1:-2]
        found["torch, transposed"] = lambda rows: torch.from_numpy(np.ascontiguousarray(rows.T)).cuda().T
    if (cupy := _module("cupy")) is not None:
        found["CuPy"] = cupy.asarray
    if (jax := _module("jax")) is not None and jax.default_backend() == "gpu":
        jax.config.update("jax_enable_x64", True)
        found["JAX"] = jax.numpy.asarray
    return found


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def operators(rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    for wave in WAVES:
        for d, m, subsample in SHAPES:
            center, law = tuple(rng.normal(size=d)), skl.frequencies.Gaussian(1.0)
            seed = int(rng.integers(2**32))
            operator = skl.FourierFeatures(d, m, law=law, wave=wave, subsample=subsample, center=center, seed=seed)
            yield f"{type(operator.wave).__name__} {d} x {m}", operator
    for d in (1, 10, 64, 150):
        for rounding in ("once", "twice"):
            yield f"moments {d} {rounding}", skl.SecondMoments(d, bound=1e6, rounding=rounding)
        yield f"quadratic {d}", skl.QuadraticFeatures(d, 100, bound=1e6)
        yield f"histograms {d}", skl.Histograms.even([-3.0] * d, [3.0] * d, bins=50)
        rows = rng.normal(size=(3000, d))
        yield f"a design for {d} columns", skl.design(rows, n_components=3, rows=100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-rows", type=int, default=40_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        there = devices("cuda")
    except DeviceError as error:
        print(f"nothing was tried: {error}")
        return 0
    ways = carriers()
    print(f"{', '.join(own.name for own in there)}; arrays of {', '.join(ways) or 'no library'}")
    rng, wrong, n = np.random.default_rng(given.seed), [], 0
    for name, operator in operators(rng):
        for kind in KINDS:
            rows = (2 * rng.normal(size=(int(rng.integers(1, given.most_rows)), operator.n_features))).astype(kind)
            if kind == np.float64 and isinstance(operator, skl.FourierFeatures):
                rows[: len(rows) // 100] *= 1e8  # phases of many turns
            weights = rng.integers(0, 5, len(rows))
            plain, weighted = operator.sketch(rows), operator.sketch(rows, sample_weight=weights)
            results = {way: (operator.sketch(to_gpu(rows)), plain) for way, to_gpu in ways.items()}
            results["host"] = operator.sketch(rows, device="cuda"), plain
            results["host, weights"] = operator.sketch(rows, sample_weight=weights, device="cuda"), weighted
            for way, (found, expected) in results.items():
                n += 1
                if found.content() != expected.content() or found.kept != expected.kept:
                    wrong.append(f"{name}, {kind.__name__}, {len(rows)} rows, {way}: other bytes")
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{n - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Sketches of rows on a real GPU, compared with the processor's, byte by byte: `make gpu`. Says so where there is none.

Arrays of torch, CuPy and JAX are tried if they are installed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.features import accumulation as summing
from sketchlearn.features.waves import FourierSeries, QuantizedCosine, QuantizedSawtooth
from sketchlearn.kernels.gpu.driver import DeviceError, devices

WAVES = ("exponential", "cosine", "square", "sawtooth", "triangle", FourierSeries((0.3, 0.1 - 0.05j)))
QUANTIZED = (
    QuantizedCosine(2),
    QuantizedCosine(8, complex=False),
    QuantizedSawtooth(3),
    QuantizedSawtooth(4, complex=False),
)
SHAPES = ((1, 40, None), (2, 200, None), (10, 1000, None), (17, 300, 50), (70, 640, None), (300, 128, None))
DRAWS = 200
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
    for wave in (*WAVES, *QUANTIZED):
        for d, m, subsample in SHAPES:
            center, law = tuple(rng.normal(size=d)), skl.features.frequencies.Gaussian(1.0)
            seed = int(rng.integers(2**32))
            operator = skl.features.FourierFeatures(
                d, m, law=law, wave=wave, subsample=subsample, center=center, seed=seed
            )
            yield f"{type(operator.wave).__name__} {d} x {m}", operator
    for d in (1, 10, 64, 150):
        for rounding in ("once", "twice"):
            yield f"moments {d} {rounding}", skl.features.SecondMoments(d, bound=1e6, rounding=rounding)
        yield f"quadratic {d}", skl.features.QuadraticFeatures(d, 100, bound=1e6)
        yield f"histograms {d}", skl.features.Histograms.even([-3.0] * d, [3.0] * d, bins=50)
        rows = rng.normal(size=(3000, d))
        yield f"a design for {d} columns", skl.design(rows, n_components=3, rows=100)
    law = skl.features.frequencies.Gaussian(1.0)
    for wave in WAVES:
        waves = skl.features.FourierFeatures(9, 200, law=law, wave=wave, seed=int(rng.integers(2**32)))
        some = skl.features.SomeColumns(waves, 70, which=list(range(60, 69)))
        yield f"{some.in_words}", some
        yield f"crosses: {waves.in_words}", skl.features.CrossFeatures(some, bound=1e6, n_crossed=50)
        yield f"moments of features: {waves.in_words}", skl.features.FeatureMoments(waves, bound=1e6)
        for d, m, subsample in ((9, 100, None), (100, 300, None), (700, 1500, None), (40, 192, 64)):
            given = {"law": law, "wave": wave, "subsample": subsample, "seed": int(rng.integers(2**32))}
            yield f"structured {wave} {d} x {m}", skl.features.FourierFeatures(d, m, structured=True, **given)
    for d, k in ((1, 2), (10, 10), (17, 80), (64, 96), (200, 30)):
        box = {"bound": np.full(d, 100.0), "center": rng.normal(size=d)}
        for radius in (None, 1e-3):
            points = rng.normal(size=(k, d))
            operator = skl.features.CellSums.at_points(points, units=np.ones(d), radius=radius, **box)
            yield f"{operator.in_words}", operator
        weights, means, given = rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), {"reach": 400.0, **box}
        for factors in (rng.uniform(0.5, 2.0, (k, d)), np.tril(0.1 * rng.normal(size=(k, d, d))) + np.eye(d)):
            yield (
                f"{k} Gaussians in {d} columns",
                skl.features.ExpectedStatistics.at_mixture(weights, means, factors, **given),
            )
    for d in (65, 100, 300):
        rows = rng.normal(size=(3000, d)) + 3 * rng.normal(size=(5, d))[rng.integers(5, size=3000)]
        for normalize in (False, True):
            yield (
                f"cells of {d} columns",
                skl.design(rows, n_components=5, features=skl.features.Cells(normalize=normalize)),
            )
        mixture = skl.SketchGaussianMixture(5, covariance_type="diag", random_state=0)
        yield f"cells of {d} columns, squares", mixture.fit(np.tile(rows, (2, 1))).sketch_.operator


def any_rows() -> None:
    """Rows of any number, columns, strides, kind and size, on the GPU: hypothesis draws them."""
    torch = _module("torch")

    @settings(deadline=None, max_examples=DRAWS, database=None)
    @given(st.data())
    def same(data: Any) -> None:
        n, d, m = (data.draw(st.integers(1, most)) for most in (700, 40, 300))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        held = rng.normal(size=(2 * n, d + 3)) * data.draw(st.sampled_from([1e-30, 1.0, 1e4, 1e9]))
        held = held.astype(data.draw(st.sampled_from([np.float32, np.float64])))
        cut = data.draw(st.sampled_from([np.s_[:n, :d], np.s_[::2, 2 : d + 2], np.s_[n:, 3:]]))
        wave, weighted = data.draw(st.sampled_from((*WAVES, *QUANTIZED))), data.draw(st.booleans())
        given = {"law": skl.features.frequencies.Gaussian(1.0), "wave": wave, "seed": data.draw(st.integers(0, 99))}
        operator = skl.features.FourierFeatures(d, m, structured=d >= 8 and data.draw(st.booleans()), **given)
        weights = rng.integers(0, 9, n) if weighted else None
        expected = operator.sketch(held[cut], sample_weight=weights)
        summing.ROWS_PER_BLOCK = data.draw(st.sampled_from([50, 129, 1 << 24]))
        with torch.cuda.stream(torch.cuda.Stream()):  # what is left to do there is waited for
            rows = torch.from_numpy(held).cuda() * 1
        found = operator.sketch(rows[cut], sample_weight=weights)
        assert found.content() == expected.content()
        if operator.packed_bits is not None:
            assert operator.pack(torch.from_numpy(held).cuda()[cut]) == operator.pack(held[cut])

    if torch is not None and torch.cuda.is_available():
        same()
        print(f"{DRAWS} drawn sets of rows: the same bytes")


def failures() -> None:
    """What a real card cannot do is said in a sentence, and leaves a sketch as it was."""
    torch = _module("torch")
    if torch is None or not torch.cuda.is_available():
        return
    operator = skl.features.FourierFeatures(10, 100, law=skl.features.frequencies.Gaussian(1.0))
    rows = np.random.default_rng(0).normal(size=(1_000_000, 10))
    sketch = operator.sketch(rows[:5])
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(free - (30 << 20), dtype=torch.uint8, device="cuda")
    for device, sentence in (("cuda", "the GPU's memory is full"), ("cuda:99", "there is no GPU number 99")):
        with pytest.raises(DeviceError, match=sentence):
            sketch.update(rows, device=device)
    del held
    torch.cuda.empty_cache()
    assert sketch == operator.sketch(rows[:5])
    assert sketch.update(rows, device="cuda").count == len(rows) + 5
    print("full memory and a wrong number: a sentence each, nothing added")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--few", action="store_true", help="few rows of some operators: for tools that are slow")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        there = devices("cuda")
    except DeviceError as error:
        print(f"nothing was tried: {error}")
        return 0
    ways, every, most_rows = ({}, 12, 300) if chosen.few else (carriers(), 1, 40_000)
    print(f"{', '.join(own.name for own in there)}; arrays of {', '.join(ways) or 'no library'}")
    rng, wrong, n = np.random.default_rng(chosen.seed), [], 0
    for name, operator in islice(operators(rng), 0, None, every):
        for kind in KINDS:
            rows = (2 * rng.normal(size=(int(rng.integers(1, most_rows)), operator.n_features))).astype(kind)
            if kind == np.float64 and isinstance(operator, skl.features.FourierFeatures) and not operator.structured:
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
    if not chosen.few:
        any_rows()
        failures()
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

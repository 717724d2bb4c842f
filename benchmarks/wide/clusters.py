"""Clusters of rows with hundreds of columns, beside KMeans: python benchmarks/wide/clusters.py

Embedding-like rows (768 columns; clusters of several widths in a subspace of 40 or 200 directions, of unit length or
not), digits, words of the standard library's own modules (TF-IDF of hashed words, twelve lines to a text) and, with
--mnist FILE.npy (or .npz with X), any table of pixels. RSSE is the sum of squared distances of all rows to the nearest
center, divided by that of KMeans(n_init=10). Each method runs in a process of its own, one after the other; seconds are
those of the clock and, beside them, those of the processor, which other work on the machine changes less. Memory is the
peak above that with the rows loaded. All cases take hours on two busy cores: --only 20-narrow takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of, yes_or_no

Rows = NDArray[np.float32]

ROWS, COLUMNS, SAMPLE = 100_000, 768, 5000
LINES_PER_TEXT, HASHED_WORDS = 12, 1024
MOST_RSSE, TIMES_FASTER, MOST_BYTES, MOST_MEGABYTES = 1.01, 5.0, 2_000_000, 150.0
LARGE = 100_000  # rows from which on speed is asked for
ROWS_AT_ONCE = 5000
VERSIONS = ("numpy", "scikit-learn")

console = Console(width=150, highlight=False)


def embeddings(n: int, k: int, rank: int, width: float, *, unit: bool, seed: int) -> Rows:
    """Clusters in a subspace, wider in its first directions, and a little noise in all columns."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((COLUMNS, rank)))[0].astype(np.float32)
    centers, which = rng.standard_normal((k, rank)), rng.integers(k, size=n)
    inside = centers[which] + width * rng.standard_normal((n, rank)) * np.geomspace(1, 0.2, rank)
    rows = inside.astype(np.float32) @ basis.T
    rows += 0.02 * rng.standard_normal((n, COLUMNS), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if unit else rows


def texts_of(path: Path, lines_per_text: int) -> list[str]:
    """Texts of so many lines of a module, empty lines left out; none if it cannot be read."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        return []
    starts = range(0, len(lines) - lines_per_text + 1, lines_per_text)
    return ["\n".join(lines[start : start + lines_per_text]) for start in starts]


def hashed_words(texts: list[str], n: int) -> Rows:
    """TF-IDF of words hashed to n columns: rows of unit length."""
    hashing = HashingVectorizer(n_features=n, alternate_sign=False, norm=None, token_pattern=r"[A-Za-z]{2,}")
    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(hashing.transform(texts))
    return np.asarray(weighted.toarray(), np.float32)


def words() -> Rows:
    """Texts of twelve lines from the standard library's modules."""
    paths = sorted(path for path in Path(os.__file__).parent.rglob("*.py") if "site-packages" not in path.parts)
    return hashed_words([text for path in paths for text in texts_of(path, LINES_PER_TEXT)], HASHED_WORDS)


def pixels(path: Path) -> Rows:
    """The rows of a file of images."""
    loaded = np.load(path)
    rows = loaded if isinstance(loaded, np.ndarray) else loaded["X"]
    return np.ascontiguousarray(rows.reshape(len(rows), -1), np.float32)


def digits() -> Rows:
    return np.asarray(load_digits().data, np.float32)


def cases(n: int, mnist: Path | None) -> dict[str, tuple[int, Callable[[int], Rows]]]:
    """The number of clusters of each case, and its rows of a seed."""
    found: dict[str, tuple[int, Callable[[int], Rows]]] = {}
    for k in (20, 100):
        for name, rank, width, unit in (
            ("narrow", 40, 0.6, True),
            ("wide", 40, 1.0, True),
            ("wider", 40, 2.0, True),
            ("long", 40, 1.0, False),
            ("many", 200, 1.0, False),
        ):

            def rows(seed: int, k: int = k, rank: int = rank, width: float = width, unit: bool = unit) -> Rows:
                return embeddings(n, k, rank, width, unit=unit, seed=seed)

            found[f"{k}-{name}"] = (k, rows)
        found[f"{k}-words"] = (k, lambda seed: words())  # noqa: ARG005
        if mnist is not None:
            found[f"{k}-mnist"] = (k, lambda seed: pixels(mnist))  # noqa: ARG005
    found["10-digits"] = (10, lambda seed: digits())  # noqa: ARG005
    return found


def fitted(method: str, rows: Rows, k: int, seed: int) -> tuple[Any, int]:
    """Centers, and the bytes of a sketch."""
    if method == "sketch":
        model = skl.SketchKMeans(k, random_state=seed).fit(rows)
        return model.cluster_centers_, len(model.sketch_.to_bytes())
    if method == "sample":
        some = rows[np.random.default_rng(seed).choice(len(rows), min(SAMPLE, len(rows)), replace=False)]
        return KMeans(k, n_init=10, random_state=seed).fit(some).cluster_centers_, 0
    if method == "minibatch":
        return MiniBatchKMeans(k, random_state=seed).fit(rows).cluster_centers_, 0
    return KMeans(k, n_init=int(method), random_state=seed).fit(rows).cluster_centers_, 0


NAMES = {
    "10": "KMeans(n_init=10)",
    "1": "KMeans(n_init=1)",
    "sketch": "SketchKMeans",
    "minibatch": "MiniBatchKMeans",
    "sample": "KMeans(n_init=10), 5000 rows",
}


def squared_error(rows: Rows, centers: NDArray[Any]) -> float:
    """The sum of squared distances of all rows to the nearest center."""
    centers, total = centers.astype(np.float32), 0.0
    for first in range(0, len(rows), ROWS_AT_ONCE):
        block = rows[first : first + ROWS_AT_ONCE]
        nearest = np.argmin(np.sum(centers * centers, axis=1) - 2 * block @ centers.T, axis=1)
        left = block - centers[nearest]
        total += float(np.sum(left * left, dtype=np.float64))
    return total


def peak() -> float:
    """Peak resident megabytes of this process; that of getrusage is at least the parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure_here(path: str, method: str, k: int, seed: int) -> None:
    """Fits rows of a file in this process and prints figures, after a small fit that loads what is imported late."""
    warnings.simplefilter("ignore")
    small = np.random.default_rng(0).standard_normal((6000, 80)).astype(np.float32)
    fitted(method, small, 3, 0)
    rows = np.load(path)
    before, clock, processor = peak(), time.perf_counter(), time.process_time()
    centers, size = fitted(method, rows, k, seed)
    figures = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - processor}
    figures |= {"megabytes": peak() - before, "bytes": size, "error": squared_error(rows, centers)}
    print(json.dumps(figures))


def measured(path: Path, method: str, k: int, seed: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--here", str(path), method, str(k), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    if sys.argv[1:2] == ["--here"]:
        path, method, k, seed = sys.argv[2:]
        measure_here(path, method, int(k), int(seed))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="of embedding-like tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mnist", type=Path, help="a .npy or .npz file of images")
    parser.add_argument("--methods", default=",".join(NAMES), help="the first one is what errors are divided by")
    add_only(parser, cases(ROWS, Path()))
    given = parser.parse_args()
    known, methods = cases(given.rows, given.mnist), given.methods.split(",")
    console.print(machine(VERSIONS))
    columns = ("method", "RSSE", "seconds", "of processor", "sketch, bytes", "memory, MB")
    errors: dict[str, list[float]] = {method: [] for method in methods}
    for name in (name for name in given.only if name in known):
        k, rows_of = known[name]
        rows, found = rows_of(given.seed), {}
        table = table_of(f"{name}: {rows.shape[0]:,} x {rows.shape[1]:,}, k = {k}", columns)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            np.save(path, rows)
            n = len(rows)
            del rows
            for method in methods:
                found[method] = one = measured(path, method, k, given.seed)
                errors[method].append(one["error"] / found[methods[0]]["error"])
                figures = f"{one['seconds']:.1f}", f"{one['processor']:.1f}", f"{one['bytes']:,.0f}"
                table.add_row(NAMES[method], f"{errors[method][-1]:.4f}", *figures, f"{one['megabytes']:.0f}")
        console.print(table)
        if "sketch" in found:
            own = found["sketch"]
            asked = [("RSSE", errors["sketch"][-1] <= MOST_RSSE), ("memory", own["megabytes"] <= MOST_MEGABYTES)]
            asked += [("size", own["bytes"] <= MOST_BYTES)]
            if n >= LARGE:
                asked += [
                    (f"{times:g} times faster than {NAMES[rival]}", times * own["seconds"] <= found[rival]["seconds"])
                    for rival, times in (("1", 1.0), ("10", TIMES_FASTER))
                    if rival in found
                ]
            console.print(", ".join(f"{what} {yes_or_no(reached)}" for what, reached in asked))
    for method in methods:
        console.print(f"{NAMES[method]}: median RSSE {median(errors[method]):.4f}")


if __name__ == "__main__":
    main()

"""Classes of rows with hundreds of columns, beside scikit-learn: python benchmarks/wide/classes.py

Digits (64 columns), words of the standard library's and scikit-learn's own modules (TF-IDF of 512 hashed words, six
lines to a text, by package; whole modules are held out), generated embeddings (768 columns, four classes of five
clusters each, which differ in 40 of 60 directions) and, with --mnist FILE.npz (X and y), images of digits. Test errors
in percent, and seconds of the clock, with default arguments; rows of one method after the other, in one process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of
from benchmarks.wide.clusters import hashed_words, texts_of

Rows = NDArray[np.float32]
Labels = NDArray[Any]

ROWS, TEST_ROWS, SAMPLE = 20_000, 5000, 5000
LINES_PER_TEXT, HASHED_WORDS, HELD_OUT = 6, 512, 5
PACKAGES = ("asyncio", "email", "idlelib", "encodings", "test", "linear_model", "ensemble", "tests", "metrics")
VERSIONS = ("numpy", "scikit-learn")
console = Console(width=150, highlight=False)
progress = Console(stderr=True, highlight=False)


class Split(NamedTuple):
    """Rows to learn from and to be asked about."""

    rows: Rows
    labels: Labels
    test: Rows
    test_labels: Labels


def split(rows: Rows, labels: Labels, seed: int, most: int) -> Split:
    """A fifth of the rows to be asked about, at most 5000; of the others at most so many to learn from."""
    order = np.random.default_rng(seed).permutation(len(rows))
    test = order[: min(TEST_ROWS, len(rows) // 5)]
    known = order[len(test) : len(test) + most]
    return Split(rows[known], labels[known], rows[test], labels[test])


def digits(seed: int, most: int) -> Split:
    X, y = load_digits(return_X_y=True)
    return split(X.astype(np.float32), y, seed, most)


def pixels(path: Path, seed: int, most: int) -> Split:
    loaded = np.load(path)
    X = loaded["X"].reshape(len(loaded["X"]), -1)
    found = split(X, loaded["y"], seed, most)
    return found._replace(rows=found.rows.astype(np.float32), test=found.test.astype(np.float32))


def embeddings(seed: int, most: int) -> Split:
    """Four classes of five clusters each, of unit length; 60 directions of which each cluster is wide in its own."""
    rng = np.random.default_rng(seed)
    n, d, rank, k = most + TEST_ROWS, 768, 60, 20
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    centers, widths = rng.standard_normal((k, rank)), rng.uniform(0.7, 2.0, (k, rank))
    centers[:, 40:] = 0
    which = rng.integers(k, size=n)
    inside = centers[which] + widths[which] * rng.standard_normal((n, rank))
    rows = (inside @ basis.T).astype(np.float32) + 0.1 * rng.standard_normal((n, d), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Split(rows[:most], which[:most] % 4, rows[most:], which[most:] % 4)


def words(seed: int, most: int) -> Split:
    """Texts of six lines, by the package of their module; every fifth module is held out."""
    texts, labels, held_out = [], [], []
    roots = Path(os.__file__).parent, Path(sklearn.__file__).parent
    own = [path for path in sorted(roots[0].rglob("*.py")) if "site-packages" not in path.parts]
    paths = [path for path in (*own, *sorted(roots[1].rglob("*.py"))) if path.parent.name in PACKAGES]
    order = np.random.default_rng(seed).permutation(len(paths))
    for place, path in zip(order, paths, strict=True):
        found = texts_of(path, LINES_PER_TEXT)
        texts += found
        labels += [path.parent.name] * len(found)
        held_out += [place % HELD_OUT == 0] * len(found)
    rows = hashed_words(texts, HASHED_WORDS)
    y, test = np.array(labels), np.array(held_out)
    some = np.random.default_rng(seed).permutation(np.flatnonzero(~test))[:most]
    asked = np.random.default_rng(seed).permutation(np.flatnonzero(test))[:TEST_ROWS]
    return Split(rows[some], y[some], rows[asked], y[asked])


def cases(mnist: Path | None) -> dict[str, Callable[[int, int], Split]]:
    found: dict[str, Callable[[int, int], Split]] = {"digits": digits, "words": words, "embeddings": embeddings}
    if mnist is not None:
        found["mnist"] = lambda seed, most: pixels(mnist, seed, most)
    return found


class OnSample:
    """A peer that sees 5000 rows."""

    def __init__(self, peer: Any, seed: int) -> None:
        self.peer, self.seed = peer, seed

    def fit(self, X: Rows, y: Labels) -> OnSample:
        some = np.random.default_rng(self.seed).permutation(len(X))[:SAMPLE]
        self.peer.fit(X[some], y[some])
        return self

    def predict(self, X: Rows) -> Labels:
        return np.asarray(self.peer.predict(X))


def methods(seed: int) -> dict[str, Any]:
    peers = {
        "GaussianNB": GaussianNB(),
        "LogisticRegression": LogisticRegression(),
        "KNeighborsClassifier, 5000 rows": OnSample(KNeighborsClassifier(), seed),
        "QDA in 32 principal directions": make_pipeline(PCA(32, random_state=seed), QuadraticDiscriminantAnalysis()),
    }
    rules: dict[str, dict[str, Any]] = {
        "auto": {},
        "one Gaussian": {"rule": "mixture"},
        "windows": {"rule": "parzen"},
        "kernel": {"rule": "kernel"},
    }
    # Three Gaussians per class have 14 million frequencies of 768 columns in all: there is no memory for that.
    asked = rules | {"three Gaussians": {"rule": "mixture", "n_components": 3}}
    asked |= {f"{name} in all columns": {**options, "n_directions": None} for name, options in rules.items()}
    own = {f"SketchClassifier, {name}": skl.SketchClassifier(random_state=seed, **more) for name, more in asked.items()}
    return peers | own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="to learn from, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--mnist", type=Path, help="an .npz file of images X and their labels y")
    parser.add_argument("--methods", help="parts of their names, with semicolons between; all by default")
    add_only(parser, cases(Path()))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    console.print(machine(VERSIONS))
    known = cases(given.mnist)
    wanted = given.methods.split(";") if given.methods else [""]
    for name in (name for name in given.only if name in known):
        errors: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        notes: dict[str, str] = {}
        for seed in range(given.seed, given.seed + given.draws):
            data = known[name](seed, given.rows)
            for method, model in methods(seed).items():
                if not any(part in method for part in wanted):
                    continue
                started = time.perf_counter()
                try:
                    model.fit(data.rows, data.labels)
                    wrong = float(np.mean(model.predict(data.test) != data.test_labels))
                except (ValueError, MemoryError) as error:
                    notes[method] = str(error)[:60]
                    continue
                progress.print(
                    f"{name}, seed {seed}, {method}: {100 * wrong:.2f}, {time.perf_counter() - started:.1f} s"
                )
                errors.setdefault(method, []).append(100 * wrong)
                seconds.setdefault(method, []).append(time.perf_counter() - started)
                notes[method] = words_of(model)
        shape = f"{len(data.rows):,} x {data.rows.shape[1]}, {len(np.unique(data.labels))} classes"
        table = table_of(f"{name}: {shape}, {given.draws} draws", ("method", "errors, %", "seconds", ""))
        for method, note in notes.items():
            figures = ("", "")
            if method in errors:
                figures = f"{np.mean(errors[method]):.2f}", f"{np.mean(seconds[method]):.1f}"
            table.add_row(method, *figures, note)
        console.print(table)


def words_of(model: Any) -> str:
    """What a classifier was learned from."""
    return f"{model.rule_}: {model.sketch_.operator.in_words}"[:70] if hasattr(model, "rule_") else ""


if __name__ == "__main__":
    main()

"""Classes of images from one sketch per class: python benchmarks/tasks/all.py --only images [--mnist PATH]

Errors on images that were not sketched, over random networks and splits of scikit-learn's digits; with --mnist also on
MNIST's own split. Peers see the same images. PATH is an npz file with x_train, y_train, x_test and y_test, or a folder
with the four idx files, gzipped or not.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no
from sketchlearn.kernels import dispatch as kernel

THESIS, LEARNED = 15.8, 1.6  # MNIST: one sketch per class, m = 5000; and a learned convolutional network
SPLITS = 10
SVM_ROWS = 10_000
NETWORK = "random network, 98 outputs"
Images = NDArray[Any]
Split = tuple[Images, Images, Images, Images]  # rows and labels to learn from, rows and labels to test with


class OfOutputs:
    """Parzen windows of the network's outputs, with as many numbers per class."""

    def __init__(self, features: Any, seed: int) -> None:
        self.features, self.model = features, skl.SketchClassifier("parzen", n_frequencies=2475, random_state=seed)

    def fit(self, X: Images, y: Images) -> OfOutputs:
        self.model.fit(self.features.mapped(X, kernel.n_threads(None)), y)
        return self

    def predict(self, X: Images) -> Images:
        return np.asarray(self.model.predict(self.features.mapped(X, kernel.n_threads(None))))


def methods(shape: tuple[int, int], highest: float, seed: int) -> dict[str, tuple[Callable[[], Any], str]]:
    """Each method, and the numbers that it keeps of a class."""

    def network(n: int) -> Any:
        return skl.features.ConvolutionalFeatures(shape, n, pixels=(0, highest), seed=seed)

    d = shape[0] * shape[1]
    return {
        NETWORK: (lambda: skl.SketchClassifier(features=network(98)), f"{98 * 101 // 2:,}"),
        "random network, 40 outputs": (lambda: skl.SketchClassifier(features=network(40)), f"{40 * 43 // 2:,}"),
        "windows of 98 outputs": (lambda: OfOutputs(network(98), seed), "4,950"),
        "windows of pixels": (lambda: skl.SketchClassifier("parzen", n_frequencies=2475, random_state=seed), "4,950"),
        "one Gaussian of pixels": (lambda: skl.SketchClassifier("mixture"), f"{d * (d + 3) // 2:,}"),
    }


progress = Console(stderr=True, highlight=False)
PEERS: dict[str, Callable[[], Any]] = {
    "GaussianNB": GaussianNB,
    "QDA, reg_param = 0.1": lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "RBF SVM": SVC,
}


def error(estimator: Any, split: Split) -> tuple[float, float]:
    """The rate of errors in percent, and the seconds that learning took."""
    X, y, X_test, y_test = split
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(X, y)
    spent = time.perf_counter() - begun
    return 100 * float(np.mean(estimator.predict(X_test) != y_test)), spent


def measure(name: str, estimator: Any, split: Split, found: dict[str, list[tuple[float, float]]]) -> None:
    found.setdefault(name, []).append(error(estimator, split))
    progress.print(f"{name}: {found[name][-1][0]:.2f} %, {found[name][-1][1]:.1f} s")


def compared(title: str, asked: float, splits: list[tuple[int, Split]], highest: float) -> tuple[Table, list[bool]]:
    """All methods on all splits; networks and windows have the split's seed."""
    table = table_of(title, ("method", "numbers per class", "error, %", "least, most", "asked", "reached", "fit, s"))
    side = round(splits[0][1][0].shape[1] ** 0.5)
    found: dict[str, list[tuple[float, float]]] = {}
    sizes: dict[str, str] = {}
    for seed, split in splits:
        first = seed == splits[0][0] or len(split[0]) <= SVM_ROWS  # of many rows, others than networks are tried once
        for name, (make, size) in methods((side, side), highest, seed).items():
            sizes[name] = size
            if first or name.startswith("random network"):
                measure(name, make(), split, found)
        for name, peer in PEERS.items() if first else ():
            few = split if name != "RBF SVM" else (split[0][:SVM_ROWS], split[1][:SVM_ROWS], *split[2:])
            measure(name, peer(), few, found)
    reached = []
    for name, figures in found.items():
        errors, seconds = zip(*figures, strict=True)
        verdict = ("-", "-")
        if name == NETWORK:
            reached.append(float(np.median(errors)) < asked)
            verdict = (f"< {asked:g}", yes_or_no(reached[-1]))
        spread = f"{min(errors):.2f}, {max(errors):.2f}"
        row = (name, sizes.get(name, "-"), f"{np.median(errors):.2f}", spread, *verdict, f"{np.median(seconds):.2f}")
        table.add_row(*row)
    table.add_row("thesis 6.1, on MNIST: one sketch per class", "5,000", f"{THESIS}", "", "-", "-", "")
    table.add_row("thesis 6.1, on MNIST: learned network", "-", f"{LEARNED}", "", "-", "-", "")
    return table, reached


def idx(path: Path) -> Images:
    """The numbers of an idx file of bytes."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    n_axes = data[3]
    shape = np.frombuffer(data, ">i4", n_axes, 4)
    return np.frombuffer(data, np.uint8, -1, 4 + 4 * n_axes).reshape(shape)


def mnist(path: Path) -> Split:
    if path.is_file():
        with np.load(path) as file:
            parts = [file[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    else:
        names = ("train-images", "train-labels", "t10k-images", "t10k-labels")
        parts = [idx(sorted(path.glob(f"{name}*"))[0]) for name in names]
    X, y, X_test, y_test = parts
    return X.reshape(len(X), -1).astype(np.float32), y, X_test.reshape(len(X_test), -1).astype(np.float32), y_test


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """Each table, and whether the figures asked for were reached."""
    X, y = load_digits(return_X_y=True)
    splits = []
    for seed in range(settings.seed, settings.seed + min(SPLITS, settings.splits)):
        X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed)
        splits.append((seed, (X_fit, y_fit, X_test, y_test)))
    yield compared(f"Digits of 8 x 8 pixels, medians of {len(splits)} splits 2/3 : 1/3", 3.0, splits, 16)
    if settings.mnist is not None:
        split = mnist(settings.mnist)
        seeds = range(settings.seed, settings.seed + settings.draws)
        title = f"MNIST, {len(split[0]):,} images to learn from, medians of {len(seeds)} networks (SVM: {SVM_ROWS:,})"
        yield compared(title, 5.0, [(seed, split) for seed in seeds], 255)

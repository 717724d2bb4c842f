"""
Images by one sketch per class
==============================
Schellekens' thesis (2021), table 6.2: test errors, in per cent, of images that are compared with one sketch of each
class. The features are the outputs of a convolutional network whose weights are random; the same network, learned, is
beside them. On MNIST the thesis has 16.83 for m = 250 features, 15.80 for m = 5000 and 1.63 for the learned network.

The images here are scikit-learn's digits of 8 x 8 pixels, or MNIST where the script is given its files: ``--mnist``
and the path of an npz file with ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or of a folder with its four idx
files.
"""

import argparse
import gzip
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import sketchlearn as skl

SIZES, SVM_ROWS, BLOCK = (250, 4000), 10_000, 2000  # outputs; images that an SVM learns from; images at a time
THESIS = {250: 16.83, 4000: 15.80, "learned": 1.63}  # MNIST; 5000 outputs in place of 4000


def idx_file(folder, name):
    """An array of bytes, as MNIST's own files hold it: four bytes of kind, the sizes, the values."""
    path = next(path for path in Path(folder).iterdir() if path.name.startswith(name))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    sizes = np.frombuffer(data, ">u4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def mnist_arrays(path):
    if Path(path).is_dir():
        return [idx_file(path, f"{part}-{kind}") for part in ("train", "t10k") for kind in ("images", "labels")]
    with np.load(path) as file:
        return [file[name] for name in ("x_train", "y_train", "x_test", "y_test")]


def images(mnist, seed):
    """What the images are, their side, their brightest pixel, and a split of them: rows and labels, twice."""
    if mnist:
        X, y, X_test, y_test = mnist_arrays(mnist)
        X, X_test = (part.reshape(len(part), -1).astype(np.float32) for part in (X, X_test))
        return "MNIST", 28, 255, (X, y, X_test, y_test)
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y)
    return "digits, 8 x 8", 8, 16, (X, y, X_test, y_test)


def by_correlation(network, X, y, asked):
    """The class whose mean of outputs has the smallest angle with the outputs of the image."""
    classes = np.unique(y)
    sums = np.zeros((len(classes), network.n_outputs))
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        sums += (y[some] == classes[:, None]) @ network.mapped(X[some], 1)
    means = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    blocks = (network.mapped(asked[first : first + BLOCK], 1) for first in range(0, len(asked), BLOCK))
    return classes[np.concatenate([np.argmax(block @ means.T, axis=1) for block in blocks])]


def table(mnist=None, sizes=SIZES, draws=10):
    """Mean test errors over random networks and, of the digits, over splits."""
    errors = {f"mean of m = {m} outputs per class": [] for m in sizes}
    errors |= {"SketchClassifier, 98 outputs": [], "learned: SVM of pixels": []}
    for seed in range(draws):
        name, side, brightest, (X, y, X_test, y_test) = images(mnist, seed)
        answers = []
        for m in sizes:
            network = skl.features.ConvolutionalFeatures((side, side), m, pixels=(0, brightest), seed=seed)
            answers.append(by_correlation(network, X, y, X_test))
        network = skl.features.ConvolutionalFeatures((side, side), pixels=(0, brightest), seed=seed)
        answers.append(skl.SketchClassifier(features=network).fit(X, y).predict(X_test))
        answers.append(SVC().fit(X[:SVM_ROWS], y[:SVM_ROWS]).predict(X_test))
        for values, answer in zip(errors.values(), answers, strict=True):
            values.append(100 * np.mean(answer != y_test))
    thesis = [THESIS.get(m, np.nan) for m in sizes] + [np.nan, THESIS["learned"]]
    return pd.DataFrame(
        {
            "images": name,
            "method": list(errors),
            "thesis, on MNIST": thesis,
            "test error, %": [np.mean(values).round(2) for values in errors.values()],
            "deviation": [np.std(values).round(2) for values in errors.values()],
        }
    )


def draw(found):
    figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    ax.barh(found["method"], found["test error, %"], xerr=found["deviation"], height=0.5, label=found["images"].iloc[0])
    ax.plot(found["thesis, on MNIST"], found["method"], "k|", markersize=20, label="thesis, MNIST")
    ax.set(xlabel="test error, %")
    ax.invert_yaxis()
    ax.legend(loc="lower right")
    return figure


# %%
# Classes by the means of random outputs have errors of the thesis' order (12.05 and 11.47, on easier images), and more
# outputs help as little. The library's own rule keeps the products of 98 outputs as well: 0.85, where a machine that is
# learned from all images has 1.32.
#
# The thesis' network is another one, and it is not said whether means are compared by products or by angles; by
# products they err more often here. The largest network of the library has 4,096 outputs, so that 4,000 stand for
# 5,000. Not here: CIFAR-10 (a download; 72.02 in the thesis). MNIST by the library's own rule is in
# :doc:`/how-to/images`.
if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--mnist")
    options.add_argument("--draws", type=int, default=10)
    given = options.parse_args()
    numbers = table(given.mnist, draws=given.draws)
    print(numbers.to_string(index=False))
    draw(numbers)

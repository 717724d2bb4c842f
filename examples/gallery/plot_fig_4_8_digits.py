"""
Clusters of handwritten digits
==============================
Schellekens' thesis (2021), figure 4.8: the 70,000 digits of MNIST in ten spectral features, clustered by k-means and
from sketches of m = 1000 frequencies, exact and in single bits; squared errors, and the adjusted Rand index (ARI) to
the true digits. The thesis reports (in bars, without numbers) that sketches vary less than k-means of one start, that
k-means of several starts has the least squared error, that sketches have the higher ARI, and that single bits vary more
than exact features.

MNIST's features are read from ``mnist_spectral10.npz`` (arrays ``X`` and ``y``) in the folder that the environment
variable ``SKETCHLEARN_DATA`` names. Where it names none, these are scikit-learn's 1,797 digits in ten spectral
features, which are computed here.
"""

import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_rand_score, pairwise_distances_argmin_min

import sketchlearn as skl

K, M = 10, 1000
FOLDER = os.environ.get("SKETCHLEARN_DATA")
FILE = "mnist_spectral10.npz"


def digits(folder):
    """What the digits are, their spectral features, each of deviation 1, and their labels."""
    if folder:
        with np.load(Path(folder) / FILE) as file:
            return "MNIST", file["X"], file["y"]
    X, y = load_digits(return_X_y=True)
    found = SpectralEmbedding(K, affinity="nearest_neighbors", n_neighbors=10, random_state=0).fit_transform(X)
    return "scikit-learn's digits", found / found.std(axis=0), y


def from_rows(n_starts):
    return lambda X, seed: KMeans(K, n_init=n_starts, random_state=seed).fit(X).cluster_centers_


def from_sketch(wave):
    def centers(X, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no mixture explains such features, and the fit says so
            operator = skl.design(
                X[:1000], n_components=K, features=skl.features.Fourier(n_frequencies=M, wave=wave), seed=seed
            )
            return skl.SketchKMeans(K, random_state=seed).fit_sketch(operator.sketch(X)).cluster_centers_

    return centers


METHODS = {
    "k-means, 1 start": from_rows(1),
    "k-means, 5 starts": from_rows(5),
    "sketch, full": from_sketch("exponential"),
    "sketch, one bit": from_sketch("square"),
}


def table(folder=FOLDER, draws=10):
    """Means and deviations over draws of starts and of frequencies."""
    name, X, y = digits(folder)
    found = []
    for method, centers_of in METHODS.items():
        figures = []
        for seed in range(draws):
            labels, distances = pairwise_distances_argmin_min(X, centers_of(X, seed))
            figures.append((np.mean(distances**2), adjusted_rand_score(y, labels)))
        (error, index), (error_deviation, index_deviation) = np.mean(figures, axis=0), np.std(figures, axis=0)
        found.append(
            {
                "digits": name,
                "method": method,
                "SSE / n": error,
                "its deviation": error_deviation,
                "ARI": index,
                "its deviation ": index_deviation,
            }
        )
    return pd.DataFrame(found).round(4)


def draw(found):
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained", sharey=True)
    bars = (("SSE / n", "its deviation"), ("ARI", "its deviation "))
    for ax, (column, deviation) in zip(axes, bars, strict=True):
        for color, (_, line) in zip(("C0", "C0", "C1", "C2"), found.iterrows(), strict=True):
            ax.errorbar(line[column], line["method"], xerr=line[deviation], fmt=f"{color}o", capsize=4)
        ax.set(xlabel=column)
    axes[0].invert_yaxis()
    figure.suptitle(found["digits"].iloc[0])
    return figure


# %%
# On MNIST this is the figure of the thesis, but for one thing: sketches have the least squared error, too. Over ten
# draws each, sketches have 2.248 (exact) and 2.251 (bits), with deviations of 0.004, k-means 2.408 from one start and
# 2.300 from five, with deviations of 0.147 and 0.089; the ARI is 0.6371, 0.6365, 0.6088 and 0.6151, and bits vary more
# than exact features (0.0015 to 0.0005).
#
# On the digits of scikit-learn the ARI of sketches is higher, too (0.792 and 0.804, k-means 0.772 and 0.764), but all
# of these vary by 0.03 to 0.04, and exact sketches have about the squared error of k-means from five starts.
#
# Other than in the thesis, scale and size follow the library's design from 1,000 rows, bits have the same decoder, and
# it is run once (its own restarts are inside); the thesis has 100 draws, ``table(draws=100)``. Its spectral features
# may differ from those of the file.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

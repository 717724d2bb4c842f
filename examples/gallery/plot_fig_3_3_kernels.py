"""
Kernels from one-bit features
=============================
Schellekens' thesis (2021), figure 3.3: the Gaussian kernel of scale 1.5 in five columns from m = 200 random features
(top row), and the Laplace kernel ``exp(-|x - y|_1 / 1.5)`` from m = 2000 (bottom row), with cosines on both sides,
one bit on one side, and one bit on both. The first two are the kernel up to chance; the third is a distorted kernel,
which is known.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sketchlearn as skl

PAIRS = {
    "cosine, cosine": ("cosine", "cosine"),
    "one bit, cosine": ("square", "cosine"),
    "one bit, one bit": ("square", "square"),
}
SCALE, D = 1.5, 5
NORMAL_MEDIAN = 0.6745  # |N(0, 1)| has it; laws of Cauchy numbers have their scales by it
LAWS = {
    "Gaussian": skl.features.frequencies.Gaussian(SCALE),
    "Laplace": skl.features.frequencies.ProductCauchy(NORMAL_MEDIAN * SCALE),
}
KERNELS = {"Gaussian": lambda r: np.exp(-(r**2) / (2 * SCALE**2)), "Laplace": lambda r: np.exp(-r / SCALE)}
SIZES = {"Gaussian": 200, "Laplace": 2000}  # features, as in the thesis


def pairs_of_rows(n, norm, rng):
    x, u = rng.standard_normal((n, D)), rng.standard_normal((n, D))
    distances = np.linspace(0, 5, n)
    return x, x + distances[:, None] * u / np.linalg.norm(u, norm, axis=1, keepdims=True), distances


def products(kind, name, m, n, seed):
    """The products of features of n pairs of rows, the kernel, and what the products should be on average."""
    query, wave = PAIRS[name]
    law, kappa = LAWS[kind], KERNELS[kind]
    x, y, distances = pairs_of_rows(n, law.kernel_norm, np.random.default_rng(seed))
    features = skl.PeriodicFeatures(m, law=law, wave=wave, query=query, random_state=seed).fit(x)
    found = np.sum(features.transform_queries(x) * features.transform(y), axis=1)
    kernel = kappa(distances)
    real = {"cosine": skl.features.waves.Cosine(), "square": skl.features.waves.Square(complex=False)}
    pair = skl.features.waves.Pair(real[query], real[wave])
    expected = pair.kernel(kappa, distances)
    return distances, found * (1 / found[0] if name == "one bit, one bit" else 1), kernel, expected


def table(n=200, draws=20, sizes=SIZES):
    """Root mean squares of what is left, over pairs and draws."""
    says = {"cosine, cosine": "the kernel", "one bit, cosine": "the kernel", "one bit, one bit": "a distorted kernel"}
    found = []
    for kind, name in itertools.product(LAWS, PAIRS):
        drawn = [products(kind, name, sizes[kind], n, seed) for seed in range(draws)]
        mean = np.mean([p for _, p, _, _ in drawn], axis=0)
        _, _, kernel, expected = drawn[0]
        found.append(
            {
                "kernel": kind,
                "features": name,
                "thesis: concentrates around": says[name],
                "chance, one draw": np.sqrt(np.mean([(p - e) ** 2 for _, p, _, e in drawn])),
                "mean of draws to the kernel": np.sqrt(np.mean((mean - kernel) ** 2)),
                "mean of draws to its own kernel": np.sqrt(np.mean((mean - expected) ** 2)),
            }
        )
    return pd.DataFrame(found).round(3)


def draw():
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained", sharex=True, sharey=True)
    for ax, (kind, name) in zip(axes.flat, itertools.product(LAWS, PAIRS), strict=True):
        distances, found, kernel, expected = products(kind, name, SIZES[kind], 200, 0)
        ax.plot(distances, found, "k.", markersize=3)
        ax.plot(distances, kernel, "r", label="target kernel")
        ax.plot(distances, expected, "b--", label="expected product")
        ax.set(title=f"{kind}: {name}", xlabel="distance")
    axes[0, 2].legend()
    return figure


# %%
# As in the thesis. Distances of the Laplace kernel are sums of absolute differences.
if __name__ == "__main__":
    print(table().to_string(index=False))
    draw()

"""
Kernels from one-bit features
=============================
Schellekens' thesis (2021), figure 3.3 (top row): the Gaussian kernel of scale 1.5 in five columns from m = 200 random
features, with cosines on both sides, one bit on one side, and one bit on both. The first two are the kernel up to
chance; the third is a distorted kernel, which is known.
"""

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


def pairs_of_rows(n, rng):
    x, u = rng.standard_normal((n, D)), rng.standard_normal((n, D))
    distances = np.linspace(0, 5, n)
    return x, x + distances[:, None] * u / np.linalg.norm(u, axis=1, keepdims=True), distances


def products(name, m, n, seed):
    """The products of features of n pairs of rows, the kernel, and what the products should be on average."""
    query, wave = PAIRS[name]
    x, y, distances = pairs_of_rows(n, np.random.default_rng(seed))
    features = skl.PeriodicFeatures(m, scale=SCALE, wave=wave, query=query, random_state=seed).fit(x)
    found = np.sum(features.transform_queries(x) * features.transform(y), axis=1)
    kernel = np.exp(-(distances**2) / (2 * SCALE**2))
    real = {"cosine": skl.waves.Cosine(), "square": skl.waves.Square(complex=False)}
    pair = skl.waves.Pair(real[query], real[wave])
    expected = pair.kernel(lambda t: np.exp(-(t**2) / (2 * SCALE**2)), distances)
    return distances, found * (1 / found[0] if name == "one bit, one bit" else 1), kernel, expected


def table(m=200, n=200, draws=20):
    """Root mean squares of what is left, over pairs and draws."""
    says = {"cosine, cosine": "the kernel", "one bit, cosine": "the kernel", "one bit, one bit": "a distorted kernel"}
    found = []
    for name in PAIRS:
        drawn = [products(name, m, n, seed) for seed in range(draws)]
        mean = np.mean([p for _, p, _, _ in drawn], axis=0)
        _, _, kernel, expected = drawn[0]
        found.append(
            {
                "features": name,
                "thesis: concentrates around": says[name],
                "chance, one draw": np.sqrt(np.mean([(p - e) ** 2 for _, p, _, e in drawn])),
                "mean of draws to the kernel": np.sqrt(np.mean((mean - kernel) ** 2)),
                "mean of draws to its own kernel": np.sqrt(np.mean((mean - expected) ** 2)),
            }
        )
    return pd.DataFrame(found).round(3)


def draw():
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
    for ax, name in zip(axes, PAIRS, strict=True):
        distances, found, kernel, expected = products(name, 200, 200, 0)
        ax.plot(distances, found, "k.", markersize=3)
        ax.plot(distances, kernel, "r", label="target kernel")
        ax.plot(distances, expected, "b--", label="expected product")
        ax.set(title=name, xlabel="distance")
    axes[2].legend()
    return figure


# %%
# Not here: the bottom row of the figure, the Laplace kernel in the 1-norm, whose law (a product of Cauchy laws) the
# library does not have.
if __name__ == "__main__":
    print(table().to_string(index=False))
    draw()

"""
Risk against the size of the sketch: full, one-bit and modulo
=============================================================
Schellekens' thesis (2021), figures 4.5 and 4.6 (k-means), and Schellekens and Jacques, "Asymmetric compressive learning
guarantees" (2022), figures 3a and 4a: ten Gaussians in five columns. The excess of the squared error over that of
k-means on all rows, for sketches of exponentials, of single bits and of modulo features, and for sketches of fewer
rows. The thesis reports that one bit costs little, that modulo needs larger sketches than one bit, and that a sketch of
few rows stops improving with m, since the rows themselves err.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import sketchlearn as skl

K, D = 10, 5
WAVES = {"full": "exponential", "one bit": "square", "modulo": "sawtooth"}
RATIOS = (2, 5, 10)  # m / (K d)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return 4 * rng.standard_normal((K, D))[rng.integers(0, K, n)] + rng.standard_normal((n, D))


def rsse(X, sketched, m, wave, best, seed):
    operator = skl.features.FourierFeatures(
        D, m, law=skl.features.frequencies.FoldedGaussian(2.5), wave=wave, seed=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small sketches are doubtful, and say so
        found = (
            skl.SketchKMeans(K, decoder="ompr", random_state=seed)
            .fit_sketch(operator.sketch(sketched))
            .cluster_centers_
        )
    return ((X[:, None] - found) ** 2).sum(axis=2).min(axis=1).sum() / best


def table(n=20_000, ratios=RATIOS, draws=3, fewer=(100,)):
    """Median excess of the squared error, in per cent of that of k-means: each size, wave, and number of rows."""
    data = [rows(n, seed) for seed in range(draws)]
    bests = [KMeans(K, n_init=5, random_state=0).fit(X).inertia_ for X in data]
    found = []
    for ratio in ratios:
        line = {"m / (K d)": ratio}
        for name, wave in WAVES.items():
            excess = [
                rsse(X, X, ratio * K * D, wave, best, s) for s, (X, best) in enumerate(zip(data, bests, strict=True))
            ]
            line[name] = 100 * (np.median(excess) - 1)
        for few in fewer:
            excess = [
                rsse(X, X[:few], ratio * K * D, "exponential", best, s)
                for s, (X, best) in enumerate(zip(data, bests, strict=True))
            ]
            line[f"full, {few:,} rows"] = 100 * (np.median(excess) - 1)
        found.append(line)
    return pd.DataFrame(found).round(2)


def draw(found):
    figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for name, style in zip(found.columns[1:], ("o-", "s-", "^-", "o:", "o--"), strict=False):
        ax.loglog(found["m / (K d)"], np.maximum(found[name], 1e-2), style, label=name)
    ax.set(xlabel="m / (K d)", ylabel="excess squared error, %")
    ax.legend()
    return figure


# %%
# From 5 K d frequencies on the excess is 0.05 per cent at most, with any wave; at 2 K d exact sketches have 0.27, where
# single bits and modulo features fail (221 and 279 per cent). A sketch of 100 rows has 16 and 10 per cent too much at 5
# and 10 K d, since the rows themselves err. Sizes of K d are left out: every wave fails there, by 400 per cent and
# more, and decoding takes longest where nothing can be found.
#
# The thesis has n = 100,000 (10,000,000 for the second question), 25 draws or more, CL-OMP, and k-means and mixtures;
# here are clusters, 20,000 rows, three draws, and the library's CL-OMPR, which fits Gaussians and needs smaller
# sketches.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

"""
Private clusters: error against epsilon
=======================================
Schellekens' thesis (2021), figures 5.2 and 5.5: k-means from sketches with Laplace noise, as epsilon varies, for
several numbers of rows. The thesis reports (in curves, without numbers) that errors reach those without noise as
n epsilon grows, below those of private Lloyd iterations (DPLloyd), and that larger sketches are worse where much
noise is needed.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import sketchlearn as skl

K, D, SEPARATION = 4, 8, 2.5
EPSILONS = (0.03, 0.1, 0.3, 1.0)


def rows(n, seed):
    """The thesis' rows: unit Gaussians around normal centers of deviation s K^(1/d)."""
    rng = np.random.default_rng(seed)
    centers = SEPARATION * K ** (1 / D) * rng.standard_normal((K, D))
    return centers[rng.integers(0, K, n)] + rng.standard_normal((n, D))


def rsse(X, best, epsilon, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody keeps count here, and noise that hides clusters says so
        operator = skl.design(bounds=([-15] * D, [15] * D), n_components=K, n_rows=len(X), epsilon=epsilon, seed=seed)
        # named by the budget: each is a world of its own, of which one would be real
        release = skl.privatize(operator.sketch(X, batch=f"epsilon {epsilon}"), epsilon=epsilon)
        found = skl.SketchKMeans(K, random_state=seed).fit_sketch(release).cluster_centers_
    return ((X[:, None] - found) ** 2).sum(axis=2).min(axis=1).sum() / best


def table(counts=(10_000, 100_000), epsilons=EPSILONS, draws=2):
    """Median squared error, relative to that of k-means on the rows."""
    found = []
    for n in counts:
        data = [rows(n, seed) for seed in range(draws)]
        bests = [KMeans(K, n_init=5, random_state=0).fit(X).inertia_ for X in data]
        for epsilon in epsilons:
            errors = [rsse(X, best, epsilon, s) for s, (X, best) in enumerate(zip(data, bests, strict=True))]
            found.append(
                {
                    "n": n,
                    "epsilon": epsilon,
                    "n epsilon": round(n * epsilon),
                    "RSSE, median": np.median(errors),
                    "largest": max(errors),
                }
            )
    return pd.DataFrame(found).round(3)


def draw(found):
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for n, part in found.groupby("n"):
        ax.semilogx(part["epsilon"], part["RSSE, median"], "o-", label=f"n = {n:,}")
    ax.set(xlabel="epsilon", ylabel="RSSE")
    ax.legend()
    return figure


# %%
# The thesis has 100 to 200 draws and gives the mechanism the scale of the frequencies; here are 2 draws, nothing is
# known but a box, and the design chooses the size for n and epsilon. The effect of m and DPLloyd are in
# :doc:`/gallery/plot_fig_5_5_size`; ``benchmarks/privacy/beside_peers.py`` has diffprivlib, too.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

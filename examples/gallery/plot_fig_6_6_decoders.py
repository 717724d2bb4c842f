"""
Why decoders fail: CL-OMPR beside a genetic search
==================================================
Schellekens' thesis (2021), figures 6.6 and 6.7: ten Gaussians, k-means from sketches of growing size m. Centers that
cost more than the true ones, C(found) > C(true), are the decoder's fault: there is a better solution, and it was not
found. The thesis reports that CL-OMPR with ten trials always finds the clusters for m > 10 K d, that the cost itself
is ill-defined for m <= K d, and that for m >= 2 K d a genetic search succeeds where CL-OMPR fails: that is the
decoder's failure, not the sketch's.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import nnls
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.inference.decoders.genetic_search import Genetic
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import DiracOmpr

K, D = 10, 5
SCALE = 4.5  # of the frequencies, in deviations of a cluster
RATIOS = (1, 2, 10)  # m / (K d)
SUCCESS = 1.3  # RSSE, as in the thesis's figure 6.8
DETECTED = 1.05  # C(found) / C(true): less is within what decoders with other costs differ by


def rows(n, rng):
    centers = 4 * K ** (1 / D) * rng.standard_normal((K, D))
    return centers, centers[rng.integers(0, K, n)] + rng.standard_normal((n, D))


def decoders(X, trials):
    """The literature's, in the box of the data, a genetic search, and the library's default."""
    bounds = (tuple(X.min(axis=0)), tuple(X.max(axis=0)))
    return {
        "CL-OMP": DiracOmpr(replacement=False, bounds=bounds),
        "CL-OMPR": DiracOmpr(bounds=bounds),
        f"CL-OMPR x {trials}": DiracOmpr(trials=trials, bounds=bounds),
        "genetic": Genetic(population=40, generations=100),
        "default": "auto",
    }


def centers_of(decoder, sketch, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small sketches are doubtful, and say so
        return skl.SketchKMeans(K, decoder=decoder, random_state=seed).fit_sketch(sketch).cluster_centers_


def cost(sketch, centers):
    """C = |z - A alpha|^2 / m, where A has the features of the centers and alpha is the best."""
    A, z = sketch.operator.features(centers).T, sketch.mean
    return nnls(np.concatenate([A.real, A.imag]), np.concatenate([z.real, z.imag]))[1] ** 2 / len(z)


def table(n=20_000, ratios=RATIOS, draws=3, trials=10):
    found = []
    for seed in range(draws):
        truth, X = rows(n, np.random.default_rng(seed))
        best = KMeans(K, n_init=5, random_state=0).fit(X).inertia_
        for ratio in ratios:
            law = skl.features.frequencies.AdaptedRadius(SCALE)
            sketch = skl.features.FourierFeatures(D, ratio * K * D, law=law, seed=seed).sketch(X)
            for name, decoder in decoders(X, trials).items():
                centers = centers_of(decoder, sketch, seed)
                rsse = ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum() / best
                found.append((ratio, name, rsse, cost(sketch, centers) / cost(sketch, truth)))
    each = pd.DataFrame(found, columns=["m / (K d)", "decoder", "RSSE", "C(found) / C(true)"])
    each["successes"] = each["RSSE"] <= SUCCESS
    each["detected failures"] = each["C(found) / C(true)"] > DETECTED
    medians = each.groupby(["m / (K d)", "decoder"], sort=False)[["RSSE", "C(found) / C(true)"]].median()
    shares = each.groupby(["m / (K d)", "decoder"], sort=False)[["successes", "detected failures"]].mean()
    return medians.join(shares).sort_index(level=0, sort_remaining=False).reset_index().round(3)


def draw(found):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for name, lines in found.groupby("decoder", sort=False):
        axes[0].loglog(lines["m / (K d)"], lines["C(found) / C(true)"], "o-", label=name)
        axes[1].loglog(lines["m / (K d)"], lines["RSSE"], "o-", label=name)
    axes[0].set(xlabel="m / (K d)", ylabel="C(found) / C(true), median")
    axes[1].set(xlabel="m / (K d)", ylabel="RSSE, median")
    axes[1].legend()
    return figure


# %%
# As in the thesis: at m = K d nothing succeeds; with replacement and ten trials, CL-OMPR finds the clusters at 10 K d,
# and CL-OMP, without replacement, fails at every size by its own fault: its cost is far above that of the true centers.
# Where CL-OMPR succeeds, its points cost less than the true ones and are still not the best: at 2 K d they have 0.4 of
# that cost and a squared error 10 % too large. That is the cost's fault: points are no Gaussians. The genetic search
# and the default fit Gaussians, which need not minimise the cost of points, and come nearer to k-means.
#
# The thesis has n = 50,000 or 100,000, 50 draws and a genetic search over points; it states neither how far its
# clusters lie apart nor its scale. Here are 20,000 rows, three draws, clusters of deviation 1 around centers of
# deviation 4 K^(1/d), and a scale that was chosen so that CL-OMPR succeeds at 10 K d: at a scale of 3, one trial
# failed there in each of three draws.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

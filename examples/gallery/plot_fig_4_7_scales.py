"""
How much the scale matters
==========================
Schellekens' thesis (2021), figure 4.7 (k-means): five Gaussians in ten columns; how often clusters are found (squared
error at most 1.2 times that of k-means) as the scale of the frequencies varies, for three laws, with full precision and
with one bit. The thesis reports that the range of good scales grows with the size of the sketch, and that one bit
narrows it in some cases only.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import sketchlearn as skl

K, D = 5, 10
LAWS = {
    "Gaussian": skl.frequencies.Gaussian,
    "folded": skl.frequencies.FoldedGaussian,
    "adapted": skl.frequencies.AdaptedRadius,
}
SCALES = (0.3, 1.0, 3.0, 10.0, 30.0)  # The clusters have deviation 1.


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return 3 * rng.standard_normal((K, D))[rng.integers(0, K, n)] + rng.standard_normal((n, D))


def succeeds(X, best, law, wave, m, seed):
    operator = skl.FourierFeatures(D, m, law=law, wave=wave, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong scale is doubtful, and says so
        found = skl.SketchKMeans(K, random_state=seed).fit_sketch(operator.sketch(X)).cluster_centers_
    return ((X[:, None] - found) ** 2).sum(axis=2).min(axis=1).sum() <= 1.2 * best


def table(n=10_000, scales=SCALES, laws=tuple(LAWS), m=5 * K * D, draws=2):
    """Share of draws that succeed, for each law and wave, by scale."""
    data = [rows(n, seed) for seed in range(draws)]
    bests = [KMeans(K, n_init=5, random_state=0).fit(X).inertia_ for X in data]
    found = []
    for name in laws:
        for wave in ("exponential", "square"):
            line = {"law": name, "wave": wave}
            for scale in scales:
                line[f"scale {scale:g}"] = np.mean(
                    [
                        succeeds(X, best, LAWS[name](scale), wave, m, s)
                        for s, (X, best) in enumerate(zip(data, bests, strict=True))
                    ]
                )
            found.append(line)
    return pd.DataFrame(found)


def draw(found):
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    scales = [float(column.removeprefix("scale ")) for column in found.columns[2:]]
    for _, line in found.iterrows():
        ax.semilogx(
            scales,
            line.iloc[2:],
            "o-" if line["wave"] == "exponential" else "s--",
            label=f"{line['law']}, {line['wave']}",
        )
    ax.set(xlabel="scale", ylabel="share of successes")
    ax.legend(fontsize="small")
    return figure


# %%
# The thesis has 1,000,000 rows, sketches of 30 and 300 K d frequencies, and mixtures, too; here the sketch has 5 K d.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

"""
Classes from one sketch each: the scale and the size
====================================================
Schellekens' thesis (2021), figure 6.2: three classes in two columns that no lines separate, compared with one sketch
each. The thesis reports (in curves, without numbers) that the test accuracy rises with m up to a floor, that this floor
is near the best possible where the kernel is as wide as the clusters, and below it where it is not.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import sketchlearn as skl

CENTERS = np.array([[-2, -2], [0, 2], [2, -2], [-2, 0], [0, -2], [2, 0], [-2, 2], [0, 0], [2, 2]]).reshape(3, 3, 2)
RADII = np.array([0.5, 1.5, 2.5])
SIZES, SCALES = (10, 30, 100, 300, 1000), (0.1, 0.3, 1.0, 10.0)
SPREAD = 0.3


def clusters(n, rng):
    """Three Gaussians for each class."""
    y = rng.integers(0, 3, n)
    return CENTERS[y, rng.integers(0, 3, n)] + SPREAD * rng.standard_normal((n, 2)), y


def rings(n, rng):
    """A ring around the origin for each class."""
    y, angle = rng.integers(0, 3, n), rng.uniform(0, 2 * np.pi, n)
    radius = RADII[y] + SPREAD * rng.standard_normal(n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), y


def best_of_clusters(X):
    """The likeliest class, by the known densities."""
    squares = ((X[:, None, None] - CENTERS) ** 2).sum(axis=3)
    return np.exp(-squares / (2 * SPREAD**2)).sum(axis=2).argmax(axis=1)


def best_of_rings(X):
    return np.abs(np.linalg.norm(X, axis=1)[:, None] - RADII).argmin(axis=1)


SHAPES = {"clusters": (clusters, best_of_clusters), "rings": (rings, best_of_rings)}


def by_correlation(X, y, asked, m, scale, seed):
    """The thesis' rule: the class whose sketch has the largest product with the features of the row."""
    operator = skl.features.FourierFeatures(2, m, law=skl.features.frequencies.Gaussian(scale), seed=seed)
    products = [(operator.features(asked) @ operator.sketch(X[y == c]).mean.conj()).real for c in range(3)]
    return np.argmax(products, axis=0)


def table(n=10_000, sizes=SIZES, scales=SCALES, draws=3):
    """Mean test accuracy, in per cent; two thirds of the rows are sketched."""
    found = []
    for shape, (rows, best) in SHAPES.items():
        splits = []
        for seed in range(draws):
            X, y = rows(n, np.random.default_rng(seed))
            splits.append(train_test_split(X, y, test_size=1 / 3, random_state=seed))
        limit = np.mean([best(X_test) == y_test for _, X_test, _, y_test in splits])
        own = [skl.SketchClassifier(random_state=s).fit(X, y).score(T, t) for s, (X, T, y, t) in enumerate(splits)]
        for scale in scales:
            line = {"rows": shape, "scale": scale}
            for m in sizes:
                right = [by_correlation(X, y, T, m, scale, s) == t for s, (X, T, y, t) in enumerate(splits)]
                line[f"m = {m}"] = 100 * np.mean(right)
            found.append({**line, "SketchClassifier": 100 * np.mean(own), "best possible": 100 * limit})
    return pd.DataFrame(found).round(1)


def draw(found):
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.2), layout="constrained", width_ratios=(1, 1.5))
    sizes = [name for name in found.columns if name.startswith("m = ")]
    for (left, right), (shape, (rows, _)) in zip(axes, SHAPES.items(), strict=True):
        X, y = rows(1500, np.random.default_rng(0))
        left.scatter(*X.T, c=y, s=2, cmap="viridis")
        left.set(title=shape, aspect="equal")
        part = found[found["rows"] == shape]
        for style, (_, line) in zip(("o-", "s-", "^-", "v-"), part.iterrows(), strict=False):
            right.semilogx([int(name[4:]) for name in sizes], line[sizes], style, label=f"scale {line['scale']:g}")
        right.axhline(part["best possible"].iloc[0], color="k", linestyle="--", label="best possible")
        right.axhline(part["SketchClassifier"].iloc[0], color="grey", linestyle=":", label="SketchClassifier")
        right.set(xlabel="m", ylabel="test accuracy, %")
    figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return figure


# %%
# So it is here. Clusters of deviation 0.3: 99.6 per cent at scales 0.3 and 1 with 1,000 features, where 99.9 are
# possible, and 53.9 at scale 10. At scale 0.1 accuracy still rises at m = 1,000 (91.6): narrow kernels take many
# features. Rings are more particular: 93.2 at scale 0.3, of 93.7 that are possible, and 66.3 at scale 1. The library's
# own rule is not told a scale, and has 99.9 and 92.8.
#
# The thesis does not state its rows, so that these are others of the same kind, with 3 draws where it has 10
# (``table(draws=10)``).
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

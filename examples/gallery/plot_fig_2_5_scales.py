"""
What a sketch sees at three scales
==================================
Schellekens' thesis (2021), figure 2.5: three clusters in two columns. Where would the first center be put? The product
of the sketch with the features of a point, at all points, for scales that are too small, right and too large. Below,
what it tends to with ever more frequencies: the rows, blurred by the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.ndimage import maximum_filter

import sketchlearn as skl

CENTERS = np.array([[-2.0, -1.0], [2.0, -1.0], [0.0, 2.0]])
SCALES = (0.1, 1.0, 5.0)
M = 100


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(0, 3, n)] + 0.5 * rng.standard_normal((n, 2))


def grid(points):
    x, y = np.meshgrid(np.linspace(-5, 5, points), np.linspace(-5, 5, points))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def landscape(X, scale, m, points, seed=0):
    operator = skl.features.FourierFeatures(2, m, law=skl.features.frequencies.Gaussian(scale), seed=seed)
    features = operator.features(grid(points))
    return (features @ operator.sketch(X).mean.conj()).real.reshape(points, points) / m


def blurred(X, scale, points):
    squares = ((grid(points)[:, None] - X[None, ::10]) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * scale**2)).mean(axis=1).reshape(points, points)


def peaks(surface):
    """Local maxima that are at least half as high as the highest."""
    return int(np.sum((surface == maximum_filter(surface, 5)) & (surface > surface.max() / 2)))


def table(points=61, m=M):
    """How many places look like a cluster, and how far the highest of them is from a true center."""
    X, found = rows(), []
    for scale in SCALES:
        surface = landscape(X, scale, m, points)
        top = grid(points)[surface.argmax()]
        found.append(
            {
                "scale": scale,
                "peaks of the sketch": peaks(surface),
                "peaks of the kernel": peaks(blurred(X, scale, points)),
                "true": len(CENTERS),
                "highest to a center": np.linalg.norm(CENTERS - top, axis=1).min().round(2),
            }
        )
    return pd.DataFrame(found)


def draw(points=61):
    X = rows()
    figure, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained", sharex=True, sharey=True)
    for (above, below), scale in zip(axes.T, SCALES, strict=True):
        for ax, surface in ((above, landscape(X, scale, M, points)), (below, blurred(X, scale, points))):
            ax.contourf(np.linspace(-5, 5, points), np.linspace(-5, 5, points), surface, 20)
            ax.plot(*X[::30].T, "w.", markersize=1)
        above.set_title(f"scale {scale}")
    return figure


# %%
# The thesis gives no numbers. What it says: too small a scale shows noise, too large a scale one blur, and a scale of
# the clusters' order shows the clusters.
if __name__ == "__main__":
    print(table().to_string(index=False))
    draw()

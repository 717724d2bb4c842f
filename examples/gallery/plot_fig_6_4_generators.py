"""
Networks that generate rows, learned from a sketch
==================================================
Schellekens' thesis (2021), figure 6.4: 100,000 rows of a spiral, of six Gaussians and of a ring, and 50,000 rows from
networks that were trained on a sketch of them. The thesis shows histograms and reports, without numbers, that they look
alike, but for a few outliers and missing parts. Needs the extra ``torch``.
"""

import warnings
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sketchlearn as skl

BINS, LIMIT = 40, 1.5


def around(angle, radius):
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def spiral(n, rng):
    angle = rng.uniform(0, 2 * np.pi, n)
    return around(angle, angle / (2 * np.pi) + 0.03 * rng.standard_normal(n))


def six_gaussians(n, rng):
    return around(rng.integers(0, 6, n) * np.pi / 3, np.ones(n)) + 0.1 * rng.standard_normal((n, 2))


def ring(n, rng):
    return around(rng.uniform(0, 2 * np.pi, n), 1 + 0.05 * rng.standard_normal(n))


SHAPES = {"spiral": spiral, "six Gaussians": six_gaussians, "ring": ring}


@cache
def learned(name, n, max_iter, batch_size):
    """Rows, and a network that has seen a sketch of 600 frequencies of them, and no row."""
    X = SHAPES[name](n, np.random.default_rng(0))
    sketch = skl.design(X[:5000], task="generator", seed=0).sketch(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short trainings leave a difference, and say so
        model = skl.SketchGenerator(max_iter=max_iter, batch_size=batch_size, random_state=0).fit_sketch(sketch)
    return X, model


def histogram(X):
    return np.histogram2d(*X.T, bins=BINS, range=[[-LIMIT, LIMIT]] * 2)[0] / len(X)


def table(n=100_000, shapes=tuple(SHAPES), max_iter=500, batch_size=400, generated=50_000):
    """How much of the histograms of generated and of fresh rows differs, beside that of rows and fresh rows."""
    found = []
    for name in shapes:
        X, model = learned(name, n, max_iter, batch_size)
        rows, fresh = model.sample(generated), SHAPES[name](generated, np.random.default_rng(1))
        different, by_chance = (
            50 * np.abs(histogram(other) - histogram(fresh)).sum() for other in (rows, X[:generated])
        )
        found.append(
            {
                "rows": name,
                "histograms differ by, %": different,
                "of real rows, %": by_chance,
                "outside, %": 100 * np.mean(np.abs(rows).max(axis=1) > LIMIT),
                "residual of the sketch": model.residual_,
            }
        )
    return pd.DataFrame(found).round(3)


def draw(n=100_000, max_iter=500, batch_size=400, generated=50_000):
    figure, axes = plt.subplots(2, len(SHAPES), figsize=(8, 5.4), layout="constrained", sharex=True, sharey=True)
    for (above, below), name in zip(axes.T, SHAPES, strict=True):
        X, model = learned(name, n, max_iter, batch_size)
        real = histogram(X)
        most = np.quantile(real[real > 0], 0.97)  # one scale for rows and generated ones
        for ax, shown in ((above, real), (below, histogram(model.sample(generated)))):
            ax.imshow(shown.T, cmap="Greys", vmin=0, vmax=most, origin="lower", extent=[-LIMIT, LIMIT] * 2)
        above.set_title(name)
    axes[0, 0].set_ylabel("rows")
    axes[1, 0].set_ylabel("generated")
    return figure


# %%
# The shapes are found, with faint bridges between the six Gaussians: 16, 34 and 15 per cent of the histograms differ,
# where those of two samples of real rows differ by 2 to 5. That is training cut short, at 500 small steps: with
# ``table(max_iter=4000, batch_size=1000)``, the defaults of the library and some minutes, networks are as near as real
# rows or nearly so (:doc:`/how-to/generators` has figures). Outliers are few: at most 0.062 per cent of rows lie
# outside of the picture.
#
# The thesis trains seven layers of 10 units on sketches of 10,000 frequencies, for a few minutes; here are three layers
# of 128 units and 600 frequencies.
if __name__ == "__main__":
    print(table().to_string(index=False))
    draw()

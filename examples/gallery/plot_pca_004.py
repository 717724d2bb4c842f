"""
Compressive principal components
================================
Gribonval, Blanchard, Keriven and Traonmilin, "Compressive Statistical Learning with Random Feature Moments", section 4:
the best k components of d columns from about k d random squares (omega . x)^2, where the matrix of second moments has
d (d + 1) / 2 numbers. The paper proves that the excess risk is bounded for a number of squares proportional to k d, and
has no figure: this one shows the share of PCA's variance that is explained, and the size.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

import sketchlearn as skl

FACTORS = (1, 2, 3, 4, 6, 8)


def rows(n, d, k, rng):
    directions = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return rng.standard_normal((n, k)) * np.linspace(5, 3, k) @ directions.T + 0.3 * rng.standard_normal((n, d))


def table(d=100, k=3, n=20_000, factors=FACTORS, draws=3):
    found = []
    for factor in factors:
        m, shares = factor * k * d, []
        for seed in range(draws):
            X = rows(n, d, k, np.random.default_rng(seed))
            model = skl.SketchPCA(k, n_directions=m, random_state=seed).fit(X)
            best = PCA(k).fit(X).explained_variance_.sum()
            shares.append(np.var(X @ model.components_.T, axis=0, ddof=1).sum() / best)
        found.append(
            {
                "m / (k d)": factor,
                "m": m,
                "of d (d + 1) / 2": f"{100 * m / (d * (d + 1) / 2):.0f} %",
                "share of PCA's variance, median": np.median(shares),
                "least": np.min(shares),
            }
        )
    return pd.DataFrame(found).round(4)


def draw(found):
    figure, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    ax.plot(found["m / (k d)"], found["share of PCA's variance, median"], "o-")
    ax.set(xlabel="m / (k d)", ylabel="share of the variance that PCA explains")
    return figure


# %%
# Paper: bounded excess risk once m is a constant times k d, the constant not stated.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)

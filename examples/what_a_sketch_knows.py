"""Draws rows, and what their sketch alone knows of them: python examples/what_a_sketch_knows.py [picture.png]

The correlation of the sketch with the feature vector of a point, Re <Phi(c), z> / m, is a smoothed density of the data.
It is computed from 600 numbers; the rows are gone. Needs matplotlib: .venv/bin/pip install '.[plot]' in a clone.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as skl


def rows(n: int, rng: np.random.Generator) -> np.ndarray:
    """Three blobs and a ring."""
    centers = np.array([[-3.0, -2.5], [3.2, -2.0], [-2.8, 2.6]])
    blobs = centers[rng.integers(0, 3, n // 2)] + 0.45 * rng.standard_normal((n // 2, 2))
    angle = rng.uniform(0, 2 * np.pi, n - n // 2)
    radius = 1.5 + 0.12 * rng.standard_normal(len(angle))
    ring = np.array([2.3, 2.3]) + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.concatenate([blobs, ring])


def main() -> None:
    X = rows(1_000_000, np.random.default_rng(0))
    operator = skl.features.FourierFeatures(2, 300, law=skl.features.frequencies.Gaussian(scale=0.4), seed=1)
    sketch = operator.sketch(X)

    axis = np.linspace(-5.5, 5.5, 300)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    landscape = (operator.features(grid) @ sketch.mean.conj()).real / operator.n_frequencies

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
    left.scatter(*X[:: len(X) // 20_000].T, s=0.5, color="0.2", alpha=0.4)
    left.set_title(f"{len(X):,} rows ({X.nbytes / 1e6:.0f} MB), one in fifty drawn")
    right.imshow(landscape.reshape(300, 300), origin="lower", extent=(-5.5, 5.5, -5.5, 5.5), cmap="magma", vmin=0)
    right.set_title(f"what the sketch knows ({sketch.sums.nbytes / 1000:.1f} kB)")
    for axes in (left, right):
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
    path = sys.argv[1] if len(sys.argv) > 1 else "what_a_sketch_knows.png"
    figure.savefig(path, dpi=110)
    print(f"{sketch}\nwrote {path}")


if __name__ == "__main__":
    main()

"""Rows from a network that never saw one: figure 6.4 of the thesis, from sketches of 1200 numbers.

    python examples/generators.py docs/how-to/generators.png

Above, 100,000 rows each of a spiral, a ring and six Gaussians; below, rows that networks generate, each trained on the
sketch alone. Needs the extras torch and plot; some minutes.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as skl

N = 100_000
rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, N)
sixth = rng.integers(0, 6, N) * np.pi / 3
way = np.column_stack([np.cos(angle), np.sin(angle)])
SHAPES = {
    "spiral": way * (angle / (2 * np.pi) + 0.03 * rng.standard_normal(N))[:, None],
    "ring": way * (1 + 0.05 * rng.standard_normal(N))[:, None],
    "six Gaussians": np.column_stack([np.cos(sixth), np.sin(sixth)]) + 0.1 * rng.standard_normal((N, 2)),
}

figure, axes = plt.subplots(2, 3, figsize=(7.5, 5.2), sharex="col", sharey="col", layout="constrained")
for (name, rows), (above, below) in zip(SHAPES.items(), axes.T, strict=True):
    generator = skl.SketchGenerator(random_state=0, verbose=1)
    operator = skl.design(rows[:5000], task="generator")
    generator.fit_sketch(operator.sketch(rows))
    print(f"{name}: residual {generator.residual_:.2g}, {generator.n_iter_} steps")
    limit = 1.1 * np.abs(rows).max()
    most = None
    for axis, shown in ((above, rows), (below, generator.sample(N))):
        counts = axis.hist2d(*shown.T, bins=100, range=[[-limit, limit]] * 2, cmap="Greys")[0]
        most = np.quantile(counts[counts > 0], 0.97) if most is None else most  # one scale for rows and generated ones
        axis.collections[0].set_clim(0, most)
        axis.set(xticks=[], yticks=[], aspect="equal")
    above.set_title(name)
axes[0, 0].set_ylabel("rows")
axes[1, 0].set_ylabel("generated")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "generators.png", dpi=100)

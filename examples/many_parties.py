"""Fifty parties learn clusters together and trust nobody: python examples/many_parties.py [picture.png]

Each party sketches its own rows and releases the sketch with noise; whoever adds the releases sees no row and no exact
sum. Beside it, parties that add shares of noise, whose sum alone is private; and a trusted curator who sees all exact
sketches and adds noise once: a fiftieth of the variance for the same epsilon. Needs matplotlib and opendp:
.venv/bin/pip install '.[plot,privacy]' in a clone.
"""

import itertools
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as skl

PARTIES, ROWS, CLUSTERS = 50, 4000, 5
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 5


def records(rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each party, which has more of some clusters than of others."""
    angle = 2 * np.pi * np.arange(CLUSTERS) / CLUSTERS
    centers = 5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    shares = rng.dirichlet(np.ones(CLUSTERS), PARTIES)
    which = [rng.choice(CLUSTERS, ROWS, p=share) for share in shares]
    return [centers[labels] + rng.standard_normal((ROWS, 2)) for labels in which]


def main() -> None:
    parties = records(np.random.default_rng(0))
    everything, worlds = np.concatenate(parties), itertools.count()
    best = KMeans(CLUSTERS, n_init=10, random_state=0).fit(everything).inertia_

    def learned(sketch: skl.Sketch) -> tuple[np.ndarray, float]:
        centers = skl.SketchKMeans(CLUSTERS, random_state=0).fit_sketch(sketch).cluster_centers_
        squares = ((everything[:, None] - centers) ** 2).sum(axis=2)
        return centers, squares.min(axis=1).sum() / best

    def parties_alone(epsilon: float) -> skl.Sketch:
        # The rows of two parties are different people's: one record is in one release only.
        return skl.merge([skl.privatize(sketch, epsilon=epsilon) for sketch in exact(epsilon)], overlapping=False)

    def shares(epsilon: float) -> skl.Sketch:
        return skl.merge([skl.privatize(sketch, epsilon=epsilon, parties=PARTIES) for sketch in exact(epsilon)])

    def curator(epsilon: float) -> skl.Sketch:
        return skl.privatize(skl.merge(exact(epsilon)), epsilon=epsilon)

    def exact(epsilon: float) -> list[skl.Sketch]:
        """The exact sketches as if never released: each run below is a world of its own, of which one would be real.

        So the same rows have another name in each.
        All that is agreed on before: two columns, five clusters, values between -10 and 10, rows and budget.
        """
        known = {"n_components": CLUSTERS, "n_rows": PARTIES * ROWS, "epsilon": epsilon}
        operator = skl.design(bounds=([-10, -10], [10, 10]), **known)
        world = f"world {next(worlds)}"
        return [operator.sketch(rows, batch=world) for rows in parties]

    ways = {"fifty parties, no trust": parties_alone, "fifty shares of noise": shares, "one curator": curator}
    errors = {name: [] for name in ways}
    for epsilon in EPSILONS:
        for name, release in ways.items():
            found = sorted(learned(release(epsilon))[1] for _ in range(REPEATS))
            errors[name].append(found)
            print(f"epsilon {epsilon:<4} {name:24} RSSE {found[REPEATS // 2]:.4f} ({found[0]:.4f} to {found[-1]:.4f})")

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    left.scatter(*everything[::20].T, s=0.5, color="0.5", alpha=0.4)
    for (name, release), marker in zip(ways.items(), "x1+", strict=True):
        sketch = release(1.0)
        left.scatter(*learned(sketch)[0].T, marker=marker, s=120, linewidths=2, label=name)
        print(f"{name}: {sketch.ledger}")
    left.set_title(f"{PARTIES} parties, {len(everything):,} rows; centers at epsilon 1")
    left.set_aspect("equal")
    left.legend(loc="upper right", fontsize=8)
    for name, runs in errors.items():
        lowest, middle, highest = np.array(runs)[:, [0, REPEATS // 2, -1]].T - 1
        (line,) = right.plot(EPSILONS, np.maximum(middle, 1e-5), "o-", label=name)
        low, high = np.maximum(lowest, 1e-5), np.maximum(highest, 1e-5)
        right.fill_between(EPSILONS, low, high, alpha=0.2, color=line.get_color())
    title = f"squared error beyond that of KMeans, {REPEATS} runs"
    right.set(xscale="log", yscale="log", xlabel="epsilon", title=title)
    right.legend()
    path = sys.argv[1] if len(sys.argv) > 1 else "many_parties.png"
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()

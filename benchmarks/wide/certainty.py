"""What sketches of cells say of themselves: intervals of centers and shares, the inertia, and the number of clusters.

    python benchmarks/wide/certainty.py --only errors --draws 100
    python benchmarks/wide/certainty.py --only choice --draws 10 --peers 1

Intervals: 256 columns, clusters that differ in k - 1 directions, each draw with a design of its own on 5000 of its
rows. The truth is k-means of the law, from 400,000 rows in those directions. "along" are intervals along the clusters'
directions alone, in which borders matter.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture

import sketchlearn as skl

D, RANK = 256, 40
Rows = np.ndarray


class Law:
    """Clusters in k - 1 directions of 256, the nearest of which are so many deviations apart."""

    def __init__(self, k: int, apart: float, tails: bool) -> None:
        rng = np.random.default_rng(1)
        self.centers, self.tails, self.k = rng.standard_normal((k, k - 1)), tails, k
        distances = np.linalg.norm(self.centers[:, None] - self.centers, axis=2)
        self.centers *= apart / distances[~np.eye(k, dtype=bool)].min()
        self.turn = np.linalg.qr(rng.standard_normal((D, D)))[0]
        self.shares = rng.dirichlet(np.full(k, 8.0))

    def draw(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        """Rows in the first d columns, before they are turned."""
        rows = rng.standard_normal((n, d))
        if self.tails:  # Student's t with 6 degrees of freedom, of variance 1
            rows *= np.sqrt(4 / rng.chisquare(6, (n, 1)))
        rows[:, : self.k - 1] += self.centers[rng.choice(self.k, n, p=self.shares)]
        return rows

    def truth(self) -> tuple[Rows, Rows]:
        """Centers and shares of k-means of the law."""
        rows, centers = self.draw(400_000, self.k - 1, np.random.default_rng(2)), self.centers
        for _ in range(100):
            labels = np.argmin(np.sum(centers**2, axis=1) - 2 * rows @ centers.T, axis=1)
            before, centers = centers, np.array([rows[labels == j].mean(axis=0) for j in range(self.k)])
            if np.max(np.abs(centers - before)) < 1e-4:
                break
        return centers, np.bincount(labels, minlength=self.k) / len(rows)


def covered(law: Law, n: int, draws: int) -> str:
    centers, shares = law.truth()
    truth = np.zeros((law.k, D))
    truth[:, : law.k - 1] = centers
    truth = truth @ law.turn.T
    found: dict[str, list[Rows]] = {"centers": [], "along": [], "shares": [], "inertia": []}
    withheld = 0
    for draw in range(draws):
        rng = np.random.default_rng(1000 + draw)
        rows = (law.draw(n, D, rng) @ law.turn.T).astype(np.float32)
        operator = skl.design(rows[rng.permutation(n)[:5000]], n_components=law.k)
        model = skl.SketchKMeans(law.k, random_state=draw).fit_sketch(operator.sketch(rows))
        found["inertia"].append(np.array([(model.inertia_ + model.score(rows)) / model.inertia_error_]))
        errors = model.error_bars().standard_errors
        withheld += not errors
        if not errors:
            continue
        order = linear_sum_assignment(np.sum((model.cluster_centers_[:, None] - truth) ** 2, axis=2))[1]
        away, of_centers = model.cluster_centers_ - truth[order], errors["cluster_centers_"]
        found["centers"].append((away / of_centers).ravel())
        turned = away @ law.turn[:, : law.k - 1]
        found["along"].append((turned / np.sqrt(of_centers**2 @ law.turn[:, : law.k - 1] ** 2)).ravel())
        found["shares"].append((model.weights_ - shares[order]) / errors["weights_"])
    told = {name: np.mean(np.abs(np.concatenate(z)) < 1.96) if z else np.nan for name, z in found.items()}
    return "  ".join(f"{name} {share:.3f}" for name, share in told.items()) + f"  withheld {withheld} of {draws}"


def clusters(kind: str, k: int, n: int, rng: np.random.Generator) -> Rows:
    """Rows of 256 columns: k Gaussians of many kinds."""
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
    if kind == "round, in all columns":
        return 0.3 * rng.standard_normal((k, D))[labels] + rng.standard_normal((n, D))
    centers, rows = rng.standard_normal((k, RANK)), rng.standard_normal((n, RANK))
    if kind == "of several widths":
        rows *= rng.uniform(0.25, 0.75, k)[labels][:, None]
    elif kind == "of shapes of their own":
        turns = np.linalg.qr(rng.standard_normal((k, RANK, RANK)))[0] * np.geomspace(1.5, 0.1, RANK)
        for j in range(k):
            rows[labels == j] = rows[labels == j] @ turns[j].T
    elif kind == "with tails":
        rows *= 0.5 * np.sqrt(4 / rng.chisquare(6, (n, 1)))
    elif kind == "of unit length":
        rows *= 0.6
    elif kind == "none: one Gaussian":
        rows, centers = rows * np.geomspace(1, 0.1, RANK), 0 * centers
    rows = (rows + centers[labels]) @ np.linalg.qr(rng.standard_normal((D, RANK)))[0].T
    rows += 0.05 * rng.standard_normal((n, D))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if kind == "of unit length" else rows


def likeliest(rows: Rows, covariance_type: str) -> int:
    """By BIC of mixtures in the projection."""
    fits = (GaussianMixture(k, covariance_type=covariance_type, random_state=0, reg_covar=1e-5) for k in range(1, 26))
    return int(np.argmin([fit.fit(rows).bic(rows) for fit in fits])) + 1


def chosen(kind: str, k: int, draws: int, peers: int, seed: int) -> str:
    true, found, others, n = 1 if kind.startswith("none") else k, [], [], 20_000
    seconds = 0.0
    for draw in range(draws):
        rng = np.random.default_rng(100 * k + draw + 10_000 * seed)
        rows = clusters(kind, k, n, rng).astype(np.float32)
        some = rows[rng.permutation(n)[:5000]]
        operator = skl.design(some, n_components=25)
        sketch, started = operator.sketch(rows), time.process_time()
        found.append(skl.choose_k(sketch, 25).n_clusters)
        seconds += time.process_time() - started
        if draw < peers:
            places = (some - operator.middle) @ operator.projection.T
            others.append([likeliest(places / places.std(), kind) for kind in ("diag", "full")])
    wrong = [one for one in found if one != true]
    peer = f"  BIC of mixtures (diag, full): {others}" if peers else ""
    return f"right {draws - len(wrong)} of {draws}, else {wrong}; {seconds / draws:.1f} s each{peer}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["errors", "choice"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--peers", type=int, default=0, help="draws on which mixtures are fitted in the projection")
    parser.add_argument("--seed", type=int, default=0, help="of the rows whose clusters are counted")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only != "choice":
        for k, apart, n, tails in [
            (5, 8, 8000, False), (5, 6, 8000, False), (5, 5, 8000, False), (5, 4, 8000, False), (5, 6, 8000, True),
            (12, 6, 8000, False), (5, 6, 40_000, False), (5, 5, 40_000, False),
        ]:  # fmt: skip
            case = f"k = {k}, {apart} apart, n = {n:,}" + (", with tails" if tails else "")
            draws = given.draws if n < 10_000 else max(given.draws // 4, 1)
            print(f"{case:42}", covered(Law(k, apart, tails), n, draws), flush=True)
    if given.only != "errors":
        kinds = ["round, in all columns", "of several widths", "of shapes of their own", "with tails", "of unit length"]
        for kind in [*kinds, "none: one Gaussian"]:
            for k in (5, 12, 20) if not kind.startswith("none") else (1,):
                print(f"{kind:26} k = {k:2}", chosen(kind, k, given.draws, given.peers, given.seed), flush=True)


if __name__ == "__main__":
    main()

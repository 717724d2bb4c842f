"""Private clusters by others, for beside_peers.py and benchmarks/tables; each gets the same box, budget and rows."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sketch.ledger import largest_ratio

ITERATIONS = 5  # of DPLloyd
BLOCK = 100_000  # rows whose distances are computed at a time
ENVIRONMENTS = Path(__file__).parents[2] / "build"
Rows = NDArray[Any]

DIFFPRIVLIB = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import KMeans
warnings.simplefilter("ignore")
folder, asked = sys.argv[1], json.loads(sys.argv[2])
rows = np.load(f"{folder}/rows.npy")
limits = (np.full(rows.shape[1], -asked["bound"]), np.full(rows.shape[1], asked["bound"]))
fits = [KMeans(asked["k"], epsilon=e, bounds=limits, random_state=asked["seed"]).fit(rows) for e in asked["epsilons"]]
np.save(f"{folder}/centers.npy", np.array([fit.cluster_centers_ for fit in fits]))
"""
GOOGLE = """
import json, sys
import numpy as np
from clustering.clustering_algorithm import private_lsh_clustering
from clustering.clustering_params import Data, DifferentialPrivacyParam
folder, asked = sys.argv[1], json.loads(sys.argv[2])
data = Data(np.load(f"{folder}/rows.npy"), radius=asked["radius"])
centers = []
for epsilon in asked["epsilons"]:
    np.random.seed(asked["seed"])
    found = private_lsh_clustering(asked["k"], data, DifferentialPrivacyParam(epsilon, asked["delta"])).centers
    centers.append(np.concatenate([found, np.repeat(found[-1:], asked["k"] - len(found), axis=0)]))
np.save(f"{folder}/centers.npy", np.array(centers))
"""


def dplloyd_centers(
    X: Rows, k: int, epsilon: float, delta: float, rng: np.random.Generator, bound: float = 1.0
) -> Rows:
    """Lloyd's algorithm in the box [-bound, bound]^d with noise on each round's counts and sums (Su et al., 2016).

    In units of the bound, a record moves one count by 1 and one sum by at most 1 in each column: by d + 1 in L1 and
    sqrt(d + 1) in L2. With delta the noise is Gaussian, and the rounds share what (epsilon, delta) allows exactly.
    Starts lie apart from each other and from the box's sides.
    """
    d = X.shape[1]
    if delta:
        draw, scale = rng.normal, math.sqrt((d + 1) * ITERATIONS) / largest_ratio(epsilon, delta)
    else:
        draw, scale = rng.laplace, (d + 1) * ITERATIONS / epsilon
    centers = apart(rng, k, d)
    for _ in range(ITERATIONS):
        sums, counts = np.zeros((k, d)), np.zeros(k)
        for first in range(0, len(X), BLOCK):
            rows = X[first : first + BLOCK].astype(np.float64) / bound
            labels = np.argmin(np.sum(centers**2, axis=1) - 2 * rows @ centers.T, axis=1)
            counts += np.bincount(labels, minlength=k)
            sums += np.stack([np.bincount(labels, column, minlength=k) for column in rows.T], axis=1)
        counts += draw(0, scale, k)
        moved = np.clip((sums + draw(0, scale, (k, d))) / np.maximum(counts, 1)[:, None], -1, 1)
        centers = np.where(counts[:, None] > 1, moved, centers)
    return bound * centers


def apart(rng: np.random.Generator, k: int, d: int) -> Rows:
    """k random points of the cube [-1, 1]^d, 2 r from each other and r from its sides, r as large as is easy."""
    radius = 1.0
    while True:
        points: list[Rows] = []
        for _ in range(100 * k):
            point = (1 - radius) * rng.uniform(-1, 1, d)
            if all(np.linalg.norm(point - other) >= 2 * radius for other in points):
                points.append(point)
            if len(points) == k:
                return np.array(points)
        radius *= 0.9


def diffprivlib_centers(X: Rows, epsilons: Sequence[float], **asked: Any) -> Rows | None:
    """Centers of diffprivlib's KMeans for each epsilon; None if it cannot be had."""
    return _elsewhere(DIFFPRIVLIB, "diffprivlib", ["diffprivlib", "scikit-learn<1.9"], X, epsilons=epsilons, **asked)


def google_centers(X: Rows, epsilons: Sequence[float], checkout: Path, **asked: Any) -> Rows | None:
    """Centers of Google's clustering by a private tree of random projections, for each epsilon, from a checkout."""
    packages = ["absl-py", "dp-accounting", "scikit-learn"]
    return _elsewhere(GOOGLE, "google", packages, X, PYTHONPATH=str(checkout / "learning"), epsilons=epsilons, **asked)


def _elsewhere(
    program: str, name: str, packages: list[str], X: Rows, PYTHONPATH: str = "", **asked: Any
) -> Rows | None:
    """What a program finds in an environment of its own, which is made at first use."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"{name} gets an environment of its own", file=sys.stderr)
        venv.create(folder, with_pip=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=False).returncode:
            return None
        (folder / "ready").touch()
    with tempfile.TemporaryDirectory() as files:
        np.save(f"{files}/rows.npy", X.astype(np.float64))
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        subprocess.run([python, "-c", program, files, json.dumps(asked)], check=True, env=environment)
        return np.asarray(np.load(f"{files}/centers.npy"))


def sse(X: Rows, centers: Rows) -> float:
    """Sum of squared distances to the nearest center, in float64."""
    centers, total = np.asarray(centers, np.float64), 0.0
    for first in range(0, len(X), BLOCK):
        rows = X[first : first + BLOCK].astype(np.float64)
        nearest = np.min(np.sum(centers**2, axis=1) - 2 * rows @ centers.T, axis=1)
        total += float(np.sum(np.maximum(nearest + np.sum(rows**2, axis=1), 0)))
    return total

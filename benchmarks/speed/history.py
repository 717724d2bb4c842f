"""Speed from commit to commit: adds ratios to benchmarks/speed/history.jsonl, and writes docs/internals/history.md.

    python benchmarks/speed/history.py            # about two minutes, on a machine that does nothing else
    python benchmarks/speed/history.py --page     # writes the page and its picture alone

Every figure is a ratio of two times of the same run, taken in turns on one thread: machines and busy hours change both.
"""

import os
import sys

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import datetime
import json
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.sketching.beside_numpy import SHAPES, best, data, numpy_sums
from benchmarks.support.report import machine
from sketchlearn.kernels import dispatch as kernel

HERE = Path(__file__).parent
RUNS, PAGE = HERE / "history.jsonl", HERE.parents[1] / "docs" / "internals" / "history.md"
PICTURE = PAGE.with_suffix(".png")
SLOWER = 0.85  # Below this share of what it was, a figure is marked.
WAVES, MILLION, PRODUCT = "features, d = {}, beside NumPy", "a million rows, beside `KMeans()`", "beside `X.T @ X`"
INTRODUCTION = f"""# Speed from commit to commit
Written by `python benchmarks/speed/history.py`, which measures each figure beside its peer in the same run, on one thread, and adds a line to `benchmarks/speed/history.jsonl`. A figure is how many times as fast as the peer we are: larger is better. **Bold** are those below {SLOWER} of the median of the runs before on the same kind of machine. What one run of a busy machine says is little; instructions of the hot loops are counted exactly at every change (`make hot-loops`).

"""  # noqa: E501


def against(own: Callable[[], object], peer: Callable[[], object], rounds: int) -> float:
    """How many times as long the peer takes."""
    times = best({"own": own, "peer": peer}, rounds)
    return times["peer"] / times["own"]


def figures() -> Iterator[tuple[str, float]]:
    for d, n in SHAPES.items():
        X, operator, W = data(d, n)
        yield WAVES.format(d), against(lambda: operator.sketch(X, n_jobs=1), lambda: numpy_sums(X, W), 5)  # noqa: B023
    rng = np.random.default_rng(0)
    rows = 2 * rng.standard_normal((10, 10))[rng.integers(0, 10, 10**6)] + rng.standard_normal((10**6, 10))
    yield (
        MILLION,
        against(lambda: skl.SketchKMeans(10, random_state=0, n_jobs=1).fit(rows), lambda: KMeans(10).fit(rows), 2),
    )
    digits = load_digits().data
    own, peer = skl.SketchKMeans(10, random_state=0, n_jobs=1), KMeans(10, n_init=10, random_state=0)
    operator = skl.design(digits, n_components=10, features=skl.features.Fourier())
    sketch = operator.sketch(digits)
    yield (
        "learning from a sketch of digits, beside `KMeans(n_init=10)`",
        against(lambda: own.fit_sketch(sketch), lambda: peer.fit(digits), 2),
    )
    wide = rng.standard_normal((10**6, 50))
    y = wide @ np.arange(50.0) + rng.standard_normal(10**6)
    yield (
        f"principal components, {PRODUCT}",
        against(lambda: skl.SketchPCA(5, n_jobs=1).fit(wide), lambda: wide.T @ wide, 5),
    )
    yield (
        f"regression, {PRODUCT}",
        against(lambda: skl.SketchLinearRegression(n_jobs=1).fit(wide, y), lambda: wide.T @ wide, 5),
    )


def commit() -> str:
    """The commit that is measured, with a star where files differ from it."""
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty=*", "--abbrev=9", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def measured() -> dict[str, Any]:
    found = {"commit": commit(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    found |= {"kernel": kernel.active, "machine": machine(("numpy", "scikit-learn"))}
    ratios = {}
    for name, ratio in figures():
        ratios[name] = round(ratio, 3)
        print(f"{name}: {ratio:.2f}", flush=True)
    return {**found, "figures": ratios}


def runs() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def page_of(known: list[dict[str, Any]]) -> str:
    """A table for each kind of machine, the newest run first."""
    text = INTRODUCTION
    for name in dict.fromkeys(run["kernel"] for run in known):
        own = [run for run in known if run["kernel"] == name]
        columns = list(dict.fromkeys(figure for run in own for figure in run["figures"]))
        text += f"## {name}\n| commit | date | {' | '.join(columns)} |\n|{' --- |' * 2}{' ---: |' * len(columns)}\n"
        for number in reversed(range(len(own))):
            cells = [_cell(own, number, column) for column in columns]
            text += f"| {own[number]['commit']} | {own[number]['date']} | {' | '.join(cells)} |\n"
        text += "\n"
    return text + "![the same figures, run by run](history.png)\n"


def _cell(own: list[dict[str, Any]], number: int, column: str) -> str:
    value = own[number]["figures"].get(column)
    before = [run["figures"][column] for run in own[:number] if column in run["figures"]]
    if value is None:
        return ""
    return f"**{value:.2f}**" if before and value < SLOWER * median(before) else f"{value:.2f}"


def draw(known: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(run["kernel"] for run in known))
    figure, panels = plt.subplots(len(kinds), 1, figsize=(8, 3.4 * len(kinds)), squeeze=False, layout="constrained")
    for panel, name in zip(panels[:, 0], kinds, strict=True):
        own = [run for run in known if run["kernel"] == name]
        for column in dict.fromkeys(one for run in own for one in run["figures"]):
            there = [i for i, run in enumerate(own) if column in run["figures"]]
            panel.plot(
                there, [own[i]["figures"][column] for i in there], marker="o", ms=3, label=column.replace("`", "")
            )
        panel.set(title=name, yscale="log", ylabel="times as fast as the peer")
        panel.set_xticks(range(len(own)), [run["commit"] for run in own], rotation=45, fontsize=7)
        panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(PICTURE, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write the page of the runs that there are"
    )
    if not parser.parse_args().page:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line = json.dumps(measured())
        with RUNS.open("a") as file:
            file.write(line + "\n")
    PAGE.write_text(page_of(runs()))
    draw(runs())


if __name__ == "__main__":
    main()

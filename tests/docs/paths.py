"""How many files and calls of the package lie between `fit` and a kernel, and between a sketch and centers.

`python tests/docs/paths.py` prints the figures, and `--files` the files. tests/docs/test_structure.py guards them.
"""

import argparse
import os
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import sketchlearn as skl

ROOT = os.path.dirname(skl.__file__) + os.sep
ROWS = np.random.default_rng(0).standard_normal((20_000, 10)).astype(np.float32)
K = 10


@dataclass
class Path:
    """Calls of functions of the package, by the file that they are in."""

    calls: Counter = field(default_factory=Counter)

    def __str__(self):
        return f"{len(self.calls):3} files {self.calls.total():6} calls"


def path_of(action, kernel=None):
    """The calls that an action makes, up to the first of the function that calls the kernel."""
    path, ended = Path(), []

    def note(frame, event, _):
        if event == "call" and not ended and frame.f_code.co_filename.startswith(ROOT):
            path.calls[frame.f_code.co_filename.removeprefix(ROOT)] += 1
            if frame.f_code.co_qualname == kernel:
                ended.append(True)

    action()  # imports
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    assert kernel is None or ended, f"{kernel} is not called"
    return path


def paths():
    """The paths of the promise."""
    cells = skl.SketchKMeans(K, features=skl.features.Cells(), random_state=0).design(ROWS[:5000]).sketch(ROWS)
    waves = skl.design(ROWS[:5000], n_components=K).sketch(ROWS)
    return {
        "fit(X) to the kernel that sums all rows": path_of(lambda: model().fit(ROWS), "CellSums.add_counted"),
        "a sketch of cells to centers": path_of(lambda: model().fit_sketch(cells).cluster_centers_),
        "a sketch of frequencies to centers": path_of(lambda: model().fit_sketch(waves).cluster_centers_),
    }


def model():
    return skl.SketchKMeans(K, random_state=0, n_jobs=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files")
    every = parser.parse_args().files
    for name, path in paths().items():
        print(path, name)
        if every:
            for file, n in path.calls.most_common():
                print(f"      {n:6} {file}")


if __name__ == "__main__":
    main()

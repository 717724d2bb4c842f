"""How often stated errors hold, and whether the number of clusters is found: python benchmarks/guarantees/all.py

Each part is a module beside this file; each draws fresh rows, and has peers beside it that see all rows.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.support.report import add_only

#: modules, each with a function of the same name: from settings to whether each asked figure was reached
PARTS = (
    "centers",  # errors of centers beside Lloyd's on all rows
    "clusters",  # coverage of intervals of centers and shares
    "mixtures",  # the same of mixtures' parameters
    "linear",  # the same of components and regressions
    "inertia",  # coverage of inertia and likelihood
    "choice",  # the number of clusters
    "classes",  # clusters of tables with classes, their number estimated
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, PARTS)
    parser.add_argument("--draws", type=int, default=200, help="draws of rows per setting")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw; the next have the next seeds")
    parser.add_argument("--settings", default="", help="only settings whose name contains this")
    parser.add_argument("--data", type=Path, help="folder of mnist_spectral10.npz")
    settings = parser.parse_args()
    parts = {name: importlib.import_module(f"benchmarks.guarantees.{name}") for name in settings.only}
    reached = [figure for name, module in parts.items() for figure in getattr(module, name)(settings)]
    Console(highlight=False).print(f"{sum(reached)} of {len(reached)} asked figures reached")
    return not all(reached)


if __name__ == "__main__":
    sys.exit(main())

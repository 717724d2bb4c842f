"""Writes the golden file of every operator that has none yet; files that exist are never rewritten."""

import sys
from pathlib import Path

folder = Path(__file__).parent / "sketches"

if __name__ == "__main__":  # not when the tests are collected, or a missing file would never be noticed
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    from cases import GOLDEN_ROWS, operators

    for name, operator in operators(9, m=8).items():
        path = folder / f"{name}.sketch"
        if not path.exists():
            operator.sketch(GOLDEN_ROWS).save(path)
            print(f"wrote {path}")

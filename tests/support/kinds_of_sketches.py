"""What each kind of sketch answers: kinds of sketches, abilities, and what is needed where one has no answer.

`python tests/support/kinds_of_sketches.py --write` writes the table of docs/reference/abilities.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sketchlearn as skl
from sketchlearn.kernels.gpu.driver import DeviceError
from sketchlearn.questions.explain import explain
from sketchlearn.rows.schemas.columns import INDICATE, Date, Number
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.batches import RELEASED
from sketchlearn.views.pictures import plot_model

N = 1200
ESTIMATOR = skl.SketchKMeans(3, random_state=0)
SCHEMA_ESTIMATOR = skl.SketchKMeans(3, schema="auto", random_state=0)


# Kinds


@cache
def numbers(d: int) -> Any:
    """Rows of three clusters."""
    rng = np.random.default_rng(d)
    rows, group = rng.standard_normal((N, d)), rng.integers(0, 3, N)
    rows[:, :3] += 5 * np.eye(3)[group]
    return rows.clip(-9, 9)


@cache
def mixed(n_places: int) -> pd.DataFrame:
    """Numbers, categories, dates and missing values: 9 encoded columns for 3 places, 83 for 40."""
    rng = np.random.default_rng(n_places)
    group = rng.integers(0, 3, N)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, N) + 400 * group, unit="D")
    words = np.array([f"p{i}" for i in range(n_places)])
    places, homes = words[rng.integers(0, n_places, (2, N))]
    score = np.where(rng.random(N) < 0.1, np.nan, rng.standard_normal(N))
    age = (25 + 25 * group + rng.normal(0, 4, N)).round()
    return pd.DataFrame({"age": age, "place": places, "home": homes, "since": since, "score": score})


@dataclass(frozen=True)
class Sketches:
    """Two sketches of halves of some rows, and of all of them."""

    operator: Any
    rows: Any
    a: Any
    b: Any

    @cached_property
    def whole(self) -> Any:
        return self.a + self.b

    @cached_property
    def model(self) -> Any:
        return skl.SketchKMeans(3, random_state=0).fit_sketch(self.whole)


def halves(rows: Any) -> tuple[Any, Any]:
    return (rows.iloc[::2], rows.iloc[1::2]) if isinstance(rows, pd.DataFrame) else (rows[::2], rows[1::2])


def exact(operator: Any, rows: Any) -> Sketches:
    return Sketches(operator, rows, *(operator.sketch(half) for half in halves(rows)))


def private(operator: Any, rows: Any) -> Sketches:
    RELEASED.forget()
    found = exact(operator, rows)
    given = {"epsilon": 20.0, "delta": 1e-6, "assume_public_design": True}
    return Sketches(operator, rows, *(skl.privatize(one, **given) for one in (found.a, found.b)))


def merged(operator: Any, rows: Any) -> Sketches:
    quarters = [half for one in halves(rows) for half in halves(one)]
    a1, a2, b1, b2 = (operator.sketch(quarter) for quarter in quarters)
    return Sketches(operator, rows, skl.merge([a1, a2]), skl.merge([b1, b2]))


def streamed(operator: Any, rows: Any) -> Sketches:
    """Rows that come in batches."""
    return Sketches(operator, rows, *(operator.sketch(iter(np.array_split(half, 5))) for half in halves(rows)))


def part(kind: type) -> Any:
    return ESTIMATOR.design(numbers(4)).part(kind)


BOUNDS = {"bounds": (-9, [9] * 4), "n_components": 3}
WIDE_BOUNDS = {"bounds": (-9, [9] * 80), "n_components": 3}

KINDS: dict[str, Callable[[], Sketches]] = {
    "standard, 4 columns": lambda: exact(ESTIMATOR.design(numbers(4)), numbers(4)),
    "standard, 80 columns": lambda: exact(ESTIMATOR.design(numbers(80)), numbers(80)),
    "standard, 300 columns": lambda: exact(ESTIMATOR.design(numbers(300)), numbers(300)),
    "schema": lambda: exact(SCHEMA_ESTIMATOR.design(mixed(3)), mixed(3)),
    "schema, 83 encoded columns": lambda: exact(SCHEMA_ESTIMATOR.design(mixed(40)), mixed(40)),
    "frequencies and histograms": lambda: exact(skl.design(numbers(4), n_components=3), numbers(4)),
    "first rows of a stream": lambda: streamed(
        skl.design(numbers(4)[:300], n_components=3, representative=False), numbers(4)
    ),
    "rows kept beside": lambda: exact(skl.design(mixed(3), n_components=3, schema="auto", rows=200), mixed(3)),
    "bounds, 4 columns": lambda: exact(skl.design(**BOUNDS), numbers(4)),
    "bounds, 80 columns": lambda: exact(skl.design(**WIDE_BOUNDS), numbers(80)),
    "merged": lambda: merged(ESTIMATOR.design(numbers(4)), numbers(4)),
    "private, bounds": lambda: private(skl.design(**BOUNDS), numbers(4)),
    "private, standard": lambda: private(ESTIMATOR.design(numbers(4)), numbers(4)),
    "private, schema": lambda: private(SCHEMA_ESTIMATOR.design(mixed(3)), mixed(3)),
    "private, 80 columns": lambda: private(ESTIMATOR.design(numbers(80)), numbers(80)),
    "private, bounds, 80 columns": lambda: private(skl.design(**WIDE_BOUNDS), numbers(80)),
    "one bit": lambda: exact(
        skl.design(numbers(4), n_components=3, features=skl.features.Fourier(wave="square")), numbers(4)
    ),
    "frequencies alone": lambda: exact(
        skl.design(numbers(4), n_components=3).part(skl.features.FourierFeatures), numbers(4)
    ),
    "histograms alone": lambda: exact(part(skl.features.Histograms), numbers(4)),
    "cells alone": lambda: exact(part(skl.features.CellSums), numbers(4)),
    "moments alone": lambda: exact(skl.design(numbers(4), task="moments"), numbers(4)),
}


@cache
def sketches(kind: str) -> Sketches:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KINDS[kind]()


# Abilities


def fit(kind: Sketches) -> None:
    centers = kind.model.cluster_centers_
    assert centers.shape == (3, kind.operator.n_features)
    assert np.all(np.isfinite(centers))


def choose(kind: Sketches) -> None:
    assert 1 <= skl.choose_k(kind.whole, 4).n_clusters <= 4


def standard_errors(kind: Sketches) -> None:
    assert skl.center_intervals(kind.model).columns


def profiles(kind: Sketches) -> None:
    found = skl.profiles(kind.model)
    assert sum(one.share.value for one in found) > 0.5


def report(kind: Sketches, against: Any = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        skl.report(kind.a, kind.model, Path(folder) / "report.html", against=against)


def report_of_change(kind: Sketches) -> None:
    report(kind, against=kind.b)


def plot(kind: Sketches) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plot_model(kind.whole, kind.model, Path(folder) / "clusters.png")


def two_sample_test(kind: Sketches) -> None:
    assert skl.two_sample_test(kind.a, kind.b).p_value > 1e-4


def distance(kind: Sketches) -> None:
    found = skl.distance(kind.a, kind.b)
    assert 0 <= found.low <= found.high


def watch(kind: Sketches) -> None:
    detector = skl.ChangeDetector(windows=(1,))
    assert not [change for one in (kind.a, kind.b) if (change := detector.update(one)).alarm]


def marginal(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).marginal(0)
    assert abs(found.shares.sum() - 1) < 0.1 + 4 * np.linalg.norm(found.errors)
    if found.column == "age":  # in years
        assert 10 < found.edges.mean() < 90


def numeric(kind: Sketches) -> list[int]:
    """The columns of the table that are numbers or dates; those without gaps first."""
    columns = kind.operator.columns
    if not isinstance(columns, SchemaColumns):
        return list(range(kind.operator.n_features))
    found = [(column.missing == INDICATE, i, column) for i, column in enumerate(columns.schema.columns)]
    return [i for _, i, column in sorted(found, key=itemgetter(0)) if isinstance(column, Number | Date)]


def describe(kind: Sketches) -> None:
    (column,) = found = skl.Questions(kind.whole).describe(numeric(kind)[:1])
    assert column.mean is None or column.mean.low <= column.mean.value <= column.mean.high
    assert column.statistics or "rows=" in found.notes[0] or "release a sketch of" in found.notes[0]


def quantile(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).quantile(numeric(kind)[0], 0.5)
    assert found.low <= found.value <= found.high


def moments(kind: Sketches) -> None:
    ask = skl.Questions(kind.whole)
    which = numeric(kind)[0]
    for found in (ask.mean(which), ask.std(which)):
        assert found.low <= found.value <= found.high


def correlation(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).correlation(*(numeric(kind) * 2)[:2])
    assert -1 <= found.low <= found.value <= found.high <= 1


def count_above(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).count_above(numeric(kind)[0], 0.0)
    assert found.low <= found.value <= found.high


def density(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).density(np.zeros((2, kind.operator.n_features)))
    assert found.shape == (2,)
    assert np.all(found >= 0)


def mean_of(kind: Sketches) -> None:
    found = skl.Questions(kind.whole).mean_of(lambda rows: rows[:, 0] > 0)
    assert -0.2 < found.value < 1.2


def explained(kind: Sketches) -> None:
    assert explain(kind.whole, n_components=3).sentences


def privatize(kind: Sketches) -> None:
    RELEASED.forget()
    released = skl.privatize(kind.a, epsilon=1.0, delta=1e-6, assume_public_design=True)
    assert released.ledger is not None


def forget(kind: Sketches) -> None:
    assert kind.whole - kind.a == kind.b
    assert kind.operator.sketch(kind.rows).forget(halves(kind.rows)[0]) == kind.b


def merge(kind: Sketches) -> None:
    assert kind.a + kind.b == kind.b + kind.a


def save(kind: Sketches) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.sketch"
        kind.a.save(path)
        assert skl.load(path) == kind.a


def dask(kind: Sketches) -> None:
    import dask as library

    blocks = [library.delayed(half) for half in halves(kind.rows)]
    with library.config.set(scheduler="synchronous"):
        assert skl.engines.dask.sketch(blocks, kind.operator) == kind.operator.sketch(kind.rows)


def cuda(kind: Sketches) -> None:
    try:
        found = kind.operator.sketch(kind.rows, device="cuda")
    except DeviceError as refused:
        if "there is no GPU here that sketchlearn can use" not in str(refused):
            raise
        return
    assert found == kind.operator.sketch(kind.rows)


def spark(kind: Sketches) -> None:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(pd.DataFrame(kind.rows))
        assert skl.engines.spark.sketch(frame, kind.operator) == kind.operator.sketch(kind.rows)
    finally:
        session.stop()


ABILITIES: dict[str, Callable[[Sketches], None]] = {
    "`SketchKMeans.fit_sketch`": fit,
    "`choose_k`": choose,
    "`center_intervals`": standard_errors,
    "`profiles`": profiles,
    "`report`": report,
    "`report(against=)`": report_of_change,
    "`plot_model`": plot,
    "`two_sample_test`": two_sample_test,
    "`distance`": distance,
    "`ChangeDetector`": watch,
    "`Questions.marginal`": marginal,
    "`Questions.describe`": describe,
    "`Questions.quantile`": quantile,
    "`Questions.mean`, `std`": moments,
    "`Questions.correlation`": correlation,
    "`Questions.count_above`": count_above,
    "`Questions.density`": density,
    "`Questions.mean_of`": mean_of,
    "`explain`": explained,
    "`privatize`": privatize,
    "`-`, `forget`": forget,
    "`+`": merge,
    "`save`, `load`": save,
    "Dask": dask,
    'a GPU (`device="cuda"`)': cuda,
}


# What is needed instead


@dataclass(frozen=True)
class Need:
    """What a table says is needed, and words that the refusal has."""

    shown: str
    words: str


FREQUENCIES = Need("`features=skl.features.Fourier()`", r"features=skl\.features\.Fourier\(\)")
DESIGN = Need("`skl.design(sample, n_components=10)`", r"design\(sample, ")
SAMPLE = Need("a design on a sample of rows", "design the sketch on a sample of rows")
PUBLIC_ROWS = Need("public rows: `sample=`", "give public rows .* sample=rows and assume_public_sample=True")
ROWS = Need("kept rows: `rows=`", r"design\(sample, \.\.\., rows=4000\)")
HISTOGRAMS = Need("histograms", r"skl\.features\.Histograms\.even")
SECOND_MOMENTS = Need("second moments", r"skl\.features\.SecondMoments")
BOUNDS_ALONE = Need("a design from `bounds=`", r"design it with bounds=\(low, high\)")
EXACT = Need("the exact sketch", "release the exact one")
NOT_PRIVATE = Need("the exact sketch", "cannot subtract private sketches")

WIDE = ("standard, 80 columns", "standard, 300 columns", "schema, 83 encoded columns")
PRIVATE = tuple(kind for kind in KINDS if kind.startswith("private"))
NO_CLUSTERS = dict.fromkeys(("histograms alone", "moments alone"), DESIGN)
NO_FREQUENCIES = dict.fromkeys(("histograms alone", "cells alone", "moments alone"), DESIGN)
WIDE_BOUNDED = ("bounds, 80 columns", "private, bounds, 80 columns")
CELLS_RELEASED = ("private, standard", "private, 80 columns")
NO_DENSITY = dict.fromkeys((*WIDE, *WIDE_BOUNDED, "private, 80 columns"), FREQUENCIES)
NO_DENSITY |= dict.fromkeys(("histograms alone", "cells alone", "moments alone"), FREQUENCIES)
NO_QUANTILES = dict.fromkeys(("standard, 300 columns", "bounds, 80 columns", "moments alone"), ROWS)
NO_QUANTILES["private, bounds, 80 columns"] = HISTOGRAMS

NEEDS: dict[Callable[[Sketches], None], dict[str, Need]] = {
    fit: NO_CLUSTERS,
    choose: NO_CLUSTERS | dict.fromkeys(WIDE_BOUNDED, FREQUENCIES),
    standard_errors: NO_CLUSTERS
    | dict.fromkeys(CELLS_RELEASED, FREQUENCIES)
    | dict.fromkeys(WIDE_BOUNDED, SAMPLE)
    | {"private, schema": PUBLIC_ROWS},
    profiles: NO_CLUSTERS,
    report: NO_CLUSTERS,
    report_of_change: NO_FREQUENCIES,
    plot: NO_CLUSTERS,
    two_sample_test: NO_FREQUENCIES,
    distance: NO_FREQUENCIES,
    watch: NO_FREQUENCIES,
    marginal: dict.fromkeys(("standard, 300 columns", *WIDE_BOUNDED), FREQUENCIES)
    | dict.fromkeys(("cells alone", "moments alone"), FREQUENCIES),
    quantile: NO_QUANTILES,
    count_above: NO_QUANTILES,
    moments: {"bounds, 80 columns": ROWS, "private, bounds, 80 columns": HISTOGRAMS},
    correlation: dict.fromkeys(("bounds, 80 columns", "histograms alone"), ROWS)
    | dict.fromkeys(("private, 80 columns", "private, bounds, 80 columns"), SECOND_MOMENTS),
    density: NO_DENSITY,
    mean_of: NO_DENSITY,
    explained: NO_CLUSTERS | dict.fromkeys(WIDE_BOUNDED, FREQUENCIES),
    privatize: dict.fromkeys(PRIVATE, EXACT) | {"moments alone": BOUNDS_ALONE},
    forget: dict.fromkeys(PRIVATE, NOT_PRIVATE),
}


def need(ability: str, kind: str) -> Need | None:
    return NEEDS.get(ABILITIES[ability], {}).get(kind)


# The page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "abilities.md"


def page() -> str:
    """The table of what each kind of sketch answers."""
    lines = [
        "# What each sketch answers",
        "<!-- written by `python tests/support/kinds_of_sketches.py --write`, of the table that the tests run -->",
        "",
        f"Every kind of sketch was asked all of this: {', '.join(ABILITIES)}. Where it does not answer, the table",
        "says what is needed instead, and so does the error. `standard` is the operator of `est.design(sample)`,",
        '`schema` that of an estimator with `schema="auto"`, `frequencies and histograms` that of',
        "`skl.design(sample, n_components=3)`, and `bounds` that of `skl.design(bounds=..., n_components=3)`; private",
        "sketches are releases by `privatize`. With a schema, `density` and `mean_of` take the schema's numbers.",
        "",
        "| kind of sketch | answers | where something else is needed |",
        "| --- | --- | --- |",
    ]
    for kind in KINDS:
        needs: dict[str, list[str]] = {}
        for ability in ABILITIES:
            if (one := need(ability, kind)) is not None:
                needs.setdefault(one.shown, []).append(ability)
        missing = "; ".join(f"{', '.join(abilities)}: {shown}" for shown, abilities in needs.items())
        n = len(ABILITIES) - sum(map(len, needs.values()))
        lines.append(f"| {kind} | {f'{n} of {len(ABILITIES)}' if needs else 'all'} | {missing} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="to docs/reference/abilities.md")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()

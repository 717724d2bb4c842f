"""`profiles`: what sets clusters apart, in the terms of the table's own columns, with errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.keeping import KeptRows
from sketchlearn.schemas import Category, Date, Flag, Number, Schema, SchemaColumns
from sketchlearn.schemas.column_kinds import INDICATE
from sketchlearn.sketch import Sketch
from sketchlearn.sources import source

Double = NDArray[np.float64]
SHOWN_LEVELS = 3  # The most common levels of a category that a profile names.
SHOWN_COLUMNS = 6  # Columns that a printed profile has, those that set the cluster apart first.


@dataclass(frozen=True)
class Estimate:
    """A number, and one standard deviation of its error: 0 where all records were looked at."""

    value: float
    error: float = 0.0


@dataclass(frozen=True)
class ColumnProfile:
    """One column within one cluster.

    Attributes
    ----------
    name : of the column.
    kind : "number", "date", "share" (of a flag) or "levels".
    estimates : the mean of a number (of a date, in days since 1970), the share of yes, or each level's share, by name.
    spread : standard deviation within the cluster, of numbers and dates.
    apart : how far the cluster is from all records, in standard deviations of the column.
    """

    name: str
    kind: str
    estimates: dict[str, Estimate]
    spread: float
    apart: float

    def __str__(self) -> str:
        if self.kind == "levels":
            common = sorted(self.estimates.items(), key=lambda item: -item[1].value)[:SHOWN_LEVELS]
            return ", ".join(f"{level} {100 * share.value:.0f} %" for level, share in common if share.value >= 0.005)
        mean = next(iter(self.estimates.values()))
        if self.kind == "share":
            return f"{100 * mean.value:.0f} %"
        if self.kind == "date":
            return f"{date(1970, 1, 1) + timedelta(days=round(mean.value))} +- {self.spread:,.0f} days"
        return f"{in_digits(mean.value, self.spread)} +- {in_digits(self.spread, self.spread)}"


@dataclass(frozen=True)
class Profile:
    """One cluster: its number (as `predict` says it), its share of the records, about how many that are, its columns.

    Columns that set it apart come first.
    """

    number: int
    share: Estimate
    size: float
    columns: tuple[ColumnProfile, ...]

    def __str__(self) -> str:
        shown = "; ".join(f"{column.name} {column}" for column in self.columns[:SHOWN_COLUMNS])
        error = f" +- {100 * self.share.error:.1f}" if self.share.error else ""
        return f"cluster {self.number}: {100 * self.share.value:.1f}{error} % ({self.size:,.0f} records): {shown}"


@dataclass(frozen=True)
class Profiles:
    """Profiles of all clusters, in the order of their numbers; and the columns over all records, in the table's."""

    clusters: tuple[Profile, ...]
    overall: tuple[ColumnProfile, ...] = ()

    def __iter__(self) -> Iterator[Profile]:
        return iter(self.clusters)

    def __str__(self) -> str:
        return "\n".join(map(str, self.clusters))


def profiles(model: Any, sketch: Sketch | None = None) -> Profiles:
    """What sets the clusters of a model apart, from the rows that were kept beside its sketch.

    Parameters
    ----------
    model : an estimator with clusters or components that predicts.
    sketch : a sketch that keeps rows (`design(..., rows=500)`), if the model was loaded or learned from another one.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> young = rng.random(2000) < 0.25
    >>> ages = np.where(young, 25, 60) + rng.normal(0, 3, 2000)
    >>> table = pd.DataFrame({"age": ages, "member": np.where(young, "yes", "no")})
    >>> print(skl.profiles(skl.SketchKMeans(2, schema="auto", random_state=0).fit(table)))
    cluster 0: 74.6 % (1,492 records): member 0 %; age 60.0 +- 3.0
    cluster 1: 25.4 % (508 records): member 100 %; age 24.9 +- 3.0
    """
    kept, count = _rows_of(model, sketch)
    labels = np.asarray(model.predict(source(kept.rows)))
    weights, chances = kept.weights(count), kept.chances
    columns = list(_measures(model, kept.rows))
    found = []
    for number in range(len(model.fitted_model().weights)):
        inside = labels == number
        share = _mean(inside.astype(np.float64), weights, chances)
        own = [_profile(name, kind, values, inside, weights, chances) for name, kind, values in columns]
        ordered = tuple(sorted(own, key=lambda column: -column.apart))
        found.append(Profile(number, share, share.value * count, ordered))
    everything = np.ones(len(labels), bool)
    overall = (_profile(name, kind, values, everything, weights, chances) for name, kind, values in columns)
    return Profiles(tuple(found), tuple(overall))


def _rows_of(model: Any, sketch: Sketch | None) -> tuple[KeptRows, float]:
    if sketch is None:
        kept, count = model.kept_rows(), float(model.n_records_)
    else:
        kept, count = sketch.kept, float(sketch.count)
    if kept is None or not len(kept):
        raise ValueError(
            "profiles are read from rows that a sketch keeps, and there are none: fit keeps some, and so does "
            "design(..., rows=500)"
        )
    return kept, count


def _measures(model: Any, rows: Double) -> Iterator[tuple[str, str, dict[str, Double]]]:
    """Each column of the table: its name, its kind, and the numbers whose means tell about it."""
    columns = model.columns_
    if not isinstance(columns, SchemaColumns):
        names = columns or [f"column {i}" for i in range(rows.shape[1])]
        yield from ((name, "number", {"mean": rows[:, i]}) for i, name in enumerate(names))
        return
    schema: Schema = columns.schema
    for column, numbers in schema.pieces(rows):
        there = np.ones(len(rows), bool)
        if column.missing == INDICATE:
            there = numbers[:, -1] < 0.5 * column.weight_of_gap
        if isinstance(column, Number):
            yield column.name, "number", {"mean": np.where(there, column.plain(numbers[:, 0]), np.nan)}
        elif isinstance(column, Date):
            days = numbers[:, 0] * column.width + column.center
            yield column.name, "date", {"mean": np.where(there, days, np.nan)}
        elif isinstance(column, Flag):
            yield column.name, "share", {"yes": np.where(there, numbers[:, 0] / column.weight, np.nan)}
        elif isinstance(column, Category):
            shares = {level: numbers[:, i] / column.weight for i, level in enumerate(column.words)}
            gaps = {} if column.missing != INDICATE else {"missing": (~there).astype(np.float64)}
            yield column.name, "levels", shares | gaps
        else:
            yield column.name, "number", {"mean": np.where(there, numbers[:, 0], np.nan)}


def _profile(
    name: str, kind: str, values: dict[str, Double], inside: NDArray[Any], weights: Double, chances: Double
) -> ColumnProfile:
    estimates, spread, apart = {}, 0.0, 0.0
    for what, numbers in values.items():
        there = ~np.isnan(numbers)
        own = inside & there
        if not own.any():
            estimates[what] = Estimate(math.nan)
            continue
        estimates[what] = _mean(numbers[own], weights[own], chances[own])
        total = _mean(numbers[there], weights[there], chances[there]).value
        spread = _deviation(numbers[own], weights[own])
        overall = _deviation(numbers[there], weights[there])
        apart = max(apart, abs(estimates[what].value - total) / overall if overall else 0.0)
    return ColumnProfile(name, kind, estimates, 0.0 if kind in ("levels", "share") else spread, apart)


def _mean(values: Double, weights: Double, chances: Double) -> Estimate:
    """A weighted mean of rows that were each kept with some chance, and its deviation (Horvitz and Thompson).

    A few rows vary less around their own mean than around the true one, so they count as one less; and a share that
    few rows tell of could as well be another one: it has at least the deviation of one with two more rows of either
    kind (Agresti and Coull).
    """
    total = float(weights.sum())
    mean = float(weights @ values) / total
    drawn = (1 - chances) * weights**2
    variance = float(np.sum(drawn * (values - mean) ** 2)) / total**2
    rows = total**2 / float(drawn.sum()) if drawn.any() else math.inf
    variance *= rows / max(rows - 1, 1) if rows < math.inf else 1
    if drawn.any() and np.all((values == 0) | (values == 1)):
        near = (mean * rows + 2) / (rows + 4)
        variance = max(variance, near * (1 - near) / (rows + 4))
    return Estimate(mean, math.sqrt(variance))


def _deviation(values: Double, weights: Double) -> float:
    mean = float(weights @ values / weights.sum())
    return math.sqrt(max(0.0, float(weights @ (values - mean) ** 2 / weights.sum())))


def in_digits(value: float, spread: float) -> str:
    """A number as people write it, with as many digits as its spread makes sense of.

    >>> in_digits(24213.7, 850.0), in_digits(0.04213, 0.003), in_digits(42.31, 11.0)
    ('24,210', '0.0421', '42')
    """
    if not math.isfinite(value):
        return "unknown"
    step = math.floor(math.log10(abs(spread or value or 1.0))) - 1
    return f"{round(value, -step):,.{max(0, -step)}f}"

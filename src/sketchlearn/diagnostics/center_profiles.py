"""Centers of clusters in the terms of the table's own columns, where no kept rows tell more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sketchlearn.diagnostics.profile_values import ColumnProfile, Estimate, Profile, Profiles
from sketchlearn.models import Double
from sketchlearn.queries.value_shares import shares_of_levels
from sketchlearn.schemas import Category, Column, Date, Flag, Number, Ordinal, SchemaColumns, Text
from sketchlearn.schemas.column_kinds import INDICATE

MOST_MISSING = 0.999  # Share of records without a value beyond which nothing is said of the others.


def profiles_of_centers(model: Any) -> Profiles:
    """What the centers of a model with a schema say: means, dates, and shares of levels.

    Spreads are known of mixtures alone; of logarithms, the mean is that of the logarithm, as a value of the table.
    Shares of levels that were more than one together are made smaller; their errors are how far they were from one.

    >>> import pandas as pd, sketchlearn as skl
    >>> table = pd.DataFrame({"age": [20.0, 22.0, 60.0, 62.0] * 50, "member": ["no", "no", "yes", "yes"] * 50})
    >>> print(profiles_of_centers(skl.SketchKMeans(2, schema="auto", random_state=0).fit(table)))
    cluster 0: 50.0 % (100 records): member 0 %; age 21
    cluster 1: 50.0 % (100 records): member 100 %; age 61
    """
    learned, columns = model.fitted_model(), model.columns_
    assert isinstance(columns, SchemaColumns)
    centers, weights = learned.centers_of_parts, learned.weights
    spreads = learned.deviations_of_parts if learned.kind_of_part != "cluster" else np.full(centers.shape, np.nan)
    away = np.abs(centers - weights @ centers)
    pieces = list(
        zip(columns.schema.pieces(centers), columns.schema.pieces(spreads), columns.schema.pieces(away), strict=True)
    )
    found = []
    for i, share in enumerate(weights):
        own = (
            column_profile(column, numbers[i], float(spread[i, 0]), float(apart[i].max()))
            for (column, numbers), (_, spread), (_, apart) in pieces
        )
        ordered = tuple(sorted((one for one in own if one is not None), key=lambda one: -one.apart))
        found.append(Profile(i, Estimate(float(share)), float(share) * float(model.n_records_), ordered))
    return Profiles(tuple(found))


def column_profile(column: Column, numbers: Double, spread: float, apart: float) -> ColumnProfile | None:
    """One column of one center; hashed words have no terms of the table."""
    missing = 0.0
    if column.missing == INDICATE:
        missing = float(np.clip(numbers[-1] / column.weight_of_gap, 0, 1))
        numbers = (numbers[:-1] - missing * np.array(column.typical_numbers)) / max(1 - missing, 1e-300)
        spread = np.nan
    if missing > MOST_MISSING:
        return ColumnProfile(column.name, "number", {"mean": Estimate(np.nan)}, np.nan, apart, missing)
    told = dict(_estimates(column, numbers))
    if not told:
        return None
    kind = "date" if isinstance(column, Date) else "number"
    if isinstance(column, Flag | Category):
        kind = "share" if isinstance(column, Flag) else "levels"
    elif isinstance(column, Ordinal):
        kind = "middle"
    linear = isinstance(column, Date) or (isinstance(column, Number) and column.scaling != "log")
    width = spread * column.width if linear else np.nan  # type: ignore[attr-defined]
    return ColumnProfile(column.name, kind, told, width, apart, missing)


def _estimates(column: Column, numbers: Double) -> Iterator[tuple[str, Estimate]]:
    """What is told of a column, without records that have no value."""
    if isinstance(column, Category):
        shares, off = shares_of_levels(numbers / column.weight)
        yield from ((word, Estimate(float(share), off)) for word, share in zip(column.words, shares, strict=True))
    elif isinstance(column, Flag):
        yield "yes", Estimate(float(np.clip(numbers[0] / column.weight, 0, 1)))
    elif isinstance(column, Ordinal):
        yield column.values_of(numbers[None])[0], Estimate(float(numbers[0]))
    elif not (isinstance(column, Text) and column.n_words):
        yield "length" if isinstance(column, Text) else "mean", Estimate(float(column.plain(numbers[:1])[0]))

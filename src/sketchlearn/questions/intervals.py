"""`center_intervals`: confidence intervals of the shares and centers of clusters, in the columns' units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_certain_digits, in_date, in_digits, printable
from sketchlearn.rows.schemas.columns import INDICATE, Category, Column, Date, Flag, Number
from sketchlearn.rows.schemas.table_schema import SchemaColumns

ATTRIBUTES = ("cluster_centers_", "means_")  # of the centers, by the kind of estimator
DIGITS_OF_WIDTH = 10  # Ends are shown to a tenth of the interval's width.


@dataclass(frozen=True)
class ColumnIntervals:
    """The lower and upper end of an interval for each cluster.

    Attributes
    ----------
    name : of the column; `country=FR` for the share of a level.
    kind : "number", "share", or "date" (in days since 1970).
    ends : (clusters, 2), in the unit of the table.
    """

    name: str
    kind: str
    ends: Double

    @property
    def in_words(self) -> list[str]:
        """For each cluster."""
        return [self._written(*interval) for interval in self.ends.tolist()]

    def _written(self, low: float, high: float) -> str:
        if self.kind == "date":
            return f"{in_date(low)} to {in_date(high)}"
        factor, unit = (100.0, " %") if self.kind == "share" else (1.0, "")
        if low == high:
            return in_digits(factor * low) + unit
        width = factor * (high - low) / DIGITS_OF_WIDTH
        return " to ".join(in_certain_digits(factor * end, width) for end in (low, high)) + unit


@dataclass(frozen=True)
class CenterIntervals:
    """Intervals of the shares and centers of clusters.

    Attributes
    ----------
    level : the probability with which each interval holds the truth.
    shares : of the clusters.
    columns : of the centers, column by column.
    left_out : columns without a unit: words, ordered categories, and columns with indicated missing values.
    """

    level: float
    shares: ColumnIntervals
    columns: tuple[ColumnIntervals, ...]
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        own = (self.shares, *self.columns)
        rows = [["", *(f"cluster {i}" for i in range(len(self.shares.ends)))]]
        rows += [[printable(one.name), *one.in_words] for one in own]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if self.left_out:
            lines.append(f"not reported: {', '.join(map(printable, self.left_out))}")
        return "\n".join(lines)


def center_intervals(model: Any, level: float = 0.95) -> CenterIntervals:
    """Intervals of the shares and the centers of a model, by column, in the units of the table.

    They are those of `model.intervals`, whose arrays are of the numbers that a schema makes of the columns.

    Parameters
    ----------
    model : a fitted estimator of clusters or of a mixture.
    level : the probability with which each interval holds the truth.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> young = rng.random(2000) < 0.25
    >>> ages = np.where(young, 25, 60) + rng.normal(0, 3, 2000)
    >>> table = pd.DataFrame({"age": ages, "paid": rng.random(2000)})
    >>> print(skl.center_intervals(skl.SketchKMeans(2, schema="auto", random_state=0).fit(table)))
            cluster 0       cluster 1
    share   ... %  ... %
    age     59... to 60...  24... to 25...
    paid    0.4... to 0.5...
    """
    bars = model.error_bars()
    attribute = next((name for name in ATTRIBUTES if name in bars.standard_errors), None)
    if attribute is None:
        raise ValueError(f"there are no intervals of centers: {bars.withheld or 'the model has no clusters'}")
    found = model.intervals(level)
    ends = np.stack(found[attribute], axis=2)
    shares = ColumnIntervals("share", "share", np.clip(np.stack(found["weights_"], axis=1), 0, 1))
    if not isinstance(model.columns_, SchemaColumns):
        names = model.columns_ or [f"column {i}" for i in range(ends.shape[1])]
        columns = (ColumnIntervals(name, "number", ends[:, i]) for i, name in enumerate(names))
        return CenterIntervals(level, shares, tuple(columns))
    own = {column.name: list(_in_own_unit(column, part)) for column, part in model.columns_.schema.pieces(ends)}
    left_out = tuple(name for name, intervals in own.items() if not intervals)
    return CenterIntervals(level, shares, tuple(chain.from_iterable(own.values())), left_out)


def _in_own_unit(column: Column, ends: Double) -> Iterator[ColumnIntervals]:
    """The intervals of a column, (clusters, numbers, 2), in its own unit; of some kinds of columns, none."""
    if column.missing == INDICATE:  # its numbers are means of values and of what stands for missing ones
        return
    if isinstance(column, Flag | Category):
        for i, name in enumerate(column.encoded_names):
            yield ColumnIntervals(name, "share", np.clip(ends[:, i] / column.weight, 0, 1))
    elif isinstance(column, Date | Number):
        kind = "date" if isinstance(column, Date) else "number"
        yield ColumnIntervals(column.name, kind, np.asarray(column.plain(ends[:, 0])))

"""Profiles of clusters, as values that print themselves: what sets a cluster apart, column by column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.control_characters import printable
from sketchlearn.plain_digits import counted, in_certain_digits, in_date, in_digits

SHOWN_LEVELS = 3  # The most common levels of a category that a profile names.
LEAST_SHOWN = 0.005  # Share of the records below which a level, or missing values, are not named.
LEAST_ERROR_SHOWN = 0.0005  # Of a share: it would show as 0.0 %, and no digit of the share that is shown errs.
LEAST_LEVEL_ERROR_SHOWN = 0.05  # Of a level's share: smaller ones would make a line of many levels hard to read.
ROUNDING = 1e-12  # A relative spread below this is that of rounding.
SHOWN_COLUMNS = 6  # Columns that a printed profile has, those that set the cluster apart first.


@dataclass(frozen=True)
class Estimate:
    """A number of these records, and one standard deviation of its error: 0 where all of them were looked at.

    Standard errors of a model, such as those of `weights_`, are larger: they are of the law that records come from.
    """

    value: float
    error: float = 0.0


@dataclass(frozen=True)
class ColumnProfile:
    """One column within one cluster.

    Attributes
    ----------
    name : of the column.
    kind : "number", "date", "share" (of a flag), "levels", or "middle" (of an order, where only that is known).
    estimates : the mean of a number (of a date, in days since 1970), the share of yes, or each level's share, by name.
    spread : standard deviation within the cluster, of numbers and dates; NaN where it is unknown.
    missing : the share of the cluster's records that have no value.
    apart : how far the cluster is from all records, in standard deviations of the column.
    """

    name: str
    kind: str
    estimates: dict[str, Estimate]
    spread: float
    apart: float
    missing: float = 0.0

    def __str__(self) -> str:
        gaps = f"{100 * self.missing:.0f} % missing" if self.missing >= LEAST_SHOWN else ""
        known = self._in_words() if all(math.isfinite(one.value) for one in self.estimates.values()) else ""
        known += " where known" if known and gaps else ""
        return ", ".join(filter(None, (known, gaps))) or "no values"

    def _in_words(self) -> str:
        if self.kind == "levels":
            common = sorted(self.estimates.items(), key=lambda item: -item[1].value)[:SHOWN_LEVELS]
            return ", ".join(
                f"{printable(level)} {100 * share.value:.0f}{_in_percent(share.error)} %"
                for level, share in common
                if share.value >= LEAST_SHOWN
            )
        name, mean = next(iter(self.estimates.items()))
        if self.kind == "middle":
            return f"about {name}"
        if self.kind == "share":
            return f"{100 * mean.value:.0f} %"
        if self.kind == "date":
            return in_date(mean.value) + (f" +- {self.spread:,.0f} days" if math.isfinite(self.spread) else "")
        unit = " letters" if name == "length" else ""
        if math.isnan(self.spread):
            return in_digits(mean.value) + unit
        if self.spread <= ROUNDING * abs(mean.value):  # all of them are the same
            return in_digits(mean.value, 15) + unit
        return f"{in_certain_digits(mean.value, self.spread / 10)} +- {in_digits(self.spread, 2)}{unit}"


def _in_percent(error: float) -> str:
    """The error of a level's share, if it is large."""
    return f" +- {100 * error:.0f}" if error >= LEAST_LEVEL_ERROR_SHOWN else ""


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
        shown = "; ".join(f"{printable(column.name)} {column}" for column in self.columns[:SHOWN_COLUMNS])
        unshown = len(self.columns) - SHOWN_COLUMNS
        shown += f"; and {counted(unshown, 'more column')}" if unshown > 0 else ""
        error = f" +- {100 * self.share.error:.1f}" if self.share.error >= LEAST_ERROR_SHOWN else ""
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

    def with_shares(self, model: Any) -> Profiles:
        """The same with the shares of the model, which agree with all records, in place of those of kept rows."""
        weights, n_records = model.fitted_model().weights, float(model.n_records_)
        own = zip(self.clusters, map(float, weights), strict=True)
        clusters = (replace(one, share=Estimate(share), size=share * n_records) for one, share in own)
        return replace(self, clusters=tuple(clusters))

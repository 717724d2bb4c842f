"""`profiles`: the distinguishing features of clusters, in the columns' names and units, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import counted, in_certain_digits, in_date, in_digits, printable, ungrouped
from sketchlearn.core.packages import required
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.cells import Cells, Members
from sketchlearn.inference.moments import part_of
from sketchlearn.questions.marginals import shares_of_levels
from sketchlearn.rows.schemas.columns import INDICATE, Category, Column, Date, Flag, Number, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.rows.source import source
from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.sums import Sketch

SHOWN_LEVELS = 3  # The most common levels of a category that a profile names.
LEAST_SHOWN = 0.005  # Share of the records below which a level, or missing values, are not named.
LEAST_ERROR_SHOWN = 0.0005  # Of a share: it would show as 0.0 %, and no digit of the share that is shown errs.
LEAST_LEVEL_ERROR_SHOWN = 0.05  # Of a level's share: smaller ones would make a line of many levels hard to read.
ROUNDING = 1e-12  # A relative spread below this is that of rounding.
SHOWN_COLUMNS = 6  # Columns that a printed profile has, those that set the cluster apart first.


@dataclass(frozen=True)
class Estimate:
    """A number of these records, and its standard error: 0 where all of them were looked at, NaN where it is unknown.

    Standard errors of a model, such as those of `weights_`, are larger: they are about the distribution of records.
    """

    value: float
    error: float = 0.0

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)


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
        missing = f"{100 * self.missing:.0f} % missing" if self.missing >= LEAST_SHOWN else ""
        known = self._in_words() if all(one.is_known for one in self.estimates.values()) else ""
        known += " where known" if known and missing else ""
        return ", ".join(filter(None, (known, missing))) or "no values"

    def fields(self) -> dict[str, Any]:
        """The numbers of a data frame, by name; dates as NumPy's."""
        if self.kind in ("levels", "middle"):
            found: dict[str, Any] = {f"{self.name}={level}": one.value for level, one in self.estimates.items()}
        else:
            mean = next(iter(self.estimates.values())).value
            is_date = self.kind == "date" and math.isfinite(mean)
            found = {self.name: np.datetime64(round(mean * 86_400), "s") if is_date else mean}
        if self.kind in ("number", "date"):
            found[f"{self.name} spread"] = self.spread
        return found | ({f"{self.name} missing": self.missing} if self.missing else {})

    def common_levels(self) -> list[str]:
        """The most common categories."""
        common = sorted(self.estimates.items(), key=lambda item: -item[1].value)[:SHOWN_LEVELS]
        return [level for level, share in common if share.value >= LEAST_SHOWN]

    def _in_words(self) -> str:
        if self.kind == "levels":
            shares = ((level, self.estimates[level]) for level in self.common_levels())
            return ", ".join(f"{printable(level)} {100 * s.value:.0f}{_in_percent(s.error)} %" for level, s in shares)
        name, mean = next(iter(self.estimates.items()))
        if self.kind == "middle":
            return f"about {name}"
        if self.kind == "share":
            return f"{100 * mean.value:.0f} %"
        if self.kind == "date":
            return in_date(mean.value) + (f" +- {self.spread:,.0f} days" if math.isfinite(self.spread) else "")
        unit = " letters" if name == "length" else ""
        if math.isnan(self.spread):
            return ungrouped(in_digits(mean.value), self.name) + unit
        if self.spread <= ROUNDING * abs(mean.value):  # all of them are the same
            return ungrouped(in_digits(mean.value, 15), self.name) + unit
        value = ungrouped(in_certain_digits(mean.value, self.spread / 10), self.name)
        return f"{value} +- {in_digits(self.spread, 2)}{unit}"


def _in_percent(error: float) -> str:
    """The error of a level's share, if it is large."""
    return f" +- {100 * error:.0f}" if error >= LEAST_LEVEL_ERROR_SHOWN else ""


@dataclass(frozen=True)
class Profile:
    """One cluster: its number (as `predict` says it), its share of the records, about how many that are, its columns.

    Distinguishing columns come first.
    """

    number: int
    share: Estimate
    size: float
    columns: tuple[ColumnProfile, ...]

    @classmethod
    def of(cls, number: int, share: Estimate, n_records: float, columns: Iterable[ColumnProfile]) -> Profile:
        """The profile of a cluster, its distinguishing columns first."""
        ordered = sorted(columns, key=lambda column: -column.apart)
        return cls(number, share, share.value * n_records, tuple(ordered))

    def __str__(self) -> str:
        shown = "; ".join(f"{printable(column.name)} {column}" for column in self.columns[:SHOWN_COLUMNS])
        unshown = len(self.columns) - SHOWN_COLUMNS
        shown += f"; and {counted(unshown, 'more column')}" if unshown > 0 else ""
        share, error = self.share, self.share.error >= LEAST_ERROR_SHOWN
        percent = f"{100 * share.value:.1f}" + (f" +- {100 * share.error:.1f}" if error else "")
        records = f"{self.size:,.0f}"
        if error and share.value:
            records += f" +- {in_digits(share.error / share.value * self.size, 2)}"
        return f"cluster {self.number}: {percent} % ({records} records): {shown}"


@dataclass(frozen=True)
class Profiles:
    """Profiles of all clusters, in the order of their numbers; and the columns over all records, in the table's."""

    clusters: tuple[Profile, ...]
    overall: tuple[ColumnProfile, ...] = ()

    def __iter__(self) -> Iterator[Profile]:
        return iter(self.clusters)

    @property
    def overall_by_name(self) -> dict[str, ColumnProfile]:
        return {column.name: column for column in self.overall}

    def __str__(self) -> str:
        return "\n".join(map(str, self.clusters))

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each cluster: its share, records, and the estimates of each column.

        >>> import numpy as np, sketchlearn as skl
        >>> X = np.repeat([[1.0, 5.0], [2.0, 9.0]], [300, 100], axis=0)
        >>> skl.profiles(skl.SketchKMeans(2, random_state=0).fit(X)).to_frame().round(2)
                 share  records  column 0  column 0 spread  column 1  column 1 spread
        cluster
        0         0.75    300.0       1.0              0.0       5.0              0.0
        1         0.25    100.0       2.0              0.0       9.0              0.0
        """
        pandas = required("pandas", "pandas")
        order = [column.name for column in self.overall or self.clusters[0].columns]
        rows = []
        for one in self.clusters:
            own = {column.name: column for column in one.columns}
            fields = (own[name].fields() for name in order if name in own)
            rows.append(
                {"share": one.share.value, "records": one.size} | {k: v for part in fields for k, v in part.items()}
            )
        index = pandas.Index([one.number for one in self.clusters], name="cluster")
        frame = pandas.DataFrame(rows, index=index)
        return frame.fillna({name: 0.0 for name in frame if name.endswith(" missing")})

    def with_shares(self, model: Any) -> Profiles:
        """The same with the shares of the model in place of those of sampled rows.

        The model's shares agree with all records better than the sample's. The error is that of counting the rows that
        `predict` puts into each cluster: the sampling error, and how far model and sample differ.
        """
        weights, n_records = model.fitted_model().weights, float(model.n_records_)
        clusters = []
        for one, share in zip(self.clusters, map(float, weights), strict=True):
            error = math.hypot(one.share.error, one.share.value - share)
            clusters.append(replace(one, share=Estimate(share, error), size=share * n_records))
        return replace(self, clusters=tuple(clusters))


MOST_MISSING = 0.999  # With a larger proportion of missing values, nothing is said of the others.


def profiles_of_centers(model: Any) -> Profiles:
    """Profiles of the centers of a model: means, dates, and proportions of categories.

    Errors are unknown (NaN): `center_intervals` has those of the model. Only mixtures have standard deviations. The
    mean of a logarithm is converted to the column's unit. Proportions whose sum exceeds one are scaled to one; their
    errors are what was missing or in excess.

    >>> import pandas as pd, sketchlearn as skl
    >>> table = pd.DataFrame({"age": [20.0, 22.0, 60.0, 62.0] * 50, "member": ["no", "no", "yes", "yes"] * 50})
    >>> print(profiles_of_centers(skl.SketchKMeans(2, schema="auto", random_state=0).fit(table)))
    cluster 0: 50.0 % (100 records): member 0 %; age 21
    cluster 1: 50.0 % (100 records): member 100 %; age 61
    """
    learned, columns = model.fitted_model(), model.columns_
    centers, weights = learned.centers_of_parts, learned.weights
    spreads = learned.deviations_of_parts if learned.kind_of_part != "cluster" else np.full(centers.shape, np.nan)
    away, n_records = np.abs(centers - weights @ centers), float(model.n_records_)
    if not isinstance(columns, SchemaColumns):  # in their own units
        between = np.sqrt(weights @ away**2)
        away = away / np.where(between > 0, between, 1.0)
    found = (
        Profile.of(i, Estimate(float(share), math.nan), n_records, _columns(columns, centers[i], spreads[i], away[i]))
        for i, share in enumerate(weights)
    )
    return Profiles(tuple(found))


def column_profile(column: Column, numbers: Double, spread: float, apart: float) -> ColumnProfile | None:
    """One column of one center; None for hashed words, which have no values to show."""
    missing = 0.0
    if column.missing == INDICATE:
        missing = float(np.clip(numbers[-1] / column.weight_of_gap, 0, 1))
        typical, there = np.array(column.typical_numbers), max(1 - missing, 1e-300)
        numbers = (numbers[:-1] - missing * typical) / there
        # missing values are filled with a typical number: their part of the variance is taken out
        variance = (spread**2 - missing * there * (numbers[0] - typical[0]) ** 2) / there
        spread = math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else math.nan
    if missing > MOST_MISSING:
        return ColumnProfile(column.name, "number", {"mean": Estimate(np.nan)}, np.nan, apart, missing)
    estimates = dict(_estimates(column, numbers))
    if not estimates:
        return None
    kind = "middle" if isinstance(column, Ordinal) else _kind(column)
    linear = isinstance(column, Date) or (isinstance(column, Number) and column.scaling != "log")
    width = spread * column.width if linear else np.nan  # type: ignore[attr-defined]
    return ColumnProfile(column.name, kind, estimates, width, apart, missing)


def _kind(column: Column) -> str:
    """The kind of a column's profile, where its values are known."""
    kinds = {Flag: "share", Category: "levels", Ordinal: "levels", Date: "date"}
    return next((kind for own, kind in kinds.items() if isinstance(column, own)), "number")


def _estimates(column: Column, numbers: Double) -> Iterator[tuple[str, Estimate]]:
    """The estimates of a column, missing values left out."""
    if isinstance(column, Category):
        shares, off = shares_of_levels(numbers / column.weight)
        yield from ((word, Estimate(float(share), off)) for word, share in zip(column.words, shares, strict=True))
    elif isinstance(column, Flag):
        yield "yes", Estimate(float(np.clip(numbers[0] / column.weight, 0, 1)))
    elif isinstance(column, Ordinal):
        yield column.values_of(numbers[None])[0], Estimate(float(numbers[0]))
    elif not (isinstance(column, Text) and column.n_words):
        yield "length" if isinstance(column, Text) else "mean", Estimate(float(column.plain(numbers[:1])[0]))


def has_cells(sketch: Sketch) -> bool:
    """Whether a sketch has cells to profile; the noise of a private release has no error here, so it is refused."""
    return sketch.ledger is None and part_of(sketch, CellSums) is not None


def profiles_of_cells(model: Any, sketch: Sketch) -> Profiles | None:
    """Profiles from cells; None where a sketch has none, or has all of its records, which say more."""
    if not has_cells(sketch) or (sketch.kept is not None and sketch.kept.complete):
        return None
    cells = Cells.of(sketch)
    assert cells is not None
    learned, squares = model.fitted_model(), cells.squares
    if learned.kind_of_part == "cluster":
        members = cells.members(learned.centers_of_parts)
    else:
        owners = np.asarray(model.predict(source(cells.means)), np.intp)
        members = Members(owners, cells.shares, len(learned.weights))
    everything = Members(np.zeros_like(members.owners), cells.shares, 1)
    within = squares if squares.ndim > 1 else np.full(cells.means.shape, np.nan)  # known column by column, or not
    means, spreads = members.means(cells.means), members.deviations(cells.means, within)
    mean, spread = everything.means(cells.means), everything.deviations(cells.means, within)
    between = everything.deviations(cells.means, np.zeros_like(cells.means))
    width = np.where(np.isnan(spread), between, spread)
    apart = np.abs(means - mean) / np.where(width > 0, width, 1.0)
    columns, n_records = model.columns_, float(sketch.count)
    found = (
        Profile.of(i, Estimate(share), n_records, _columns(columns, means[i], spreads[i], apart[i]))
        for i, share in enumerate(members.sizes.tolist())
    )
    return Profiles(tuple(found), tuple(_columns(columns, mean[0], spread[0], np.zeros(len(mean[0])))))


def _columns(columns: Any, means: Double, spreads: Double, apart: Double) -> Iterator[ColumnProfile]:
    """Each column of the table, from the means of its numbers and their deviations."""
    if not isinstance(columns, SchemaColumns):
        names = columns or [f"column {i}" for i in range(len(means))]
        for name, mean, spread, away in zip(names, means, spreads, apart, strict=True):
            yield ColumnProfile(name, "number", {"mean": Estimate(float(mean))}, float(spread), float(away))
        return
    pieces = (columns.schema.pieces(numbers[None]) for numbers in (means, spreads, apart))
    for (column, numbers), (_, own), (_, away) in zip(*pieces, strict=True):
        found = column_profile(column, numbers[0], float(own[0, 0]), float(away.max()))
        if found is not None:
            yield found


GROUPS = 10  # of sampled rows, each left out once
FEW_ROWS = 5  # With fewer rows of one kind, the jackknife variance is too small.


def profiles(model: Any, sketch: Sketch | None = None) -> Profiles:
    """The distinguishing features of a model's clusters, from a sample of rows with weights calibrated to its sketch.

    A sketch of cells (of passive columns, or of more than 64 columns) gives profiles of all records instead: a cell
    counts for the cluster that its mean is nearest to, and means and shares have no sampling error. A sketch that has
    neither, and a private release, give the centers of the model in the columns' names and units.

    Parameters
    ----------
    model : an estimator with clusters or components that predicts.
    sketch : a sketch of cells, or one with a sample of rows (`design(..., rows=500)`), if the model was loaded or
        learned from another one.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> young = rng.random(2000) < 0.25
    >>> ages = np.where(young, 25, 60) + rng.normal(0, 3, 2000)
    >>> table = pd.DataFrame({"age": ages, "member": np.where(young, "yes", "no")})
    >>> print(skl.profiles(skl.SketchKMeans(2, schema="auto", random_state=0).fit(table)))
    cluster 0: 74.6 % (1,492 records): member 0 %; age 60.0 +- 3
    cluster 1: 25.4 % (508 records): member 100 %; age 24.9 +- 3
    """
    if sketch is None and not model.has_sketch:
        raise ValueError("a model that was loaded has no rows: give the sketch that it was learned from, too")
    sketch = model.sketch_with_rows() if sketch is None else sketch
    if (of_all := profiles_of_cells(model, sketch)) is not None:
        return of_all
    if sketch.kept is None or not len(sketch.kept):
        return profiles_of_centers(model)
    rows, weights = sketch.kept.rows, Weights.of(sketch)
    labels = np.asarray(model.predict(source(rows)))
    columns, everything = list(_measures(model, rows)), np.ones(len(rows), bool)
    found = []
    for number in range(len(model.fitted_model().weights)):
        inside = labels == number
        share = weights.mean(inside.astype(np.float64), everything)
        own = (_profile(*column, inside, weights) for column in columns)
        found.append(Profile.of(number, share, float(sketch.count), own))
    return Profiles(tuple(found), tuple(_profile(*column, everything, weights) for column in columns))


def has_profiles(sketch: Sketch) -> bool:
    """Whether a sketch has what profiles are read from: a sample of rows, or cells."""
    return has_cells(sketch) or (sketch.kept is not None and len(sketch.kept) > 0)


def profiles_or_none(model: Any, sketch: Sketch) -> Profiles | None:
    """The profiles of a model's clusters where the sketch has what they are read from."""
    return profiles(model, sketch) if has_profiles(sketch) else None


@dataclass(frozen=True)
class Weights:
    """Weights of sampled rows, calibrated to frequencies, and without one group each, for jackknife standard errors.

    The variance is reduced for rows that were almost sure to be sampled; a sample of all records has no error.
    """

    whole: Double  # (rows,)
    without: Double  # (groups, rows)
    chances: Double  # (rows,): with which each was kept

    @classmethod
    def of(cls, sketch: Sketch) -> Weights:
        kept: Any = sketch.kept
        plain = kept.weights(float(sketch.count))
        if kept.complete:
            return cls(plain, np.empty((0, len(plain))), kept.chances)
        rng = np.random.default_rng(0)
        copies = kept.units / 2.0**WEIGHT_BITS
        drawn = kept.chances < 1  # others are known exactly, and stay
        groups = np.where(drawn, rng.permutation(len(plain)) % GROUPS, -1)
        samples = [WeightedRows(kept.rows, plain, copies, kept.calibration_slack)]
        for group in range(GROUPS):
            there = groups != group
            left = np.where(drawn, plain * plain[drawn].sum() / max(plain[drawn & there].sum(), 1e-300), plain)[there]
            samples.append(
                WeightedRows(kept.rows[there], left / left.sum(), copies[there], kept.calibration_slack[there])
            )
        fitted = samples if part_of(sketch, FourierFeatures) is None else calibrated(sketch, samples, rng)
        whole, *parts = (sample.weights for sample in fitted)
        without = np.zeros((GROUPS, len(plain)))
        for group, own in enumerate(parts):
            without[group, groups != group] = own
        return cls(np.asarray(whole), without, kept.chances)

    def mean(self, values: Double, which: NDArray[Any]) -> Estimate:
        """A mean over some of the rows, and its deviation.

        A share that few rows tell of could as well be another one: it has at least the deviation of one with two more
        rows of either kind (Agresti and Coull).
        """
        values, own = values[which], self.whole[which]
        mean = float(own @ values / own.sum()) if own.sum() > 0 else math.nan
        if not len(self.without) or not own.sum() > 0:
            return Estimate(mean)
        others = self.without[:, which]
        totals = others.sum(axis=1)
        again = np.where(totals > 0, others @ values / np.maximum(totals, 1e-300), mean)
        variance = float(np.mean((again - mean) ** 2)) * (GROUPS - 1)
        if np.all((values == 0) | (values == 1)) and len(values) < len(self.whole):
            n = float(own.sum() ** 2 / np.sum(own**2))
            near = (mean * n + 2) / (n + 4)
            variance = max(variance, near * (1 - near) / (n + 4) if min(mean, 1 - mean) * n < FEW_ROWS else 0.0)
        moved = (own * (values - mean)) ** 2
        drawn = float(moved @ (1 - self.chances[which]) / moved.sum()) if moved.sum() > 0 else 1.0
        return Estimate(mean, math.sqrt(variance * drawn))

    def deviation(self, values: Double, which: NDArray[Any]) -> float:
        """The standard deviation of values of some of the rows."""
        values, own = values[which], self.whole[which]
        if not own.sum() > 0:
            return 0.0
        mean = own @ values / own.sum()
        return math.sqrt(max(0.0, float(own @ (values - mean) ** 2 / own.sum())))


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
        values = _in_own_terms(column, numbers)
        if values:
            yield column.name, _kind(column), {what: np.where(there, own, np.nan) for what, own in values.items()}


def _in_own_terms(column: Column, numbers: Double) -> dict[str, Double]:
    """The numbers whose means describe a column; of hashed words, none."""
    if isinstance(column, Flag):
        return {"yes": numbers[:, 0] / column.weight}
    if isinstance(column, Category):
        return {level: numbers[:, i] / column.weight for i, level in enumerate(column.words)}
    if isinstance(column, Ordinal):
        words = np.array(column.values_of(numbers), object)
        return {level: (words == level).astype(np.float64) for level in column.levels}
    if isinstance(column, Text) and column.n_words:
        return {}
    return {"length" if isinstance(column, Text) else "mean": column.plain(numbers[:, 0])}


def _profile(name: str, kind: str, values: dict[str, Double], inside: NDArray[Any], weights: Weights) -> ColumnProfile:
    estimates, spread, apart = {}, 0.0, 0.0
    for what, numbers in values.items():
        there = ~np.isnan(numbers)
        estimates[what] = weights.mean(numbers, inside & there)
        spread, overall = weights.deviation(numbers, inside & there), weights.deviation(numbers, there)
        away = abs(estimates[what].value - weights.mean(numbers, there).value)
        apart = max(apart, away / overall if overall and math.isfinite(away) else 0.0)
    missing = weights.mean(np.isnan(next(iter(values.values()))).astype(np.float64), inside).value
    plain = kind in ("levels", "share")
    return ColumnProfile(name, kind, estimates, 0.0 if plain else spread, apart, missing if missing > 0 else 0.0)

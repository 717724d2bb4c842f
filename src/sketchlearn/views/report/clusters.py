"""The section about the clusters: their centers, sizes and distinguishing features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.questions.profiles import ColumnProfile, Estimate, Profile, Profiles
from sketchlearn.rows.schemas.table_schema import SchemaColumns

MOST_ROWS = 10  # of a heat map: the columns in which clusters lie farthest apart
MOST_SHOWN = 12  # clusters of a heat map, the largest
MOST_CLUSTERS = 30  # with a card of their own
CLEAR_DEVIATIONS = 4.0  # standard errors: the farthest of 96 true shares was 3.9 from that of sampled rows
SAME_SHARE = 0.005  # Shares as near as this are the same for a reader.


@dataclass(frozen=True)
class HeatRow:
    """A column, or a category of one, and each cluster's deviation from the mean of all records; NaN where unknown."""

    name: str
    places: Double  # in standard deviations

    @property
    def reach(self) -> float:
        """How far apart the clusters are."""
        known = self.places[np.isfinite(self.places)]
        return float(np.ptp(known)) if len(known) else 0.0


def heat_map(model: Any, profiles: Profiles | None = None) -> list[HeatRow]:
    """How far each cluster lies from all records, by column, in standard deviations: those farthest apart first.

    Of a categorical column, it is the category in which clusters differ most; without profiles, of the model's own
    columns.
    """
    found = _rows_of_centers(model) if profiles is None else _rows_of_profiles(profiles)
    return sorted((row for row in found if row.reach > 0), key=lambda row: -row.reach)[:MOST_ROWS]


def _rows_of_profiles(profiles: Profiles) -> list[HeatRow]:
    own, found = [{column.name: column for column in profile.columns} for profile in profiles], []
    for overall in profiles.overall:
        columns = [column[overall.name] for column in own]
        found.append(max((_row(overall, columns, what) for what in overall.estimates), key=lambda row: row.reach))
    return found


def _rows_of_centers(model: Any) -> list[HeatRow]:
    learned = model.fitted_model()
    centers, weights = learned.centers_of_parts, learned.weights / learned.weights.sum()
    inside = np.nan_to_num(learned.deviations_of_parts)
    middle = weights @ centers
    width = np.sqrt(weights @ (inside**2 + (centers - middle) ** 2))
    places = (centers - middle) / np.where(width > 0, width, 1.0)
    return [HeatRow(name, places[:, i]) for i, name in enumerate(column_names(model))]


def column_names(model: Any) -> list[str]:
    """The names of the model's columns; numbers where they have none."""
    return [str(name) for name in model.columns_ or (f"column {i}" for i in range(model.n_features_in_))]


def _row(overall: ColumnProfile, columns: list[ColumnProfile], what: str) -> HeatRow:
    mean = overall.estimates[what].value
    proportions = overall.kind in ("share", "levels")
    width = math.sqrt(max(mean * (1 - mean), 0.0)) if proportions else overall.spread
    values = np.array([column.estimates[what].value for column in columns])
    name = f"{overall.name}: {what}" if overall.kind == "levels" and what else overall.name
    return HeatRow(name, (values - mean) / (width or 1.0))


def cluster_facts(model: Any, profiles: Profiles | None, count: float) -> dict[str, Any]:
    """What the template shows of the clusters, from a sample of rows or, without one, from the model alone.

    Shares are the model's if it may be of these records, and else those of sampled rows. The model's agree with the
    whole sketch: where rows were off by 0.014 on average, they were by 0.0003 (20,000 records in six clusters, with a
    sample of 500).
    """
    learned = model.fitted_model()
    of_model = profiles is not None and is_of_these_records(model, profiles, count)
    shares = [Estimate(float(share)) for share in learned.weights]
    if profiles is not None and not of_model:
        shares = [profile.share for profile in profiles]
    return {
        "learned": learned,
        "noun": learned.kind_of_part,
        "profiles": profiles,
        "count": count,
        "shares": shares,
        "of_model": of_model,
        "heat": heat_map(model, profiles),
        "centers": _centers(model) if profiles is None else {},
        "most_clusters": MOST_CLUSTERS,
    }


def differs(profile: Profile, weight: float) -> bool:
    """Whether the share among sampled rows is clearly another one than in the model."""
    return abs(profile.share.value - weight) > CLEAR_DEVIATIONS * profile.share.error + SAME_SHARE


def is_of_these_records(model: Any, profiles: Profiles, count: float) -> bool:
    """Whether the number of records and the shares allow that a model was learned from this sketch."""
    pairs = zip(profiles, model.fitted_model().weights, strict=True)
    return bool(model.n_records_ == count) and not any(differs(profile, float(weight)) for profile, weight in pairs)


def _centers(model: Any) -> dict[str, list[Any]]:
    """The centers in the columns' names and units."""
    centers, columns = model.fitted_model().centers_of_parts[:MOST_CLUSTERS], model.columns_
    if isinstance(columns, SchemaColumns):
        return columns.schema.decode(centers)
    return dict(zip(column_names(model), centers.T.tolist(), strict=True))

"""Clusters and components as tables and figures, under the numbers that `predict` gives."""

from __future__ import annotations

from typing import Any

from sketchlearn.cli.descriptions import TABLE_COLUMNS_SHOWN, column_names, table
from sketchlearn.plain_digits import in_certain_digits, in_digits

CLUSTERS_SHOWN = 50
SIZES_NOTE = "(shares and records are the model's, the same in fit and info; predict counts the rows of a table)"


def cluster_figures(model: Any) -> list[dict[str, Any]]:
    """The number of each cluster, its share, about how many records it has, its center and, if known, its spread.

    With a schema, `columns` has the center in the terms of the table.
    """
    figures = _numbers(model)
    if (profiles := _of_centers(model)) is not None:
        for one, profile in zip(figures, profiles, strict=True):
            one["columns"] = {column.name: str(column) for column in profile.columns}
    return figures


def _of_centers(model: Any) -> Any:
    """The centers in the terms of the table, if there is a schema."""
    from sketchlearn.diagnostics.center_profiles import profiles_of_centers
    from sketchlearn.schemas import SchemaColumns

    return profiles_of_centers(model) if isinstance(model.columns_, SchemaColumns) else None


def _numbers(model: Any) -> list[dict[str, Any]]:
    learned = model.fitted_model()
    parts = zip(learned.weights, learned.centers_of_parts, learned.deviations_of_parts, strict=True)
    return [
        {
            "number": number,
            "share": float(share),
            "records": round(float(share) * float(model.n_records_)),
            "center": center.tolist(),
            "spread": [float(width) if width > 0 else None for width in spread],
        }
        for number, (share, center, spread) in enumerate(parts)
    ]


def cluster_table(model: Any) -> list[str]:
    """The clusters, the largest first: models of earlier versions have other numbers, which `predict` gives, too."""
    if (profiles := _of_centers(model)) is not None:
        return profile_lines(profiles)
    kind, figures = model.fitted_model().kind_of_part, cluster_figures(model)
    shown = sorted(figures, key=lambda cluster: -cluster["share"])[:CLUSTERS_SHOWN]
    cells = [[str(cluster["number"]), f"{cluster['share']:.4f}", f"{cluster['records']:,}"] for cluster in shown]
    values = [_values(cluster) for cluster in shown]
    lines = table([kind, "share", "records"], cells, values, column_names(model))
    lines += [f"... {len(figures) - len(shown)} more"] if len(figures) > len(shown) else []
    spreads = any(" +- " in value for row in values for value in row)
    return lines + ([f"({kind} centers, +- the standard deviation of their records)"] if spreads else [])


def profile_lines(profiles: Any) -> list[str]:
    """Profiles with the shares of the model, and what these are."""
    lines = list(map(str, profiles))
    shown = lines[:CLUSTERS_SHOWN] + (
        [f"... {len(lines) - CLUSTERS_SHOWN} more"] if len(lines) > CLUSTERS_SHOWN else []
    )
    return [*shown, SIZES_NOTE]


def _values(cluster: dict[str, Any]) -> list[str]:
    """Each column of a center in as many digits as are certain, with the spread of the records around it."""
    cells = []
    for value, spread in list(zip(cluster["center"], cluster["spread"], strict=True))[:TABLE_COLUMNS_SHOWN]:
        error = float("nan") if spread is None else spread / max(cluster["records"], 1) ** 0.5
        cells.append(in_certain_digits(value, error) + ("" if spread is None else f" +- {in_digits(spread, 2)}"))
    return cells

"""Clusters and components as tables and figures, under the numbers that `predict` gives."""

from __future__ import annotations

from typing import Any

from sketchlearn.cli.descriptions import TABLE_COLUMNS_SHOWN, column_names, table
from sketchlearn.cli.option_messages import in_options
from sketchlearn.plain_digits import in_certain_digits, in_digits

CLUSTERS_SHOWN = 50
EXACT_DIGITS = 8  # of a number without an error


def cluster_figures(model: Any) -> list[dict[str, Any]]:
    """The number of each cluster, its share, about how many records it has, its center and, if known, its spread."""
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


def measured(model: Any) -> list[tuple[str, str]]:
    """The inertia or likelihood of the rows, for models that have one."""
    if not hasattr(model, "measured"):
        return []
    name, found = model.measured()
    if found.value is None:
        return [(name, f"withheld: {in_options(found.withheld)}")]
    if not found.error:
        return [(name, in_digits(found.value, EXACT_DIGITS))]
    return [(name, f"{in_certain_digits(found.value, found.error / 10)} +- {in_digits(found.error, 2)}")]


def cluster_table(model: Any) -> list[str]:
    """The clusters, the largest first: models of earlier versions have other numbers, which `predict` gives, too."""
    kind, figures = model.fitted_model().kind_of_part, cluster_figures(model)
    shown = sorted(figures, key=lambda cluster: -cluster["share"])[:CLUSTERS_SHOWN]
    cells = [[str(cluster["number"]), f"{cluster['share']:.4f}", f"{cluster['records']:,}"] for cluster in shown]
    values = [_values(cluster) for cluster in shown]
    lines = table([kind, "share", "records"], cells, values, column_names(model))
    lines += [f"... {len(figures) - len(shown)} more"] if len(figures) > len(shown) else []
    spreads = any(" +- " in value for row in values for value in row)
    return lines + ([f"({kind} centers, +- the standard deviation of their records)"] if spreads else [])


def _values(cluster: dict[str, Any]) -> list[str]:
    """Each column of a center in as many digits as are certain, with the spread of the records around it."""
    cells = []
    for value, spread in list(zip(cluster["center"], cluster["spread"], strict=True))[:TABLE_COLUMNS_SHOWN]:
        error = float("nan") if spread is None else spread / max(cluster["records"], 1) ** 0.5
        cells.append(in_certain_digits(value, error) + ("" if spread is None else f" +- {in_digits(spread, 2)}"))
    return cells

"""Clusters and components as tables and figures, under the numbers that `predict` gives."""

from __future__ import annotations

from typing import Any

from sketchlearn.cli.descriptions import TABLE_COLUMNS_SHOWN, column_names, table
from sketchlearn.cli.error_tables import certainty_lines
from sketchlearn.cli.option_messages import in_options
from sketchlearn.core.messages import in_certain_digits, in_digits, printable

CLUSTERS_SHOWN = 50
SIZES_NOTE = "(shares and records are the model's, the same in fit and info; predict counts the rows of a table)"
LOGARITHMS_NOTE = "({} by logarithms: the typical value, below the mean where a few are large)"
EXACT_DIGITS = 8  # of a number without an error


def cluster_figures(model: Any) -> list[dict[str, Any]]:
    """The number of each cluster, its share, about how many records it has, its center and, if known, its spread.

    Shares and centers have their standard errors beside them, where those are known. With a schema, `columns` has the
    center in the terms of the table.
    """
    figures = _numbers(model)
    if (profiles := _of_centers(model)) is not None:
        for one, profile in zip(figures, profiles, strict=True):
            one["columns"] = {column.name: str(column) for column in profile.columns}
    return figures


def _of_centers(model: Any) -> Any:
    """The centers in the terms of the table, if there is a schema."""
    from sketchlearn.questions.profiles import profiles_of_centers
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    return profiles_of_centers(model) if isinstance(model.columns_, SchemaColumns) else None


def _numbers(model: Any) -> list[dict[str, Any]]:
    learned, (of_shares, of_centers) = model.fitted_model(), _errors(model)
    parts = zip(
        learned.weights, learned.centers_of_parts, learned.deviations_of_parts, of_shares, of_centers, strict=True
    )
    return [
        {
            "number": number,
            "share": float(share),
            "records": round(float(share) * float(model.n_records_)),
            "center": center.tolist(),
            "spread": [float(width) if width > 0 else None for width in spread],
            "share_error": _known(share_error),
            "center_error": [_known(error) for error in center_error],
        }
        for number, (share, center, spread, share_error, center_error) in enumerate(parts)
    ]


def _errors(model: Any) -> tuple[Any, Any]:
    """Standard errors of shares and centers: NaN where they are not known."""
    learned = model.fitted_model()
    errors = model.error_bars().standard_errors
    places = "cluster_centers_" if "cluster_centers_" in errors else "means_"
    missing = learned.weights * float("nan"), learned.centers_of_parts * float("nan")
    return errors.get("weights_", missing[0]), errors.get(places, missing[1])


def _known(error: float) -> float | None:
    return float(error) if error >= 0 else None


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
    if (profiles := _of_centers(model)) is not None:
        logarithms = [
            column.name for column in model.columns_.schema.columns if getattr(column, "scaling", "") == "log"
        ]
        note = [LOGARITHMS_NOTE.format(", ".join(map(printable, logarithms)))] if logarithms else []
        return [*profile_lines(profiles), *note]
    kind, figures = model.fitted_model().kind_of_part, cluster_figures(model)
    shown = sorted(figures, key=lambda cluster: -cluster["share"])[:CLUSTERS_SHOWN]
    cells, values = [], []
    for cluster in shown:
        cells.append([str(cluster["number"]), f"{cluster['share']:.4f}", f"{cluster['records']:,}"])
        values.append(_values(cluster))
        if cluster["share_error"] is not None:
            n = float(model.n_records_) * cluster["share_error"]
            cells.append(["error", in_digits(cluster["share_error"], 2), in_digits(n, 2)])
            values.append([in_digits(e, 2) if e is not None else "" for e in cluster["center_error"]])
    lines = table([kind, "share", "records"], cells, values, column_names(model))
    lines += [f"... {len(figures) - len(shown)} more"] if len(figures) > len(shown) else []
    notes = [f"{kind} centers, +- the standard deviation of their records"] if " +- " in str(values) else []
    notes += ["error: one standard deviation of the number above it"] if ["error"] in [row[:1] for row in cells] else []
    lines += [f"({'; '.join(notes)})"] if notes else []
    return lines + certainty_lines(model)


def profile_lines(profiles: Any) -> list[str]:
    """Profiles with the shares of the model, and what these are."""
    lines = list(map(str, profiles))
    shown = lines[:CLUSTERS_SHOWN] + (
        [f"... {len(lines) - CLUSTERS_SHOWN} more"] if len(lines) > CLUSTERS_SHOWN else []
    )
    return [*shown, SIZES_NOTE]


def _values(cluster: dict[str, Any]) -> list[str]:
    """Each column of a center in as many digits as are certain, with the spread of the records around it."""
    cells, errors = [], iter(cluster["center_error"])
    for value, spread in list(zip(cluster["center"], cluster["spread"], strict=True))[:TABLE_COLUMNS_SHOWN]:
        error = next(errors)
        if error is None:
            error = float("nan") if spread is None else spread / max(cluster["records"], 1) ** 0.5
        cells.append(in_certain_digits(value, error) + ("" if spread is None else f" +- {in_digits(spread, 2)}"))
    return cells

"""Operators, sketches and models in words and tables."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

import sketchlearn as skl
from sketchlearn.core.messages import LEAST_PLAIN, counted, in_certain_digits, in_digits, printable, ungrouped

if TYPE_CHECKING:
    from sketchlearn.sketch.priority_sample import KeptRows


COLUMNS_SHOWN = 12
ROUNDING = 1e-12  # beside the largest number of a direction, what is smaller is an error of rounding
TABLE_COLUMNS_SHOWN = 8  # wider tables do not fit into a terminal


def extras_in_words(operator: skl.extend.Operator) -> list[str]:
    """Sentences about what an operator does beside its features: the rows it keeps, the units of errors."""
    sentences = []
    if operator.keeping is not None:
        who = "in the clear: give it only to those who may see them"
        sentences.append(f"Each sketch keeps up to {operator.keeping.size:,} of the records, {who}.")
    if operator.error_units is not None:
        sentences.append("Errors count in standard deviations of the columns; centers are in the units of the table.")
    return sentences


def contents(sketch: skl.Sketch) -> tuple[dict[str, Any], list[str]]:
    """The figures of the records and the kept rows of a sketch, and a line about the kept rows, if it has any."""
    figures = {"records": sketch.count, **({} if sketch.unit is None else sketch.unit.to_json())}
    if sketch.kept is None:
        return {**figures, "rows": None}, []
    return {**figures, "rows": len(sketch.kept)}, [f"rows: {kept_in_words(sketch.kept)}"]


def kept_in_words(kept: KeptRows) -> str:
    """How many records a sketch's file shows."""
    if not len(kept):
        return "none yet: this sketch keeps records, in the clear, as soon as it has some"
    if kept.complete:
        return f"all records are in this file, in the clear ({len(kept):,} different ones)"
    return f"{len(kept):,} of the records are in this file, in the clear"


def column_facts(columns: tuple[str, ...] | None, n_features: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The columns as figures, and in rows of a name and a text: with a schema, those of the table and their kinds."""
    if columns is None:
        return {"columns": None}, [("columns", f"{n_features:,}, without names")]
    if not isinstance(columns, skl.schemas.SchemaColumns):
        more = f", ... {len(columns):,} in all" if len(columns) > COLUMNS_SHOWN else ""
        return {"columns": columns}, [("columns", ", ".join(columns[:COLUMNS_SHOWN]) + more)]
    schema = columns.schema
    figures = {"columns": schema.names, "kinds": {column.name: column.in_words for column in schema.columns}}
    first = f"{len(schema.columns):,}, which become {n_features:,} numbers"
    return figures, [("columns", first), *(("", line) for line in str(schema).splitlines())]


def column_names(model: Any) -> list[str]:
    return list(model.columns_ or (f"column {i}" for i in range(model.n_features_in_)))


def without_rounding(direction: Any) -> list[float]:
    """The numbers of a direction, those that are rounding errors beside its largest as 0.

    >>> without_rounding([0.5, 1.7e-18, -0.5])
    [0.5, 0.0, -0.5]
    """
    least = ROUNDING * max(map(abs, direction), default=0.0)
    return [float(value) if abs(value) >= least else 0.0 for value in direction]


def table(heads: list[str], cells: list[list[str]], values: list[list[str]], names: Sequence[str]) -> list[str]:
    """Right-aligned lines: the cells of each row under their heads, then its values under the names of the columns.

    A terminal gets as many columns as it is wide, so that no line wraps.
    """
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    for n_shown in range(min(len(names), TABLE_COLUMNS_SHOWN), 0, -1):
        unshown = len(names) - n_shown
        more = [f"and {counted(unshown, 'more column')} (--json)"] if unshown > 0 else []
        rows = [[*heads, *map(printable, names[:n_shown]), *more]]
        rows += [[*row, *some[:n_shown]] for row, some in zip(cells, values, strict=True)]
        widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
        lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
        if max(map(len, lines)) <= room:
            break
    return lines


def component_table(model: Any) -> list[str]:
    """Principal components: shares of the variance and coordinates."""
    import numpy as np

    errors = model.error_bars().standard_errors
    shares, of_shares = model.explained_variance_ratio_, _known(errors, "explained_variance_ratio_", model)
    unsure = np.where(of_shares < LEAST_PLAIN, 0, of_shares)  # beside four decimals, less is nothing
    heads = [[f"{share:.4f}", _shown(error)] for share, error in zip(shares, unsure, strict=True)]
    directions = [without_rounding(direction) for direction in model.components_]
    return _beside("share", heads, directions, _known(errors, "components_", model), column_names(model))


def independent_table(model: Any) -> list[str]:
    """Independent components: their evidence and coordinates."""
    errors = _known(model.error_bars().standard_errors, "components_", model)
    heads = [[in_digits(evidence), ""] for evidence in model.evidence_]
    return _beside("evidence", heads, model.components_, errors, column_names(model))


def coefficient_table(model: Any, targets: Sequence[str] = ()) -> list[str]:
    """Intercepts and coefficients of each target, by their names if they are known: model files do not tell them."""
    import numpy as np

    errors = model.error_bars().standard_errors
    unknown = _known(errors, "intercept_", model), _known(errors, "coef_", model)
    values, unsure = (
        np.column_stack([np.atleast_1d(intercepts), np.atleast_2d(coefficients)])
        for intercepts, coefficients in ((model.intercept_, model.coef_), unknown)
    )
    heads = [[f"coefficients of {printable(name)}", ""] for name in targets] or [["coefficients", ""]] * len(values)
    return _beside("", heads, values, unsure, ["intercept", *column_names(model)])


#: tables of models by the name of their task
TABLES: dict[str, Callable[[Any], list[str]]] = {
    "pca": component_table,
    "ica": independent_table,
    "regression": coefficient_table,
    "ridge": coefficient_table,
}


def certainty_lines(model: Any) -> list[str]:
    """What the standard errors hold under, and why some are not there."""
    bars = model.error_bars()
    premise = [f"Standard errors are {bars.premise}."] if bars.premise else []
    return premise + ([f"Standard errors are not reported: {bars.withheld}."] if bars.withheld else [])


def _known(errors: Any, name: str, model: Any) -> Any:
    """The errors of an attribute; NaN if there are none."""
    import numpy as np

    return errors.get(name, np.full(np.shape(getattr(model, name)), np.nan))


def _shown(error: float) -> str:
    return "unknown" if math.isnan(error) else in_digits(error, 2)


def _beside(head: str, cells: list[list[str]], values: Any, errors: Any, names: list[str]) -> list[str]:
    """Rows of numbers, each above its standard errors."""
    lines, numbers = [], []
    for (own, error), row, unsure in zip(cells, values, errors, strict=True):
        lines += [["", own], ["standard error", error]] if head else [[own], ["standard error"]]
        numbers += [list(map(in_certain_digits, row, unsure / 10)), [_shown(one) for one in unsure]]
    return table(["", head] if head else [""], lines, numbers, names)


CLUSTERS_SHOWN = 50
SIZES_NOTE = "(shares and records are the model's, the same in fit and info; predict counts the rows of a table)"
LOGARITHMS_NOTE = "({} by logarithms: the typical value, below the mean where a few are large)"
EXACT_DIGITS = 8  # of a number without an error


def cluster_figures(model: Any) -> list[dict[str, Any]]:
    """The number of each cluster, its share, about how many records it has, its center and, if known, its spread.

    Shares and centers have their standard errors beside them, where those are known. With a schema, `columns` has the
    center in the terms of the table.
    """
    learned, errors = model.fitted_model(), model.error_bars().standard_errors
    places = "cluster_centers_" if "cluster_centers_" in errors else "means_"
    centers, nan = learned.centers_of_parts, float("nan")
    shares_and_errors = learned.weights, errors.get("weights_", learned.weights * nan)
    parts = zip(
        *shares_and_errors, centers, learned.deviations_of_parts, errors.get(places, centers * nan), strict=True
    )
    figures = [
        {
            "number": number,
            "share": float(share),
            "records": round(float(share) * float(model.n_records_)),
            "center": center.tolist(),
            "spread": [float(width) if width > 0 else None for width in spread],
            "share_error": _or_none(share_error),
            "center_error": [_or_none(error) for error in center_error],
        }
        for number, (share, share_error, center, spread, center_error) in enumerate(parts)
    ]
    if (profiles := _of_centers(model)) is not None:
        for one, profile in zip(figures, profiles, strict=True):
            one["columns"] = {column.name: str(column) for column in profile.columns}
    return figures


def _or_none(error: float) -> float | None:
    return float(error) if error >= 0 else None


def _of_centers(model: Any) -> Any:
    """The centers in the terms of the table, if there is a schema."""
    from sketchlearn.questions.profiles import profiles_of_centers

    return profiles_of_centers(model) if isinstance(model.columns_, skl.schemas.SchemaColumns) else None


def measured(model: Any) -> list[tuple[str, str]]:
    """The inertia or likelihood of the rows, for models that have one."""
    if not hasattr(model, "measured"):
        return []
    name, found = model.measured()
    if found.value is None:
        return [(name, f"withheld: {found.withheld}")]
    if not found.error:
        return [(name, in_digits(found.value, EXACT_DIGITS))]
    return [(name, f"{in_certain_digits(found.value, found.error / 10)} +- {in_digits(found.error, 2)}")]


def cluster_table(model: Any) -> list[str]:
    """The clusters, the largest first: models of earlier versions have other numbers, which `predict` gives, too."""
    if (profiles := _of_centers(model)) is not None:
        columns = model.columns_.schema.columns
        logarithms = [printable(column.name) for column in columns if getattr(column, "scaling", "") == "log"]
        return [*profile_lines(profiles), *([LOGARITHMS_NOTE.format(", ".join(logarithms))] if logarithms else [])]
    kind, figures = model.fitted_model().kind_of_part, cluster_figures(model)
    shown = sorted(figures, key=lambda cluster: -cluster["share"])[:CLUSTERS_SHOWN]
    cells, values = [], []
    for cluster in shown:
        cells.append([str(cluster["number"]), f"{cluster['share']:.4f}", f"{cluster['records']:,}"])
        values.append(_values(cluster, column_names(model)))
        if cluster["share_error"] is not None:
            n = float(model.n_records_) * cluster["share_error"]
            cells.append(["error", in_digits(cluster["share_error"], 2), in_digits(n, 2)])
            values.append([in_digits(e, 2) if e is not None else "" for e in cluster["center_error"]])
    lines = table([kind, "share", "records"], cells, values, column_names(model))
    lines += [f"... {len(figures) - len(shown)} more"] if len(figures) > len(shown) else []
    notes = [f"{kind} centers, +- the standard deviation of their records"] if " +- " in str(values) else []
    estimated = any(cluster["share_error"] is None for cluster in shown)
    notes += ["shares and records are the model's, and predict may count a few percent more or fewer"] * estimated
    notes += ["error: one standard deviation of the number above it"] if ["error"] in [row[:1] for row in cells] else []
    lines += [f"({'; '.join(notes)})"] if notes else []
    return lines + certainty_lines(model)


def profile_lines(profiles: Any) -> list[str]:
    """Profiles with the shares of the model, and what these are."""
    lines = list(map(str, profiles))
    more = [f"... {len(lines) - CLUSTERS_SHOWN} more"] if len(lines) > CLUSTERS_SHOWN else []
    return [*lines[:CLUSTERS_SHOWN], *more, SIZES_NOTE]


def _values(cluster: dict[str, Any], names: list[str]) -> list[str]:
    """Each column of a center in as many digits as are certain, with the spread of the records around it."""
    cells = []
    columns = zip(names, cluster["center"], cluster["spread"], cluster["center_error"], strict=True)
    for name, value, spread, error in islice(columns, TABLE_COLUMNS_SHOWN):
        if spread is not None and spread <= ROUNDING * abs(value):
            spread = 0.0  # all records have this value, up to rounding
        if error is None:
            error = float("nan") if spread is None else spread / max(cluster["records"], 1) ** 0.5
        shown = ungrouped(in_certain_digits(value, error), name)
        cells.append(shown + (f" +- {in_digits(spread, 2)}" if spread else ""))
    return cells

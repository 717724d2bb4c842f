"""Tables of what linear models have learned, with standard errors beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sketchlearn.cli.descriptions import column_names, table, without_rounding
from sketchlearn.cli.option_messages import in_options
from sketchlearn.core.messages import LEAST_PLAIN, in_certain_digits, in_digits, printable

NUMBERS, ERRORS = "", "standard error"


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
    values, unsure = (
        np.column_stack([np.atleast_1d(intercepts), np.atleast_2d(coefficients)])
        for intercepts, coefficients in (
            (model.intercept_, model.coef_),
            (_known(errors, "intercept_", model), _known(errors, "coef_", model)),
        )
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
    return premise + ([in_options(f"Standard errors are withheld: {bars.withheld}.")] if bars.withheld else [])


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
        lines += [[NUMBERS, own], [ERRORS, error]] if head else [[own], [ERRORS]]
        numbers += [list(map(in_certain_digits, row, unsure / 10)), [_shown(one) for one in unsure]]
    return table(["", head] if head else [""], lines, numbers, names)

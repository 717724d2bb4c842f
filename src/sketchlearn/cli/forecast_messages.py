"""What a private release will cost and hide, as the commands say it before anything is spent."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sketchlearn.cli.option_messages import in_options

if TYPE_CHECKING:
    from sketchlearn.privacy.forecast import Forecast


def forecast_figures(found: Forecast) -> dict[str, Any]:
    """The forecast for machines."""
    parts = [{**asdict(part), "noise_over_signal": part.noise_over_signal} for part in found.parts]
    common = {"n_rows": found.n_rows, "count_deviation": found.count_deviation, "verdict": in_options(found.verdict)}
    return {"ledger": found.ledger.to_json(), "parts": parts, **common}


def forecast_lines(found: Forecast) -> list[str]:
    """The forecast for people."""
    *table, verdict = str(found).splitlines()
    return [*table, in_options(verdict)]

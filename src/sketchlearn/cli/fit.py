"""`sketchlearn fit`: clusters or a mixture from a sketch."""

from __future__ import annotations

import json as json_module
import time
from typing import Any

from sketchlearn.cli.sentences import misused
from sketchlearn.cli.streams import Report, check_paths, read_sketch, write
from sketchlearn.cli.words import number, records_in_words
from sketchlearn.decoders import NAMED
from sketchlearn.diagnostics.pictures import plot_model
from sketchlearn.estimators.saved import TYPES, model_to_bytes

MOST_COLUMNS = 8  # of a center, that are shown
MOST_ROWS = 50


def run(
    kind: str, sketch: str, n_components: int, output: str | None, plot: str | None, json: bool, **more: Any
) -> None:
    """Learns a model, writes it and shows it."""
    if more["decoder"] not in NAMED:
        raise misused(f"--decoder must be one of {', '.join(NAMED)}, not {more['decoder']!r}")
    check_paths([sketch], [output, plot], json=json)
    loaded = read_sketch(sketch)
    started = time.perf_counter()
    model: Any = TYPES[kind](n_components, **more).fit_sketch(loaded)
    seconds = time.perf_counter() - started
    data = model_to_bytes(model)
    if plot is not None:
        plot_model(loaded, model, plot)
    if output is not None:
        write(output, data)
    outcome = model.outcome_
    lines = [
        f"k = {n_components}, from {records_in_words(loaded.count)}, in {seconds:.2g} s",
        f"{outcome.status.value} (misfit {number(outcome.misfit)}). {outcome.advice}".strip(),
        *_table(model, loaded.operator),
    ]
    figures = {**json_module.loads(data), "output": output, "seconds": seconds, "plot": plot}
    Report(json, [output]).give(figures, *lines)


def _table(model: Any, operator: Any) -> list[str]:
    """Shares and centers, the largest first."""
    centers = model.cluster_centers_ if hasattr(model, "cluster_centers_") else model.means_
    names = operator.column_names
    shown = list(names[:MOST_COLUMNS])
    rows = [["share", *shown, *(["..."] if len(names) > len(shown) else [])]]
    order = sorted(range(len(centers)), key=lambda i: -model.weights_[i])
    for i in order[:MOST_ROWS]:
        rows.append([f"{model.weights_[i]:.4f}", *(number(x) for x in centers[i][:MOST_COLUMNS])])
    widths = [max(len(row[j]) for row in rows if j < len(row)) for j in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:>{widths[j]}}" for j, cell in enumerate(row)).rstrip() for row in rows]
    return lines + ([f"... {len(order) - MOST_ROWS} more"] if len(order) > MOST_ROWS else [])

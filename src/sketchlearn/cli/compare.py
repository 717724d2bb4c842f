"""`sketchlearn compare`: how far two sketches are apart."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from typing import Any

from sketchlearn.cli.pictures import save_picture
from sketchlearn.cli.streams import Report, check_paths, read_sketch
from sketchlearn.cli.words import number, records_in_words
from sketchlearn.sketch import Sketch

UNLIKELY = 0.01


def run(a: str, b: str, plot: str | None, json: bool) -> None:
    """Tells the distance of two sketches and whether chance explains it."""
    check_paths([a, b], [plot], json=False)
    first, second = read_sketch(a), read_sketch(b)
    distance, drift = first.distance(second), _drift(first, second)
    if plot is not None:
        save_picture("plot_comparison", first, second, plot)
    figures = {"a": a, "b": b, "records": [first.count, second.count], "distance": distance, **drift, "plot": plot}
    lines = [
        f"A: {records_in_words(first.count)}; B: {records_in_words(second.count)}",
        f"Distance of the mean features: {number(distance)}.",
        _in_words(drift),
    ]
    Report(json).give(figures, *lines)


def _drift(a: Sketch, b: Sketch) -> dict[str, Any]:
    """Figures of the drift test, if this version has one."""
    if importlib.util.find_spec("sketchlearn.queries") is None:
        return {}
    drift = importlib.import_module("sketchlearn.queries").drift_test(a, b)
    figures = {field.name: getattr(drift, field.name) for field in dataclasses.fields(drift)}
    return {name: value for name, value in figures.items() if isinstance(value, int | float | str | bool)}


def _in_words(drift: dict[str, Any]) -> str:
    p = drift.get("p_value")
    if p is None:
        return "This version of sketchlearn has no drift test: judge the distance against that of two days alike."
    if p < UNLIKELY:
        return f"The rows come from different distributions: chance alone gives such a distance with p = {p:.2g}."
    return f"Chance alone explains it (p = {p:.2g}): nothing says that the distributions differ."

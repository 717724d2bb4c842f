"""`sketchlearn watch`: whether, and since when, the records of a stream of sketches changed."""

from __future__ import annotations

from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch
from sketchlearn.diagnostics.pictures import plot_changes
from sketchlearn.queries import ChangeDetector


def run(sketches: list[str], level: float, plot: str | None, json: bool) -> None:
    """Compares each sketch with those before it."""
    check_paths(sketches, [plot], json=False)
    detector = ChangeDetector(level=level)
    for path in sketches:
        detector.update(read_sketch(path))
    changes = detector.changes
    if plot is not None:
        plot_changes(changes, plot, level=level)
    steps = [
        {"sketch": sketches[change.step], "alarm": change.alarm, "p_value": change.p_value}
        | ({"since": sketches[change.since]} if change.since is not None else {})
        for change in changes
    ]
    lines = []
    for path, change in zip(sketches, changes, strict=True):
        since = "" if change.since is None else f": changed since {sketches[change.since]}. {change.drift}"
        quiet = ": nothing to compare with yet" if change.drift is None else f": no change (p = {change.p_value:.2g})"
        lines.append(f"{path}{since or quiet}")
    Report(json).give({"alarms": sum(change.alarm for change in changes), "plot": plot, "steps": steps}, *lines)

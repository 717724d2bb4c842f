"""`sketchlearn watch`: whether, and since when, the records of a stream of sketches changed."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Json, Plot


def watch(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files, the oldest first.")],
    level: Annotated[float, typer.Option(help="Part of the steps that may raise a false alarm.")] = 0.001,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Say whether, and since when, the records of a stream changed.

    \b
    Example:
      sketchlearn watch day1.sketch day2.sketch
    """
    from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch
    from sketchlearn.diagnostics.pictures import plot_changes
    from sketchlearn.queries import ChangeDetector

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

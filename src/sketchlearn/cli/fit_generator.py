"""`sketchlearn fit generator`."""

from __future__ import annotations

import sys

from sketchlearn.cli.descriptions import number, records_in_words
from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch, write
from sketchlearn.cli.strict_warnings import doubts
from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
from sketchlearn.tasks.model_files import model_to_bytes


def generator(
    sketch: str, max_iter: int, output: str | None, seed: int, progress: bool | None, strict: bool, json: bool
) -> None:
    """Trains a network, writes it, and says how well it matches."""
    check_paths([sketch], [output], json=json)
    loaded = read_sketch(sketch)
    shown = sys.stderr.isatty() if progress is None else progress
    with doubts() as heard:
        model = SketchGenerator(max_iter=max_iter, random_state=seed, verbose=int(shown)).fit_sketch(loaded)
    if output is not None:
        write(output, model_to_bytes(model))
    figures = {
        "type": "generator",
        "residual": model.residual_,
        "misfit": model.misfit_,
        "iterations": model.n_iter_,
        "n_records": loaded.count,
        "output": output,
        "warnings": heard.sentences,
    }
    line = f"{model.n_iter_} steps, from {records_in_words(loaded.count)}: residual {number(model.residual_)}"
    Report(json, [output]).give(figures, f"{line}, {number(model.misfit_)} times the noise squared")
    heard.leave(strict)

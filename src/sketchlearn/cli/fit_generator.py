"""`sketchlearn fit generator`: a network that generates rows."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sketchlearn.cli.options import Json, ModelOutput, Progress, Seed, SketchFile, Strict


def generator(
    sketch: SketchFile,
    max_iter: Annotated[int, typer.Option(min=1, help="Steps of training at the most.")] = 4000,
    output: ModelOutput = None,
    seed: Seed = 0,
    progress: Progress = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a network that generates rows; needs torch.

    The sketch is one of a design for --task generator. Rows are made by sketchlearn sample.

    \b
    Example:
      sketchlearn sketch day1.csv --task generator -o day1.sketch
      sketchlearn fit generator day1.sketch --max-iter 600 -o model.safetensors
      sketchlearn sample model.safetensors -n 10
    """
    from sketchlearn.cli.descriptions import number, records_in_words
    from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch, write
    from sketchlearn.cli.strict_warnings import doubts
    from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
    from sketchlearn.tasks.model_files import model_to_bytes

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

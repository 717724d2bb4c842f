"""`sketchlearn fit pca`, `ica`, `subspaces`, `regression` and `classifier`."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from sketchlearn.cli.options import Components, Json, ModelOutput, Seed, SketchFile, Strict
from sketchlearn.tasks.registry import tasks

MOST_COLUMNS = 8  # that are shown


def pca(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    json: Json = False,
) -> None:
    """Learn principal components.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit pca -k 2 moments.sketch -o model.json
    """
    from sketchlearn.cli.descriptions import records_in_words
    from sketchlearn.cli.standard_streams import check_paths, read_sketch
    from sketchlearn.tasks.principal_components.pca_estimator import SketchPCA

    check_paths([sketch], [output], json=json)
    loaded = read_sketch(sketch)
    model = SketchPCA(n_components).fit_sketch(loaded)
    shares = model.explained_variance_ratio_
    lines = [f"{100 * shares.sum():.4g} % of the variance, from {records_in_words(loaded.count)}"]
    lines += _table("share", [f"{share:.4f}" for share in shares], model.components_, _names(model))
    _give(model, output, json, lines)


def ica(
    sketch: SketchFile,
    output: ModelOutput = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn independent components.

    The sketch is one of a design for --task ica.

    \b
    Example:
      sketchlearn sketch day1.csv --task ica -o ica.sketch
      sketchlearn fit ica ica.sketch -o model.json
    """
    from sketchlearn.cli.descriptions import records_in_words
    from sketchlearn.cli.standard_streams import check_paths, read_sketch
    from sketchlearn.tasks.independent_components.ica_estimator import SketchICA

    check_paths([sketch], [output], json=json)
    loaded = read_sketch(sketch)
    model = SketchICA(random_state=seed).fit_sketch(loaded)
    lines = [f"{len(model.components_)} independent components, from {records_in_words(loaded.count)}"]
    heads = [f"{evidence:.4g}" for evidence in model.evidence_]
    lines += _table("evidence", heads, model.components_, _names(model))
    _give(model, output, json, lines)


def subspaces(
    sketch: SketchFile,
    n_components: Components,
    dimensions: Annotated[
        str, typer.Option("--dimensions", "-p", metavar="P,...", help="Dimension of all subspaces, or of each.")
    ] = "1",
    output: ModelOutput = None,
    seed: Seed = 0,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn lines, planes and larger subspaces through the origin that rows lie near.

    The sketch is one of a design for --task subspaces.

    \b
    Example:
      sketchlearn sketch day1.csv --task subspaces -o day1.fourth
      sketchlearn fit subspaces -k 2 -p 1 day1.fourth -o model.json
    """
    import numpy as np

    from sketchlearn.cli.descriptions import number, records_in_words
    from sketchlearn.cli.standard_streams import check_paths, read_sketch
    from sketchlearn.cli.strict_warnings import doubts
    from sketchlearn.tasks.subspaces.subspace_estimator import SketchSubspaces

    check_paths([sketch], [output], json=json)
    loaded = read_sketch(sketch)
    sizes = _dimensions(dimensions)
    with doubts() as heard:
        model = SketchSubspaces(n_components, sizes, random_state=seed).fit_sketch(loaded)
    noise = number(model.noise_variance_**0.5)
    lines = [
        f"k = {n_components}, noise {noise}, misfit {number(model.misfit_)}, from {records_in_words(loaded.count)}"
    ]
    shares = [f"{w:.4f}" for w, basis in zip(model.weights_, model.subspaces_, strict=True) for _ in basis]
    lines += _table("share", shares, np.concatenate(model.subspaces_), _names(model))
    _give(model, output, json, lines, warnings=heard.sentences)
    heard.leave(strict)


def regression(
    sketch: SketchFile,
    targets: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Names or positions of the targets; by default the last column."),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="A ridge penalty, or gcv to choose one by cross-validation; by default none.")
    ] = None,
    output: ModelOutput = None,
    json: Json = False,
) -> None:
    """Learn a linear regression of some columns on the others.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit regression moments.sketch -o model.json
    """
    import numpy as np

    from sketchlearn.cli.descriptions import number, records_in_words
    from sketchlearn.cli.standard_streams import check_paths, read_sketch
    from sketchlearn.tasks.regression.regression_estimators import SketchLinearRegression, SketchRidge

    check_paths([sketch], [output], json=json)
    model = SketchLinearRegression() if alpha is None else SketchRidge(_penalty(alpha))
    loaded = read_sketch(sketch)
    model.fit_sketch(loaded, targets=_targets(targets))
    lines = [f"R^2 {number(model.r2_)}, from {records_in_words(loaded.count)}"]
    if isinstance(model, SketchRidge):
        lines.append(f"alpha {number(model.alpha_)}")
    coefficients = np.column_stack([np.atleast_1d(model.intercept_), np.atleast_2d(model.coef_)])
    errors = np.column_stack([np.atleast_1d(model.intercept_standard_error_), np.atleast_2d(model.standard_errors_)])
    both = np.stack([coefficients, errors], axis=1).reshape(-1, coefficients.shape[1])
    heads = ["coefficients", "standard errors"] * len(coefficients)
    lines += _table("", heads, both, ["intercept", *_names(model)])
    _give(model, output, json, lines)


def classifier(
    sketches: Annotated[
        list[str], typer.Argument(metavar="LABEL=SKETCH...", help="One sketch file per class, all of one design.")
    ],
    output: ModelOutput = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn to tell classes apart, from one sketch of each.

    From a design for --task moments, each class is a Gaussian; from others, classes are compared by Parzen windows.

    \b
    Example:
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn sketch day1.csv --design moments.json -o one.sketch
      sketchlearn sketch day2.csv --design moments.json -o two.sketch
      sketchlearn fit classifier one=one.sketch two=two.sketch -o model.json
    """
    from sketchlearn.cli.descriptions import records_in_words
    from sketchlearn.cli.error_messages import misused
    from sketchlearn.cli.standard_streams import check_paths, read_sketch
    from sketchlearn.tasks.classes.classifier_estimator import SketchClassifier

    pairs = [text.partition("=")[::2] for text in sketches]
    for text, (label, path) in zip(sketches, pairs, strict=True):
        if not label or not path:
            raise misused(f"{text}: give LABEL=SKETCH, such as setosa=setosa.sketch")
    if len({label for label, _ in pairs}) < len(pairs):
        raise misused("a label is given twice: merge the sketches of one class first")
    check_paths([path for _, path in pairs], [output], json=json)
    model = SketchClassifier(random_state=seed).fit_sketch({label: read_sketch(path) for label, path in pairs})
    lines = [f"{len(pairs)} classes by the {model.rule_} rule"]
    for label, prior in zip(model.classes_, model.priors_, strict=True):
        lines.append(f"{label}: {prior:.4f}, {records_in_words(model.sketches_[label].count)}")
    _give(model, output, json, lines)


def foreign(name: str, sketch: str, output: str | None, seed: int, json: bool) -> None:
    """Learns what a task of another package learns, and writes it."""
    from sketchlearn.cli.descriptions import records_in_words
    from sketchlearn.cli.standard_streams import check_paths, read_sketch

    check_paths([sketch], [output], json=json)
    task, loaded = tasks()[name], read_sketch(sketch)
    estimator = task.load()()
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    model = estimator.fit_sketch(loaded)
    _give(model, output, json, [f"{task.title}, from {records_in_words(loaded.count)}"])


def _give(model: Any, output: str | None, json: bool, lines: list[str], **more: Any) -> None:
    from sketchlearn.cli.standard_streams import Report, write
    from sketchlearn.tasks.model_files import model_to_bytes

    data = model_to_bytes(model)
    if output is not None:
        write(output, data)
    Report(json, [output]).give({**json_module.loads(data), "output": output, **more}, *lines)


def _penalty(alpha: str) -> float | str:
    from sketchlearn.cli.error_messages import misused

    try:
        return alpha if alpha == "gcv" else float(alpha)
    except ValueError:
        raise misused(f"--alpha must be a number or gcv, not {alpha!r}") from None


def _dimensions(text: str) -> int | list[int]:
    from sketchlearn.cli.error_messages import misused

    try:
        several = [int(part) for part in text.split(",")]
    except ValueError:
        raise misused(f"--dimensions must be a number, or one for each subspace, not {text!r}") from None
    return several if len(several) > 1 else several[0]


def _targets(text: str | None) -> list[Any] | None:
    from sketchlearn.cli.row_input import columns_from

    chosen = columns_from(text)
    return None if chosen is None else list(chosen)


def _names(model: Any) -> list[str]:
    named = getattr(model, "feature_names_in_", None)
    return [f"column {i}" for i in range(model.n_features_in_)] if named is None else named.tolist()


def _table(head: str, heads: Sequence[str], values: Any, names: Sequence[str]) -> list[str]:
    from sketchlearn.cli.descriptions import number

    more = len(names) > MOST_COLUMNS
    rows = [[head, *names[:MOST_COLUMNS], *(["..."] if more else [])]]
    rows += [[h, *(number(x) for x in row[:MOST_COLUMNS])] for h, row in zip(heads, values, strict=True)]
    widths = [max(len(row[j]) for row in rows if j < len(row)) for j in range(len(rows[0]))]
    return ["  ".join(f"{cell:>{widths[j]}}" for j, cell in enumerate(row)).rstrip() for row in rows]

"""`sketchlearn fit`: each kind of model from a sketch, and those that other packages bring."""

from __future__ import annotations

import json as json_module
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import sketchlearn as skl
from sketchlearn.cli import files, options, tables
from sketchlearn.cli.errors import DOUBTFUL, fit_warnings, misused, say, two_commands
from sketchlearn.core.messages import counted, in_digits
from sketchlearn.estimators.registry import foreign_tasks, tasks


@dataclass(frozen=True)
class FitOptions:
    """What every fit has options for."""

    output: options.OptionalOutput = None
    trusted: options.Trusted = None
    json: options.Json = False
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there was a warning about the fit.")] = (
        False
    )


#: help texts of the commands that are `clusters` under the names of their tasks
CLUSTER_HELP = {
    "kmeans": """Learn clusters: least sum of squared distances to centers.

    Rows that the sketch keeps (design --rows) are used automatically; --sample gives rows to sketches that keep none.

    \b
    Example:
      sketchlearn fit kmeans -k 3 day1.sketch -o model.json
      sketchlearn fit kmeans -k auto --max-clusters 6 day1.sketch -o model.json
      sketchlearn fit kmeans -k 3 day1.sketch --sample day1.csv --strict -o model.json
    """,
    "kmedians": """Learn clusters: least sum of distances to centers.

    Outliers move such centers less.

    \b
    Example:
      sketchlearn fit kmedians -k 3 day1.sketch -o model.json
    """,
    "stable": """Learn a mixture of symmetric alpha-stable distributions, which have heavy tails.

    Best from a design for --task stable.

    \b
    Example:
      sketchlearn fit stable -k 3 day1.sketch -o model.json
    """,
}


@options.grouped
def clusters(
    context: typer.Context,
    sketch: options.SketchFile,
    asked: FitOptions,
    n_components: options.ComponentsOrAuto,
    sample: files.SampleFiles,
    max_clusters: options.MaxClusters = 20,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    plot: options.Plot = None,
) -> None:
    """Learns the task that the command is called after."""
    model = _estimator(str(context.info_name), n_components, max_clusters, decoder=decoder, random_state=seed)
    _learn(model, sketch, sample, plot, asked)


@options.grouped
def gmm(
    sketch: options.SketchFile,
    asked: FitOptions,
    n_components: options.ComponentsOrAuto,
    sample: files.SampleFiles,
    max_clusters: options.MaxClusters = 20,
    covariance_type: Annotated[
        options.Covariance, typer.Option(help="Shape of the Gaussians.")
    ] = options.Covariance.full,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    plot: options.Plot = None,
) -> None:
    """Learn a mixture of Gaussians.

    Best from a design for --task mixture, or mixture-full for full covariances.

    \b
    Example:
      sketchlearn fit gmm -k 3 --covariance-type diag day1.sketch -o model.json
    """
    parameters = {"covariance_type": covariance_type.value, "decoder": decoder, "random_state": seed}
    model = _estimator("gmm", n_components, max_clusters, **parameters)
    _learn(model, sketch, sample, plot, asked)


def _estimator(task: str, k: int | str, max_clusters: int, **parameters: Any) -> Any:
    """That of a task; -k auto is for those that choose the number of clusters themselves."""
    estimator = tasks()[task].load()
    if k != options.AUTO:
        return estimator(k, **parameters)
    if not hasattr(estimator, "choice_"):
        raise misused(f"-k auto is for fit kmeans, kmedians and gmm: give fit {task} a number")
    return estimator(k, max_clusters=max_clusters, **parameters)


def _learn(model: Any, sketch: str, sample: files.SampleFiles, plot: str | None, asked: FitOptions) -> None:
    from sketchlearn.estimators.base.components import FittedMixture
    from sketchlearn.inference.decoders import NAMED
    from sketchlearn.views.pictures import plot_model

    if model.decoder not in NAMED:
        raise misused(f"--decoder must be one of {', '.join(NAMED)}, not {model.decoder!r}")
    files.check_paths([sketch, *sample.paths, *(asked.trusted or [])], [asked.output, plot], json=asked.json)
    loaded = files.read_sketch(sketch, asked.trusted)
    rows = sample.rows(loaded.operator, model.random_state)
    started = time.perf_counter()
    with fit_warnings() as warned:
        model.fit_sketch(loaded, sample=rows, assume_public_sample=sample.assume_public_sample)
    seconds = time.perf_counter() - started
    if plot is not None:
        plot_model(loaded, model, plot)
    outcome, learned, choice = model.outcome_, model.fitted_model(), getattr(model, "choice_", None)
    lines = [
        f"k = {len(model.weights_)}, from {counted(loaded.count, 'record')}",
        *([] if choice is None else [" ".join(choice.sentences)]),
        f"{outcome.status.value} ({outcome.misfit_in_words}). {outcome.advice}".strip(),
        *([f"fit test {learned.fit_in_words}"] if isinstance(learned, FittedMixture) else []),
        *(f"{name} {text}" for name, text in tables.measured(model)),
        *_profiles(model, loaded),
    ]
    parts = {f"{learned.kind_of_part}s": tables.cluster_figures(model)}
    _give_model(model, lines, asked, warned, seconds=seconds, plot=plot, **parts)


def _profiles(model: Any, sketch: Any) -> list[str]:
    """The clusters in the columns' names and units, if there are a schema and kept rows; else their centers."""
    from sketchlearn.questions.profiles import has_profiles

    if not isinstance(model.columns_, skl.schemas.SchemaColumns) or not model.can("predict"):
        return tables.cluster_table(model)
    if not has_profiles(sketch):
        if sketch.ledger is None:
            say("profiles of the clusters need rows that the sketch keeps: design --rows 500")
        return tables.cluster_table(model)
    return tables.profile_lines(skl.profiles(model, sketch).with_shares(model))


@options.grouped
def pca(sketch: options.SketchFile, asked: FitOptions, n_components: options.Components) -> None:
    """Learn principal components.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit pca -k 2 moments.sketch -o model.json
    """
    model, records, warned = _fitted(tasks()["pca"].load()(n_components), sketch, asked)
    lines = [f"{in_digits(100 * model.explained_variance_ratio_.sum())} % of the variance, from {records}"]
    lines += tables.component_table(model) + tables.certainty_lines(model)
    _give_model(model, lines, asked, warned)


@options.grouped
def ica(
    sketch: options.SketchFile,
    asked: FitOptions,
    seed: options.Seed = 0,
) -> None:
    """Learn independent components.

    The sketch is one of a design for --task ica.

    \b
    Example:
      sketchlearn sketch day1.csv --task ica -o ica.sketch
      sketchlearn fit ica ica.sketch -o model.json
    """
    model, records, warned = _fitted(tasks()["ica"].load()(random_state=seed), sketch, asked)
    lines = [f"{len(model.components_)} independent components, from {records}"]
    lines += tables.independent_table(model) + tables.certainty_lines(model)
    _give_model(model, lines, asked, warned)


@options.grouped
def subspaces(
    sketch: options.SketchFile,
    asked: FitOptions,
    n_components: options.Components,
    dimensions: Annotated[
        str, typer.Option("--dimensions", "-p", metavar="P,...", help="Dimension of all subspaces, or of each.")
    ] = "1",
    seed: options.Seed = 0,
) -> None:
    """Learn lines, planes and larger subspaces through the origin that rows lie near.

    The sketch is one of a design for --task subspaces.

    \b
    Example:
      sketchlearn sketch day1.csv --task subspaces -o day1.fourth
      sketchlearn fit subspaces -k 2 -p 1 day1.fourth -o model.json
    """
    try:
        sizes = [int(part) for part in dimensions.split(",")]
    except ValueError:
        raise misused(f"--dimensions must be a number, or one for each subspace, not {dimensions!r}") from None
    estimator = tasks()["subspaces"].load()(n_components, sizes if len(sizes) > 1 else sizes[0], random_state=seed)
    model, records, warned = _fitted(estimator, sketch, asked)
    noise, misfit = in_digits(model.noise_variance_**0.5), in_digits(model.misfit_)
    lines = [f"k = {n_components}, noise {noise}, misfit {misfit}, from {records}"]
    parts = enumerate(zip(model.weights_, model.subspaces_, strict=True))
    cells = [[str(i), f"{share:.4f}"] for i, (share, basis) in parts for _ in basis]
    vectors = [map(in_digits, tables.without_rounding(vector)) for basis in model.subspaces_ for vector in basis]
    lines += tables.table(["cluster", "share"], cells, list(map(list, vectors)), tables.column_names(model))
    _give_model(model, lines, asked, warned)


@options.grouped
def regression(
    sketch: options.SketchFile,
    asked: FitOptions,
    targets: Annotated[
        Any, options.targeting(help="Names or positions of the targets; by default the last column.")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="A ridge penalty, or gcv to choose one by cross-validation; by default none.")
    ] = None,
) -> None:
    """Learn a linear regression of some columns on the others.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit regression moments.sketch -o model.json
    """
    penalty = () if alpha is None else (_penalty(alpha),)
    estimator = tasks()["ridge" if penalty else "regression"].load()(*penalty)
    model, records, warned = _fitted(estimator, sketch, asked, targets=None if targets is None else list(targets))
    columns = model.sketch_.operator.column_names
    names = [str(columns[one]) if isinstance(one, int) else one for one in (targets or (-1,))]  # the last by default
    lines = [f"{_joined(names)}: R^2 {in_digits(model.r2_)}, from {records}"]
    lines += [f"alpha {in_digits(model.alpha_)}"] if penalty else []
    lines += tables.coefficient_table(model, names) + tables.certainty_lines(model)
    _give_model(model, lines, asked, warned, targets=names)


@options.grouped
def kernel(
    sketch: options.SketchFile,
    asked: FitOptions,
    alpha: Annotated[str, typer.Option(help="The penalty, or gcv to choose it by cross-validation.")] = "gcv",
) -> None:
    """Learn a kernel regression: some columns as smooth functions of the others.

    The sketch is one of a design for --task kernel, which says what the targets are.

    \b
    Example:
      sketchlearn sketch day1.csv --task kernel --targets b -o kernel.sketch
      sketchlearn fit kernel kernel.sketch -o model.json
    """
    estimator = tasks()["kernel"].load()(_penalty(alpha))
    model, records, warned = _fitted(estimator, sketch, asked)
    names = [model.sketch_.operator.column_names[i] for i in model.target_positions_]
    lines = [f"{_joined(names)}: R^2 {in_digits(model.r2_)}, from {records}"]
    errors = [float(variance) ** 0.5 for variance in model.fitted_model().expected_errors]
    lines += [f"expected error at new rows: {', '.join(map(in_digits, errors))} (root mean square)"]
    lines += [f"alpha {in_digits(model.alpha_)}, {in_digits(model.degrees_of_freedom_, 3)} degrees of freedom"]
    _give_model(model, lines, asked, warned, targets=names)


def _penalty(alpha: str) -> float | str:
    try:
        return alpha if alpha == "gcv" else float(alpha)
    except ValueError:
        raise misused(f"--alpha must be a number or gcv, not {alpha!r}") from None


def _joined(targets: list[str]) -> str:
    return f"{'target' if len(targets) == 1 else 'targets'} {', '.join(targets)}"


@options.grouped
def classifier(
    sketches: options.ClassFiles,
    asked: FitOptions,
    classes: Annotated[
        str | None, typer.Option(metavar="FILE", help="Classes of private sketches, from sketchlearn select-classes.")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Learn a classifier from one sketch of each class.

    From a design for --task moments, each class is a Gaussian (of rows with hundreds of columns, in the directions that
    design --directions 32 takes); from others, classes are compared by Parzen windows.
    Labels of private sketches are released as they are: give all that there may be, known without the data, or select
    them privately (select-classes), which --classes adds to what was spent.

    \b
    Example:
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn sketch day1.csv --design moments.json -o one.sketch
      sketchlearn sketch day2.csv --design moments.json -o two.sketch
      sketchlearn fit classifier one=one.sketch two=two.sketch -o model.json
    """
    from sketchlearn.estimators.files import selected_from_bytes

    by_label = files.files_by_label(sketches)
    files.check_paths([*by_label.values(), classes, *(asked.trusted or [])], [asked.output], json=asked.json)
    loaded = {label: files.read_sketch(path, asked.trusted) for label, path in by_label.items()}
    declared = list(loaded) if classes is None else files.read_as("", classes, selected_from_bytes)
    with fit_warnings() as warned:
        model = tasks()["classifier"].load()(random_state=seed).fit_sketch(loaded, classes=declared)
    lines = [f"{len(by_label)} classes by the {model.rule_} rule"]
    for label, prior in zip(model.classes_, model.priors_, strict=True):
        lines.append(f"{label}: {prior:.4f}, {counted(loaded[label].count, 'record')}")
    _give_model(model, lines, asked, warned)


@options.grouped
def generator(
    sketch: options.SketchFile,
    asked: FitOptions,
    max_iter: Annotated[int, typer.Option(min=1, help="Largest number of training steps.")] = 4000,
    seed: options.Seed = 0,
    progress: options.Progress = None,
) -> None:
    """Learn a network that generates rows; needs torch.

    The sketch is one of a design for --task generator. Rows are made by sketchlearn sample.

    \b
    Example:
      sketchlearn sketch day1.csv --task generator -o day1.sketch
      sketchlearn fit generator day1.sketch --max-iter 600 -o model.safetensors
      sketchlearn sample model.safetensors -n 10
    """
    estimator = tasks()["generator"].load()(max_iter=max_iter, random_state=seed, verbose=int(bool(progress)))
    model, records, warned = _fitted(estimator, sketch, asked)
    figures = {
        "type": "generator",
        "residual": model.residual_,
        "misfit": model.misfit_,
        "iterations": model.n_iter_,
        "n_records": model.sketch_.count,
    }
    residual, misfit = in_digits(model.residual_), in_digits(model.misfit_)
    line = f"{model.n_iter_} steps, from {records}: residual {residual}, {misfit} times the noise squared"
    _give_model(model, [line], asked, warned, **figures)


@options.grouped
def foreign(
    context: typer.Context,
    sketch: options.SketchFile,
    asked: FitOptions,
    seed: options.Seed = 0,
) -> None:
    """Learns the task of another package that the command is called after."""
    task = tasks()[str(context.info_name)]
    estimator = task.load()()
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    model, records, warned = _fitted(estimator, sketch, asked)
    _give_model(model, [f"{task.title}, from {records}"], asked, warned)


def _fitted(estimator: Any, sketch: str, asked: FitOptions, **more: Any) -> tuple[Any, str, list[str]]:
    """The estimator, fitted to a sketch file; the number of records in words; and warnings about the fit."""
    files.check_paths([sketch, *(asked.trusted or [])], [asked.output], json=asked.json)
    loaded = files.read_sketch(sketch, asked.trusted)
    with fit_warnings() as warned:
        model = estimator.fit_sketch(loaded, **more)
    return model, counted(loaded.count, "record"), warned


def _give_model(model: Any, lines: list[str], asked: FitOptions, warned: list[str], **more: Any) -> None:
    """Writes a model file and reports what it holds, and more figures; a warning sets the exit code of --strict."""
    from sketchlearn.estimators.files import model_to_bytes

    data = model_to_bytes(model)
    if asked.output is not None:
        files.write(asked.output, data)
    held = json_module.loads(data) if data[:1] == b"{" else {}  # generators are not written as JSON
    files.tell(asked.json, {**held, **more, "output": asked.output, "warnings": warned}, *lines, output=asked.output)
    if asked.strict and warned:
        raise typer.Exit(DOUBTFUL)


#: what people call kinds of models, and the command for it
OTHER_NAMES = {
    "ridge": "regression --alpha gcv",
    "linear": "regression",
    "ols": "regression",
    "kernel-ridge": "kernel",
    "krr": "kernel",
    "k-means": "kmeans",
    "clusters": "kmeans",
    "k-medians": "kmedians",
    "mixture": "gmm",
    "gaussian": "gmm",
    "classes": "classifier",
    "classification": "classifier",
}


class Fits(TyperGroup):
    """The kinds of models, and those that other packages bring."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *foreign_tasks()]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and os.path.exists(args[0]):
            raise misused(f"{args[0]} is a file, and fit takes the kind of model first: {_commands(args[0])}", ctx)
        if args and args[0].lower() in OTHER_NAMES and self.get_command(ctx, args[0]) is None:
            meant = OTHER_NAMES[args[0].lower()]
            raise misused(f"there is no fit {args[0]}: did you mean sketchlearn fit {meant}?", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        task = foreign_tasks().get(cmd_name)
        own = super().get_command(ctx, cmd_name)
        if own is not None or task is None:
            return own
        app = typer.Typer(rich_markup_mode=None)
        app.command(cmd_name, cls=options.GroupedHelp, help=f"Learn: {task.title}.")(foreign)
        return typer.main.get_command(app)


def _commands(path: str) -> str:
    """What to type to learn from a file: one command if it is a sketch, two if it is a table."""
    from sketchlearn.files.sketches import kind_of

    try:
        found = kind_of(Path(path).read_bytes()) if os.path.getsize(path) <= files.MOST_BYTES else None
    except OSError:
        found = None
    return f"type sketchlearn fit kmeans -k K {path} -o FILE" if found == "sketch" else two_commands(path)


fit = typer.Typer(
    cls=Fits, no_args_is_help=True, rich_markup_mode=None, help="Learn a model from a sketch, to a model file."
)
for name in ("kmeans", "kmedians"):
    fit.command(name, cls=options.GroupedHelp, help=CLUSTER_HELP[name])(clusters)
fit.command(cls=options.GroupedHelp)(gmm)
fit.command("stable", cls=options.GroupedHelp, help=CLUSTER_HELP["stable"])(clusters)
for command in (generator, pca, ica, subspaces, regression, kernel, classifier):
    fit.command(cls=options.GroupedHelp)(command)

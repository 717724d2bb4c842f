"""`sketchlearn fit kmeans`, `kmedians`, `gmm` and `stable`: clusters or a mixture from a sketch."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from sketchlearn.cli import options
from sketchlearn.cli.cluster_tables import cluster_figures, cluster_table, measured, profile_lines
from sketchlearn.cli.descriptions import records_in_words
from sketchlearn.cli.error_messages import misused, say
from sketchlearn.cli.fit_tasks import give_model
from sketchlearn.cli.fit_warnings import fit_warnings
from sketchlearn.cli.input_output import check_paths, read_sketch
from sketchlearn.cli.option_messages import in_options
from sketchlearn.cli.sample_files import SampleFiles
from sketchlearn.estimators.registry import tasks

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
    "stable": """Learn a mixture of stable laws, with heavy tails.

    Best from a design for --task stable.

    \b
    Example:
      sketchlearn fit stable -k 3 day1.sketch -o model.json
    """,
}


def clusters(
    context: typer.Context,
    sketch: options.SketchFile,
    n_components: options.ComponentsOrAuto,
    max_clusters: options.MaxClusters = 20,
    output: options.ModelOutput = None,
    sample: options.Sample = None,
    assume_public_sample: options.AssumePublicSample = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    strict: options.Strict = False,
    json: options.Json = False,
) -> None:
    """Learns the task that the command is called after."""
    model = _estimator(str(context.info_name), n_components, max_clusters, decoder=decoder, random_state=seed)
    files = SampleFiles.of(sample, assume_public_sample, delimiter, decimal, header, encoding)
    _learn(model, sketch, trusted, files, output, plot, strict, json)


def gmm(
    sketch: options.SketchFile,
    n_components: options.ComponentsOrAuto,
    max_clusters: options.MaxClusters = 20,
    output: options.ModelOutput = None,
    covariance_type: Annotated[
        options.Covariance, typer.Option(help="Shape of the Gaussians.")
    ] = options.Covariance.full,
    sample: options.Sample = None,
    assume_public_sample: options.AssumePublicSample = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    strict: options.Strict = False,
    json: options.Json = False,
) -> None:
    """Learn a mixture of Gaussians.

    Best from a design for --task mixture, or mixture-full for full covariances.

    \b
    Example:
      sketchlearn fit gmm -k 3 --covariance-type diag day1.sketch -o model.json
    """
    parameters = {"covariance_type": covariance_type.value, "decoder": decoder, "random_state": seed}
    model = _estimator("gmm", n_components, max_clusters, **parameters)
    files = SampleFiles.of(sample, assume_public_sample, delimiter, decimal, header, encoding)
    _learn(model, sketch, trusted, files, output, plot, strict, json)


def _estimator(task: str, k: int | str, max_clusters: int, **parameters: Any) -> Any:
    """That of a task; -k auto is for those that choose the number of clusters themselves."""
    estimator = tasks()[task].load()
    if k != options.AUTO:
        return estimator(k, **parameters)
    if not hasattr(estimator, "choice_"):
        raise misused(f"-k auto is for fit kmeans, kmedians and gmm: give fit {task} a number")
    return estimator(k, max_clusters=max_clusters, **parameters)


def _learn(
    model: Any,
    sketch: str,
    trusted: list[str] | None,
    sample: SampleFiles,
    output: str | None,
    plot: str | None,
    strict: bool,
    json: bool,
) -> None:
    """Learns a model, writes it and shows it."""
    from sketchlearn.inference.decoders import NAMED
    from sketchlearn.views.pictures import plot_model

    if model.decoder not in NAMED:
        raise misused(f"--decoder must be one of {', '.join(NAMED)}, not {model.decoder!r}")
    check_paths([sketch, *sample.paths, *(trusted or [])], [output, plot], json=json)
    loaded = read_sketch(sketch, trusted)
    rows = sample.rows(loaded.operator, model.random_state)
    started = time.perf_counter()
    with fit_warnings() as warned:
        model.fit_sketch(loaded, sample=rows, assume_public_sample=sample.assume_public)
    seconds = time.perf_counter() - started
    if plot is not None:
        plot_model(loaded, model, plot)
    outcome = model.outcome_
    lines = [
        f"k = {len(model.weights_)}, from {records_in_words(loaded.count)}",
        *_chosen(model),
        f"{outcome.status.value} ({outcome.misfit_in_words}). {in_options(outcome.advice)}".strip(),
        *_fit_test(model),
        *(f"{name} {text}" for name, text in measured(model)),
        *_profiles(model, loaded),
    ]
    parts = {f"{model.fitted_model().kind_of_part}s": cluster_figures(model)}
    give_model(model, lines, output, json, warned, strict, seconds=seconds, plot=plot, **parts)


def _chosen(model: Any) -> list[str]:
    """How the number of clusters was chosen, if it was."""
    choice = getattr(model, "choice_", None)
    return [] if choice is None else [in_options(" ".join(choice.sentences))]


def _fit_test(model: Any) -> list[str]:
    """A line for the fit test of a mixture."""
    from sketchlearn.estimators.base.components import FittedMixture

    learned = model.fitted_model()
    if not isinstance(learned, FittedMixture):
        return []
    return [f"fit test {learned.fit_in_words}"]


def _profiles(model: Any, sketch: Any) -> list[str]:
    """The clusters in the table's own terms, where a schema and kept rows tell them; else their centers."""
    from sketchlearn.questions.profiles import has_profiles, profiles
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    if not isinstance(model.columns_, SchemaColumns) or not model.can("predict"):
        return cluster_table(model)
    if not has_profiles(sketch):
        say("profiles of the clusters need rows that the sketch keeps: design --rows 500")
        return cluster_table(model)
    return profile_lines(profiles(model, sketch).with_shares(model))

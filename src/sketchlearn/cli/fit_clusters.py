"""`sketchlearn fit kmeans`, `kmedians`, `gmm` and `stable`: clusters or a mixture from a sketch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli import options
from sketchlearn.cli.cluster_tables import cluster_figures, cluster_table, measured, profile_lines
from sketchlearn.cli.descriptions import records_in_words
from sketchlearn.cli.error_messages import misused, say
from sketchlearn.cli.fit_tasks import give_model
from sketchlearn.cli.fit_warnings import fit_warnings
from sketchlearn.cli.input_output import check_paths, files_from, read_sketch, rows_from
from sketchlearn.cli.option_messages import in_options
from sketchlearn.plain_digits import in_digits
from sketchlearn.tasks.registry import tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_SAMPLE = 20_000  # rows of --sample: a fit works on them many times

#: help texts of the commands that are `clusters` under the names of their tasks
CLUSTER_HELP = {
    "kmeans": """Learn clusters: least sum of squared distances to centers.

    Rows that the sketch keeps (design --rows) are used automatically; --sample gives rows to sketches that keep none.

    \b
    Example:
      sketchlearn fit kmeans -k 3 day1.sketch -o model.json
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
    n_components: options.Components,
    output: options.ModelOutput = None,
    sample: options.Sample = None,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    strict: options.Strict = False,
    json: options.Json = False,
) -> None:
    """Learns the task that the command is called after."""
    model = tasks()[str(context.info_name)].load()(n_components, decoder=decoder, random_state=seed)
    _learn(model, n_components, sketch, trusted, sample, output, plot, strict, json)


def gmm(
    sketch: options.SketchFile,
    n_components: options.Components,
    output: options.ModelOutput = None,
    covariance_type: Annotated[
        options.Covariance, typer.Option(help="Shape of the Gaussians.")
    ] = options.Covariance.full,
    sample: options.Sample = None,
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
    model = tasks()["gmm"].load()(n_components, **parameters)
    _learn(model, n_components, sketch, trusted, sample, output, plot, strict, json)


def _learn(
    model: Any,
    k: int,
    sketch: str,
    trusted: list[str] | None,
    sample: str | None,
    output: str | None,
    plot: str | None,
    strict: bool,
    json: bool,
) -> None:
    """Learns a model, writes it and shows it."""
    from sketchlearn.decoders import NAMED
    from sketchlearn.diagnostics.pictures import plot_model

    if model.decoder not in NAMED:
        raise misused(f"--decoder must be one of {', '.join(NAMED)}, not {model.decoder!r}")
    paths = [] if sample is None else files_from([sample])
    check_paths([sketch, *paths, *(trusted or [])], [output, plot], json=json)
    loaded = read_sketch(sketch, trusted)
    rows = sample_rows(paths, loaded.operator, model.random_state) if paths else None
    started = time.perf_counter()
    with fit_warnings() as warned:
        model.fit_sketch(loaded, sample=rows)
    seconds = time.perf_counter() - started
    if plot is not None:
        plot_model(loaded, model, plot)
    outcome = model.outcome_
    lines = [
        f"k = {k}, from {records_in_words(loaded.count)}, in {in_digits(seconds, 2)} s",
        f"{outcome.status.value} (misfit {in_digits(outcome.misfit)}). {in_options(outcome.advice)}".strip(),
        *_fit_test(model),
        *(f"{name} {text}" for name, text in measured(model)),
        *_profiles(model, loaded),
    ]
    parts = {f"{model.fitted_model().kind_of_part}s": cluster_figures(model)}
    give_model(model, lines, output, json, warned, strict, seconds=seconds, plot=plot, **parts)


def _fit_test(model: Any) -> list[str]:
    """A line for the fit test of a mixture."""
    from sketchlearn.tasks.estimating.mixture_estimator import FittedMixture

    learned = model.fitted_model()
    if not isinstance(learned, FittedMixture):
        return []
    return [f"fit test {learned.fit_in_words}"]


def _profiles(model: Any, sketch: Any) -> list[str]:
    """The clusters in the table's own terms, where a schema and kept rows tell them; else their centers."""
    from sketchlearn.diagnostics.profiles import profiles
    from sketchlearn.schemas import SchemaColumns

    if not isinstance(model.columns_, SchemaColumns) or not model.can("predict"):
        return cluster_table(model)
    if sketch.kept is None or not len(sketch.kept):
        say("profiles of the clusters need rows that the sketch keeps: design --rows 500")
        return cluster_table(model)
    return profile_lines(profiles(model, sketch).with_shares(model))


def sample_rows(paths: list[str], operator: Any, seed: int) -> NDArray[Any]:
    """The rows of --sample without those that have missing values; of many, some."""
    import numpy as np

    from sketchlearn.sources import sample as some_of

    rows = rows_from(paths, nulls="drop")
    rows = rows if operator.columns is None else rows.only(operator.columns)
    some, from_all_over, _ = some_of(rows, LARGEST_SAMPLE + 1, np.random.default_rng(seed))
    if not len(some):
        raise ValueError("--sample has no rows: give some, or leave it out")
    if some.shape[1] != operator.n_features:
        raise ValueError(f"--sample has {some.shape[1]} columns, but the sketch has {operator.n_features}")
    if len(some) > LARGEST_SAMPLE:
        which = "drawn at random" if from_all_over else "the first"
        say(f"of --sample, {LARGEST_SAMPLE:,} rows are used ({which})")
    return some[:LARGEST_SAMPLE]

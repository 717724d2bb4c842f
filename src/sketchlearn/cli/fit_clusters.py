"""`sketchlearn fit kmeans`, `kmedians`, `gmm` and `stable`: clusters or a mixture from a sketch."""

from __future__ import annotations

import json as json_module
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.options import (
    Components,
    Covariance,
    Decoder,
    Json,
    ModelOutput,
    Plot,
    Sample,
    Seed,
    SketchFile,
    Strict,
)
from sketchlearn.tasks.registry import tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sketchlearn.operators import Operator

MOST_COLUMNS = 8  # of a center, that are shown

MOST_ROWS = 50

MOST_OF_SAMPLE = 20_000  # rows of --sample: a fit works on them many times


def kmeans(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn clusters: least sum of squared distances to centers.

    Rows that the sketch keeps (design --rows) are used by themselves; --sample gives rows to sketches that keep none.

    \b
    Example:
      sketchlearn fit kmeans -k 3 day1.sketch -o model.json
      sketchlearn fit kmeans -k 3 day1.sketch --sample day1.csv --strict -o model.json
    """
    _learn("kmeans", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


def kmedians(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn clusters: least sum of distances to centers.

    Outliers move such centers less.

    \b
    Example:
      sketchlearn fit kmedians -k 3 day1.sketch -o model.json
    """
    _learn("kmedians", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


def gmm(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    covariance_type: Annotated[Covariance, typer.Option(help="Shape of the Gaussians.")] = Covariance.full,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a mixture of Gaussians.

    Best from a design for --task mixture, or mixture-full for full covariances.

    \b
    Example:
      sketchlearn fit gmm -k 3 --covariance-type diag day1.sketch -o model.json
    """
    more = {"covariance_type": covariance_type.value, "decoder": decoder, "random_state": seed}
    _learn("gmm", sketch, n_components, sample, output, plot, strict, json, **more)


def stable(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a mixture of stable laws, with heavy tails.

    Best from a design for --task stable.

    \b
    Example:
      sketchlearn fit stable -k 3 day1.sketch -o model.json
    """
    _learn("stable", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


def _learn(
    kind: str,
    sketch: str,
    n_components: int,
    sample: str | None,
    output: str | None,
    plot: str | None,
    strict: bool,
    json: bool,
    **more: Any,
) -> None:
    """Learns a model, writes it and shows it."""
    from sketchlearn.cli.descriptions import number, records_in_words
    from sketchlearn.cli.error_messages import misused
    from sketchlearn.cli.option_messages import in_options
    from sketchlearn.cli.row_input import files_from
    from sketchlearn.cli.standard_streams import Report, check_paths, read_sketch, write
    from sketchlearn.cli.strict_warnings import doubts
    from sketchlearn.decoders import NAMED
    from sketchlearn.diagnostics.pictures import plot_model
    from sketchlearn.tasks.model_files import model_to_bytes

    if more["decoder"] not in NAMED:
        raise misused(f"--decoder must be one of {', '.join(NAMED)}, not {more['decoder']!r}")
    paths = [] if sample is None else files_from([sample])
    check_paths([sketch, *paths], [output, plot], json=json)
    loaded = read_sketch(sketch)
    operator: Any = loaded.operator
    rows = _rows(paths, operator, more["random_state"]) if paths else None
    started = time.perf_counter()
    with doubts() as heard:
        estimator: Any = tasks()[kind].load()(n_components, **more)
        model = estimator.fit_sketch(loaded, sample=rows)
    seconds = time.perf_counter() - started
    data = model_to_bytes(model)
    if plot is not None:
        plot_model(loaded, model, plot)
    if output is not None:
        write(output, data)
    outcome = model.outcome_
    lines = [
        f"k = {n_components}, from {records_in_words(loaded.count)}, in {seconds:.2g} s",
        f"{outcome.status.value} (misfit {number(outcome.misfit)}). {in_options(outcome.advice)}".strip(),
        *_table(model, operator),
    ]
    more_figures = {"output": output, "seconds": seconds, "plot": plot, "warnings": heard.sentences}
    Report(json, [output]).give({**json_module.loads(data), **more_figures}, *lines)
    heard.leave(strict)


def _rows(paths: list[str], operator: Operator, seed: int) -> NDArray[Any]:
    """The rows of --sample without those that have missing values; of many, some."""
    import numpy as np

    from sketchlearn.cli.error_messages import say
    from sketchlearn.cli.row_input import rows_from
    from sketchlearn.sources import sample as some_of

    rows = rows_from(paths, None, "drop")
    rows = rows if operator.columns is None else rows.only(operator.columns)
    some, from_all_over, _ = some_of(rows, MOST_OF_SAMPLE + 1, np.random.default_rng(seed))
    if not len(some):
        raise ValueError("--sample has no rows: give some, or leave it out")
    if some.shape[1] != operator.n_features:
        raise ValueError(f"--sample has {some.shape[1]} columns, but the sketch has {operator.n_features}")
    if len(some) > MOST_OF_SAMPLE:
        which = "drawn at random" if from_all_over else "the first"
        say(f"of --sample, {MOST_OF_SAMPLE:,} rows are used ({which})")
    return some[:MOST_OF_SAMPLE]


def _table(model: Any, operator: Any) -> list[str]:
    """The number of each cluster as `predict` gives it, its share and its center, the largest first."""
    from sketchlearn.cli.descriptions import number

    centers = model.cluster_centers_ if hasattr(model, "cluster_centers_") else model.means_
    names = operator.column_names
    shown = list(names[:MOST_COLUMNS])
    what = "cluster" if hasattr(model, "cluster_centers_") else "component"
    rows = [[what, "share", *shown, *(["..."] if len(names) > len(shown) else [])]]
    order = sorted(range(len(centers)), key=lambda i: -model.weights_[i])
    for i in order[:MOST_ROWS]:
        rows.append([str(i), f"{model.weights_[i]:.4f}", *(number(x) for x in centers[i][:MOST_COLUMNS])])
    widths = [max(len(row[j]) for row in rows if j < len(row)) for j in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:>{widths[j]}}" for j, cell in enumerate(row)).rstrip() for row in rows]
    return lines + ([f"... {len(order) - MOST_ROWS} more"] if len(order) > MOST_ROWS else [])

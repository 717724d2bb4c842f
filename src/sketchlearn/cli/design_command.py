"""`sketchlearn design`: an operator, so that all sketches made with it can be merged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli import options
from sketchlearn.cli.descriptions import extras_in_words
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import (
    check_paths,
    columns_from,
    files_from,
    note,
    report,
    rows_from,
    source_arguments,
    write,
)
from sketchlearn.estimators.registry import DESIGNS

if TYPE_CHECKING:
    from sketchlearn.cli.operator_choice import Choices
    from sketchlearn.features.operator import Operator


def design(
    output: options.Output,
    n_components: options.DesignComponents = None,
    data: Annotated[list[str] | None, typer.Argument(metavar="[DATA]...", help="Where to draw a sample from.")] = None,
    task: options.TaskOption = "kmeans",
    targets: options.DesignTargets = None,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    numeric_only: options.NumericOnly = False,
    schema: options.SchemaOption = None,
    nulls: options.NullsOption = options.Nulls.error,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Instead of DATA: lowest and highest value, of all --columns or each."),
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="H,W", help="For images of H x W pixels (or H,W,CHANNELS) within --bounds.")
    ] = None,
    n_frequencies: options.Frequencies = None,
    subsample: options.Subsample = options.AUTO,
    wave: options.Wave = "exponential",
    seed: options.Seed = 0,
    n_rows: Annotated[int | None, typer.Option(help="About how many records there will be.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="For private releases: the planned epsilon.")] = None,
    delta: Annotated[float, typer.Option(help="For private releases: the planned delta.")] = 0.0,
    neighbors: options.NeighborsOption = options.Neighbors.add_remove,
    rows: options.Rows = None,
    standardize: options.Standardize = False,
    normalize: options.Normalize = False,
    directions: options.Directions = options.AUTO,
    along: options.Along = None,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Design an operator: sketches made with it can be merged.

    It is designed on a sample of rows, or on bounds alone: LOW,HIGH for all columns, or
    LOW,HIGH;LOW,HIGH;... for each. Of large files the sample is read here and there; with --schema, compressed ones,
    JSON lines, databases and the like are read to the end for it, and --progress shows how far that is.
    With --epsilon its size follows from the noise of a private release, which is
    then shown on standard error beside what it may hide, before anything is spent.
    --task moments is for fit pca, fit regression and fit classifier (for the latter alone with --directions 32, of rows
    with hundreds of columns), --task ica, --task subspaces and --task kernel for the fits of these names, --images for
    fit classifier.

    With --rows 500, each sketch keeps 500 of its records beside its sums, and clusters learned from it are never
    much worse than those of a good sample; with --task moments or ica, standard errors hold whatever law the records
    have. They are in its file, in the clear: leave this out where rows must not travel. With --standardize,
    errors count in standard deviations, so that money does not outweigh ages and flags.

    With --n-rows 10000000, records contribute to some of the frequencies only, as few as the clusters' accuracy allows:
    sketching takes a fraction of the time. --subsample all switches that off.

    Rows of more than 64 columns are put into cells, with exact sums of all columns, which takes a small part of the
    time of frequencies. With --normalize they are divided by their lengths first: for embeddings. Columns that --along
    names are not clustered on, but their exact sums are in the sketch: fit kmeans shows their means and shares.

    \b
    Example:
      sketchlearn design day1.csv -k 3 -o design.json
      sketchlearn design day1.csv -k 3 --rows 500 --standardize -o rows.json
      sketchlearn design day1.csv -k 3 --rows 500 --schema auto -o encoded.json
      sketchlearn design day1.csv -k 3 --n-rows 10000000 -o large.json
      sketchlearn design day1.csv -k 3 --normalize -o cosine.json
      sketchlearn design day1.csv -k 3 --along b -o along.json
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn design day1.csv --task kernel --targets b -o kernel.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --images 28,28 --bounds 0,255 -o images.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
    """
    from sketchlearn.cli.operator_choice import Choices, design_for_images, design_on_bounds, design_on_rows
    from sketchlearn.files.designs import design_to_bytes
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    if images is not None and (data or bounds is None):
        raise misused("--images needs --bounds LOW,HIGH, the range of a pixel, and no DATA")
    if images is not None and (n_components, n_frequencies, n_rows, epsilon) != (None,) * 4:
        raise misused("--images has its own task and size: leave out -k, --n-frequencies, --n-rows and --epsilon")
    if images is not None and (rows is not None or standardize or normalize):
        raise misused(
            "--rows, --standardize and --normalize are for clusters and mixtures: leave them out with --images"
        )
    if schema is not None and not data:
        raise misused("--schema says how columns of DATA become numbers: give DATA")
    if bool(data) == (bounds is not None):
        raise misused("give either DATA to draw a sample from, or --bounds")
    if n_components is None and DESIGNS.get(task, False) and images is None:
        raise misused(f"Missing option '-k': --task {task} needs the number of clusters or components")
    spent = (n_rows, epsilon, delta, neighbors.value)
    choices = Choices(
        n_components,
        task,
        n_frequencies,
        wave,
        seed,
        *spent,
        rows,
        standardize,
        subsample,
        directions,
        normalize,
        columns_from(targets, "--targets"),
        columns_from(along, "--along"),
    )
    arguments = source_arguments(
        columns, nulls.value, exclude, numeric_only, delimiter, decimal, header, encoding, schema
    )
    chosen = arguments["columns"]
    paths = files_from(data or [])
    check_paths(paths, [output], json=json)
    if images is not None and bounds is not None:
        (operator, made), task = design_for_images(images, bounds, seed, chosen), "images"
    elif bounds is not None:
        operator, made = design_on_bounds(bounds, choices, chosen)
    else:
        shown = sys.stderr.isatty() if progress is None else progress
        (operator, made), _ = design_on_rows(rows_from(paths, **arguments), choices, progress=shown)
    write(output, design_to_bytes(operator, made))
    with_k = "" if n_components is None else f" with k = {n_components}"
    figures = {"output": output, "operator": operator.to_json(), "made": made, "words": operator.in_words}
    report(
        json,
        figures | _forecast(operator, choices, json),
        f"{operator.in_words}; designed on {made['from']}, for {task}{with_k}",
        *extras_in_words(operator),
        *(str(operator.columns.schema).splitlines() if isinstance(operator.columns, SchemaColumns) else []),
        output=output,
    )


def _forecast(operator: Operator, choices: Choices, json: bool) -> dict[str, Any]:
    """Says what noise the planned release will have, on standard error, or gives it as figures."""
    if choices.epsilon is None:
        return {}
    from sketchlearn.cli.forecast_messages import forecast_figures, forecast_lines
    from sketchlearn.privacy.forecast import forecast

    common = ("n_rows", "epsilon", "delta", "neighbors", "n_components")
    found = forecast(operator, **{name: getattr(choices, name) for name in common})
    if not json:
        note(*forecast_lines(found))
    return {"forecast": forecast_figures(found)}

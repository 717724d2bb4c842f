"""`sketchlearn schema` and `design`: how columns become numbers, and the operator that all sketches share."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sketchlearn.cli import options
from sketchlearn.cli.errors import misused, say
from sketchlearn.cli.files import (
    check_paths,
    files_from,
    named,
    note,
    read,
    rows_from,
    schema_from,
    tell,
    wanted_file,
    write,
)
from sketchlearn.cli.tables import extras_in_words
from sketchlearn.estimators.registry import DESIGNS

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator
    from sketchlearn.rows.source_base import Source


@options.grouped
def schema(
    data: options.Data,
    table: options.CsvOptions,
    output: options.SchemaOutput = None,
    exclude: options.Exclude = None,
    json: options.Json = False,
) -> None:
    """Propose how the columns of a table become numbers: text, categories, dates and flags, too.

    Read the table that is printed, edit the file of -o if you know better, and give it to design: all who share the
    design then encode alike.

    \b
    Example:
      sketchlearn schema day1.csv
      sketchlearn schema day1.csv -o schema.json
      sketchlearn design day1.csv -k 3 --schema schema.json --rows 500 -o encoded.json
    """
    from sketchlearn.files.designs import schema_to_bytes
    from sketchlearn.rows.source import schema as proposed

    paths = files_from(data)
    check_paths(paths, [output], json=json)
    found = proposed(rows_from(paths, exclude=exclude or (), **table.csv_arguments()))
    if output is not None:
        write(output, schema_to_bytes(found))
    tell(json, {"output": output, "schema": found.to_json()}, *str(found).splitlines(), output=output)


INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls the numbers of rows in files

#: an operator, and where it comes from, for its file
Designed: TypeAlias = "tuple[Operator, dict[str, Any]]"


@dataclass(frozen=True)
class Choices:
    """What a user says about an operator: the options that become arguments of the function `design`."""

    n_components: options.DesignComponents = None
    task: options.TaskOption = "kmeans"
    targets: options.DesignTargets = None
    n_frequencies: options.Frequencies = None
    wave: options.Wave = "exponential"
    seed: options.Seed = 0
    rows: options.Rows = None
    standardize: options.Standardize = False
    normalize: options.Normalize = False
    n_directions: options.Directions = options.AUTO
    profile_columns: options.ProfileColumns = None
    # what the command `design` alone has options for
    subsample: int | str | None = options.AUTO
    n_rows: int | None = None
    epsilon: float | None = None
    delta: float = 0.0
    neighbors: str = "add-remove"

    @property
    def of_design_alone(self) -> bool:
        """Whether there is a choice that goes with no design file."""
        given = self.rows is not None or self.standardize or self.normalize or self.profile_columns is not None
        return given or self.n_directions != options.AUTO


def read_design(path: str) -> Operator:
    """The operator of a design file."""
    from sketchlearn.files.designs import design_from_bytes

    with wanted_file("design", path, named(path)):
        return design_from_bytes(read(path))[0]


def design_on_rows(rows: Source, choices: Choices, *, progress: bool = False) -> tuple[Designed, Source]:
    """An operator designed on a sample of the rows, of a stream on the first ones; and a source of all rows."""
    from sketchlearn.core.randomness import row_chooser
    from sketchlearn.estimators.design.sample_summary import MOST_ROWS, rows_wanted
    from sketchlearn.rows.sampling import sample

    most = rows_wanted(choices.task, choices.n_components or 1) if rows.replayable else MOST_ROWS
    some, representative, everything = sample(rows, most, row_chooser(choices.seed), progress=progress)
    if not len(some) and not rows.replayable:
        raise ValueError("standard input has no rows to design an operator on: give some, or --design FILE")
    _say_if_index(rows.columns or ())
    operator = _design(choices, rows.columns, sample=some, representative=representative)
    where = "a sample from all over the data" if representative else "the first rows"
    return (operator, {**_made(choices), "from": where, "n_rows": len(some)}), everything


def _say_if_index(columns: tuple[str, ...]) -> None:
    """Says that a column looks like the number of the row, which pandas writes unless it is told not to."""
    for position, name in enumerate(columns):
        if name in INDEX_NAMES:
            remedy = f"--exclude {name or position} leaves it out"
            say(f"column {position} ({name or 'without a name'}) looks like the index of a data frame: {remedy}")


def design_on_bounds(bounds: str, choices: Choices, columns: tuple[Any, ...] | None) -> Designed:
    """An operator for declared bounds: LOW,HIGH of all columns, or LOW,HIGH;LOW,HIGH;... of each."""
    try:
        pairs = [tuple(float(number) for number in pair) for pair in csv.reader(bounds.split(";"))]
        lows, highs = zip(*pairs, strict=True)
    except ValueError:
        raise misused(f"--bounds {bounds}: give LOW,HIGH for all columns, or LOW,HIGH;LOW,HIGH;... for each") from None
    if len(pairs) == 1 and columns is not None:
        lows, highs = lows * len(columns), highs * len(columns)
    if columns is not None and len(columns) != len(lows):
        raise misused(f"--bounds has {len(lows)} pairs, but --columns has {len(columns)} names")
    operator = _design(choices, columns, bounds=(lows, highs))
    return operator, {**_made(choices), "from": "bounds", "bounds": [lows, highs]}


def design_for_images(images: str, bounds: str, seed: int, columns: tuple[Any, ...] | None) -> Designed:
    """A random network for images of a size, HEIGHT,WIDTH or with ,CHANNELS; the bounds are those of a pixel."""
    from sketchlearn.features.bounded import CLIP
    from sketchlearn.features.convolutional import ConvolutionalFeatures
    from sketchlearn.features.provenance import Origin

    try:
        shape = tuple(int(size) for size in images.split(","))
        low, high = (float(x) for x in bounds.split(","))
    except ValueError:
        raise misused("give --images HEIGHT,WIDTH and --bounds LOW,HIGH, such as 28,28 and 0,255") from None
    network = ConvolutionalFeatures(shape, pixels=(low, high), outside=CLIP, seed=seed)
    operator = _with_columns(network.with_origin(Origin.DECLARED), columns)
    return operator, {"task": "images", "from": "bounds", "bounds": [low, high]}


def _design(choices: Choices, columns: tuple[Any, ...] | None, **more: Any) -> Operator:
    # scikit-learn takes a second to import, and a sketch with a design does not need it
    from sketchlearn.estimators.base.supervised import passive_columns, positions
    from sketchlearn.estimators.design.designs import design
    from sketchlearn.features.families import FLAT_NAMES, from_flat

    if choices.targets is not None and choices.task == "kernel":  # by position, as the rows have no names here
        width = more["sample"].shape[1] if "sample" in more else len(more["bounds"][0])
        choices = replace(choices, targets=positions(choices.targets, columns, width))
    if choices.profile_columns is not None and "sample" in more:
        passive = passive_columns(choices.profile_columns, columns, more["sample"].shape[1])
        choices = replace(choices, profile_columns=passive)
    arguments = asdict(choices)
    flat = {name: arguments.pop(name) for name in FLAT_NAMES}
    return _with_columns(design(features=from_flat(flat, choices.task), **more, **arguments), columns)


def _made(choices: Choices) -> dict[str, Any]:
    given: tuple[str, ...] = () if choices.n_rows is None else ("n_rows",)
    given += () if choices.epsilon is None else ("epsilon", "delta", "neighbors")
    return {name: getattr(choices, name) for name in ("task", "n_components", *given)}


def _with_columns(operator: Operator, columns: tuple[Any, ...] | None) -> Operator:
    if columns is None or operator.columns is not None or not all(isinstance(name, str) for name in columns):
        return operator
    return operator.with_columns(columns)


@options.grouped
def design(
    output: options.Output,
    choices: Choices,
    tables: options.ReadingOptions,
    data: Annotated[list[str] | None, typer.Argument(metavar="[DATA]...", help="Where to draw a sample from.")] = None,
    schema: options.SchemaOption = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Instead of DATA: lowest and highest value, of all --columns or each."),
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="H,W", help="For images of H x W pixels (or H,W,CHANNELS) within --bounds.")
    ] = None,
    subsample: options.Subsample = options.AUTO,
    n_rows: Annotated[int | None, typer.Option(help="About how many records there will be.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="For private releases: the planned epsilon.")] = None,
    delta: Annotated[float, typer.Option(help="For private releases: the planned delta.")] = 0.0,
    neighbors: options.NeighborsOption = options.Neighbors.add_remove,
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
    time of frequencies. With --normalize they are divided by their lengths first: for embeddings. Columns that
    --profile-columns names are not clustered on, but their exact sums are in the sketch: fit kmeans shows their means
    and proportions.

    \b
    Example:
      sketchlearn design day1.csv -k 3 -o design.json
      sketchlearn design day1.csv -k 3 --rows 500 --standardize -o rows.json
      sketchlearn design day1.csv -k 3 --rows 500 --schema auto -o encoded.json
      sketchlearn design day1.csv -k 3 --n-rows 10000000 -o large.json
      sketchlearn design day1.csv -k 3 --normalize -o cosine.json
      sketchlearn design day1.csv -k 3 --profile-columns b -o profiles.json
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn design day1.csv --task kernel --targets b -o kernel.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --images 28,28 --bounds 0,255 -o images.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
    """
    from sketchlearn.files.designs import design_to_bytes
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    planned = {"subsample": subsample, "n_rows": n_rows, "epsilon": epsilon, "delta": delta}
    choices = replace(choices, neighbors=neighbors.value, **planned)
    task, columns = choices.task, tables.columns
    if images is not None and (data or bounds is None):
        raise misused("--images needs --bounds LOW,HIGH, the range of a pixel, and no DATA")
    if images is not None and (choices.n_components, choices.n_frequencies, n_rows, epsilon) != (None,) * 4:
        raise misused("--images has its own task and size: leave out -k, --n-frequencies, --n-rows and --epsilon")
    if images is not None and (choices.rows is not None or choices.standardize or choices.normalize):
        raise misused(
            "--rows, --standardize and --normalize are for clusters and mixtures: leave them out with --images"
        )
    if schema is not None and not data:
        raise misused("--schema says how columns of DATA become numbers: give DATA")
    if bool(data) == (bounds is not None):
        raise misused("give either DATA to draw a sample from, or --bounds")
    if choices.n_components is None and DESIGNS.get(task, False) and images is None:
        raise misused(f"Missing option '-k': --task {task} needs the number of clusters or components")
    arguments = tables.arguments()
    if schema is not None:
        arguments["schema"] = schema if schema == "auto" else schema_from(schema)
    paths = files_from(data or [])
    check_paths(paths, [output], json=json)
    if images is not None and bounds is not None:
        (operator, made), task = design_for_images(images, bounds, choices.seed, columns), "images"
    elif bounds is not None:
        operator, made = design_on_bounds(bounds, choices, columns)
    else:
        shown = sys.stderr.isatty() if progress is None else progress
        (operator, made), _ = design_on_rows(rows_from(paths, **arguments), choices, progress=shown)
    write(output, design_to_bytes(operator, made))
    with_k = "" if choices.n_components is None else f" with k = {choices.n_components}"
    figures = {"output": output, "operator": operator.to_json(), "made": made, "words": operator.in_words}
    tell(
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
    from sketchlearn.cli.privacy_commands import forecast_figures
    from sketchlearn.privacy.forecast import forecast

    common = ("n_rows", "epsilon", "delta", "neighbors", "n_components")
    found = forecast(operator, **{name: getattr(choices, name) for name in common})
    if not json:
        note(*str(found).splitlines())
    return {"forecast": forecast_figures(found)}

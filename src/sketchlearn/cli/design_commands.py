"""`sketchlearn schema` and `design`: how columns become numbers, and the operator that all sketches share."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, TypeAlias

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options
from sketchlearn.cli.errors import misused, refuse, say
from sketchlearn.cli.tables import extras_in_words
from sketchlearn.estimators.registry import DESIGNS


@options.grouped
def schema(
    data: options.Data,
    table: options.CsvOptions,
    output: options.OptionalOutput = None,
    exclude: options.Exclude = None,
    json: options.Json = False,
) -> None:
    """Propose a schema: how text, categories, dates, booleans and numbers are encoded as numbers.

    Read the table that is printed, edit the file of -o if you know better, and give it to design: all who share the
    design then encode alike.

    \b
    Example:
      sketchlearn schema day1.csv
      sketchlearn schema day1.csv -o schema.json
      sketchlearn design day1.csv -k 3 --schema schema.json --rows 500 -o encoded.json
    """
    from sketchlearn.files.designs import schema_to_bytes

    paths = files.files_from(data)
    files.check_paths(paths, [output], json=json)
    found = skl.schema(files.rows_from(paths, exclude=exclude or (), **table.csv_arguments()))
    if output is not None:
        files.write(output, schema_to_bytes(found))
    files.tell(json, {"output": output, "schema": found.to_json()}, *str(found).splitlines(), output=output)


INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls the numbers of rows in files

#: an operator, and where it comes from, for its file
Designed: TypeAlias = "tuple[skl.extend.Operator, dict[str, Any]]"


@dataclass(frozen=True)
class Choices:
    """What a user says about an operator: the options that become arguments of the function `design`."""

    n_components: Annotated[
        int | None,
        options.counting(
            parser=options.largest_number,
            metavar="K",
            help="Number of clusters or components, or the most that there may be; where the task needs it.",
        ),
    ] = None
    task: Annotated[
        str,
        options.designing(
            metavar=f"[{'|'.join(DESIGNS)}]",
            callback=options.known_task,
            help="What will be learned from the sketches.",
        ),
    ] = "kmeans"
    targets: Annotated[
        Any,
        options.targeting(
            rich_help_panel="The operator",
            help="For --task kernel: names or positions of the targets; by default the last column.",
        ),
    ] = None
    n_frequencies: Annotated[
        int | None, options.designing(min=1, help="Size of the sketch; by default 10 per parameter.")
    ] = None
    wave: Annotated[
        str, options.designing(help="exponential, cosine, square (one bit per feature), sawtooth or triangle.")
    ] = "exponential"
    seed: options.Seed = 0
    rows: options.Rows = None
    standardize: Annotated[
        bool,
        options.designing("--standardize", help="Measure errors in standard deviations, so that units do not matter."),
    ] = False
    normalize: Annotated[
        bool, options.designing("--normalize", help="Divide rows by their lengths first, as cosine similarity does.")
    ] = False
    n_directions: Annotated[
        Any,
        options.designing(
            "--directions",
            parser=options.number_or(auto=options.AUTO, none=None),
            metavar="auto|none|P",
            help="Of many columns: the principal components that cells or moments are of; none takes frequencies.",
        ),
    ] = options.AUTO
    profile_columns: Annotated[
        Any,
        options.designing(
            "--profile-columns",
            "--along",
            parser=options.columns_from,
            metavar="A,B,...",
            help="Columns that are summed in each cluster, but not clustered on: names or positions.",
        ),
    ] = None
    # what the command `design` alone has options for
    subsample: int | str | None = options.AUTO
    n_rows: int | None = None
    epsilon: float | None = None
    delta: float = 0.0
    neighbors: str = "add-remove"

    @property
    def of_design_alone(self) -> bool:
        given = self.rows is not None or self.standardize or self.normalize or self.profile_columns is not None
        return given or self.n_directions != options.AUTO


def design_on_rows(
    rows: skl.extend.Source, choices: Choices, *, progress: bool = False
) -> tuple[Designed, skl.extend.Source]:
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
    from sketchlearn.features.provenance import Origin

    try:
        shape = tuple(int(size) for size in images.split(","))
        low, high = (float(x) for x in bounds.split(","))
    except ValueError:
        raise misused("give --images HEIGHT,WIDTH and --bounds LOW,HIGH, such as 28,28 and 0,255") from None
    network = skl.features.ConvolutionalFeatures(shape, pixels=(low, high), outside=CLIP, seed=seed)
    operator = _with_columns(network.with_origin(Origin.DECLARED), columns)
    return operator, {"task": "images", "from": "bounds", "bounds": [low, high]}


def _design(choices: Choices, columns: tuple[Any, ...] | None, **more: Any) -> skl.extend.Operator:
    # scikit-learn takes a second to import, and a sketch with a design does not need it
    from sketchlearn.estimators.base.supervised import passive_columns, positions
    from sketchlearn.features.families import FLAT_NAMES, from_flat

    if choices.targets is not None and choices.task == "kernel":  # by position, as the rows have no names here
        width = more["sample"].shape[1] if "sample" in more else len(more["bounds"][0])
        choices = replace(choices, targets=positions(choices.targets, columns, width))
    if choices.profile_columns is not None and "sample" in more:
        passive = passive_columns(choices.profile_columns, columns, more["sample"].shape[1])
        choices = replace(choices, profile_columns=passive)
    arguments = asdict(choices)
    flat = {name: arguments.pop(name) for name in FLAT_NAMES}
    return _with_columns(skl.design(features=from_flat(flat, choices.task), **more, **arguments), columns)


def _made(choices: Choices) -> dict[str, Any]:
    given: tuple[str, ...] = () if choices.n_rows is None else ("n_rows",)
    given += () if choices.epsilon is None else ("epsilon", "delta", "neighbors")
    return {name: getattr(choices, name) for name in ("task", "n_components", *given)}


def _with_columns(operator: skl.extend.Operator, columns: tuple[Any, ...] | None) -> skl.extend.Operator:
    if columns is None or operator.columns is not None or not all(isinstance(name, str) for name in columns):
        return operator
    return operator.with_columns(columns)


@options.grouped
def design(
    output: options.Output,
    choices: Choices,
    tables: options.ReadingOptions,
    data: Annotated[list[str] | None, typer.Argument(metavar="[DATA]...", help="Where to draw a sample from.")] = None,
    schema: Annotated[
        str | None,
        options.reading(
            "--schema",
            metavar="auto|FILE",
            help="Encode text, categories, dates and booleans, too: as proposed, or by a file.",
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Instead of DATA: lowest and highest value, of all --columns or each."),
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="H,W", help="For images of H x W pixels (or H,W,CHANNELS) within --bounds.")
    ] = None,
    subsample: Annotated[
        Any,
        options.designing(
            parser=options.number_or(auto=options.AUTO, all=None),
            metavar="auto|all|R",
            help="How many frequencies a record contributes to; auto takes fewer where --n-rows is large.",
        ),
    ] = options.AUTO,
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
    much worse than those of a good sample; with --task moments or ica, standard errors hold for any distribution of
    the records. They are in its file, in the clear: leave this out where rows must not leave the machine.
    With --standardize, errors count in standard deviations, so that money does not outweigh ages and booleans.

    With --n-rows 10000000, records contribute to some of the frequencies only, as few as the clusters' accuracy allows:
    sketching takes a fraction of the time. --subsample all switches that off.

    Rows with more than 64 columns are assigned to Voronoi cells, with exact sums of all columns, which takes a
    small part of the time of frequencies. With --normalize they are divided by their lengths first: for embeddings.
    Columns that --profile-columns names are not clustered on, but their exact sums are in the sketch: fit kmeans shows
    their means and proportions.

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
    from sketchlearn.files.designs import design_to_bytes, schema_from_bytes

    planned = {"subsample": subsample, "n_rows": n_rows, "epsilon": epsilon, "delta": delta}
    choices = replace(choices, neighbors=neighbors.value, **planned)
    task, columns = choices.task, tables.columns
    images_given, sample_given, bounds_given = images is not None, bool(data), bounds is not None
    sized = (choices.n_components, choices.n_frequencies, n_rows, epsilon) != (None,) * 4
    of_clusters = choices.rows is not None or choices.standardize or choices.normalize
    needs_k = choices.n_components is None and DESIGNS.get(task, False) and not images_given
    alone = "leave them out with --images"
    mistakes = {
        "--images needs --bounds LOW,HIGH, the range of a pixel": images_given and not bounds_given,
        "--images needs no DATA": images_given and sample_given,
        f"-k, --n-frequencies, --n-rows and --epsilon do not apply: {alone}": images_given and sized,
        f"--rows, --standardize and --normalize are for clusters and mixtures: {alone}": images_given and of_clusters,
        "--schema says how columns of DATA become numbers: give DATA": schema is not None and not sample_given,
        "give either DATA to draw a sample from, or --bounds": sample_given == bounds_given,
        f"Missing option '-k': --task {task} needs the number of clusters or components": needs_k,
    }
    refuse(mistakes)
    arguments = tables.arguments()
    if schema is not None:
        arguments["schema"] = schema if schema == "auto" else files.read_as("schema", schema, schema_from_bytes)
    paths = files.files_from(data or [])
    files.check_paths(paths, [output], json=json)
    if images is not None and bounds is not None:
        (operator, made), task = design_for_images(images, bounds, choices.seed, columns), "images"
    elif bounds is not None:
        operator, made = design_on_bounds(bounds, choices, columns)
    else:
        (operator, made), _ = design_on_rows(files.rows_from(paths, **arguments), choices, progress=bool(progress))
    files.write(output, design_to_bytes(operator, made))
    with_k = "" if choices.n_components is None else f" with k = {choices.n_components}"
    figures = {"output": output, "operator": operator.to_json(), "made": made, "words": operator.in_words}
    files.tell(
        json,
        figures | _forecast(operator, choices, json),
        f"{operator.in_words}; designed on {made['from']}, for {task}{with_k}",
        *extras_in_words(operator),
        *(str(operator.columns.schema).splitlines() if isinstance(operator.columns, skl.schemas.SchemaColumns) else []),
        output=output,
    )


def _forecast(operator: skl.extend.Operator, choices: Choices, json: bool) -> dict[str, Any]:
    """Says what noise the planned release will have, on standard error, or gives it as figures."""
    if choices.epsilon is None:
        return {}
    from sketchlearn.cli.privacy_commands import forecast_figures

    common = ("n_rows", "epsilon", "delta", "neighbors", "n_components")
    found = skl.privacy.forecast(operator, **{name: getattr(choices, name) for name in common})
    if not json:
        files.note(*str(found).splitlines())
    return {"forecast": forecast_figures(found)}

"""Operators for the commands: from a design file, or designed on a sample of the rows or on bounds."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, replace
from typing import Any

from sketchlearn.cli.error_messages import misused, say
from sketchlearn.cli.input_output import named, read
from sketchlearn.cli.wanted_files import wanted_file
from sketchlearn.core.randomness import row_chooser
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, rows_wanted
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.convolutional import ConvolutionalFeatures
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.rows.sampling import sample
from sketchlearn.rows.source_base import Source

INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # what pandas calls the numbers of rows in files

#: an operator, and where it comes from, for its file
Designed = tuple[Operator, dict[str, Any]]


@dataclass(frozen=True)
class Choices:
    """What a user says about an operator: arguments of the function `design`."""

    n_components: int | None
    task: str = "kmeans"
    n_frequencies: int | None = None
    wave: str = "exponential"
    seed: int = 0
    n_rows: int | None = None
    epsilon: float | None = None
    delta: float = 0.0
    neighbors: str = "add-remove"
    rows: int | None = None
    standardize: bool = False
    subsample: int | str | None = "auto"
    n_directions: int | str | None = "auto"
    normalize: bool = False
    targets: tuple[Any, ...] | None = None
    along: tuple[Any, ...] | None = None


def read_design(path: str) -> Operator:
    """The operator of a design file."""
    with wanted_file("design", path, named(path)):
        return design_from_bytes(read(path))[0]


def design_on_rows(rows: Source, choices: Choices, *, progress: bool = False) -> tuple[Designed, Source]:
    """An operator designed on a sample of the rows, of a stream on the first ones; and a source of all rows."""
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
    from sketchlearn.estimators.base.supervised import positions
    from sketchlearn.estimators.design.cells import columns_along
    from sketchlearn.estimators.design.designs import design

    if choices.targets is not None and choices.task == "kernel":  # by position, as the rows have no names here
        width = more["sample"].shape[1] if "sample" in more else len(more["bounds"][0])
        choices = replace(choices, targets=positions(choices.targets, columns, width))
    if choices.along is not None and "sample" in more:
        choices = replace(choices, along=columns_along(choices.along, columns, more["sample"].shape[1]))
    return _with_columns(design(**more, **asdict(choices)), columns)


def _made(choices: Choices) -> dict[str, Any]:
    given: tuple[str, ...] = () if choices.n_rows is None else ("n_rows",)
    given += () if choices.epsilon is None else ("epsilon", "delta", "neighbors")
    return {name: getattr(choices, name) for name in ("task", "n_components", *given)}


def _with_columns(operator: Operator, columns: tuple[Any, ...] | None) -> Operator:
    if columns is None or operator.columns is not None or not all(isinstance(name, str) for name in columns):
        return operator
    return operator.with_columns(columns)

"""Operators for the verbs: from a design file, or chosen on a sample of the rows."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.option_messages import in_options
from sketchlearn.cli.standard_streams import named, read
from sketchlearn.operators import ConvolutionalFeatures, Operator
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.operators.origin import Origin
from sketchlearn.sources import Source
from sketchlearn.sources.sampling import sample
from sketchlearn.storage.container import FormatError
from sketchlearn.storage.design_files import design_from_bytes

MOST_ROWS, MOST_FOR_SHAPES = 5000, 20_000  # that `design` looks at; for mixtures


@dataclass(frozen=True)
class Choices:
    """What a user says about an operator."""

    n_components: int | None
    task: str = "kmeans"
    n_frequencies: int | None = None
    wave: str = "exponential"
    seed: int = 0
    n_rows: int | None = None
    epsilon: float | None = None
    delta: float = 0.0
    rows: int | None = None
    standardize: bool = False

    def arguments(self) -> dict[str, Any]:
        """For the function `design`."""
        return asdict(self)


@dataclass(frozen=True)
class Designed:
    """An operator and, in a word or two, where it comes from."""

    operator: Operator
    made: dict[str, Any]


def read_design(path: str) -> Operator:
    """The operator of a design file."""
    data = read(path)
    try:
        return design_from_bytes(data)[0]
    except FormatError as error:
        raise FormatError(f"{named(path)}: {error}") from None


def design_on_rows(rows: Source, choices: Choices) -> tuple[Designed, Source]:
    """An operator designed on a sample of the rows, of a stream on the first ones; and a source of all rows."""
    most = MOST_FOR_SHAPES if choices.task.startswith("mixture") and rows.replayable else MOST_ROWS
    some, representative, everything = sample(rows, most, np.random.default_rng(choices.seed))
    if not len(some) and not rows.replayable:
        raise ValueError("standard input has no rows to design an operator on")
    operator = _design(some, representative=representative, **choices.arguments())
    where = "a sample from all over the data" if representative else "the first rows"
    made = {**_made(choices), "from": where, "n_rows": len(some)}
    return Designed(_with_columns(operator, rows.columns), made), everything


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
    operator = _design(bounds=(lows, highs), **choices.arguments())
    return Designed(_with_columns(operator, columns), {**_made(choices), "from": "bounds", "bounds": [lows, highs]})


def design_for_images(images: str, bounds: str, seed: int, columns: tuple[Any, ...] | None) -> Designed:
    """A random network for images of a size, HEIGHT,WIDTH or with ,CHANNELS; the bounds are those of a pixel."""
    try:
        shape = tuple(int(size) for size in images.split(","))
        low, high = (float(x) for x in bounds.split(","))
    except ValueError:
        raise misused("give --images HEIGHT,WIDTH and --bounds LOW,HIGH, such as 28,28 and 0,255") from None
    network = ConvolutionalFeatures(shape, pixels=(low, high), outside=CLIP, seed=seed)
    operator = network.with_origin(Origin.DECLARED)
    made = {"task": "images", "from": "bounds", "bounds": [low, high]}
    return Designed(_with_columns(operator, columns), made)


def _design(sample: Any = None, **more: Any) -> Operator:
    # scikit-learn takes a second to import, and a sketch with a design does not need it
    from sketchlearn.tasks.task_design import design

    try:
        operator: Operator = design(sample, **more)
    except ValueError as error:
        raise ValueError(in_options(str(error))) from error
    return operator


def _made(choices: Choices) -> dict[str, Any]:
    made = {"task": choices.task, "n_components": choices.n_components}
    if choices.epsilon is None:
        return made
    return {**made, "n_rows": choices.n_rows, "epsilon": choices.epsilon, "delta": choices.delta}


def _with_columns(operator: Any, columns: tuple[Any, ...] | None) -> Operator:
    names = columns if columns is not None and all(isinstance(name, str) for name in columns) else None
    if names is None or operator.columns is not None:
        return operator  # type: ignore[no-any-return]
    return operator.with_columns(names)  # type: ignore[no-any-return]

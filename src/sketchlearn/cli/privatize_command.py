"""`sketchlearn privatize`: a private release of a sketch."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from sketchlearn.cli.descriptions import records_in_words
from sketchlearn.cli.input_output import STANDARD, check_paths, named, read_sketch, report, signing_key, write_sketch
from sketchlearn.cli.options import Json, Key, Neighbors, Output, SketchFile, Trusted
from sketchlearn.plain_digits import in_digits


def privatize(
    sketch: SketchFile,
    output: Output,
    epsilon: Annotated[float, typer.Option(help="The privacy loss: the smaller, the more noise.")],
    delta: Annotated[float, typer.Option(help="0 for pure epsilon; otherwise far below one over the records.")] = 0.0,
    neighbors: Annotated[
        Neighbors, typer.Option(help="Hide whether a record is there, or only its values.")
    ] = Neighbors.add_remove,
    already: Annotated[
        str | None, typer.Option(metavar="FILE", help="An earlier private release of the same rows: losses add up.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where releases of these rows are booked. [default: SKETCH.budget.sqlite]"),
    ] = None,
    budget_epsilon: Annotated[
        float | None, typer.Option(help="The most that all releases together may spend, when the budget is made.")
    ] = None,
    allow_weak: Annotated[
        bool, typer.Option("--allow-weak", help="Allow epsilon above 20 or delta above 0.01.")
    ] = False,
    assume_public_design: Annotated[
        bool, typer.Option("--assume-public-design", help="The design was made on other rows than these.")
    ] = False,
    key: Key = None,
    trusted: Trusted = None,
    json: Json = False,
) -> None:
    """Release a sketch with noise that hides each single record.

    What is learned from the result is differentially private, too. Best from a design on bounds.

    \b
    Example:
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
      sketchlearn sketch day1.csv --design bounds.json -o exact.sketch
      sketchlearn privatize exact.sketch --epsilon 1 -o day1.private.sketch
      sketchlearn fit kmeans -k 3 day1.private.sketch -o model.json
    """
    from sketchlearn.privacy import privatize
    from sketchlearn.privacy.budget import Budget

    check_paths([sketch, already, key, *(trusted or [])], [output], json=json)
    signing = signing_key(key)
    exact, earlier = read_sketch(sketch, trusted), None
    if already is not None:
        earlier = read_sketch(already, trusted)
        if earlier.ledger is None:
            raise ValueError(f"{named(already)} is not private: --already takes an earlier private release")
    path = budget or (None if sketch == STANDARD else f"{sketch}.budget.sqlite")
    books = None if path is None else Budget(path, budget_epsilon, neighbors=neighbors.value)
    private = privatize(
        exact,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors.value,
        already=earlier,
        assume_public_design=assume_public_design,
        budget=books,
        allow_weak=allow_weak,
    )
    write_sketch(output, private, key=signing)
    ledger = private.ledger
    assert ledger is not None
    largest = private.operator.ceiling * private.units / getattr(private.operator, "n_groups", 1)
    share = math.sqrt(ledger.sum_variance) / largest
    figures = {"output": output, "records": private.count, "ledger": ledger.to_json(), "noise_of_means": share}
    report(
        json,
        figures,
        f"{records_in_words(private.count)} (with noise), {ledger}",
        f"Noise on the mean of each feature: about {in_digits(share, 2)} of its largest value.",
        f"Whoever has {named(output)} learns little more about one record than from data without it. Keep "
        f"{named(sketch)} to yourself.",
        "Nobody keeps count of what releases of these rows spend: give --budget FILE."
        if books is None
        else f"{books.path} has booked {books.spent}" + (f", of {books.epsilon:g}." if books.epsilon else "."),
        *([] if exact.kept is None else [f"The rows that {named(sketch)} keeps are not in {named(output)}."]),
        output=output,
    )

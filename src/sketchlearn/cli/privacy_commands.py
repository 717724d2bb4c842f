"""`sketchlearn privatize`, `select-classes` and `keygen`: private releases, and keys for signatures."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options
from sketchlearn.cli.errors import refuse
from sketchlearn.core.messages import counted, in_digits


def forecast_figures(found: skl.privacy.Forecast) -> dict[str, Any]:
    parts = [{**asdict(part), "noise_over_signal": part.noise_over_signal} for part in found.parts]
    common = {"n_rows": found.n_rows, "count_deviation": found.count_deviation, "verdict": found.verdict}
    return {"ledger": found.ledger.to_json(), "parts": parts, **common}


def privatize(
    sketch: options.SketchFile,
    epsilon: Annotated[float, typer.Option(help="The privacy loss: the smaller, the more noise.")],
    output: options.OptionalOutput = None,
    delta: Annotated[float, typer.Option(help="0 for pure epsilon; otherwise far below one over the records.")] = 0.0,
    neighbors: options.NeighborsOption = options.Neighbors.add_remove,
    already: Annotated[
        str | None, typer.Option(metavar="FILE", help="An earlier private release of the same rows: losses add up.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where releases are booked, all of which add up. [default: the user's own, by the rows' batch ids]",
        ),
    ] = None,
    budget_epsilon: Annotated[
        float | None,
        typer.Option(
            help="The most that releases of these rows may spend together. It can be lowered later. "
            "[default: 10; of a --budget, none]"
        ),
    ] = None,
    witness: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A second file, on another disk, that shows an older copy of the --budget."),
    ] = None,
    parties: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Release a share of noise, one of this many parties: private once all are merged, not before.",
        ),
    ] = None,
    allow_weak: Annotated[
        bool, typer.Option("--allow-weak", help="Allow epsilon above 20 or delta above 0.01.")
    ] = False,
    assume_public_design: Annotated[
        bool, typer.Option("--assume-public-design", help="The design was made on other rows than these.")
    ] = False,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Show the noise beside what it may hide; nothing is released or spent.")
    ] = False,
    n_components: Annotated[
        int | None, typer.Option("-k", "--n-components", min=1, help="With --forecast: how many clusters there may be.")
    ] = None,
    key: options.Key = None,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Release a sketch with noise that hides each single record.

    What is learned from the result is differentially private, too. Best from a design on bounds. With --forecast
    nothing is written: it shows how large the noise would be.
    With --parties 50, each of 50 parties adds a fiftieth of the noise to rows of its own, and the sum of their shares
    (merge) is private; a single share is not.

    \b
    Example:
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
      sketchlearn sketch day1.csv --design bounds.json -o exact.sketch
      sketchlearn privatize exact.sketch --epsilon 1 --forecast -k 3
      sketchlearn privatize exact.sketch --epsilon 1 -o day1.private.sketch
      sketchlearn fit kmeans -k 3 day1.private.sketch -o model.json
    """
    from sketchlearn.privacy.budget import personal_budget

    files.check_paths([sketch, already, key, *(trusted or [])], [output], json=json)
    mistakes = {
        "--forecast releases nothing: leave out -o": forecast and output is not None,
        "Missing option '--output' / '-o': where to write the private sketch": not forecast and output is None,
        "-k is for --forecast: releases are for any number of clusters": not forecast and n_components is not None,
        "--witness is for a --budget": witness is not None and budget is None,
    }
    refuse(mistakes)
    if output is None:  # of --forecast
        planned: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "n_components": n_components}
        found = skl.privacy.forecast(files.read_sketch(sketch, trusted), neighbors=neighbors.value, **planned)
        secret = "Nothing was spent. The number of records is exact here, so keep this table to yourself."
        files.tell(json, forecast_figures(found), *str(found).splitlines(), secret)
        return
    signing = files.signing_key(key)
    exact, earlier = files.read_sketch(sketch, trusted), None
    if already is not None:
        earlier = files.read_sketch(already, trusted)
        if earlier.ledger is None:
            raise ValueError(f"{files.named(already)} is not private: --already takes an earlier private release")
    if budget is None:
        books = personal_budget(budget_epsilon)
    else:
        books = skl.privacy.Budget.planned(budget, budget_epsilon, neighbors=neighbors.value, witness=witness)
    private = skl.privatize(
        exact,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors.value,
        already=earlier,
        assume_public_design=assume_public_design,
        budget=books,
        parties=parties,
        allow_weak=allow_weak,
    )
    files.write_sketch(output, private, key=signing)
    ledger = private.ledger
    assert ledger is not None
    noise, lines = _share(ledger, output) if private.lacks_shares else _release(private, ledger, output)
    figures = {"output": output, "records": private.count, "ledger": ledger.to_json(), "noise_of_means": noise}
    limit = f", of {books.epsilon:g}." if books.epsilon else "; it has no limit: set one with --budget-epsilon."
    lines += [f"Keep {files.named(sketch)} to yourself."]
    lines += [f"{books.path} has booked {books.spent_on(exact.batches)} for these rows{limit}"]
    if exact.kept is not None:
        lines.append(f"The rows that {files.named(sketch)} keeps are not in {files.named(output)}.")
    files.tell(json, figures, *lines, output=output)


def _release(private: skl.Sketch, ledger: skl.privacy.Ledger, output: str) -> tuple[float | None, list[str]]:
    """The noise of a private sketch's means, and what to know about it."""
    largest = private.operator.largest_contribution * private.units / getattr(private.operator, "n_groups", 1)
    noise = math.sqrt(ledger.sum_variance) / largest
    return noise, [
        f"{counted(private.count, 'record')} (with noise), {ledger}",
        f"Noise on the mean of each feature: about {in_digits(noise, 2)} of its largest value.",
        f"Whoever has {files.named(output)} learns little more about one {ledger.unit or 'record'} than from data "
        "without it.",
    ]


def _share(ledger: skl.privacy.Ledger, output: str) -> tuple[float | None, list[str]]:
    """What to know about a share of noise, whose means tell nothing yet."""
    return None, [
        f"This is {ledger}",
        f"A single share protects little: send {files.named(output)} only to whoever adds all shares with "
        "sketchlearn merge and then deletes them.",
    ]


def select_classes(
    sketches: options.ClassFiles,
    output: options.Output,
    epsilon: Annotated[float, typer.Option(help="The privacy loss: the smaller, the more records a class needs.")],
    delta: Annotated[float, typer.Option(help="Above 0, and far below one over the records.")],
    neighbors: Annotated[
        options.Neighbors, typer.Option(help="Hide whether a record is there, or only its values and class.")
    ] = options.Neighbors.add_remove,
    budget: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where it is booked. [default: the user's own, by the rows' batch ids]"),
    ] = None,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Select the classes that have many records, so that no class shows that there is a record of it.

    Classes with few records, by counts with noise, are left out. Release the others, then give the file to fit
    classifier, which adds what the selection has cost.

    \b
    Example:
      sketchlearn design --bounds -20,20 --columns a,b --task moments -o moments.json
      sketchlearn sketch day1.csv --design moments.json -o one.sketch
      sketchlearn sketch day2.csv --design moments.json -o two.sketch
      sketchlearn select-classes one=one.sketch two=two.sketch --epsilon 0.5 --delta 1e-6 -o classes.json
      sketchlearn privatize one.sketch --epsilon 1 -o one.private.sketch
      sketchlearn privatize two.sketch --epsilon 1 -o two.private.sketch
      sketchlearn fit classifier one=one.private.sketch two=two.private.sketch --classes classes.json -o model.json
    """
    from sketchlearn.estimators.files import selected_to_bytes
    from sketchlearn.privacy.budget import personal_budget

    by_label = files.files_by_label(sketches)
    files.check_paths([*by_label.values(), *(trusted or [])], [output], json=json)
    exact = {label: files.read_sketch(path, trusted) for label, path in by_label.items()}
    books = skl.privacy.Budget.planned(budget, neighbors=neighbors.value) if budget else personal_budget()
    selected = skl.privacy.select_classes(exact, epsilon=epsilon, delta=delta, neighbors=neighbors.value, budget=books)
    files.write(output, selected_to_bytes(selected))
    files.tell(
        json,
        {"labels": list(selected), "ledger": selected.ledger.to_json(), "output": output},
        f"selected: {', '.join(selected) or 'no class'}",
        f"This has spent {selected.ledger}",
        "Release these classes alone. Keep the names of the others to yourself, and their sketches.",
        output=output,
    )


def keygen(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Writes NAME.key, to be kept secret, and NAME.pub.")],
    json: options.Json = False,
) -> None:
    """Make a pair of keys: one signs sketches, the other checks who signed them.

    Needs cryptography. Existing files are never overwritten.

    \b
    Example:
      sketchlearn keygen mine
      sketchlearn sketch day1.csv --design design.json --key mine.key -o signed.sketch
      sketchlearn info signed.sketch --trusted mine.pub
    """
    from sketchlearn.core.signatures import write_keys

    key = write_keys(name)
    files.tell(
        json,
        {"private": f"{name}.key", "public": f"{name}.pub", "key": key},
        f"{name}.key signs: sketchlearn sketch --key {name}.key. Whoever has it signs as you: keep it to yourself.",
        f"{name}.pub checks: sketchlearn merge --trusted {name}.pub. Give it to those who read your sketches.",
        f"The public key is {key}.",
    )

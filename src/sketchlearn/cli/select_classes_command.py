"""`sketchlearn select-classes`: the names of classes that have many records, privately."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.input_output import check_paths, files_by_label, read_sketch, report, write
from sketchlearn.cli.options import ClassFiles, Json, Neighbors, Output, Trusted


def select_classes(
    sketches: ClassFiles,
    output: Output,
    epsilon: Annotated[float, typer.Option(help="The privacy loss: the smaller, the more records a class needs.")],
    delta: Annotated[float, typer.Option(help="Above 0, and far below one over the records.")],
    neighbors: Annotated[
        Neighbors, typer.Option(help="Hide whether a record is there, or only its values and class.")
    ] = Neighbors.add_remove,
    budget: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where it is booked. [default: the user's own, by the rows' batch ids]"),
    ] = None,
    trusted: Trusted = None,
    json: Json = False,
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
    from sketchlearn.privacy.budget import Budget, personal_budget
    from sketchlearn.privacy.class_selection import select_classes

    files = files_by_label(sketches)
    check_paths([*files.values(), *(trusted or [])], [output], json=json)
    exact = {label: read_sketch(path, trusted) for label, path in files.items()}
    books = Budget.planned(budget, neighbors=neighbors.value) if budget else personal_budget()
    selected = select_classes(exact, epsilon=epsilon, delta=delta, neighbors=neighbors.value, budget=books)
    write(output, selected_to_bytes(selected))
    report(
        json,
        {"labels": list(selected), "ledger": selected.ledger.to_json(), "output": output},
        f"selected: {', '.join(selected) or 'no class'}",
        f"This has spent {selected.ledger}",
        "Release these classes alone. Keep the names of the others to yourself, and their sketches.",
        output=output,
    )

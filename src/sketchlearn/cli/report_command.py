"""`sketchlearn report`: a page for people who use neither Python nor a terminal."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from sketchlearn.cli.descriptions import records_in_words
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import STANDARD, check_paths, model_from, read_sketch, write
from sketchlearn.cli.input_output import report as tell
from sketchlearn.cli.option_messages import in_options
from sketchlearn.cli.options import Json, Output, SketchFile, Trusted


def report(
    sketch: SketchFile,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of clusters or components: see fit.")],
    output: Output,
    against: Annotated[
        str | None, typer.Option(metavar="SKETCH", help="An earlier sketch of the same design: say what changed since.")
    ] = None,
    trusted: Trusted = None,
    json: Json = False,
) -> None:
    """Make a page about a sketch and its clusters, for people to read.

    It is one HTML file without scripts: the clusters and what sets them apart, how sure they are, what the data are,
    and the privacy. Sketches of a design with --rows tell the most. The page of an exact sketch or model is personal
    data, and is written for its owner alone.

    \b
    Example:
      sketchlearn report day1.sketch model.json -o report.html
      sketchlearn report day2.sketch model.json --against day1.sketch -o report.html
    """
    from sketchlearn.estimators.base.components import FittedComponents
    from sketchlearn.views.report.page import is_private, report_page

    check_paths([sketch, model, against], [output], json=json)
    records, learned = read_sketch(sketch, trusted), model_from(model)
    if not isinstance(learned.fitted_model(), FittedComponents):
        raise misused(
            f"{model} has no clusters or components to report on: give one of fit kmeans, kmedians, gmm or stable"
        )
    earlier = None if against is None else read_sketch(against, trusted)
    title = "Report" if sketch == STANDARD else f"Report on {os.path.basename(sketch)}"
    page = report_page(records, learned, against=earlier, title=title, wording=in_options)
    write(output, page.encode(), owner_only=not is_private(records, learned))
    parts = learned.fitted_model()
    k, noun = len(parts.weights), parts.kind_of_part
    figures = {"output": output, "records": records.count, "bytes": len(page.encode()), f"{noun}s": k}
    said = f"{output}: {records_in_words(records.count)}, {k:,} {noun}{'' if k == 1 else 's'}"
    rows = records.kept is not None and len(records.kept) > 0
    advice = [] if rows or records.ledger is not None else [
        f"The page cannot say what sets the {noun}s apart: the sketch keeps no rows (see design --rows)."
    ]  # fmt: skip
    tell(json, figures, said, *advice, output=output)

"""`sketchlearn design`: an operator, so that all sketches made with it can be merged."""

from __future__ import annotations

from sketchlearn.cli.descriptions import extras_in_words
from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.operator_choice import Choices, design_for_images, design_on_bounds, design_on_rows
from sketchlearn.cli.row_input import columns_from, files_from, rows_from
from sketchlearn.cli.standard_streams import Report, check_paths, write
from sketchlearn.storage.design_files import design_to_bytes
from sketchlearn.tasks.registry import designs


def run(
    data: list[str],
    output: str,
    n_components: int | None,
    task: str,
    columns: str | None,
    nulls: str,
    bounds: str | None,
    images: str | None,
    n_frequencies: int | None,
    wave: str,
    seed: int,
    budget: tuple[int | None, float | None, float],
    rows: int | None,
    standardize: bool,
    json: bool,
) -> None:
    """Designs an operator and writes it."""
    if images is not None and (data or bounds is None):
        raise misused("--images needs --bounds LOW,HIGH, the range of a pixel, and no DATA")
    if images is not None and (n_components, n_frequencies, budget[:2]) != (None, None, (None, None)):
        raise misused("--images has its own task and size: leave out -k, --n-frequencies, --n-rows and --epsilon")
    if images is not None and (rows is not None or standardize):
        raise misused("--rows and --standardize are for clusters and mixtures: leave them out with --images")
    if bool(data) == (bounds is not None):
        raise misused("give either DATA to draw a sample from, or --bounds")
    if n_components is None and designs()[task] and images is None:
        raise misused(f"Missing option '-k': --task {task} needs the number of clusters or components")
    choices = Choices(n_components, task, n_frequencies, wave, seed, *budget, rows, standardize)
    chosen = columns_from(columns)
    paths = files_from(data)
    check_paths(paths, [output], json=json)
    if images is not None and bounds is not None:
        designed, task = design_for_images(images, bounds, seed, chosen), "images"
    elif bounds is not None:
        designed = design_on_bounds(bounds, choices, chosen)
    else:
        designed, _ = design_on_rows(rows_from(paths, chosen, nulls), choices)
    operator, made = designed.operator, designed.made
    write(output, design_to_bytes(operator, made))
    words = operator.in_words
    with_k = "" if n_components is None else f" with k = {n_components}"
    Report(json, [output]).give(
        {"output": output, "operator": operator.to_json(), "made": made, "words": words},
        f"{words}; designed on {made['from']}, for {task}{with_k}",
        *extras_in_words(operator),
    )

"""`sketchlearn compare`, `watch`, `marginal`, `choose` and `explain`: questions that sketches answer."""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
from typing import Annotated

import typer

from sketchlearn.cli.descriptions import records_in_words
from sketchlearn.cli.error_messages import DOUBTFUL, misused, warn
from sketchlearn.cli.input_output import check_paths, named, read_sketch, report
from sketchlearn.cli.option_messages import in_options
from sketchlearn.cli.options import (
    AssumePublicSample,
    Decimal,
    Decoder,
    Delimiter,
    Encoding,
    ExplainedComponents,
    Header,
    Json,
    MaxClusters,
    Plot,
    Progress,
    Sample,
    Seed,
    SketchFile,
    StrictAlarms,
    Trusted,
)
from sketchlearn.cli.sample_files import SampleFiles
from sketchlearn.core.messages import in_digits


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A sketch file; - is standard input.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another of the same operator.")],
    plot: Plot = None,
    trusted: Trusted = None,
    strict: StrictAlarms = False,
    json: Json = False,
) -> None:
    """Say how far two sketches are apart, and whether by chance.

    \b
    Example:
      sketchlearn compare day1.sketch day2.sketch
    """
    from sketchlearn.questions.comparison import distance, two_sample_test
    from sketchlearn.views.pictures import plot_comparison

    check_paths([a, b], [plot])
    first, second = read_sketch(a, trusted), read_sketch(b, trusted)
    drift = two_sample_test(first, second)
    if plot is not None:
        plot_comparison(first, second, plot)
    apart = distance(first, second)
    identical = first == second
    figures = {
        "a": a,
        "b": b,
        "plot": plot,
        "identical": identical,
        "differ": drift.differ,
        **dataclasses.asdict(drift),
    }
    figures |= {"apart": dataclasses.asdict(apart)}
    counts = f"A: {records_in_words(first.count)}; B: {records_in_words(second.count)}"
    found = [str(drift), f"Distance of the two distributions: {apart}."]
    report(json, figures, counts, *(["Identical: the same sums, to the bit."] if identical else found))
    if strict and drift.differ:
        raise typer.Exit(DOUBTFUL)


def watch(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files, the oldest first.")],
    level: Annotated[float, typer.Option(help="Share of the steps that may raise a false alarm.")] = 0.001,
    plot: Plot = None,
    trusted: Trusted = None,
    strict: StrictAlarms = False,
    json: Json = False,
) -> None:
    """Say whether, and since when, the records of a stream changed.

    Sketches should be alike while nothing changes: where nights differ from days, merge the hours of each day first.

    \b
    Example:
      sketchlearn watch day1.sketch day2.sketch
      sketchlearn watch day1.sketch day2.sketch --strict || echo "see what changed"
    """
    from sketchlearn.questions.comparison import ChangeDetector
    from sketchlearn.views.pictures import plot_changes

    check_paths(sketches, [plot])
    _say_if_out_of_order(sketches)
    detector = ChangeDetector(level=level)
    for path in sketches:
        detector.update(read_sketch(path, trusted))
    changes = detector.changes
    if plot is not None:
        plot_changes(changes, plot, level=level)
    steps = []
    for path, change in zip(sketches, changes, strict=True):
        since = None if change.since is None else sketches[change.since]
        if since is not None:
            words = f"changed since {since}. {change.drift}"
        elif change.drift is None:
            words = "nothing to compare with yet"
        else:
            words = f"no change (p = {in_digits(change.p_value, 2)})"
        drift = None if change.drift is None else dataclasses.asdict(change.drift)
        facts = {"sketch": path, "alarm": change.alarm, "p_value": change.p_value, "since": since}
        steps.append({**facts, "drift": drift, "words": words})
    alarms = sum(change.alarm for change in changes)
    figures = {"alarms": alarms, "level": level, "plot": plot, "steps": steps}
    report(json, figures, *(f"{step['sketch']}: {step['words']}" for step in steps))
    if strict and alarms:
        raise typer.Exit(DOUBTFUL)


def _say_if_out_of_order(sketches: list[str]) -> None:
    """Says so where numbers in the names go down: a pattern such as *.sketch puts 10.sketch before 2.sketch."""
    pairs = [(a, b) for a, b in itertools.pairwise(sketches) if a < b and _numbers(b) < _numbers(a)]
    if pairs:
        first, then = map(named, pairs[0])
        warn(
            f"the sketches are taken in the order given, in which {then} comes after {first}: "
            "write numbers with equally many digits (02, 10), or name the files in their order"
        )


def _numbers(path: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", path)]


def marginal(
    sketch: SketchFile,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="Name of the column, or its position from 0.")],
    bins: Annotated[int, typer.Option(min=1, help="Number of bins.")] = 20,
    plot: Plot = None,
    trusted: Trusted = None,
    json: Json = False,
) -> None:
    """Draw the histogram of one column, from the sketch alone.

    \b
    Example:
      sketchlearn marginal day1.sketch 0
    """
    from sketchlearn.questions.questions import Questions
    from sketchlearn.views.pictures import plot_marginal

    check_paths([sketch], [plot])
    ask = Questions(read_sketch(sketch, trusted))
    found = ask.marginal(int(column) if column.isdecimal() and column not in ask.columns else column, bins)
    if plot is not None:
        plot_marginal(found, plot)
    report(json, {"sketch": sketch, "plot": plot, **dataclasses.asdict(found)}, *str(found).splitlines())


def choose(
    sketch: SketchFile,
    max_clusters: MaxClusters = 20,
    sample: Sample = None,
    assume_public_sample: AssumePublicSample = False,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    header: Header = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    plot: Plot = None,
    trusted: Trusted = None,
    progress: Progress = None,
    json: Json = False,
) -> None:
    """Say how many clusters there are, and how sure that is.

    Best from a design for the largest number, design -k 20: one for fewer has too few frequencies, and a warning says
    so. Rows that the sketch keeps (design --rows) are used.

    \b
    Example:
      sketchlearn choose day1.sketch --max-clusters 6
      sketchlearn choose day1.sketch --max-clusters 6 --sample day1.csv
    """
    from sketchlearn.estimators.choosing import choose_k
    from sketchlearn.views.pictures import plot_choice

    files = SampleFiles.of(sample, assume_public_sample, delimiter, decimal, header, encoding)
    check_paths([sketch, *files.paths, *(trusted or [])], [plot])
    loaded = read_sketch(sketch, trusted)
    shown = sys.stderr.isatty() if progress is None else progress
    choice = choose_k(
        loaded,
        max_clusters,
        files.rows(loaded.operator, seed),
        assume_public_sample=files.assume_public,
        random_state=seed,
        progress=shown,
    )
    if plot is not None:
        plot_choice(choice, plot)
    sentences = list(map(in_options, choice.sentences))
    report(
        json, {"sketch": sketch, "plot": plot, "sentences": sentences, **choice.to_json()}, *sentences, *choice.table()
    )


def explain(
    sketch: SketchFile,
    n_components: ExplainedComponents = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    trusted: Trusted = None,
    json: Json = False,
) -> None:
    """Say whether a sketch can tell clusters apart, or why not.

    The sketch's size, its scale, the decoder or the model may be at fault.

    \b
    Example:
      sketchlearn explain day1.sketch -k 3
    """
    from sketchlearn.questions.explain import explain

    loaded = read_sketch(sketch, trusted)  # first, as a model in its place needs another remedy than -k
    if n_components is None:
        raise misused(f"give the number of clusters to look for: sketchlearn explain {sketch} -k K")
    told = explain(loaded, n_components=n_components, decoder=decoder, random_state=seed)
    figures = {name: float(value) for name, value in told.figures.items()}
    sentences = list(map(in_options, told.sentences))
    report(json, {"verdict": told.verdict.name, "sentences": sentences, "figures": figures}, *sentences)

"""`info`, `ask`, `choose`, `compare`, `watch`, `marginal`, `explain`, `report`: what files and sketches tell."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json as json_module
import os
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options, tables
from sketchlearn.cli.errors import DOUBTFUL, misused, warn
from sketchlearn.core.messages import counted, in_digits
from sketchlearn.estimators.registry import Task

Facts = tuple[dict[str, Any], list[tuple[str, str]]]


def info(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sketch, design, model or schema; - is standard input.", show_default=False
        ),
    ] = None,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Show what a sketch, design, model or schema file contains; without a file, the version, processor and GPUs.

    \b
    Example:
      sketchlearn info
      sketchlearn info day1.sketch
      sketchlearn info design.json --json
    """
    if file is None:
        _report_facts(json, *_of_machine())
        return
    keys, data = files.keys_from(trusted), files.read(file)
    with files.naming(file):
        reader = _reader(data)
        if keys is not None and reader is not _of_sketch:
            raise ValueError("designs, models and schemas are not signed: leave out --trusted")
        signature, signed = _signature(data, keys) if reader is _of_sketch else ({}, [])
        figures, rows = reader(data)
    digest = hashlib.sha256(data).hexdigest()
    figures |= {**signature, "file": file, "bytes": len(data), "sha256": digest}
    rows += [*signed, ("size", f"{len(data):,} bytes"), ("SHA-256", digest)]
    _report_facts(json, figures, rows)


def _report_facts(json: bool, figures: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    files.tell(json, figures, *(f"{name:{width}}  {value}" for name, value in rows))


def _of_machine() -> Facts:
    from sketchlearn.kernels import dispatch as kernel
    from sketchlearn.kernels.gpu.driver import DeviceError, devices

    threads = kernel.n_threads(None)
    try:
        found, why = [own.name for own in devices("cuda")], ""
    except DeviceError as error:
        found, why = [], str(error)
    figures = {"version": skl.__version__, "kernel": kernel.active, "threads": threads, "gpus": found}
    rows = [("sketchlearn", skl.__version__), ("processor", f"{threads} threads, kernel {kernel.active}")]
    return figures, rows + ([(f"cuda:{n}", name) for n, name in enumerate(found)] or [("GPU", f"none: {why}")])


def _reader(data: bytes) -> Callable[[bytes], Facts]:
    from sketchlearn.core.containers import CLASSES, parsed
    from sketchlearn.files.sketches import kind_of

    readers = {"sketch": _of_sketch, "design": _of_design, "model": _of_model, "schema": _of_schema}
    if (kind := kind_of(data)) is not None:
        return readers[kind]
    if data.lstrip()[:1] != b"{":
        return _of_sketch
    if parsed(data).get("kind") == CLASSES:
        return _of_classes
    raise skl.FormatError("neither a sketch nor a design, a model or a schema")


def _of_sketch(data: bytes) -> Facts:
    sketch = skl.from_bytes(data)
    operator: Any = sketch.operator
    figures, rows = _of_operator(operator)
    content = _content(sketch)
    figures |= {"kind": "sketch", "records": sketch.count, "sums": len(sketch.sums), "content": content}
    rows.append(("content", f"{content} (SHA-256; equal sketches have the same)"))
    records = counted(sketch.count, "record")
    if sketch.ledger is not None:
        figures["ledger"] = sketch.ledger.to_json()
        kind = "private sketch"
        if sketch.lacks_shares:
            kind, records = "share of noise, not private yet", f"{records}, by a noisy count"
        return figures, [("kind", kind), ("holds", records), *rows, ("privacy", str(sketch.ledger))]
    figures |= {"skipped": sketch.skipped, "clipped": sketch.clipped}
    notes = [("skipped files", ", ".join(sketch.skipped) or "none")]
    if sketch.kept is not None:
        figures["rows"] = len(sketch.kept)
        notes.insert(0, ("rows", tables.kept_in_words(sketch.kept)))
    if sketch.unit is not None:
        figures |= sketch.unit.to_json()
        notes.insert(0, ("units", str(sketch.unit)))
    if sketch.clipped:
        notes.append(("clipped rows", f"{sketch.clipped:,}"))
    return figures, [("kind", "sketch"), ("holds", records), *rows, *notes]


def _content(sketch: skl.Sketch) -> str:
    """SHA-256 of all that `==` compares: kept rows and notes depend on what was added and taken out again."""
    operator: Any = sketch.operator
    ledger = None if sketch.ledger is None else sketch.ledger.to_json()
    compared = json_module.dumps([operator.identity, sketch.units, sketch.bits, ledger], sort_keys=True)
    return hashlib.sha256(compared.encode() + sketch.sums.astype("<i8").tobytes()).hexdigest()


def _signature(data: bytes, trusted: frozenset[str] | None) -> Facts:
    """Whose key signed a sketch, which is refused if that is not one of the trusted ones."""
    from sketchlearn.core.containers import unpack
    from sketchlearn.core.signatures import check_signature, signer

    description = unpack(data)[1]
    if trusted is not None:
        check_signature(data, description, trusted)
    key = signer(description)
    if key is None:
        return {"signed_by": None, "trusted": False}, [("signed by", "nobody")]
    known = "a trusted key" if trusted is not None else "not compared with any trusted key: give --trusted"
    return {"signed_by": key, "trusted": trusted is not None}, [("signed by", f"{key} ({known})")]


def _of_design(data: bytes) -> Facts:
    from sketchlearn.files.designs import design_from_bytes

    operator, made = design_from_bytes(data)
    figures, rows = _of_operator(operator)
    notes = ", ".join(f"{name.replace('_', ' ')} {made[name]}" for name in sorted(made) if name != "bounds")
    if operator.keeping is not None:
        size = operator.keeping.size
        figures["rows"] = size
        rows.append(("rows", f"each sketch keeps up to {size:,} of the records, in the clear; this file has none"))
    return {"kind": "design", "made": made, **figures}, [("kind", "design"), *rows, ("made for", notes or "unknown")]


def _of_classes(data: bytes) -> Facts:
    from sketchlearn.estimators.files import selected_from_bytes

    selected = selected_from_bytes(data)
    figures = {"kind": "classes", "labels": list(selected), "ledger": selected.ledger.to_json()}
    names = ", ".join(map(str, selected)) or "none"
    return figures, [("kind", "selected classes"), ("classes", names), ("privacy", str(selected.ledger))]


def _of_schema(data: bytes) -> Facts:
    from sketchlearn.files.designs import schema_from_bytes

    schema = schema_from_bytes(data)
    origin = "proposed from rows" if schema.proposed else "written"
    facts, columns = tables.column_facts(skl.schemas.SchemaColumns(schema), len(schema.encoded_names))
    return {"kind": "schema", **facts, "schema": schema.to_json()}, [("kind", f"schema, {origin}"), *columns]


def _of_operator(operator: skl.extend.Operator) -> Facts:
    from sketchlearn.features.abilities import Ability
    from sketchlearn.inference.errors.kernel_bounds import kernel_in_words

    facts, columns = tables.column_facts(operator.columns, operator.n_features)
    figures: dict[str, Any] = {
        "operator": operator.to_json(),
        "words": operator.in_words,
        "answers": [ability.answers for ability in Ability if ability in operator.abilities],
        **facts,
        "n_features": operator.n_features,
        "identity": operator.identity,
    }
    identity = f"{operator.identity} (SHA-256; equal operators have the same)"
    rows = [("operator", operator.in_words), *columns, ("operator digest", identity)]
    if answers := ", ".join(figures["answers"]):
        rows.insert(1, ("answers", answers))
    if (waves := operator.part(skl.features.FourierFeatures)) is not None:
        rows.append(("kernel", kernel_in_words(waves.n_frequencies)))
    units = operator.error_units
    if units is not None:
        figures["error_units"] = units
        pairs = zip(operator.column_names[: tables.COLUMNS_SHOWN], units, strict=False)
        shown = ", ".join(f"{name} {in_digits(unit)}" for name, unit in pairs)
        more = ", ..." if len(units) > tables.COLUMNS_SHOWN else ""
        rows.insert(-1, ("errors", f"count in standard deviations: {shown}{more}"))
    return figures, rows


def _of_model(data: bytes) -> Facts:
    # scikit-learn takes a second to import, and sketches do not need it
    from sketchlearn.estimators.base.components import FittedComponents
    from sketchlearn.estimators.files import model_from_bytes
    from sketchlearn.estimators.registry import task_of

    model: Any = model_from_bytes(data)
    task = task_of(model)
    parts = isinstance(model.fitted_model(), FittedComponents)
    figures, rows = _of_clusters(model, task) if parts else _of_task(model, task)
    if task.name in tables.TABLES:
        figures["error_bars"] = model.error_bars().to_json()
        rows += [("", line) for line in tables.TABLES[task.name](model) + tables.certainty_lines(model)]
    if model.privacy_ is None:
        return figures, rows
    return {**figures, "ledger": model.privacy_.to_json()}, [*rows, ("privacy", str(model.privacy_))]


def _of_clusters(model: Any, task: Task) -> Facts:
    from sketchlearn.estimators.base.components import FittedMixture

    outcome, k = model.outcome_, len(model.weights_)
    figures, rows = _of_task(model, task)
    figures |= {
        "n_components": k,
        "residual": outcome.residual,
        "misfit": outcome.misfit,
        "status": outcome.status.name,
        f"{model.fitted_model().kind_of_part}s": tables.cluster_figures(model),
    }
    if hasattr(model, "row_mean"):
        figures["row_mean"] = model.row_mean().to_json()
    rows[0] = ("kind", f"model, {task.title} with k = {k}")
    rows.append(("fit", f"{outcome.status.value} ({outcome.misfit_in_words})"))
    learned = model.fitted_model()
    if isinstance(learned, FittedMixture):
        figures |= {"fit_test": learned.fit_test, "fit_p_value": learned.fit_p_value}
        rows.append(("fit test", learned.fit_in_words))
    rows += tables.measured(model)
    return figures, rows + [("", line) for line in tables.cluster_table(model)]


def _of_task(model: Any, task: Task) -> Facts:
    facts, columns = tables.column_facts(model.columns_, model.n_features_in_)
    kind = {"kind": "model", "type": task.name, "n_features": model.n_features_in_}
    records = ("learned from", counted(model.n_records_, "record"))
    return {**kind, **facts, "records": model.n_records_}, [("kind", f"model, {task.title}"), records, *columns]


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A sketch file; - is standard input.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another of the same operator.")],
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    strict: options.StrictAlarms = False,
    json: options.Json = False,
) -> None:
    """Measure the distance of two sketches, and test whether their records differ.

    \b
    Example:
      sketchlearn compare day1.sketch day2.sketch
    """
    from sketchlearn.views.pictures import plot_comparison

    files.check_paths([a, b], [plot])
    first, second = files.read_sketch(a, trusted), files.read_sketch(b, trusted)
    drift = skl.two_sample_test(first, second)
    if plot is not None:
        plot_comparison(first, second, plot)
    apart = skl.distance(first, second)
    identical = first == second
    figures = {"a": a, "b": b, "plot": plot, "identical": identical, "differ": drift.differ}
    figures |= dataclasses.asdict(drift) | {"apart": dataclasses.asdict(apart)}
    counts = f"A: {counted(first.count, 'record')}; B: {counted(second.count, 'record')}"
    found = [str(drift), f"Distance of the two distributions: {apart}."]
    files.tell(json, figures, counts, *(["Identical: the same sums, to the bit."] if identical else found))
    if strict and drift.differ:
        raise typer.Exit(DOUBTFUL)


def watch(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files, the oldest first.")],
    level: Annotated[float, typer.Option(help="Proportion of steps that may raise a false alarm.")] = 0.001,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    strict: options.StrictAlarms = False,
    json: options.Json = False,
) -> None:
    """Detect whether, and since when, the records of a stream have changed.

    Sketches should be alike while nothing changes: where nights differ from days, merge the hours of each day first.

    \b
    Example:
      sketchlearn watch day1.sketch day2.sketch
      sketchlearn watch day1.sketch day2.sketch --strict || echo "see what changed"
    """
    from sketchlearn.views.pictures import plot_changes

    files.check_paths(sketches, [plot])
    _say_if_out_of_order(sketches)
    detector = skl.ChangeDetector(level=level)
    for path in sketches:
        detector.update(files.read_sketch(path, trusted))
    changes = detector.changes
    if plot is not None:
        plot_changes(changes, plot, level=level)
    steps = []
    for path, change in zip(sketches, changes, strict=True):
        since = None if change.since is None else sketches[change.since]
        drift, words = None, "nothing to compare with yet"
        if change.drift is not None:
            drift, words = dataclasses.asdict(change.drift), f"no change (p = {in_digits(change.p_value, 2)})"
        if since is not None:
            words = f"changed since {since}. {change.drift}"
        facts = {"sketch": path, "alarm": change.alarm, "p_value": change.p_value, "since": since}
        steps.append({**facts, "drift": drift, "words": words})
    alarms = sum(change.alarm for change in changes)
    figures = {"alarms": alarms, "level": level, "plot": plot, "steps": steps}
    files.tell(json, figures, *(f"{step['sketch']}: {step['words']}" for step in steps))
    if strict and alarms:
        raise typer.Exit(DOUBTFUL)


def _say_if_out_of_order(sketches: list[str]) -> None:
    """Says so where numbers in the names go down: a pattern such as *.sketch puts 10.sketch before 2.sketch."""
    pairs = [(a, b) for a, b in itertools.pairwise(sketches) if a < b and _numbers(b) < _numbers(a)]
    if pairs:
        first, then = map(files.named, pairs[0])
        warn(
            f"the sketches are taken in the order given, in which {then} comes after {first}: "
            "write numbers with equally many digits (02, 10), or name the files in their order"
        )


def _numbers(path: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", path)]


def marginal(
    sketch: options.SketchFile,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="Name of the column, or its position from 0.")],
    bins: Annotated[int, typer.Option(min=1, help="Number of bins.")] = 20,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Draw the histogram of one column, from the sketch alone.

    \b
    Example:
      sketchlearn marginal day1.sketch 0
    """
    from sketchlearn.views.pictures import plot_marginal

    files.check_paths([sketch], [plot])
    ask = skl.Questions(files.read_sketch(sketch, trusted))
    found = ask.marginal(_named(column, ask), bins)
    if plot is not None:
        plot_marginal(found, plot)
    files.tell(json, {"sketch": sketch, "plot": plot, **dataclasses.asdict(found)}, *str(found).splitlines())


def _named(column: str, ask: skl.Questions) -> str | int:
    return int(column) if column.isdecimal() and column not in ask.columns else column


def ask(
    sketch: options.SketchFile,
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COLUMN...]", help="Names of columns, or positions from 0; all by default."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence level of intervals; those without noise or sampling are certain.")
    ] = 0.95,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Describe the columns: counts, missing values, means, deviations, quantiles and most frequent values.

    Without columns it prints a table of all; of those that are named, each statistic with its interval.

    \b
    Example:
      sketchlearn ask day1.sketch
      sketchlearn ask day1.sketch 0 1
    """
    questions = skl.Questions(files.read_sketch(sketch, trusted))
    found = questions.describe([_named(column, questions) for column in columns or ()] or None, confidence=confidence)
    said = [str(found)] if not columns else [*map(str, found), *found.notes]
    figures = {"columns": [one.to_json() for one in found], "notes": found.notes}
    files.tell(json, {"sketch": sketch, "confidence": confidence, **figures}, *"\n".join(said).splitlines())


@options.grouped
def choose(
    sketch: options.SketchFile,
    sample: files.SampleFiles,
    max_clusters: options.MaxClusters = 20,
    seed: options.Seed = 0,
    plot: options.Plot = None,
    trusted: options.Trusted = None,
    progress: options.Progress = None,
    json: options.Json = False,
) -> None:
    """Estimate how many clusters there are, and how certain that is.

    Best from a design for the largest number, design -k 20: one for fewer has too few frequencies, and a warning says
    so. Rows that the sketch keeps (design --rows) are used.

    \b
    Example:
      sketchlearn choose day1.sketch --max-clusters 6
      sketchlearn choose day1.sketch --max-clusters 6 --sample day1.csv
    """
    from sketchlearn.views.pictures import plot_choice

    files.check_paths([sketch, *sample.paths, *(trusted or [])], [plot])
    loaded = files.read_sketch(sketch, trusted)
    choice = skl.choose_k(
        loaded,
        max_clusters,
        sample.rows(loaded.operator, seed),
        assume_public_sample=sample.assume_public_sample,
        random_state=seed,
        progress=bool(progress),
    )
    if plot is not None:
        plot_choice(choice, plot)
    figures = {"sketch": sketch, "plot": plot, "sentences": list(choice.sentences), **choice.to_json()}
    files.tell(json, figures, *choice.sentences, *choice.table())


def explain(
    sketch: options.SketchFile,
    n_components: Annotated[
        int | None, options.counting(parser=options.number_or(), metavar="K", help="Number of clusters to look for.")
    ] = None,
    decoder: options.Decoder = "auto",
    seed: options.Seed = 0,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Say whether clusters can be recovered from a sketch, or why not.

    The sketch's size, its scale, the decoder or the model may be at fault.

    \b
    Example:
      sketchlearn explain day1.sketch -k 3
    """

    loaded = files.read_sketch(sketch, trusted)  # first, as a model in its place needs another remedy than -k
    if n_components is None:
        raise misused(f"give the number of clusters to look for: sketchlearn explain {sketch} -k K")
    told = skl.explain(loaded, n_components=n_components, decoder=decoder, random_state=seed)
    figures = {name: float(value) for name, value in told.figures.items()}
    verdict = {"verdict": told.verdict.name, "sentences": list(told.sentences), "figures": figures}
    files.tell(json, verdict, *told.sentences)


def report(
    sketch: options.SketchFile,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of clusters or components: see fit.")],
    output: options.Output,
    against: Annotated[
        str | None, typer.Option(metavar="SKETCH", help="An earlier sketch of the same design: say what changed since.")
    ] = None,
    trusted: options.Trusted = None,
    json: options.Json = False,
) -> None:
    """Make a page about a sketch and its clusters, for people to read.

    It is one HTML file without scripts: the clusters, their distinguishing features and standard errors, the columns,
    and the privacy. Sketches of a design with --rows tell the most. The page of an exact sketch or model is personal
    data, and is written for its owner alone.

    \b
    Example:
      sketchlearn report day1.sketch model.json -o report.html
      sketchlearn report day2.sketch model.json --against day1.sketch -o report.html
    """
    from sketchlearn.estimators.base.components import FittedComponents
    from sketchlearn.views.report.page import is_private, report_page

    files.check_paths([sketch, model, against], [output], json=json)
    records, learned = files.read_sketch(sketch, trusted), files.model_from(model)
    if not isinstance(learned.fitted_model(), FittedComponents):
        raise misused(
            f"{model} has no clusters or components to report on: give one of fit kmeans, kmedians, gmm or stable"
        )
    earlier = None if against is None else files.read_sketch(against, trusted)
    title = "Report" if sketch == files.STANDARD else f"Report on {os.path.basename(sketch)}"
    page = report_page(records, learned, against=earlier, title=title)
    files.write(output, page.encode(), owner_only=not is_private(records, learned))
    parts = learned.fitted_model()
    k, noun = len(parts.weights), parts.kind_of_part
    figures = {"output": output, "records": records.count, "bytes": len(page.encode()), f"{noun}s": k}
    said = f"{output}: {counted(records.count, 'record')}, {k:,} {noun}{'' if k == 1 else 's'}"
    rows = records.kept is not None and len(records.kept) > 0
    advice = [] if rows or records.ledger is not None else [
        f"The page cannot show what distinguishes the {noun}s: the sketch keeps no rows (see design --rows)."
    ]  # fmt: skip
    files.tell(json, figures, said, *advice, output=output)

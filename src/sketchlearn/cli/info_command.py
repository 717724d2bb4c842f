"""`sketchlearn info`: what a file is."""

from __future__ import annotations

import hashlib
import json as json_module
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchlearn.cli.cluster_tables import cluster_figures, cluster_table, measured
from sketchlearn.cli.descriptions import COLUMNS_SHOWN, column_facts, kept_in_words, records_in_words
from sketchlearn.cli.error_tables import TABLES, certainty_lines
from sketchlearn.cli.input_output import keys_from, naming, read, report
from sketchlearn.cli.options import Json, Trusted
from sketchlearn.core.messages import in_digits
from sketchlearn.estimators.registry import Task

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator
    from sketchlearn.sketch.sums import Sketch

Facts = tuple[dict[str, Any], list[tuple[str, str]]]


def info(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sketch, design, model or schema; - is standard input.", show_default=False
        ),
    ] = None,
    trusted: Trusted = None,
    json: Json = False,
) -> None:
    """Say what a sketch, design, model or schema file holds; without a file, what this machine computes with.

    \b
    Example:
      sketchlearn info
      sketchlearn info day1.sketch
      sketchlearn info design.json --json
    """
    if file is None:
        _report_facts(json, *_of_machine())
        return
    keys, data = keys_from(trusted), read(file)
    with naming(file):
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
    report(json, figures, *(f"{name:{width}}  {value}" for name, value in rows))


def _of_machine() -> Facts:
    """The version, the processor's kernel and threads, and the GPUs."""
    from sketchlearn.core.packages import __version__
    from sketchlearn.kernels import dispatch as kernel
    from sketchlearn.kernels.gpu.driver import DeviceError, devices

    threads = kernel.n_threads(None)
    try:
        found, why = [own.name for own in devices("cuda")], ""
    except DeviceError as error:
        found, why = [], str(error)
    figures = {"version": __version__, "kernel": kernel.active, "threads": threads, "gpus": found}
    rows = [("sketchlearn", __version__), ("processor", f"{threads} threads, kernel {kernel.active}")]
    return figures, rows + ([(f"cuda:{n}", name) for n, name in enumerate(found)] or [("GPU", f"none: {why}")])


def _reader(data: bytes) -> Callable[[bytes], Facts]:
    """The function that reads files of this kind."""
    from sketchlearn.core.containers import CLASSES, parsed
    from sketchlearn.core.limits import FormatError
    from sketchlearn.files.sketches import kind_of

    readers = {"sketch": _of_sketch, "design": _of_design, "model": _of_model, "schema": _of_schema}
    if (kind := kind_of(data)) is not None:
        return readers[kind]
    if data.lstrip()[:1] != b"{":
        return _of_sketch
    if parsed(data).get("kind") == CLASSES:
        return _of_classes
    raise FormatError("neither a sketch nor a design, a model or a schema")


def _of_sketch(data: bytes) -> Facts:
    from sketchlearn.files.sketches import from_bytes

    sketch = from_bytes(data)
    operator: Any = sketch.operator
    figures, rows = _of_operator(operator)
    content = _content(sketch)
    figures |= {"kind": "sketch", "records": sketch.count, "sums": len(sketch.sums), "content": content}
    rows.append(("content", f"{content} (SHA-256; equal sketches have the same)"))
    records = records_in_words(sketch.count)
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
        notes.insert(0, ("rows", kept_in_words(sketch.kept)))
    if sketch.unit is not None:
        figures |= sketch.unit.to_json()
        notes.insert(0, ("units", str(sketch.unit)))
    if sketch.clipped:
        notes.append(("clipped rows", f"{sketch.clipped:,}"))
    return figures, [("kind", "sketch"), ("holds", records), *rows, *notes]


def _content(sketch: Sketch) -> str:
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
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    schema = schema_from_bytes(data)
    origin = "proposed from rows" if schema.proposed else "written"
    facts, columns = column_facts(SchemaColumns(schema), len(schema.encoded_names))
    return {"kind": "schema", **facts, "schema": schema.to_json()}, [("kind", f"schema, {origin}"), *columns]


def _of_operator(operator: Operator) -> Facts:
    from sketchlearn.features.fourier import FourierFeatures
    from sketchlearn.inference.errors.kernel_bounds import kernel_in_words

    facts, columns = column_facts(operator.columns, operator.n_features)
    figures: dict[str, Any] = {
        "operator": operator.to_json(),
        "words": operator.in_words,
        **facts,
        "n_features": operator.n_features,
        "identity": operator.identity,
    }
    identity = f"{operator.identity} (SHA-256; equal operators have the same)"
    rows = [("operator", operator.in_words), *columns, ("operator digest", identity)]
    if (waves := operator.part(FourierFeatures)) is not None:
        rows.append(("kernel", kernel_in_words(waves.n_frequencies, waves.n_features)))
    units = operator.error_units
    if units is not None:
        figures["error_units"] = units
        pairs = zip(operator.column_names[:COLUMNS_SHOWN], units, strict=False)
        shown = ", ".join(f"{name} {in_digits(unit)}" for name, unit in pairs)
        more = ", ..." if len(units) > COLUMNS_SHOWN else ""
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
    if task.name in TABLES:
        figures["error_bars"] = model.error_bars().to_json()
        rows += [("", line) for line in TABLES[task.name](model) + certainty_lines(model)]
    if model.privacy_ is None:
        return figures, rows
    return {**figures, "ledger": model.privacy_.to_json()}, [*rows, ("privacy", str(model.privacy_))]


def _of_clusters(model: Any, task: Task) -> Facts:
    """Of clusters and mixtures."""
    from sketchlearn.estimators.base.components import FittedMixture

    outcome, k = model.outcome_, len(model.weights_)
    figures, rows = _of_task(model, task)
    figures |= {
        "n_components": k,
        "residual": outcome.residual,
        "misfit": outcome.misfit,
        "status": outcome.status.name,
        f"{model.fitted_model().kind_of_part}s": cluster_figures(model),
    }
    if hasattr(model, "row_mean"):
        figures["row_mean"] = model.row_mean().to_json()
    rows[0] = ("kind", f"model, {task.title} with k = {k}")
    rows.append(("fit", f"{outcome.status.value} ({outcome.misfit_in_words})"))
    learned = model.fitted_model()
    if isinstance(learned, FittedMixture):
        figures |= {"fit_test": learned.fit_test, "fit_p_value": learned.fit_p_value}
        rows.append(("fit test", learned.fit_in_words))
    rows += measured(model)
    return figures, rows + [("", line) for line in cluster_table(model)]


def _of_task(model: Any, task: Task) -> Facts:
    """Of all models."""
    facts, columns = column_facts(model.columns_, model.n_features_in_)
    figures = {
        "kind": "model",
        "type": task.name,
        "n_features": model.n_features_in_,
        **facts,
        "records": model.n_records_,
    }
    rows = [
        ("kind", f"model, {task.title}"),
        ("learned from", records_in_words(model.n_records_)),
        *columns,
    ]
    return figures, rows

"""Models as files: JSON with the fitted numbers and without code; for generators safetensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from sketchlearn.core.containers import (
    CLASSES,
    MODEL,
    MODEL_VERSION,
    check_model_fields,
    from_document,
    is_network,
    read,
    to_document,
    write,
)
from sketchlearn.core.limits import FormatError, loading
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.estimators.base.supervised import check_labels
from sketchlearn.estimators.registry import task_of, tasks
from sketchlearn.features.operator import MOST_FEATURES, Operator
from sketchlearn.files.designs import design_from_bytes, design_to_bytes, schema_from_bytes, schema_to_bytes
from sketchlearn.files.sketches import expecting, from_bytes, kind_of, refusing
from sketchlearn.files.sketches import load as load_sketch
from sketchlearn.privacy.class_selection import SelectedClasses
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch

VERSION = 1


def selected_to_bytes(selected: SelectedClasses) -> bytes:
    """The selected names and their privacy cost, as the bytes of a file.

    >>> from sketchlearn.privacy.class_selection import select_classes
    >>> selected = select_classes({"a": 500, "b": 400}, epsilon=1.0, delta=1e-6)
    >>> selected_from_bytes(selected_to_bytes(selected)) == selected
    True
    """
    return to_document(CLASSES, VERSION, {"labels": list(selected.labels), "ledger": selected.ledger.to_json()})


@loading()
def selected_from_bytes(data: bytes) -> SelectedClasses:
    """The selection in a file; a `FormatError` says why another file is refused."""
    document = from_document(data, CLASSES, VERSION)
    if document.keys() != {"kind", "version", "labels", "ledger"}:
        raise FormatError("a damaged file of classes: it must have labels, a ledger, and nothing else")
    with refusing("a file of classes"):
        check_labels(document["labels"])
        ledger = Ledger.from_json(document["ledger"])
    if not ledger.selections:
        raise FormatError("a damaged file of classes: its ledger has no selection")
    return SelectedClasses(tuple(document["labels"]), ledger)


def model_to_bytes(estimator: Any) -> bytes:
    return estimator.model_bytes(task_of(estimator).name)


@loading()
def model_from_bytes(data: bytes) -> SketchEstimator:
    """The estimator whose file these bytes are."""
    if is_network(data):
        return tasks()["generator"].load().from_model_bytes(data)
    with expecting("model", data):
        document = from_document(data, MODEL, MODEL_VERSION)
    with refusing("a model"):
        name = document["type"]
        kind: Any = tasks()[name].load() if isinstance(name, str) and name in tasks() else None
        if kind is None or not kind.model_type.saved_fields():
            raise ValueError(f"{shortened(name)} is not a type of model that this version knows")
        fields = kind.model_type.saved_fields()
        check_model_fields(document, {key for key, form in fields.items() if key in document or not form["optional"]})
        d = whole("n_features", document["n_features"], most=MOST_FEATURES)
        model = kind.model_type.from_fields(document, d)
        return kind(**kind.parameters_of(model)).with_model(model, document)


_WRITERS: tuple[tuple[Any, Callable[[Any], bytes]], ...] = (
    (Sketch, Sketch.to_bytes),
    (Operator, design_to_bytes),
    (SketchEstimator, model_to_bytes),
    (Schema, schema_to_bytes),
    (SelectedClasses, selected_to_bytes),
)
_READERS: dict[str | None, Callable[[bytes], Any]] = {
    "design": lambda data: design_from_bytes(data)[0],
    "model": model_from_bytes,
    "schema": schema_from_bytes,
}


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a sketch, an operator, a fitted estimator or a schema to a file.

    Parameters
    ----------
    thing : Sketch, Operator, fitted estimator, Schema or SelectedClasses
        Of an estimator, what it learned is written, and not its sketch: save `estimator.sketch_` beside it to learn
        again. The file of an operator is what several machines share to sketch the same way.
    path : str or path
        The file appears when it is complete.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> X = np.random.default_rng(0).standard_normal((2000, 2)) + 10 * np.arange(2000)[:, None] // 1000
    >>> kmeans = skl.SketchKMeans(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save(kmeans, f"{folder}/model.json")
    ...     again = skl.load(f"{folder}/model.json")
    >>> bool(np.all(again.predict(X) == kmeans.labels_))
    True
    """
    for kind, to_bytes in _WRITERS:
        if isinstance(thing, kind):
            write(path, to_bytes(thing))
            return
    raise TypeError(f"expected a sketch, an operator, a fitted estimator or a schema, not a {type(thing).__name__}")


def load(path: str | os.PathLike[str], *, trusted: Iterable[Any] | None = None) -> Any:
    """Read a sketch, an operator, a fitted estimator or a schema from a file.

    Nothing in a file is executed.

    Parameters
    ----------
    path : str or path
    trusted : list of public keys, default=None
        Hexadecimal digits, paths of files, or `Ed25519PublicKey` objects. Only a sketch that one of them signed
        (`sketch.save(path, key=...)`) is accepted. Without it, a signature that does not match is refused, but nothing
        is known about who wrote the file.

    Returns
    -------
    Sketch, Operator, estimator or Schema
        A loaded estimator predicts, and has no sketch. It has `columns_` and `n_records_` of the sketch that it was
        learned from.

    Raises
    ------
    FormatError
        Says in a sentence why a file is refused.

    Examples
    --------
    >>> import sketchlearn as skl, tempfile
    >>> operator = skl.design(bounds=([0, 0], [1, 1]), n_components=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save(operator, f"{folder}/design.json")
    ...     skl.load(f"{folder}/design.json") == operator
    True
    """
    if trusted is not None:
        return load_sketch(path, trusted=trusted)
    return read(path, lambda data: _READERS.get(kind_of(data), from_bytes)(data))

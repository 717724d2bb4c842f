"""Models as files: JSON with the fitted numbers and without code; for generators safetensors."""

from __future__ import annotations

import os
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
from sketchlearn.features.operator import MOST_FEATURES
from sketchlearn.files.sketches import expecting
from sketchlearn.privacy.class_selection import SelectedClasses
from sketchlearn.sketch.ledger import Ledger

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
    try:
        check_labels(document["labels"])
        ledger = Ledger.from_json(document["ledger"])
    except ValueError as error:
        raise FormatError(f"a damaged file of classes: {error}") from None
    if not ledger.selections:
        raise FormatError("a damaged file of classes: its ledger has no selection")
    return SelectedClasses(tuple(document["labels"]), ledger)


def save_model(estimator: SketchEstimator, path: str | os.PathLike[str]) -> None:
    """Writes a fitted model to a JSON file; the sketch is not in it.

    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> X = np.random.default_rng(0).standard_normal((2000, 2)) + 10 * np.arange(2000)[:, None] // 1000
    >>> kmeans = skl.SketchKMeans(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save_model(kmeans, f"{folder}/model.json")
    ...     again = skl.load_model(f"{folder}/model.json")
    >>> bool(np.all(again.predict(X) == kmeans.labels_))
    True
    """
    write(path, model_to_bytes(estimator))


def load_model(path: str | os.PathLike[str]) -> SketchEstimator:
    """Reads a model: an estimator that predicts, but has no sketch.

    It has the `columns_` and `n_records_` of its sketch; its `outcome_` has the mixture in the data's units. A
    `FormatError` says why a file is refused.
    """
    return read(path, model_from_bytes)


def model_to_bytes(estimator: Any) -> bytes:
    """A fitted estimator as the bytes of a file."""
    return bytes(estimator.model_bytes(task_of(estimator).name))


@loading()
def model_from_bytes(data: bytes) -> SketchEstimator:
    """The estimator whose file these bytes are."""
    estimator: SketchEstimator
    if is_network(data):
        estimator = tasks()["generator"].load().from_model_bytes(data)
        return estimator
    with expecting("model", data):
        document = from_document(data, MODEL, MODEL_VERSION)
    try:
        name = document["type"]
        kind: Any = tasks()[name].load() if isinstance(name, str) and name in tasks() else None
        if kind is None or not kind.model_type.saved_fields():
            raise ValueError(f"{shortened(name)} is not a type of model that this version knows")
        fields = kind.model_type.saved_fields()
        check_model_fields(document, {key for key, form in fields.items() if key in document or not form["optional"]})
        d = whole("n_features", document["n_features"], most=MOST_FEATURES)
        model = kind.model_type.from_fields(document, d)
        estimator = kind(**kind.parameters_of(model))
        return estimator.with_model(model, document)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError(f"not a model that this version can use: {said}") from None

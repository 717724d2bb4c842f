"""Models as files: JSON that says what was learned, and nothing of how to run it; of generators safetensors."""

from __future__ import annotations

import os
from typing import Any

from sketchlearn.loading_limit import loading
from sketchlearn.operators.operator_base import MOST_FEATURES
from sketchlearn.storage.container import FormatError, read, write
from sketchlearn.storage.file_kinds import expecting
from sketchlearn.storage.json_documents import MODEL, MODEL_VERSION, check_model_fields, from_document, is_network
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.tasks.registry import task_of, tasks
from sketchlearn.values import shortened, whole


def save_model(estimator: SketchEstimator, path: str | os.PathLike[str]) -> None:
    """Writes what an estimator learned to a JSON file; the sketch is not in it.

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

    It has `columns_` and `n_records_` of the sketch it came from; its `outcome_` has the mixture in the data's units.
    A `FormatError` says in a sentence why a file is refused.
    """
    return read(path, model_from_bytes)


def model_to_bytes(estimator: Any) -> bytes:
    """A fitted estimator as the bytes of a file."""
    data: bytes = estimator.model_bytes(task_of(estimator).name)
    return data


@loading()
def model_from_bytes(data: bytes) -> SketchEstimator:
    """The estimator whose file these bytes are."""
    if is_network(data):
        generator: SketchEstimator = tasks()["generator"].load().from_model_bytes(data)
        return generator
    with expecting("model", data):
        document = from_document(data, MODEL, MODEL_VERSION)
    try:
        return _estimator(document)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError(f"not a model that this version can use: {said}") from None


def _estimator(document: dict[str, Any]) -> SketchEstimator:
    name = document["type"]
    kind: Any = tasks()[name].load() if isinstance(name, str) and name in tasks() else None
    if kind is None or not kind.model_type.saved_fields():
        raise ValueError(f"{shortened(name)} is not a type of model that this version knows")
    fields = kind.model_type.saved_fields()
    check_model_fields(document, {name for name, form in fields.items() if name in document or not form["optional"]})
    d = whole("n_features", document["n_features"], most=MOST_FEATURES)
    model = kind.model_type.from_fields(document, d)
    estimator: SketchEstimator = kind(**kind.parameters_of(model))
    return estimator.with_model(model, document)

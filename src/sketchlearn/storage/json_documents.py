"""JSON files of the package: designs, models, names of classes. Each names its kind and version; reading is strict."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.loading_limit import check_size
from sketchlearn.storage.container import FormatError
from sketchlearn.storage.strict_json import read_json
from sketchlearn.values import shortened

DESIGN, MODEL, CLASSES, SCHEMA = (f"sketchlearn {kind}" for kind in ("design", "model", "classes", "schema"))
MODEL_VERSION = 1
SHARED_IN_MODELS = frozenset({"kind", "version", "type", "n_features", "columns", "n_records"})
OPTIONAL_IN_MODELS = frozenset({"privacy", "parameters", "error_bars", "row_mean"})


def to_document(kind: str, version: int, content: dict[str, Any]) -> bytes:
    """The bytes of a file: the same content always gives the same ones."""
    document = {"kind": kind, "version": version, **content}
    return (json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def from_document(data: bytes, kind: str, version: int) -> dict[str, Any]:
    """The JSON object of a file; a `FormatError` says in a sentence why another is refused."""
    document = parsed(data)
    found, number = document.get("kind"), document.get("version")
    if found != kind:
        other = found if found in (DESIGN, MODEL, CLASSES, SCHEMA) else "JSON file of something else"
        raise FormatError(f"not a {kind}, but a {other}")
    if type(number) is not int or number < 1:
        raise FormatError(f"a {kind} of a version that does not exist: {shortened(number)}")
    if number > version:
        newer = f"a {kind} of version {shortened(number)}, newer than this sketchlearn reads"
        raise FormatError(f"{newer} ({version}): upgrade sketchlearn")
    return document


def parsed(data: bytes) -> dict[str, Any]:
    """Any JSON object, read strictly: no repeated keys, no NaN, nothing after its end."""
    check_size(len(data))
    try:
        document = read_json(data)
    except FormatError:
        raise
    except UnicodeDecodeError:
        raise FormatError("not a JSON file: it is not text") from None
    except RecursionError:
        raise FormatError("not a JSON file of sketchlearn: it is nested too deeply") from None
    except ValueError as error:
        raise FormatError(f"not a JSON file, or a damaged one: {shortened(str(error), 100)[1:-1]}") from None
    if not isinstance(document, dict):
        raise FormatError("not a JSON file of sketchlearn: it holds no object")
    return document


def numbers_of(document: dict[str, Any], name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A field of a document that holds so many finite numbers."""
    given = document[name]
    with contextlib.suppress(OverflowError):
        if _holds_numbers(given, shape) and np.all(np.isfinite(array := np.array(given, np.float64))):
            return array.reshape(shape)
    raise ValueError(f"{name} must be {' x '.join(map(str, shape)) or 'one'} finite numbers")


def _holds_numbers(given: Any, shape: tuple[int, ...]) -> bool:
    """Whether lists in lists have this shape and hold numbers alone: an array of words would have room for the longest
    in each place."""
    if not shape:
        return type(given) in (int, float)
    if not isinstance(given, list) or len(given) != shape[0]:
        return False
    if len(shape) == 1:
        return set(map(type, given)) <= {int, float}
    return all(_holds_numbers(part, shape[1:]) for part in given)


def check_model_fields(document: dict[str, Any], own: Set[str]) -> None:
    """Refuses fields of a model file that are missing or unknown: beside those of all models, it has its own."""
    odd = sorted((document.keys() - OPTIONAL_IN_MODELS) ^ (SHARED_IN_MODELS | own))
    if odd:
        raise ValueError(f"field {shortened(odd[0])} is {'unknown' if odd[0] in document else 'missing'}")


def is_network(data: bytes) -> bool:
    """Whether a file is a model as safetensors, whose header comes after its length, and not a sketch, nor JSON."""
    return data[8:9] == b"{" and data.find(MODEL.encode(), 8, 8 + int.from_bytes(data[:8], "little")) >= 0

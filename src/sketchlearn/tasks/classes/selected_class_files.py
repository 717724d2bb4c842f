"""Names of classes that were selected privately, as JSON files."""

from __future__ import annotations

from sketchlearn.ledger import Ledger
from sketchlearn.loading_limit import loading
from sketchlearn.privacy.class_selection import SelectedClasses
from sketchlearn.storage.container import FormatError
from sketchlearn.storage.json_documents import CLASSES, from_document, to_document
from sketchlearn.tasks.estimating.labelled_estimator import check_labels

VERSION = 1


def selected_to_bytes(selected: SelectedClasses) -> bytes:
    """The selected names and what they have cost, as the bytes of a file.

    >>> from sketchlearn.privacy import select_classes
    >>> selected = select_classes({"a": 500, "b": 400}, epsilon=1.0, delta=1e-6)
    >>> selected_from_bytes(selected_to_bytes(selected)) == selected
    True
    """
    return to_document(CLASSES, VERSION, {"labels": list(selected.labels), "ledger": selected.ledger.to_json()})


@loading()
def selected_from_bytes(data: bytes) -> SelectedClasses:
    """What a file says; a `FormatError` says in a sentence why another is refused."""
    document = from_document(data, CLASSES, VERSION)
    if document.keys() != {"kind", "version", "labels", "ledger"}:
        raise FormatError("a damaged file of classes: it must have labels, a ledger, and nothing else")
    try:
        check_labels(document["labels"])
        ledger = Ledger.from_json(document["ledger"])
    except ValueError as error:
        raise FormatError(f"a damaged file of classes: {error}") from None
    if not ledger.selections:
        raise FormatError("a damaged file of classes: its ledger tells of no selection")
    return SelectedClasses(tuple(document["labels"]), ledger)

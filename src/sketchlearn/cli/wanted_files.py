"""What the command line says of a file of another kind than the one that is wanted: what it is, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 27  # A larger file is not looked into.
OTHER_REMEDY = "sketchlearn info {path} says more"
#: (wanted, found) -> what to do about it
REMEDIES = {
    ("sketch", "design"): "sketchlearn sketch DATA --design {path} -o FILE makes a sketch",
    ("sketch", "model"): "give the sketch that it was learned from",
    ("sketch", "table of rows"): "first type sketchlearn sketch {path} -k K -o FILE, then this command with FILE",
    ("design", "sketch"): "give the design that it was made with",
    ("design", "model"): "sketchlearn design DATA -k K -o FILE makes a design",
    ("design", "table of rows"): "sketchlearn design {path} -k K -o FILE makes a design",
    ("model", "design"): "sketchlearn fit learns a model from a sketch",
    ("model", "sketch"): "sketchlearn fit kmeans -k K {path} -o FILE learns a model",
    ("model", "table of rows"): "sketchlearn fit learns a model from a sketch",
    ("design", "schema"): "sketchlearn design DATA -k K --schema {path} -o FILE makes a design",
    ("sketch", "schema"): "sketchlearn design DATA -k K --schema {path} -o FILE is the first step to a sketch",
    ("schema", "table of rows"): "sketchlearn schema {path} -o FILE proposes one",
}


@contextmanager
def wanted_file(wanted: str, path: str, name: str) -> Iterator[None]:
    """Errors of reading a sketch, a design or a model, with the name of the file and what it is instead."""
    from sketchlearn.core.limits import FormatError
    from sketchlearn.files.sketches import WrongKindError
    from sketchlearn.rows.paths import holds_rows

    try:
        yield
    except WrongKindError as error:
        raise ValueError(_sentence(wanted, error.found, path, name)) from None
    except FormatError as error:
        if holds_rows(path):
            raise ValueError(_sentence(wanted, "table of rows", path, name)) from None
        raise ValueError(f"{name}: {error}") from None
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def refuse_own_file(path: str) -> None:
    """Refuses a sketch, a design or a model where rows are wanted."""
    from sketchlearn.files.sketches import kind_of
    from sketchlearn.rows.paths import holds_rows

    if holds_rows(path) or os.path.getsize(path) > MOST_BYTES:
        return
    if found := kind_of(Path(path).read_bytes()):
        raise ValueError(f"{path} is a {found}, not a table of rows: give the file with the rows")


def _sentence(wanted: str, found: str, path: str, name: str) -> str:
    return f"{name} is a {found}, not a {wanted}: {REMEDIES.get((wanted, found), OTHER_REMEDY).format(path=path)}"

"""Ids of units, such as patients: which ids are the same one, and a digest of each.

An id counts by its text, without spaces around it. A whole number is written without a decimal point, so that 3, 3.0,
"3" and "3.0" are one unit; "03" is another one, and so is "A" beside "a".
"""

from __future__ import annotations

import hashlib
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint64]
DIGEST_KEY = b"sketchlearn unit"  # Public, and never changed: places that do not know each other choose alike.
WHOLE_NUMBER = re.compile(r"(-?\d+)\.0+")
#: beyond these, neighboring whole numbers are one floating-point number, so that two units would be taken for one
LARGEST_WHOLE = {2: 2.0**11, 4: 2.0**24, 8: 2.0**53}


def id_digests(values: NDArray[Any]) -> tuple[Digests, NDArray[np.bool_]]:
    """Two words of a hash of each id, (n, 2), and which ids are missing: those are None, NaN, or empty text.

    >>> digests, missing = id_digests(np.array([3, 3.0, "3", " 3.0 ", "03", None], dtype=object))
    >>> [bool(np.all(row == digests[0])) for row in digests[:5]], missing.tolist()
    ([True, True, True, True, False], [False, False, False, False, False, True])
    """
    different, which = _factors(values)
    plain = values.dtype.kind in "iu"
    texts: list[str | None] = [str(n) for n in different.tolist()] if plain else [id_text(value) for value in different]
    words = b"".join(
        hashlib.blake2b((text or "").encode(errors="surrogatepass"), digest_size=16, key=DIGEST_KEY).digest()
        for text in texts
    )
    digests = np.frombuffer(words, "<u8").astype(np.uint64).reshape(-1, 2)
    return digests[which], np.array([text is None for text in texts], bool)[which]


def id_texts(values: NDArray[Any]) -> NDArray[Any]:
    """What each id counts by, None where it is missing.

    >>> id_texts(np.array([3.0, 4.0, 3.0])).tolist()
    ['3', '4', '3']
    """
    different, which = _factors(values)
    return np.fromiter(map(id_text, different), object, len(different))[which]


def id_text(value: Any) -> str | None:
    """What an id counts by; None if it is missing.

    >>> id_text(3.0), id_text("A 7 "), id_text(float("nan")), id_text("")
    ('3', 'A 7', None, None)
    """
    largest = LARGEST_WHOLE.get(value.itemsize if isinstance(value, np.floating) else 8, 2.0**53)
    item = value.item() if isinstance(value, np.generic) else value
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(item, str):
        text = item.strip()
        found = WHOLE_NUMBER.fullmatch(text)
        return (found[1] if found else text) or None
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if isinstance(item, Decimal) and item.is_finite():
        return str(int(item)) if item == item.to_integral_value() else str(item.normalize())
    if isinstance(item, float):
        return None if math.isnan(item) else _text_of_float(item, largest)
    raise TypeError(f"ids of units are text or numbers, not {type(item).__name__}: convert them to text")


def _text_of_float(item: float, largest: float) -> str:
    if not abs(item) < largest:
        raise ValueError(
            f"the id {item!r} is a floating-point number so large that other ids may have become the same one: store "
            "ids as integers or text"
        )
    return str(int(item)) if item.is_integer() else repr(item)


def _factors(values: NDArray[Any]) -> tuple[Any, NDArray[np.int64]]:
    """The different values, and which of them each one is."""
    if values.ndim != 1:
        raise ValueError(f"ids must be one per row, not an array of {values.ndim} dimensions")
    if values.dtype.kind in "iuf":
        return np.unique(values, return_inverse=True)
    if values.dtype.kind not in "OU":
        raise TypeError(f"ids of units are text or numbers, not {values.dtype}: convert them to text")
    known: dict[Any, int] = {}
    try:
        which = [known.setdefault(value, len(known)) for value in values.tolist()]
    except TypeError:
        raise TypeError("ids of units are text or numbers: convert them to text") from None
    return list(known), np.array(which, np.int64)

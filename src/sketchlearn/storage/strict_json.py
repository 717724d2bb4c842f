"""JSON from anywhere, read strictly: headers, descriptions, documents and reports all come through here."""

from __future__ import annotations

import json
import math
from typing import Any

from sketchlearn.loading_limit import check_text

# Only numbers such as these, with any digits, can be beyond all floats, or take long to read. Looking at each number
# would take most of the time of reading, and a regular expression takes seconds on runs of 308 digits.
_POWERS, _MANY_DIGITS = (b"e000", b"e+000"), b"0" * 309
_ANY_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")


def read_json(text: bytes, *, outer: bool = False) -> Any:
    """What a text says, if that costs little: no repeated keys, no NaN, no number beyond floats, nothing after its end.

    An outer one has a text inside that is read next, of all that is in it. A `FormatError` says what it would cost; a
    `ValueError` or a `RecursionError`, why it is no such text.
    """
    check_text(text, outer=outer)
    digits = text.translate(_ANY_DIGITS)
    many = _MANY_DIGITS in digits
    odd = many or any(power in digits for power in _POWERS)
    del digits
    return json.loads(
        text.decode("utf-8"),
        object_pairs_hook=_without_repetition,
        parse_constant=_finite,
        parse_float=_finite if odd else None,
        parse_int=_whole if many else None,
    )


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless a key comes twice: readers would differ in which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits[:40]} is not a finite number")
    return number


def _whole(digits: str) -> int:
    if len(digits) > len(_MANY_DIGITS):  # the time to read one grows with the square of its length
        raise ValueError(f"{digits[:40]}... is a number of {len(digits):,} digits")
    return int(digits)

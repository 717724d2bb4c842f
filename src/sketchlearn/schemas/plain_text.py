"""Numbers and moments in text of the plainest form, read by Arrow a column at a time.

What Arrow reads here, `number_of` and `moment_of` read to the same bits, value by value; all else is left to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.schemas.written_dates import DAY_FIRST, YEAR_FIRST
from sketchlearn.schemas.written_numbers import signs_swapped

Bools = NDArray[np.bool_]
#: numbers that Arrow reads without fail, as Arrow matches them
PLAIN_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
#: dates that every calendar has (29 February is not among them), with or without a time
PLAIN_MOMENT = (
    r"^[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{3}|\.[0-9]{6})?)?)?$"
)
FIRST_MOMENT = -62_135_596_800_000_000  # That of the year 1: Python knows none before it, Arrow does.


def text_of(raw: Any) -> Any:
    """The column as an Arrow array of text that the functions here take; None if it holds something else."""
    import pyarrow as pa

    if pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type):
        return raw
    return raw.cast(pa.large_string()) if str(raw.type) == "string_view" else None


def plain_numbers(cells: Any, decimal: str) -> tuple[NDArray[np.float64], Bools]:
    """The numbers of a column of text, and which of them were read.

    >>> import pyarrow as pa
    >>> values, read = plain_numbers(pa.array(["44.70", "1,234.5", None, "inf", "-1e3"]), ".")
    >>> values[read].tolist(), read.tolist()
    ([44.7, -1000.0], [True, False, False, False, True])
    """
    text = signs_swapped(cells) if decimal == "," else cells
    values = _cast(text, "float64", PLAIN_NUMBER).to_numpy(zero_copy_only=False)
    return values, np.isfinite(values)


def plain_moments(cells: Any, order: str) -> tuple[NDArray[np.int64], Bools]:
    """The moments of a column of text in microseconds since 1970, and which of them were read.

    >>> import pyarrow as pa
    >>> moments, read = plain_moments(pa.array(["1970-01-02", "1970-01-01 00:01:00", "2.1.1970"]), "year first")
    >>> moments[read].tolist(), read.tolist()
    ([86400000000, 60000000], [True, True, False])
    """
    import pyarrow as pa

    text = cells if order == YEAR_FIRST else _year_to_front(cells, order)
    moments = _cast(text, pa.timestamp("us"), PLAIN_MOMENT).cast("int64")
    values = moments.fill_null(FIRST_MOMENT - 1).to_numpy(zero_copy_only=False)
    return values, values >= FIRST_MOMENT


def _cast(cells: Any, kind: Any, plain: str) -> Any:
    """The cells as Arrow reads them: all, or else those of a plain form; null where nothing was read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        sure = pc.match_substring_regex(cells, plain)
        return pc.if_else(sure, cells, pa.scalar(None, cells.type)).cast(kind)


def _year_to_front(cells: Any, order: str) -> Any:
    """Dates such as 31.12.2024 or 12/31/2024 as 2024-12-31; other text as it is."""
    import pyarrow.compute as pc

    turned = r"\3-\2-\1" if order == DAY_FIRST else r"\3-\1-\2"
    for mark in (r"\.", "/", "-"):
        pattern = rf"^([0-9]{{2}}){mark}([0-9]{{2}}){mark}([0-9]{{4}})"
        cells = pc.replace_substring_regex(cells, pattern, turned, max_replacements=1)
    return cells

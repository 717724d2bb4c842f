"""Text that Arrow reads a column at a time means what it means value by value, to the bit, in any company."""

from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.rows.schemas.cell_values import MICROSECONDS_PER_DAY, instants_in, is_missing, numbers_in, word_of
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text
from sketchlearn.rows.schemas.proposal import proposed
from sketchlearn.rows.schemas.text import DECIMALS, ORDERS, moment_of, number_of

NASTY = [
    None, "", " ", "NA", "n/a", "NaN", "-nan", "nan(1)", "?", "-", "None", "true", "FALSE", "True ", "inf", "-Infinity",
    "1e3", "1E+05", "1e400", "-1e-400", "5e-324", "0x10", "+7", " 7", "7 ", "7\n", "\t7", "\u00a07", "7\x1c", "1_000",
    "1.", ".5", "-.5", ".", "e5", "1e", "--1", "-0", "00012", "1d5", "1\x00", "\uff11", "\u0663", "1,5", "-,5", "44,",
    "1,234", "1.234", "-1.234", "+1.234", " 1.234", "1,234.5", "1.234,5", "1.234.567", "1 234", "1'234", "12,34,56",
    "9007199254740993", "123456789012345678901234567890", "0.1", "1e0000000000000000005",
    "2024-02-29", "2023-02-29", "2024-02-30", "2024-13-01", "0000-01-01", "0001-01-01", "9999-12-31", "2024-1-3",
    "2024-01-31 24:00:00", "2024-01-31 23:59:60", "2024-01-31T12", "2024-01-31 1230", "2024-01-31 12:30:00.1",
    "2024-01-31 12:30:00.1234567", "2024-01-31 12:30:00,5", "2024-01-31 12:30:00Z", "2024-01-31T12:30:00+02:00",
    "2024-01-31 1:30 PM", "2024/01/31", "20240131", "2024-W05-3", "2024-01", "31.12.2024", "31.12.2024 12:30:15",
    "12/31/2024", "12/31/2024T23:59", "01-02-2024", "01.02-2024", "31.12.2024-05", "31.12.20245", "31.12.24",
    "1.2.2024", "Dec 31, 2024", "31. Ma\u0308rz 2024", "31. M\u00e4rz 2024", "-2024-01-01", "262144-01-01",
    "FR", " FR", "fr", "Zo\u00eb", "Zoe\u0308", "yes", "YES ", "no", "S", "M", "L", "two words", "\U0001f600", "other",
]  # fmt: skip
DIGITS_AND_MARKS = st.text("0123456789.,eE+-_ '\u00a0", max_size=9)
DATE_MARKS = st.text("0123456789-:T ./", min_size=8, max_size=19)
NUMBERS = st.one_of(
    st.floats().map(repr), st.integers().map(str), st.decimals(allow_nan=False, allow_infinity=False).map(str)
)
MOMENTS = st.builds(
    lambda moment, form: moment.strftime(form),
    st.datetimes(min_value=datetime(1000, 1, 1)),
    st.sampled_from(
        ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S.%f", "%d.%m.%Y", "%m/%d/%Y %H:%M", "%d-%m-%Y %H:%M:%S"]
    ),
)
CELLS = st.one_of(st.sampled_from(NASTY), NUMBERS, MOMENTS, DIGITS_AND_MARKS, DATE_MARKS, st.text(max_size=6))
#: columns of one kind alone, which Arrow reads at once, and of all kinds
COLUMNS = st.one_of(st.lists(NUMBERS, max_size=9), st.lists(MOMENTS, max_size=9), st.lists(CELLS, max_size=9))
FORMS = {
    "string": lambda cells: pa.array(cells, pa.string()),
    "large string": lambda cells: pa.array(cells, pa.large_string()),
    "string view": lambda cells: pa.array(cells, pa.string_view()),
    "dictionary": lambda cells: pa.array(cells, pa.string()).dictionary_encode(),
}
EPOCH = datetime(1970, 1, 1)
SCHEMA = skl.Schema(
    [
        Number("number", scaling="standard", center=4.0, width=3.0, missing="indicate"),
        Number("comma", decimal=",", missing="indicate"),
        Number("log", scaling="log", missing="indicate"),
        Category("level", ["FR", "Zo\u00eb", "1e3", "NA", "1.5"], weight=1.3, missing="indicate"),
        Flag("flag", weight=0.7, missing="indicate"),
        Ordinal("order", ["S", "M", "L"], missing="indicate"),
        Date("day", center=19_000.0, width=7.0, cycles=("year", "week", "day"), missing="indicate"),
        Date("day first", order="day first", missing="indicate"),
        Text("length", weight=0.3, missing="indicate"),
        Text("words", n_words=3, missing="indicate"),
    ]
)


def bits(values):
    """Numbers as what they are in memory, but one for all NaN."""
    values = np.asarray(values, np.float64)
    return np.where(np.isnan(values), np.nan, values).view(np.int64).tolist()


def microseconds(moment):
    since = moment - EPOCH
    return since.days * MICROSECONDS_PER_DAY + since.seconds * 1_000_000 + since.microseconds


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decimal", DECIMALS)
@given(cells=COLUMNS)
def test_numbers(form, decimal, cells):
    values, missing = numbers_in(FORMS[form](cells), decimal)
    gaps = [is_missing(cell) for cell in cells]
    assert missing.tolist() == gaps
    one_by_one = [np.nan if gap else number_of(cell, decimal) for cell, gap in zip(cells, gaps, strict=True)]
    assert bits(values) == bits(one_by_one)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ORDERS)
@given(cells=COLUMNS)
def test_moments(form, order, cells):
    values, missing, odd = instants_in(FORMS[form](cells), order)
    gaps = [is_missing(cell) for cell in cells]
    moments = [None if gap else moment_of(cell, order) for cell, gap in zip(cells, gaps, strict=True)]
    assert missing.tolist() == gaps
    assert odd.tolist() == [moment is None and not gap for moment, gap in zip(moments, gaps, strict=True)]
    assert values.tolist() == [0 if moment is None else microseconds(moment) for moment in moments]


@pytest.mark.parametrize("decimal", DECIMALS)
def test_each_nasty_cell_among_plain_ones(decimal):
    for cell in NASTY:
        values, missing = numbers_in(pa.array(["1.5", cell, "-2e3"]), decimal)
        assert missing[1] == is_missing(cell)
        assert bits(values) == bits([1.5, np.nan if missing[1] else number_of(cell, decimal), -2000.0]), cell


@pytest.mark.parametrize("order", ORDERS)
def test_each_nasty_cell_among_plain_moments(order):
    for cell in NASTY:
        values, missing, odd = instants_in(pa.array(["1970-01-02", cell, "1970-01-01 00:00:01"]), order)
        moment = None if is_missing(cell) else moment_of(cell, order)
        found = (values.tolist(), missing.tolist(), odd.tolist())
        gaps = [False, is_missing(cell), False]
        odds = [False, moment is None and not gaps[1], False]
        middle = 0 if moment is None else microseconds(moment)
        assert found == ([MICROSECONDS_PER_DAY, middle, 1_000_000], gaps, odds), cell


@pytest.mark.parametrize("form", FORMS)
@given(cells=COLUMNS)
def test_a_record_is_encoded_alike_in_any_company(form, cells):
    column = FORMS[form](cells)
    together, odd = SCHEMA.encode(dict.fromkeys(SCHEMA.names, column))
    alone = [SCHEMA.encode(dict.fromkeys(SCHEMA.names, FORMS["dictionary"]([cell]))) for cell in cells]
    assert bits(together) == bits([rows[0] for rows, _ in alone] or np.empty((0, len(SCHEMA.encoded_names))))
    assert odd == {name: n for name in SCHEMA.names if (n := sum(few.get(name, 0) for _, few in alone))}


@given(cells=COLUMNS)
def test_frames_hold_what_tables_hold(cells):
    column = pa.array([None if cell is None else word_of(cell) for cell in cells], pa.string())
    for kind in ("object", "str"):
        rows = skl.source(pd.DataFrame(dict.fromkeys(SCHEMA.names, pd.Series(cells, dtype=kind))))
        for raw in rows.raw_columns(SCHEMA.names):
            assert bits(SCHEMA.encode(raw)[0]) == bits(SCHEMA.encode(dict.fromkeys(SCHEMA.names, column))[0])


@given(cells=st.lists(CELLS, min_size=1, max_size=9))
def test_a_proposal_does_not_depend_on_the_form_of_text(cells):
    """Words that repeat, as in tables."""
    found = []
    for form in FORMS:
        try:
            found.append(proposed(pa.table({"column": FORMS[form](cells * 30)})).to_json())
        except ValueError as error:
            found.append(str(error))
    assert found == [found[0]] * len(FORMS)

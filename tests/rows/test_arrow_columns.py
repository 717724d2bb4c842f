"""`schema.encode` takes what people have: frames, Arrow tables and dictionaries; and says what it does not take."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sketchlearn as skl
from sketchlearn.rows.schemas.columns import Category, Number

SCHEMA = skl.Schema([Number("age"), Category("country", ["FR", "DE"])])
COLUMNS = {"country": ["DE", "IT", None], "other": [1, 2, 3], "age": [42, 30, 7]}
ROWS = [[42.0, 0.0, 1.0, 0.0], [30.0, 0.0, 0.0, 1.0], [7.0, np.nan, np.nan, np.nan]]
TABLES = {
    "lists": COLUMNS,
    "pandas": pd.DataFrame(COLUMNS),
    "pandas, objects": pd.DataFrame(COLUMNS).astype(object),
    "pandas, categories": pd.DataFrame(COLUMNS).astype({"country": "category"}),
    "polars": pl.DataFrame(COLUMNS),
    "arrow": pa.table(COLUMNS),
    "arrow, chunks": pa.concat_tables([pa.table(COLUMNS)[:1], pa.table(COLUMNS)[1:]]),
    "arrow, dictionaries": pa.concat_tables(
        [
            pa.table({**COLUMNS, "country": pa.array(COLUMNS["country"]).dictionary_encode()})[i : i + 1]
            for i in range(3)
        ]
    ),
    "batch": pa.RecordBatch.from_pydict(COLUMNS),
    "arrays": {"age": np.array([42, 30, 7]), "country": np.array(["DE", "IT", ""])},
    "series and arrays": {"age": pd.Series([42, 30, 7]), "country": pa.array(["DE", "IT", None])},
}


@pytest.mark.parametrize("form", TABLES)
def test_tables_as_people_have_them(form):
    rows, odd = SCHEMA.encode(TABLES[form])
    np.testing.assert_array_equal(rows, ROWS)
    assert odd == {"country": 1}


@pytest.mark.parametrize("form", ["lists", "pandas", "arrow"])
def test_empty_tables(form):
    table = {name: [] for name in COLUMNS}
    forms = {"lists": table, "pandas": pd.DataFrame(table), "arrow": pa.table(COLUMNS)[:0]}
    assert SCHEMA.encode(forms[form])[0].shape == (0, 4)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (
            np.zeros((3, 2)),
            TypeError,
            "a schema encodes data frames, Arrow tables and dictionaries of columns, not n",
        ),
        ("rows.csv", TypeError, r"not str: put the columns into a dictionary, or read a file with source"),
        (None, TypeError, "not NoneType"),
        ({"age": [1]}, ValueError, "the table has no column 'country', which the schema takes once: its columns are"),
        (pd.DataFrame([[1, 2, "FR"]], columns=["age", "age", "country"]), ValueError, "has two columns 'age'"),
        ({"age": 42, "country": ["FR"]}, TypeError, "column 'age' must be a list or an array of values, not 42"),
        ({"age": [42], "country": "FR"}, TypeError, "column 'country' must be a list or an array of values, not 'FR'"),
        ({"age": [1, 2], "country": ["FR"]}, ValueError, "column 'age' has 2 values and column 'country' 1: give one"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(table, error, message):
    with pytest.raises(error, match=message):
        SCHEMA.encode(table)

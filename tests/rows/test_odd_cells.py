"""Cells that are no single values are refused by the name of their column, with a remedy, in one sentence."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sketchlearn as skl
from sketchlearn.rows.schemas.columns import Category, Number
from sketchlearn.rows.schemas.table_schema import Schema

N = 60
SPLIT, DECODE = "make columns of what is in them", "decode them to text first"
#: a cell, what such columns are said to hold, and the remedy
CELLS = {
    "list": ([1, 2], "lists", SPLIT),
    "tuple": ((1, 2), "tuples", SPLIT),
    "array": (np.arange(2), "arrays", SPLIT),
    "dict": ({"a": 1}, "records", SPLIT),
    "set": ({1}, "sets", SPLIT),
    "bytes": (b"ab", "bytes", DECODE),
    "bytearray": (bytearray(b"ab"), "bytes", DECODE),
    "object": (object(), "objects", "turn it into numbers"),
    "complex": (1j, "objects", "turn it into numbers"),
}


def frame(cell, others=None):
    cells = pd.Series([cell if others is None or i == N - 1 else others for i in range(N)], dtype=object)
    return pd.DataFrame({"x": np.sin(np.arange(N)), "tags": cells})


@pytest.mark.parametrize("others", [None, 1.0])
@pytest.mark.parametrize("kind", CELLS)
def test_estimators_name_the_column_and_the_remedy(kind, others):
    cell, words, remedy = CELLS[kind]
    with pytest.raises((TypeError, ValueError)) as refused:
        skl.SketchKMeans(2, random_state=0).fit(frame(cell, others))
    row = 0 if others is None else N - 1
    assert str(refused.value).startswith(f"column 'tags' holds {words} (")
    assert f" in row {row}), not numbers: {remedy}, or leave it out: X.drop(columns='tags')" in str(refused.value)


@pytest.mark.parametrize("others", [None, "word"])
@pytest.mark.parametrize("kind", [name for name, cell in CELLS.items() if cell[2] in (SPLIT, DECODE)])
def test_schemas_refuse_them_or_leave_them_out(kind, others):
    cell, words, remedy = CELLS[kind]
    words = words if words == "bytes" else "lists or records"
    table = frame(cell, others)
    wanted = "text" if words == "bytes" else "single values"
    reason = f"holds {words}, not {wanted}: {remedy}, or leave the column out"
    assert dict(skl.schema(table).left_out) == {"tags": reason}
    for column in (Number("tags"), Category("tags", levels=("word",))):
        with pytest.raises(ValueError) as refused:
            skl.SketchKMeans(2, schema=Schema((Number("x"), column)), random_state=0).fit(table)
        assert str(refused.value) == f"column 'tags' {reason}"


@pytest.mark.parametrize("kind", ["list", "bytes"])
def test_tables_and_files_say_the_same(kind, tmp_path):
    cell, words, remedy = CELLS[kind]
    tables = [frame(cell), pa.table({"x": np.arange(N, dtype=float), "tags": [cell] * N})]
    for table in tables:
        with pytest.raises(TypeError, match=f"column 'tags' is {words} .*: {remedy}, or choose other columns"):
            list(skl.source(table).blocks())
    if kind == "list":
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps({"x": i, "tags": cell}) + "\n" for i in range(N)))
        with pytest.raises(ValueError, match="column 'tags' holds lists or records, not single values"):
            list(skl.source(path, schema=Schema((Number("x"), Category("tags", levels=("a",))))).blocks())


def test_numbers_of_other_types_are_numbers():
    table = frame(Fraction(1, 3), Fraction(1, 2))
    assert skl.SketchKMeans(1, random_state=0).fit(table).cluster_centers_.shape == (1, 2)

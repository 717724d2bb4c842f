"""Samples of tables that a schema encodes: bounded where that can be, with progress where all must be read."""

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import done

import sketchlearn as skl
from sketchlearn.rows import arrow as arrow_files
from sketchlearn.rows import csv as csv_tables
from sketchlearn.rows.schemas.columns import Category, Number
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source_base import Table

SCHEMA = skl.Schema([Number("row"), Category("kind", ["a", "b"])])
N_ROWS = 60_000


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame({"row": np.arange(N_ROWS), "kind": np.where(np.arange(N_ROWS) % 3, "a", "b")})


@pytest.fixture
def small_pieces(monkeypatch):
    """Files of hundreds of kilobytes as if they were large."""
    monkeypatch.setattr(csv_tables, "READ_BYTES", 1 << 15)
    monkeypatch.setattr(arrow_files, "READ_WHOLE_BYTES", 1 << 12)


def sampled(data, n_rows=2000):
    """A sample: different rows of the table."""
    rows = skl.source(data, schema=SCHEMA)
    found = rows.some(n_rows, np.random.default_rng(0))
    assert np.array_equal(found[:, 2], np.where(found[:, 0] % 3, 0.0, 1.0))
    assert len(np.unique(found[:, 0])) == len(found)
    return found


def refused(*_):
    raise AssertionError("all rows are read")


WRITTEN = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "quoted.csv": lambda frame, path: frame.to_csv(path, index=False, quoting=2),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False, row_group_size=1000),
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", WRITTEN)
def test_a_sample_of_a_large_file_is_bounded_and_from_all_over(ending, frame, tmp_path, monkeypatch):
    path = tmp_path / f"rows.{ending}"
    WRITTEN[ending](frame, path)
    source = skl.source(path, schema=SCHEMA)
    monkeypatch.setattr(type(source.table.table), "raw_chunks", refused)
    found = sampled(path)
    assert 1900 <= len(found) <= 2100
    counts = np.histogram(found[:, 0], bins=4, range=(0, N_ROWS))[0]
    assert counts.min() > 200  # of about 500
    assert skl.design(path, n_components=2, schema=SCHEMA).columns == SchemaColumns(SCHEMA)


@pytest.mark.usefixtures("small_pieces")
def test_folders_that_name_columns_are_sampled_too(frame, tmp_path, monkeypatch):
    folder = tmp_path / "kind=b"
    folder.mkdir()
    frame[["row"]].to_csv(folder / "rows.csv", index=False)
    monkeypatch.setattr(csv_tables.Csv, "raw_chunks", refused)
    found = skl.source(folder / "rows.csv", schema=SCHEMA).some(500, np.random.default_rng(0))
    assert 480 <= len(found) <= 520
    assert np.all(found[:, 2] == 1)


@pytest.mark.parametrize("form", ["pandas", "arrow", "string view", "dictionary"])
def test_of_tables_in_memory_the_rows_of_the_sample_alone_are_encoded(form, frame, monkeypatch):
    data = frame
    if form != "pandas":
        data = pa.Table.from_pandas(frame, preserve_index=False)
        kinds = {"arrow": pa.string(), "string view": pa.string_view(), "dictionary": pa.string()}
        column = pa.chunked_array([part.cast(kinds[form]) for part in data["kind"].chunks])
        column = column.dictionary_encode() if form == "dictionary" else column
        data = data.set_column(1, "kind", column)
        data = pa.concat_tables([data[:100], data[100:N_ROWS]])
    found = sampled(data)
    assert len(found) == 2000
    table = skl.source(data, schema=SCHEMA).table.table
    monkeypatch.setattr(type(table), "raw_some", Table.raw_some)
    assert np.array_equal(found, sampled(data))  # those of a pass over all rows


@pytest.mark.usefixtures("small_pieces")
def test_lines_that_go_on_are_not_guessed(frame, tmp_path):
    """Each record has a line that looks like another record."""
    path = tmp_path / "rows.csv"
    path.write_text("row,kind,note\n" + "".join(f'{i},{kind},"see\n7,a,no\n"\n' for i, kind in frame.values))
    assert len(sampled(path)) == 2000


def test_reading_to_the_end_is_shown(frame, tmp_path):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        frame.to_csv(file, index=False)
    command = ["design", str(path), "-k", "2", "--schema", "auto", "-o", str(tmp_path / "design.json")]
    line = r"sampling: 100 %, 60,000 rows, [\d.]+ \w+, [\d,]+ rows/s"
    assert re.search(line, done(*command, "--progress").stderr)
    assert "sampling" not in done(*command).stderr


def test_estimators_show_it_if_they_are_verbose(frame, tmp_path, capsys):
    path = tmp_path / "rows.csv.gz"
    frame.to_csv(path, index=False)
    skl.SketchKMeans(2, schema=SCHEMA, verbose=1, random_state=0).fit(path)
    assert "sampling: 100 %, 60,000 rows" in capsys.readouterr().err

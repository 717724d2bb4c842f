"""Files as people have them: one table through every kind of file to the same bytes, and what is told of them."""

import bz2
import gzip
import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import called, done
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.rows.csv import Dialect, layout_of
from sketchlearn.rows.paths import file_of
from sketchlearn.rows.sampling import sample

N_ROWS = 700
NUMBERS = ("größe", "price", "count")
OPERATOR = skl.features.FourierFeatures(3, 20, law=skl.features.frequencies.Gaussian(1.0), columns=NUMBERS)


def table():
    rng = np.random.default_rng(0)
    names = [f'Zoë; "{i}", née | {i}\tx' for i in range(N_ROWS)]
    numbers = rng.standard_normal((2, N_ROWS)) * 10.0 ** rng.integers(-8, 8, N_ROWS)
    counts = rng.integers(0, 9, N_ROWS)
    numbers = [[float(f"{x:.12g}") for x in column] for column in numbers]  # openpyxl writes 16 digits alone
    return pd.DataFrame({"größe": numbers[0], "name": names, "price": numbers[1], "count": counts})


FRAME = table()
EXPECTED = OPERATOR.sketch(FRAME).to_bytes()


def write_lines(frame, path, **more):
    frame.to_csv(path, index=False, **more)
    return path


def compressed(pack, path):
    path.write_bytes(pack(FRAME.to_csv(index=False).encode()))
    return path


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


def json_lines(path):
    path.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in FRAME.to_dict("records")))
    return path


def sqlite_table(path, name="orders"):
    base = sqlite3.connect(path)
    FRAME.to_sql(name, base, index=False)
    base.close()
    return f"sqlite:{path}?table={name}"


def duckdb_table(path, name="orders"):
    base = duckdb.connect(str(path))
    base.register("given", FRAME)
    base.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    base.close()
    return f"duckdb:{path}?table={name}"


def workbook(path, **more):
    pytest.importorskip("openpyxl", reason="workbooks are written and read by openpyxl")
    FRAME.to_excel(path, index=False, **more)
    return path


def polars_lines(path, **more):
    pl.from_pandas(FRAME).write_csv(path, **more)
    return path


def in_folders(folder):
    """The table in folders that name its counts."""
    for count, part in FRAME.groupby("count"):
        (folder / f"count={count}").mkdir(parents=True)
        part.drop(columns="count").to_parquet(folder / f"count={count}" / "part.parquet", index=False)
    return folder


#: kind -> a function that writes the table into a folder, and says where
KINDS = {
    "commas": lambda folder: write_lines(FRAME, folder / "a.csv"),
    "polars": lambda folder: polars_lines(folder / "p.csv"),
    "polars, semicolons": lambda folder: polars_lines(folder / "ps.csv", separator=";", decimal_comma=True),
    "semicolons": lambda folder: write_lines(FRAME, folder / "s.csv", sep=";"),
    "semicolons and decimal commas": lambda folder: write_lines(FRAME, folder / "d.csv", sep=";", decimal=","),
    "decimal commas in quotes": lambda folder: write_lines(FRAME, folder / "q.csv", decimal=",", quoting=1),
    "tabs": lambda folder: write_lines(FRAME, folder / "t.tsv", sep="\t"),
    "tabs, called CSV": lambda folder: write_lines(FRAME, folder / "t.csv", sep="\t"),
    "bars": lambda folder: write_lines(FRAME, folder / "b.csv", sep="|"),
    "mark and CRLF": lambda folder: write_lines(FRAME, folder / "m.csv", encoding="utf-8-sig", lineterminator="\r\n"),
    "Latin-1": lambda folder: write_lines(FRAME, folder / "l.csv", sep=";", decimal=",", encoding="latin-1"),
    "gzip": lambda folder: compressed(gzip.compress, folder / "a.csv.gz"),
    "bzip2": lambda folder: compressed(bz2.compress, folder / "a.csv.bz2"),
    "zstd": lambda folder: compressed(zstd, folder / "a.csv.zst"),
    "JSON lines": lambda folder: json_lines(folder / "a.jsonl"),
    "SQLite": lambda folder: sqlite_table(folder / "a.db"),
    "SQLite by its ending": lambda folder: sqlite_table(folder / "a.sqlite").removeprefix("sqlite:").split("?")[0],
    "DuckDB": lambda folder: duckdb_table(folder / "a.duckdb"),
    "Excel": lambda folder: workbook(folder / "a.xlsx"),
    "sheet": lambda folder: f"{workbook(folder / 'a.xlsx', sheet_name='Q1 rows')}?sheet=Q1 rows",
    "pattern": lambda folder: str(write_lines(FRAME, folder / "a.csv").with_name("*.csv")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_bytes(kind, tmp_path):
    path = KINDS[kind](tmp_path)
    assert OPERATOR.sketch(path).to_bytes() == EXPECTED
    rows = skl.source(path, numeric_only=True)
    assert rows.columns == NUMBERS
    assert "left out, as they are not numbers: name (text)" in rows.remarks
    some, _, rest = sample(rows, 100, np.random.default_rng(0))
    assert {tuple(row) for row in some} <= set(FRAME[list(NUMBERS)].itertuples(index=False, name=None))
    assert len(some) >= 50
    assert OPERATOR.sketch(rest).to_bytes() == EXPECTED
    with pytest.raises(TypeError, match="column 'name' is text"):
        list(skl.source(path, columns=["größe", "name", "price"]).blocks())
    assert skl.source(path, exclude=["name", "price"]).columns == ("größe", "count")


def test_folders_that_name_columns(tmp_path):
    path = in_folders(tmp_path / "by count")
    rows = skl.source(path, exclude=["name"])
    assert rows.columns == NUMBERS
    assert list(rows.remarks) == ["columns from the names of folders: count"]
    ordered = FRAME.sort_values("count", kind="stable")
    assert np.array_equal(np.concatenate([block.rows for block in rows.blocks()]), ordered[list(NUMBERS)].to_numpy())
    assert OPERATOR.sketch(path).to_bytes() == EXPECTED
    counts = np.concatenate([block.rows for block in skl.source(path, columns=["count"]).blocks()])
    assert np.array_equal(counts[:, 0], ordered["count"])
    (tmp_path / "city=K%C3%B6ln").mkdir()
    file = write_lines(FRAME[["price"]], tmp_path / "city=K%C3%B6ln" / "a.csv")
    with pytest.raises(TypeError, match="column 'city' is text"):
        list(skl.source(file).blocks())
    (tmp_path / "year=__HIVE_DEFAULT_PARTITION__").mkdir()
    file = write_lines(FRAME[["price"]], tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "a.csv")
    with pytest.raises(ValueError, match=r"row 0 of .*, column 'year' is missing"):
        list(skl.source(file).blocks())


SNIFFED = {
    "a,b\n1,2\n": (",", ".", True),
    "a;b\n1;2\n": (";", ".", True),
    "a;b\n1,5;2\n": (";", ",", True),
    "1,5;2\n3,25;4\n": (";", ",", False),
    "a\tb\n1\t2\n": ("\t", ".", True),
    "a|b\n1|2\n": ("|", ".", True),
    "a\n1\n2\n": (",", ".", True),
    "1\n2.5\n": (",", ".", False),
    'id,text,n\n1,"x;y;z",2\n2,"u;v;w",3\n': (",", ".", True),
    'id,text,n\n1,"x\ny;z",2\n2,"u;v\nw",3\n': (",", ".", True),
    "id,tags\n1,red;blue\n2,red;green\n": (",", ".", True),
    'a,b\n"1,5","2,25"\n': (",", ",", True),
    '"1,5","2,25"\n"1,5","2,25"\n': (",", ",", False),
    'a,b\n"1,234","5,678"\n': (",", ".", True),  # more than a thousand, or one and a bit: left to the reader
    "a\tb\n1,234\t5,678\n": ("\t", ".", True),
    "a;b\n1,234;5,678\n": (";", ",", True),
    "a;b\n1,5;2.5\n": (";", ".", True),
    "Name;Height, cm\nBob;1,80\nAl;1,75\n": (";", ",", True),
    "weight, kg;height, cm\n1,5;2,5\n": (";", ",", True),
    "day;n\n01.02.2024;1,5\n": (";", ",", True),
    "\n\r\n\na;b\n\n1;2\n": (";", ".", True),
    "sep=;\na;b\n1;2\n": (";", ".", True),
    '"sep=|"\r\na|b\r\n1|2\r\n': ("|", ".", True),
    "a;b\r1,5;2\r": (";", ",", True),
    "a,b": (",", ".", True),
    "a;b\n": (";", ".", True),
}


@pytest.mark.parametrize("text", SNIFFED)
def test_the_first_lines_tell_the_layout(text, tmp_path):
    layout = layout_of(text.encode(), Dialect(), ended=True)
    assert (layout.delimiter, layout.decimal, layout.header) == SNIFFED[text]
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    rows = skl.source(path)
    assert rows.width == len(layout.cells)
    texts = [column for column in range(rows.width) if rows.table.not_numbers(column)]
    n_rows = len([line for line in text.splitlines() if line and "sep=" not in line]) - layout.header
    assert texts or "\ny;z" in text or sum(len(block.rows) for block in rows.blocks()) == n_rows
    assert bool(rows.remarks) == (
        (layout.decimal == "," or layout.delimiter != ",") and not text.strip('"\n').startswith("sep=")
    )


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), min_size=1, max_size=9),
    layout=st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ","), ("|", "."), ("|", ",")]),
    header=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_numbers_written_in_any_layout_are_the_same_numbers(rows, layout, header, end, tmp_path_factory):
    delimiter, decimal = layout
    cells = [[repr(x).replace(".", decimal) for x in row] for row in rows]
    lines = [delimiter.join(row) for row in ([["a", "b"]] if header else []) + cells]
    path = tmp_path_factory.mktemp("any") / "x.csv"
    path.write_bytes(end.join([*lines, ""]).encode())
    thousands = decimal == "," and all(len(x.rpartition(",")[2]) == 3 for row in cells for x in row)
    for dialect in ({}, {"delimiter": delimiter, "decimal": decimal, "header": header})[thousands:]:
        (block,) = skl.source(path, **dialect).blocks()
        assert block.rows.tolist() == [list(row) for row in rows]


def test_the_layout_can_be_said(tmp_path):
    path = tmp_path / "years.csv"
    path.write_text("2023,2024\n1,2\n")
    assert skl.source(path).columns is None
    assert skl.source(path, header=True).columns == ("2023", "2024")
    path.write_text("a;b\n1;2\n")
    assert skl.source(path, delimiter=",").columns == ("a;b",)
    assert dict(skl.source(path, delimiter=";").remarks) == {}
    path.write_text("x,1\ny,2\n")
    assert skl.source(path, header=False, numeric_only=True).width == 1
    assert skl.source(path, header=False, exclude=[0]).width == 1
    for wrong, message in [({"delimiter": ";;"}, "delimiter must be one"), ({"decimal": "x"}, 'decimal must be "."')]:
        with pytest.raises(ValueError, match=message):
            skl.source(path, **wrong)
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    assert skl.source(path).columns == ("a", "b")


def test_lines_of_other_lengths_and_lines_that_end_in_delimiters(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;\n1;2;\n3;4;\n")
    assert skl.source(path).columns == ("a", "b")
    assert [block.rows.tolist() for block in skl.source(path).blocks()] == [[[1, 2], [3, 4]]]
    path.write_text("\na,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match=r"a.csv: line 4 has 3 cells with commas between them, but the first has 2: g"):
        skl.source(path)
    path.write_text("a,b\n" + "1,2\n" * 500_000 + "1\n")
    with pytest.raises(ValueError, match=r"a.csv: (line 500002|a line) has 1 cells with commas between them"):
        list(skl.source(path).blocks())


def test_commas_that_may_mean_thousands_are_left_to_the_reader(tmp_path):
    path = tmp_path / "a.csv"
    for text in ('a,b\n"1,234",2\n"5,678",3\n', "a;b\n1,234;2.5\n5,678;3\n"):
        path.write_text(text)
        with pytest.raises(
            TypeError, match=r'column .a. is text with commas, not numbers: say decimal="," if they are'
        ):
            list(skl.source(path).blocks())
        told = called("design", path, "-k", 1, "-o", tmp_path / "d.json").stderr
        assert "use --decimal ',' if they are decimal commas, --decimal . if they set thousands apart" in told
        assert "or leave it out (--exclude, --numeric-only)" in told
    path.write_text('a,b\n"1,234",2\n"5,678",3\n')
    assert [block.rows.tolist() for block in skl.source(path, decimal=",").blocks()] == [[[1.234, 2], [5.678, 3]]]


def test_columns_that_are_left_out():
    frame = pd.DataFrame({"a": [1.0], "b": ["x"], "c": [True]})
    assert skl.source(frame, exclude=["b"]).columns == ("a", "c")
    assert skl.source(frame, columns=["c", "b", "a"], numeric_only=True).columns == ("c", "a")
    assert skl.source([frame, frame], numeric_only=True).columns == ("a", "c")
    for arguments, message in [
        ({"exclude": ["z"]}, "no column 'z'"),
        ({"exclude": "ab"}, "exclude must be a list of names"),
        ({"exclude": ["a", "b", "c"]}, "no columns left to read: all of them are excluded"),
        ({"columns": ["b"], "numeric_only": True}, "no columns left to read: none of them is numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            skl.source(frame, **arguments)


def test_tables_of_databases(tmp_path):
    sqlite_table(tmp_path / "a.db", 'odd "name"; DROP TABLE x')
    path = tmp_path / "a.db"
    assert OPERATOR.sketch(path).to_bytes() == EXPECTED  # the only table
    sqlite_table(path, "orders")
    with pytest.raises(ValueError, match=r"a.db has 2 tables, \(odd .*, orders\): choose one, such as .*\?table=odd"):
        skl.source(path)
    for name in ('odd "name"; DROP TABLE x', "orders"):
        assert OPERATOR.sketch(f"{path}?table={name}").to_bytes() == EXPECTED
    for address in (f"sqlite:{path}?table=x", f"{duckdb_table(tmp_path / 'a.duckdb')}x"):
        with pytest.raises(ValueError, match=r"has no table '(x|ordersx)': its tables are"):
            skl.source(address)
    with pytest.raises(ValueError, match="has no sheets to choose from"):
        skl.source(f"{path}?sheet=x")
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE late (a REAL, b)")
    base.executemany("INSERT INTO late VALUES (?, ?)", [(1.0, 2), (None, 3)] * 1000 + [(1, "two")])
    base.execute("CREATE VIEW seen AS SELECT a FROM late WHERE a IS NOT NULL")
    base.commit()
    base.close()
    with pytest.raises(ValueError, match=r"row 2000 of .*late, column 'b' holds 'two', which is not a number"):
        list(skl.source(f"{path}?table=late", columns=["b"]).blocks())
    assert sum(len(block.rows) for block in skl.source(f"{path}?table=seen").blocks()) == 1001
    some, everywhere, _ = sample(skl.source(f"{path}?table=seen"), 10, np.random.default_rng(0))
    assert (len(some), everywhere) == (10, False)


@pytest.mark.parametrize("name", ["x.db", "x.duckdb", "x.xlsx", "x.jsonl", "x.csv.zst", "x.parquet", "x.npz"])
def test_files_that_are_empty_or_nonsense(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name} is empty"):
        skl.source(tmp_path / name)
    if name == "x.xlsx":
        pytest.importorskip("openpyxl", reason="workbooks are read by openpyxl")
    (tmp_path / name).write_bytes(b"nonsense" * 100)
    with pytest.raises((ValueError, OSError), match=f"{name} cannot be read"):
        skl.source(tmp_path / name)


CUT = ["gzip", "bzip2", "zstd", "JSON lines", "SQLite", "DuckDB", "Excel"]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", CUT)
def test_files_cut_short_are_refused(kind, share, tmp_path):
    path = file_of(KINDS[kind](tmp_path))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises((ValueError, OSError, TypeError), match=path.name) as caught:
        OPERATOR.sketch(path)
    assert "\n" not in str(caught.value)


def test_json_lines_of_all_sorts(tmp_path):
    path = tmp_path / "a.ndjson"
    path.write_text('{"a": 1, "b": true, "c": "x"}\n\n{"b": false, "d": {"e": 1}, "a": 2.5}\n{"a": null, "b": true}')
    (block,) = skl.source(path, columns=["a", "b"], nulls="drop").blocks()
    assert block.rows.tolist() == [[1.0, 1.0], [2.5, 0.0]]
    path.write_text('{"a": 1}\n' * 600_000 + '{"a": "two"}\n')
    with pytest.raises(ValueError, match=r"a.ndjson: column 'a' holds values other than numbers"):
        list(skl.source(path).blocks())


def test_workbooks_of_all_sorts(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="workbooks are written and read by openpyxl")
    book = openpyxl.Workbook()
    for row in ([], ["id", "n", None, "day"], [1, 2.5, None, "2024"], [], [2, "#N/A", 3, None], [3, True]):
        book.active.append(row)
    book.create_sheet("plain").append([1, 2.5])
    book.save(tmp_path / "a.xlsx")
    rows = skl.source(tmp_path / "a.xlsx", numeric_only=True)
    assert rows.columns == ("id", "n", "column 2")
    (block,) = skl.source(tmp_path / "a.xlsx", columns=["id", "n"], nulls="drop").blocks()
    assert block.rows.tolist() == [[1, 2.5], [3, 1]]
    assert skl.source(f"{tmp_path / 'a.xlsx'}?sheet=plain").columns is None
    with pytest.raises(ValueError, match=r"a.xlsx has no sheet 'x': its sheets are \(Sheet, plain\)"):
        skl.source(f"{tmp_path / 'a.xlsx'}?sheet=x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table in files, and a design."""
    folder = tmp_path_factory.mktemp("files")
    write_lines(FRAME, folder / "a.csv")
    write_lines(FRAME, folder / "s.csv", sep=";", decimal=",")
    sqlite_table(folder / "a.db")
    done("design", "a.csv", "-k", 2, "--numeric-only", "-o", "design.json", cwd=folder)
    done("sketch", "a.csv", "--design", "design.json", "-o", "a.sketch", cwd=folder)
    return folder


def test_the_command_line_says_what_it_took(folder, tmp_path):
    said = "cells are separated by semicolons, and numbers have decimal commas (inferred from its first lines; --delim"
    told = done("design", "s.csv", "-k", 2, "--exclude", "name", "-o", tmp_path / "d.json", cwd=folder)
    assert told.stderr.count("\n") == 1
    assert f"sketchlearn: s.csv: {said}" in told.stderr
    assert (tmp_path / "d.json").read_bytes() == (folder / "design.json").read_bytes()
    told = done("design", "a.csv", "-k", 2, "--numeric-only", "-o", tmp_path / "d.json", cwd=folder)
    assert told.stderr == "sketchlearn: a.csv: left out, as they are not numbers: name (text)\n"
    expected = (folder / "a.sketch").read_bytes()
    (tmp_path / "again.csv").write_bytes((folder / "s.csv").read_bytes())
    arguments = ["--design", folder / "design.json", "-o", "x.sketch"]
    told = done("sketch", folder / "s.csv", "again.csv", *arguments, cwd=tmp_path)
    assert told.stderr.count(said) == 1
    assert skl.load(tmp_path / "x.sketch").count == 2 * N_ROWS
    for more in ([], ["--delimiter", ";", "--decimal", ","]):
        told = done("sketch", folder / "s.csv", *arguments, *more, cwd=tmp_path)
        assert (said in told.stderr) == (not more)
        assert (tmp_path / "x.sketch").read_bytes() == expected
        done("sketch", "-", *arguments, *more, cwd=tmp_path, input=(folder / "s.csv").read_bytes())
        assert (tmp_path / "x.sketch").read_bytes() == expected
    for _ in range(2):
        told = done("sketch", f"sqlite:{folder / 'a.db'}?table=orders", *arguments, "--checkpoint", "p", cwd=tmp_path)
        assert (tmp_path / "x.sketch").read_bytes() == expected
    assert "1 of them from the checkpoint" in told.stdout


def test_an_index_among_the_columns_is_noticed(tmp_path):
    FRAME[["price"]].to_csv(tmp_path / "a.csv")
    FRAME[FRAME["price"] > 0][["price"]].to_parquet(tmp_path / "a.parquet")
    for name, remedy in [("a.csv", "--exclude 0"), ("a.parquet", "--exclude __index_level_0__")]:
        arguments = ["design", name, "-k", 2, "-o", "d.json"]
        assert f"looks like the index of a data frame: {remedy} leaves it out" in done(*arguments, cwd=tmp_path).stderr
        assert done(*arguments, *remedy.split(), cwd=tmp_path).stderr == ""
        assert skl.load(tmp_path / "d.json").columns == ("price",)


def test_standard_input_as_people_have_it(folder):
    def sketched(text, *more):
        arguments = ["sketch", "-", "-k", 1, "--min-records", 0, "-o", "-", *more]
        return skl.from_bytes(done(*arguments, cwd=folder, input=text, text=False).stdout)

    plain = sketched(b"a,b\n1.5,2\n3,4\n").to_bytes()
    for text in (
        b"a;b\n1,5;2\n3;4\n",
        b"\xef\xbb\xbfa|b\r\n\r\n1.5|2\r\n3|4\r\n",
        b'a,b\n"1,5","2"\n"3","4"',
        b"\na\tb\n1.5\t2\n3\t4\n",
        b"a;b\r1,5;2\r3;4",
    ):
        assert sketched(text).to_bytes() == plain, text
    for text in (b"name;a;b\nZo\xe9;1,5;2\nBob;3;4\n", b"a;name;b\n1,5;;2\n3;x;4"):
        assert sketched(text, "--numeric-only").to_bytes() == plain
        assert sketched(text, "--exclude", "name").to_bytes() == plain
    assert sketched(b"1,2\n3,4\n", "--header").count == 1
    assert sketched(b"1,2\n3,4\n", "--no-header").count == 2


MISTAKES = [
    (["fit", "kmeans", "-k", 2, "design.json"], "design.json is a design, not a sketch: sketchlearn sketch DATA --d"),
    (
        ["fit", "kmeans", "-k", 2, "a.csv"],
        "a.csv is a table of rows, not a sketch: first type sketchlearn sketch a.csv -k K",
    ),
    (["merge", "a.sketch", "design.json", "-o", "x"], "design.json is a design, not a sketch"),
    (["sketch", "a.csv", "--design", "a.sketch", "-o", "x"], "a.sketch is a sketch, not a design: give the design th"),
    (["sketch", "a.sketch", "-k", 2, "-o", "x"], "a.sketch is a sketch, not a table of rows"),
    (["predict", "a.sketch", "a.csv"], "a.sketch is a sketch, not a model: sketchlearn fit kmeans -k K a.sketch -o"),
    (["fit", "kmeans", "-k", 2, "empty"], "empty is empty: it has no bytes"),
    (["info", "empty"], "empty is empty"),
    (["sketch", "a.csv", "--design", "empty", "-o", "x"], "empty is empty"),
    (
        ["sketch", "a.csv", "-k", 2, "-o", "x"],
        "a.csv: column 'name' is text (string), not numbers: encode it with a schema (sketchlearn schema)",
    ),
    (["sketch", "a.db?table=x", "-k", 2, "-o", "x"], "a.db has no table 'x': its tables are (orders)"),
    (["sketch", "a.db?table=orders", "-k", 2, "-o", "a.db"], "a.db is an input too"),
    (["design", "a.csv", "-k", 2, "--delimiter", ";;", "-o", "x"], "--delimiter must be one character"),
    (["design", "a.csv", "-k", 2, "--decimal", "x", "-o", "x"], "--decimal must be . or ,"),
    (["merge", "a.sketch", "other.sketch", "-o", "x"], "share one design: sketchlearn design ... -o design.json, then"),
    (["subtract", "a.sketch", "other.sketch", "-o", "x"], "cannot subtract sketches of different designs"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_about_files(arguments, message, folder):
    (folder / "empty").write_bytes(b"")
    if "other.sketch" in arguments and not (folder / "other.sketch").exists():
        done("sketch", "a.csv", "-k", 2, "--exclude", "name,count", "-o", "other.sketch", cwd=folder)
    result = called(*arguments, cwd=folder)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "FourierFeatures" not in result.stderr


@pytest.mark.parametrize("arguments", [[], ["fit"]])
def test_without_arguments_there_is_help(arguments):
    result = called(*arguments)
    assert result.returncode == 2
    assert (
        result.stderr.splitlines()[0] == f"Usage: {' '.join(['sketchlearn', *arguments])} [OPTIONS] COMMAND [ARGS]..."
    )
    assert result.stderr == done(*arguments, "--help").stdout


def test_a_full_disk_is_named(folder, tmp_path, monkeypatch):
    def full(_file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container.os, "fsync", full)
    result = called("sketch", "a.csv", "--design", "design.json", "-o", tmp_path / "x.sketch", cwd=folder)
    assert result.returncode == 1
    assert result.stderr == f"sketchlearn: cannot write {tmp_path / 'x.sketch'}: No space left on device\n"
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"cannot write .*y.sketch: No space"):
        OPERATOR.sketch(FRAME).save(tmp_path / "y.sketch")


def test_a_file_of_another_kind_is_named(folder):
    assert isinstance(skl.load(folder / "design.json"), skl.extend.Operator)
    assert isinstance(skl.load(folder / "a.sketch"), skl.Sketch)
    with pytest.raises(skl.FormatError, match=r"design.json: it is a design, not a sketch: skl.load reads it"):
        skl.merge([folder / "design.json"])
    with pytest.raises(skl.FormatError, match=r"not a sketchlearn file"):
        skl.load(folder / "a.csv")

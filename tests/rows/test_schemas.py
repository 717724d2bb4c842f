"""Columns that are not numbers: what becomes of them, the same bits from every source, and proposals."""

import json
import pickle
import re
import warnings
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import sketchlearn as skl
from sketchlearn.rows.csv import CsvStream
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns

pytestmark = pytest.mark.filterwarnings("ignore:.*values that the schema does not know:UserWarning")
SCHEMA = skl.Schema(
    [
        Number("age", scaling="standard", center=40.0, width=10.0),
        Number("income", scaling="log", center=9.0, width=2.0, missing="indicate", decimal=","),
        Category("country", ["FR", "DE", "Zoë"], weight=1.25, missing="indicate"),
        Flag("member", yes=["yes", "ja", "true", "1"], no=["no", "nein", "false", "0"], weight=2.0),
        Ordinal("size", ["S", "M", "L"]),
        Date("since", center=18_000.0, width=300.0, cycles=("year", "week"), order="day first"),
        Text("comment", n_words=4, missing="indicate"),
    ]
)


def customers(n=300, seed=0):
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(9, 1, n)).round(2)
    income[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "id": [f"c{i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "income": income,
            "country": rng.choice(["FR", "DE", "Zoë", "PT"], n),
            "member": rng.choice(["yes", "no"], n),
            "size": rng.choice(["S", "M", "L"], n),
            "since": rng.choice(pd.date_range("2018-01-01", "2023-12-31").strftime("%Y-%m-%d"), n),
            "comment": rng.choice(["good service", "late, and broken", "ok"], n),
        }
    )


@pytest.fixture(scope="module")
def operator():
    rows = skl.source(customers(), schema=SCHEMA)
    return skl.design(rows, n_components=3)


def decomposed(frame):
    """The same text in another of Unicode's forms."""
    return frame.assign(country=frame["country"].str.normalize("NFD"))


def in_thousands(value):
    """A number as German programs write it: 12.345,60."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def day_first(frame):
    return frame.assign(since=pd.to_datetime(frame["since"]).dt.strftime("%d.%m.%Y"))


WAYS = {
    "pandas": lambda frame, _: frame,
    "other columns and order": lambda frame, _: frame[frame.columns[::-1]].assign(more="x"),
    "categories": lambda frame, _: frame.astype({"country": "category", "member": "category", "size": "category"}),
    "numbers as text": lambda frame, _: frame.assign(age=frame["age"].astype(str)),
    "numbers as floats": lambda frame, _: frame.assign(age=frame["age"].astype(float)),
    "numbers as small integers": lambda frame, _: frame.assign(age=frame["age"].astype(np.int8)),
    "flags": lambda frame, _: frame.assign(member=frame["member"] == "yes"),
    "flags as numbers": lambda frame, _: frame.assign(member=(frame["member"] == "yes").astype(int)),
    "dates": lambda frame, _: frame.assign(since=pd.to_datetime(frame["since"])),
    "moments with a zone": lambda frame, _: frame.assign(since=pd.to_datetime(frame["since"], utc=True)),
    "Python's dates": lambda frame, _: frame.assign(since=[date.fromisoformat(word) for word in frame["since"]]),
    "decomposed letters": lambda frame, _: decomposed(frame),
    "outer spaces": lambda frame, _: frame.assign(country=" " + frame["country"] + " "),
    "ordered categories": lambda frame, _: frame.assign(
        size=pd.Categorical(frame["size"], ["S", "M", "L", "XL"], ordered=True)
    ),
    "flags in German": lambda frame, _: frame.assign(member=frame["member"].map({"yes": "Ja", "no": "nein"})),
    "decimal commas": lambda frame, _: frame.assign(income=frame["income"].astype(str).str.replace(".", ",")),
    "decimal commas and thousands": lambda frame, _: frame.assign(income=frame["income"].map(in_thousands)),
    "decimal commas in polars": lambda frame, _: pl.from_pandas(
        frame.assign(income=frame["income"].map(in_thousands, na_action="ignore"))
    ),
    "days first": lambda frame, _: day_first(frame),
    "days first, by slashes": lambda frame, _: frame.assign(
        since=pd.to_datetime(frame["since"]).dt.strftime("%d/%m/%Y 00:00")
    ),
    "moments with other zones": lambda frame, _: frame.assign(
        since=pd.to_datetime(frame["since"], utc=True)
        .dt.tz_convert("Asia/Tokyo")
        .map(lambda moment: moment.isoformat())
    ),
    "words for missing values": lambda frame, _: frame.assign(
        income=[{0: "-", 1: "?", 2: "NULL", 3: " n/a"}[i % 4] if x != x else x for i, x in enumerate(frame["income"])]
    ),
    "polars": lambda frame, _: pl.from_pandas(frame),
    "polars, lazy": lambda frame, _: pl.from_pandas(frame).lazy(),
    "Arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "Arrow, in pieces": lambda frame, _: pa.Table.from_batches(pa.Table.from_pandas(frame).to_batches(max_chunksize=7)),
    "CSV": lambda frame, folder: written(folder / "a.csv", lambda path: frame.to_csv(path, index=False)),
    "CSV of Arrow": lambda frame, folder: written(
        folder / "b.csv", lambda path: csv.write_csv(pa.Table.from_pandas(frame), path)
    ),
    "CSV of Germany": lambda frame, folder: written(
        folder / "c.csv",
        lambda path: day_first(frame).to_csv(path, sep=";", decimal=",", index=False, na_rep="-"),
    ),
    "CSV with thousands": lambda frame, folder: written(
        folder / "e.csv",
        lambda path: frame.assign(income=frame["income"].map(in_thousands, na_action="ignore")).to_csv(
            path, sep=";", index=False
        ),
    ),
    "CSV of Windows": lambda frame, folder: skl.source(
        written(
            folder / "d.csv", lambda path: frame.to_csv(path, sep=";", decimal=",", index=False, encoding="cp1252")
        ),
        encoding="cp1252",
    ),
    "CSV in UTF-16": lambda frame, folder: written(
        folder / "u.csv", lambda path: frame.to_csv(path, sep="\t", index=False, encoding="utf-16")
    ),
    "JSON lines": lambda frame, folder: written(
        folder / "a.jsonl", lambda path: frame.to_json(path, orient="records", lines=True)
    ),
    "JSON lines of several types": lambda frame, folder: written(
        folder / "b.jsonl",
        lambda path: frame.assign(age=[x if i % 2 else str(x) for i, x in enumerate(frame["age"])]).to_json(
            path, orient="records", lines=True
        ),
    ),
    "Excel": lambda frame, folder: workbook(frame.assign(since=pd.to_datetime(frame["since"])), folder / "a.xlsx"),
    "Parquet": lambda frame, folder: written(
        folder / "a.parquet", lambda path: parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=50)
    ),
    "several": lambda frame, _: [frame[:100], pl.from_pandas(frame[100:])],
}


def workbook(frame, path):
    pytest.importorskip("openpyxl", reason="workbooks are written and read by openpyxl")
    return written(path, lambda path: frame.to_excel(path, index=False))


def written(path, write):
    write(path)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_the_same_records_give_the_same_bits(way, operator, tmp_path):
    frame = customers()
    expected = operator.sketch(frame)
    assert expected.count == len(frame)
    assert operator.sketch(WAYS[way](frame, tmp_path)) == expected


def test_a_row_by_hand():
    raw = {
        "age": pa.array(["60"]),
        "income": pa.array([None], pa.float64()),
        "country": pa.array(["PT"]),
        "member": pa.array(["Yes"]),
        "size": pa.array(["L"]),
        "since": pa.array([datetime(2019, 4, 14, 12, tzinfo=UTC)]),
        "comment": pa.array(["a A b"]),
    }
    rows, odd = SCHEMA.encode(raw)
    found = dict(zip(SCHEMA.encoded_names, rows[0], strict=True))
    assert found["age"] == 2.0
    assert (found["income"], found["income missing"]) == (0.0, 1.0)
    assert [found[f"country={level}"] for level in ("FR", "DE", "Zoë", "other")] == [0, 0, 0, 1.25]
    assert found["member"] == 2.0
    assert found["size"] == 1.0
    assert found["since"] == (18_000.5 - 18_000.0) / 300.0
    assert odd == {"country": 1}
    words = [found[f"words {i} of comment"] for i in range(4)]
    assert sum(word**2 for word in words) == pytest.approx(1.0)
    assert SCHEMA.decode(rows)["country"] == ["other"]
    assert SCHEMA.decode(rows)["income"] == [None]
    assert SCHEMA.decode(rows)["since"] == [date(2019, 4, 14)]


def test_values_come_back_in_their_own_terms():
    frame = customers()
    rows = np.concatenate([block.rows for block in skl.source(frame, schema=SCHEMA).blocks()])
    values = SCHEMA.decode(rows)
    assert values["member"] == list(frame["member"] == "yes")
    assert values["size"] == list(frame["size"])
    assert np.allclose(values["age"], frame["age"])
    gone = frame["income"].isna()
    assert [value is None for value in values["income"]] == list(gone)
    assert np.allclose(np.array(values["income"], float)[~gone], frame["income"][~gone])
    assert [day.isoformat() for day in values["since"]] == list(frame["since"])
    known = frame["country"] != "PT"
    assert [a for a, b in zip(values["country"], known, strict=True) if b] == list(frame["country"][known])


def test_a_schema_is_a_value():
    form = json.loads(json.dumps(SCHEMA.to_json()))
    assert skl.Schema.from_json(form) == SCHEMA
    columns = SchemaColumns(SCHEMA)
    assert pickle.loads(pickle.dumps(columns)) == columns
    assert columns != tuple(columns)
    other = skl.Schema([Number("age", scaling="standard", center=41.0, width=10.0), *SCHEMA.columns[1:]])
    assert SchemaColumns(other) != columns


def test_designs_of_other_schemas_do_not_merge(operator):
    frame = customers()
    other = skl.Schema([Number("age", scaling="standard", center=41.0, width=10.0), *SCHEMA.columns[1:]])
    twin = operator.with_columns(SchemaColumns(other))
    with pytest.raises(ValueError, match="columns differ"):
        operator.sketch(frame) + twin.sketch(frame)


def test_designs_sketches_and_models_keep_the_schema(operator, tmp_path):
    frame = customers()
    skl.save(operator, tmp_path / "design.json")
    assert skl.load(tmp_path / "design.json") == operator
    assert skl.load(tmp_path / "design.json").columns.schema == SCHEMA
    operator.sketch(frame).save(tmp_path / "all.sketch")
    assert skl.load(tmp_path / "all.sketch") == operator.sketch(frame)
    fitted = skl.SketchKMeans(3, schema=SCHEMA, random_state=0).fit(frame)
    skl.save(fitted, tmp_path / "model.json")
    loaded = skl.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(frame), fitted.labels_)
    assert np.array_equal(loaded.predict(frame[frame.columns[::-1]]), fitted.labels_)
    assert np.array_equal(loaded.predict(pl.from_pandas(frame)), fitted.labels_)
    with pytest.raises(ValueError, match="has no column 'since'"):
        loaded.predict(frame.drop(columns="since"))


def test_rows_without_a_value_are_dropped_where_the_schema_says_so():
    frame = customers().astype({"age": object})
    frame.loc[3, "age"], frame.loc[4, "age"] = None, "n/a"
    schema = skl.Schema([SCHEMA.columns[0]])
    rows = skl.source(frame, schema=schema)
    assert sum(len(block.rows) for block in rows.blocks()) == len(frame) - 2
    assert rows.dropped == 2
    with pytest.warns(UserWarning, match="2 rows have missing values in a column"):
        fitted = skl.SketchKMeans(2, schema=schema, random_state=0).fit(frame)
    assert fitted.n_records_ == len(frame) - 2
    with pytest.raises(ValueError, match=r"2 rows have missing values in a column .* drop them first"):
        fitted.predict(frame)


def test_odd_values_are_counted_and_not_guessed():
    frame = pd.DataFrame({"x": ["1", "2", "three", "4"], "day": ["2020-01-01", "2020-02-31", "2020-03-01", None]})
    schema = skl.Schema([Number("x", missing="indicate"), Date("day", missing="indicate")])
    with pytest.warns(UserWarning, match=r"not know \(1 of column 'x', 1 of column 'day'\)"):
        rows = np.concatenate([block.rows for block in skl.source(frame, schema=schema).blocks()])
    assert rows[:, 1].tolist() == [0, 0, 1, 0]
    assert rows[:, 3].tolist() == [0, 1, 0, 1]


def test_a_level_may_be_called_na():
    raw = pa.array(["NA", "ZA", None, ""])
    assert Category("country", ["NA", "ZA"], missing="indicate").encoded(raw).rows.tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 1],
    ]


def test_a_proposal():
    frame = customers().assign(constant=7, since=lambda f: pd.to_datetime(f["since"]))
    proposed = skl.schema(frame)
    kinds = {column.name: type(column) for column in proposed.columns}
    expected = {"age": Number, "income": Number, "country": Category, "member": Flag, "size": Category, "since": Date}
    assert kinds == expected | {"comment": Category}
    assert dict(proposed.left_out).keys() == {"id", "constant"}
    by_name = {column.name: column for column in proposed.columns}
    assert by_name["income"].missing == "indicate"
    assert by_name["age"].missing == "drop"
    rows = np.concatenate([block.rows for block in skl.source(frame, schema=proposed).blocks()])
    spread = {column.name: numbers.var(axis=0).sum() for column, numbers in proposed.pieces(rows)}
    for name in ("age", "country", "member", "size", "since", "comment"):
        assert spread[name] == pytest.approx(1, rel=0.01), name  # a category outweighs no number


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: skl.Schema([]), "at least one column"),
        (lambda: skl.Schema([Number("a"), Flag("a")]), "'a' twice"),
        (lambda: Number("a", scaling="root"), "scaling must be one of as is, standard, log"),
        (lambda: Number("a", center=3.0), 'say scaling="standard"'),
        (lambda: Category("a", []), "levels must be 1 to 4096 different words"),
        (lambda: Category("a", ["x", "x "]), "levels must be 1 to 4096 different words"),
        (lambda: Flag("a", yes=["y"], no=["Y"]), "words for yes and different words for no"),
        (lambda: Ordinal("a", ["one"]), "at least two levels"),
        (lambda: Date("a", cycles=("month",)), "cycles are some of year, week, day"),
        (lambda: Number("a", missing="fill"), 'missing must be "drop" or "indicate"'),
        (lambda: skl.source(np.zeros((3, 1)), schema=skl.Schema([Number("a")])), "rows have none"),
        (lambda: skl.source(customers(), schema="best"), 'must be a Schema, or "auto"'),
    ],
)
def test_schemas_that_make_no_sense_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_stream_of_frames_is_fitted_bit_by_bit():
    frame = customers(6000)
    streamed = skl.SketchKMeans(3, schema=SCHEMA, random_state=0)
    for first in range(0, 6000, 1000):
        streamed.partial_fit(frame[first : first + 1000])
    assert streamed.n_records_ == 6000
    assert streamed.predict(frame).shape == (6000,)


def test_other_machines_encode_alike(operator):
    dask_frames = pytest.importorskip("dask.dataframe")
    frame = customers()
    collection = dask_frames.from_pandas(frame[frame.columns[::-1]], npartitions=3)
    assert skl.engines.dask.sketch(collection, operator) == operator.sketch(frame)
    with pytest.raises(ValueError, match="has no column 'since'"):
        skl.engines.dask.sketch(collection.drop(columns="since"), operator)
    fitted = skl.SketchKMeans(3, schema=SCHEMA, random_state=0).fit(collection)
    assert fitted.sketch_ == fitted.sketch_.operator.sketch(frame)
    assert fitted.predict(frame).shape == (len(frame),)
    with pytest.raises(ValueError, match=r"give schema=skl.schema\(sample\), of a data frame with some of them"):
        skl.SketchKMeans(3, schema="auto").fit(collection)
    with pytest.raises(ValueError, match="with targets, Dask and Spark take a schema with a design"):
        skl.SketchLinearRegression(schema=SCHEMA).fit(collection, "age")


def test_units_are_of_the_rows_that_the_schema_takes():
    frame = customers(60).assign(person=[f"p{i // 6}" for i in range(60)]).astype({"age": object})
    frame.loc[[0, 7, 8, 33], "age"] = None  # rows that the schema leaves out
    schema = skl.Schema([SCHEMA.columns[0], SCHEMA.columns[3]])
    operator = skl.design(customers(), n_components=2, schema=schema)
    sketch = operator.sketch(frame, unit="person", rows_per_unit=2)
    assert sketch.count == 20
    shuffled = frame.sample(frac=1, random_state=0)
    assert operator.sketch(shuffled, unit="person", rows_per_unit=2) == sketch
    alone = [operator.sketch(rows, unit="person", rows_per_unit=2) for _, rows in frame.groupby("person", sort=False)]
    assert skl.merge(alone, overlapping=False) == sketch


# What one value becomes must not depend on the others: else one record could move all sums of a private sketch


def bins(schema, n):
    return skl.features.Histograms.even([-0.5] * n, [1.5] * n, bins=2, columns=schema)


OBJECTS = {
    "floats": [1.0, 2.0],
    "bools": [True, False],
    "integers": [1, 2],
    "dates": [date(2024, 1, 1), date(2024, 1, 2)],
    "moments": [datetime(2024, 1, 1, 12), datetime(2024, 1, 2, 13)],
}
LEVELS = ["1", "true", "2024-01-01", "2024-01-01 12:00:00"]


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("odd", ["x", 7, 0.5, True, date(2020, 1, 1)])
def test_one_record_does_not_change_what_others_become(kind, odd):
    def frame(values):
        return pd.DataFrame({"a": pd.Series(values, dtype=object)})

    rows = OBJECTS[kind] * 50
    for column in (
        Category("a", LEVELS),
        Flag("a", missing="indicate"),
        Number("a", missing="indicate"),
        Date("a", center=19_723.0, cycles=("day",), missing="indicate"),
    ):
        schema = skl.Schema([column])
        alone, joined = (
            np.concatenate([block.rows for block in skl.source(frame(values), schema=schema).blocks()])
            for values in (rows, [odd, *rows])
        )
        assert np.array_equal(joined[1:], alone)


def test_one_cell_does_not_change_others_in_files(tmp_path):
    operator = bins(skl.Schema([Category("a", ["1.5", "2024-01-01"])]), 3)
    plain, mixed = ({"a": value} for value in ("2024-01-01", "x"))
    for name, rows in {"plain": [plain] * 50, "mixed": [*[plain] * 50, mixed]}.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    moved = operator.sketch(tmp_path / "mixed.jsonl").sums - operator.sketch(tmp_path / "plain.jsonl").sums
    assert np.abs(moved).sum() <= 3
    for name, cells in {"plain": ["1,5;y"] * 50, "mixed": [*["1,5;y"] * 50, "x;y"]}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["a;b", *cells]))
    sketches = [
        operator.sketch(skl.source(tmp_path / f"{name}.csv", delimiter=";", decimal=",").only(operator.columns))
        for name in ("mixed", "plain")
    ]
    assert np.abs(sketches[0].sums - sketches[1].sums).sum() <= 3


def test_schemas_read_off_rows_are_from_a_sample():
    frame = customers()
    proposed = skl.schema(frame)
    n = len(proposed.encoded_names)
    for operator in (
        skl.features.Histograms.even([-5] * n, [5] * n, columns=proposed),
        skl.design(bounds=([-5] * n, [5] * n), n_components=2).with_columns(SchemaColumns(proposed)),
        skl.features.FourierFeatures(n, 10, law=skl.features.frequencies.Gaussian(1.0), columns=proposed).with_origin(
            "declared"
        ),
    ):
        with pytest.raises(ValueError, match="sample"):
            skl.privatize(operator.sketch(frame), epsilon=1.0)
        assert "always" not in json.dumps(operator.to_json())  # why columns were left out tells about rows
    written = skl.Schema(proposed.columns)
    operator = skl.features.Histograms.even([-5] * n, [5] * n, columns=written)
    assert skl.privatize(operator.sketch(frame), epsilon=1.0).ledger.private
    plain = skl.features.Histograms.even([-5] * n, [5] * n)
    with pytest.raises(ValueError, match="encoded by a schema that the operator lacks"):
        plain.sketch(skl.source(frame, schema=proposed))


def test_values_beyond_all_numbers_are_odd():
    schema = skl.Schema(
        [Number("a", scaling="standard", width=1e-3, missing="indicate"), Date("b", missing="indicate")]
    )
    frame = pd.DataFrame({"a": [1.0, 1e306], "b": ["2020-01-01", "0001-01-01T00:00:00+14:00"]})
    rows = np.concatenate([block.rows for block in skl.source(frame, schema=schema).blocks()])
    assert rows[:, 1].tolist() == [0, 1]
    assert rows[:, 3].tolist() == [0, 1]


def test_profiles_say_what_is_missing():
    rng = np.random.default_rng(0)
    group = np.arange(1000) % 2
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=1000) + 50 * group,
            "left": [None if g else f"2024-01-{1 + i % 28:02d}" for i, g in enumerate(group)],
            "flag": np.where(group, None, "yes"),
            "kind": np.where(group, "missing", None),
            "unix": 1.7e9 + 100.0 * group + rng.normal(size=1000),
        }
    )
    frame.loc[0, "flag"], frame.loc[2, "kind"] = "no", "a"
    said = map(str, skl.profiles(skl.SketchKMeans(2, schema="auto", random_state=0).fit(frame)))
    zero, one = sorted(said, key=lambda line: "left 2024" not in line)
    assert "left 100 % missing" in one
    assert "flag 100 % missing" in one
    assert "kind missing 100 %" in one
    assert "100 % missing" in zero
    for line, expected in ((zero, 1.7e9), (one, 1.7e9 + 100)):  # to their spread, not to six digits
        shown = re.search(r"unix ([\d,.]+) \+-", line)[1]
        assert float(shown.replace(",", "")) == pytest.approx(expected, abs=0.5)


def test_a_stream_needs_a_schema_that_is_given():
    with pytest.raises(ValueError, match="would infer scales and categories from the first rows only"):
        skl.SketchKMeans(3, schema="auto").partial_fit(customers())


def test_what_numbers_rows_is_no_measurement():
    frame = customers().assign(nr=np.arange(300), Kundennummer=np.random.default_rng(0).permutation(300) * 7)
    assert {"nr", "Kundennummer"} <= dict(skl.schema(frame).left_out).keys()
    assert "" in dict(skl.schema(frame.rename(columns={"nr": ""})).left_out)


def test_the_file_that_a_schema_was_made_from_has_nothing_unexpected(tmp_path):
    words = ["a"] * 600 + ["b"] * 390 + [f"rare {i}" for i in range(10)]
    numbers = ["oops", *(str(n * n % 97) for n in range(999))]
    pd.DataFrame({"word": words, "number": numbers}).to_csv(tmp_path / "table.csv", index=False)
    schema = skl.schema(tmp_path / "table.csv")
    assert dict(schema.unlisted) == {"word": 0.01, "number": 0.001}
    assert skl.Schema.from_json(schema.to_json()).unlisted == schema.unlisted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(len(block.rows) for block in skl.source(tmp_path / "table.csv", schema=schema).blocks()) == 1000
    pd.DataFrame({"word": ["c", "d"] * 500, "number": numbers}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.warns(UserWarning, match="1,000 of column 'word'"):
        list(skl.source(tmp_path / "other.csv", schema=schema).blocks())


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_stream_is_encoded_as_a_file_is(tmp_path, decimal):
    table = pd.DataFrame({"size": np.arange(300) / 7, "kind": list("xyz") * 100, "note": 'a "quoted" word'})
    table.to_csv(tmp_path / "table.csv", index=False, sep=";", decimal=decimal)
    schema = skl.schema(tmp_path / "table.csv")
    own = skl.source(tmp_path / "table.csv", schema=schema)
    with (tmp_path / "table.csv").open("rb") as stream:
        streamed = CsvStream(stream).only(own.columns)
        rows = np.concatenate([block.rows for block in streamed.blocks()])
    assert np.array_equal(rows, np.concatenate([block.rows for block in own.blocks()]))

"""Values as people write them: what each is read as, what is proposed for columns of them, and what is refused."""

import io
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import called, done

import sketchlearn as skl
from sketchlearn.rows.csv import CsvStream
from sketchlearn.rows.schemas.cell_values import is_missing
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal
from sketchlearn.rows.schemas.text import moment_of, number_of, signs_swapped

pytestmark = pytest.mark.filterwarnings("ignore:.*values that the schema does not know:UserWarning")
nan = math.nan
#: text -> the number that it is with decimal points, and with decimal commas
NUMBERS = {
    "12": (12, 12),
    " -1.5e3 ": (-1500, -1500),
    "44,70": (nan, 44.7),
    ",5": (nan, 0.5),
    "44.70": (44.7, 44.7),
    "0.250": (0.25, 0.25),
    "1,234": (nan, 1.234),  # with decimal points, a thousand and more would be as likely
    "1.234": (1.234, nan),
    "1,234.50": (1234.5, 1234.5),
    "1.234,50": (1234.5, 1234.5),
    "1,234,567": (1234567, 1234567),
    "1.234.567": (1234567, 1234567),
    "1\u202f234,50": (1234.5, 1234.5),
    "1'234.50": (1234.5, 1234.5),
    "1 234": (1234, 1234),
    "12 34": (nan, nan),
    "1_000": (nan, nan),
    "true": (1, 1),
    "inf": (nan, nan),
    "12 %": (nan, nan),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_in_text(text):
    assert np.array_equal([number_of(text), number_of(text, ",")], NUMBERS[text], equal_nan=True)
    (swapped,) = signs_swapped(pa.array([text])).to_pylist()  # of files with decimal commas
    assert np.array_equal(number_of(swapped), number_of(text, ","), equal_nan=True)


def test_a_stated_decimal_comma_does_not_depend_on_the_first_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x", *(f'"{text}"' for text in NUMBERS)]))
    schema = skl.Schema([Number("x", decimal=",", missing="indicate")])
    told = [next(skl.source(path, decimal=sign, schema=schema).blocks()).rows for sign in (".", ",")]
    assert np.array_equal(*told)
    gaps = [math.isnan(number) for _, number in NUMBERS.values()]
    assert told[0].tolist() == [[0, 1] if gap else [x, 0] for gap, (_, x) in zip(gaps, NUMBERS.values(), strict=True)]


#: text -> the moment that it is with the year, the day and the month first
MOMENTS = {
    "2024-12-31": ["2024-12-31"] * 3,
    "2024-12": ["2024-12-01"] * 3,
    "2024/12/31": ["2024-12-31"] * 3,
    "2024-12-31T23:30:00-02:00": ["2025-01-01 01:30"] * 3,
    "2024-12-31T12:30:00Z": ["2024-12-31 12:30"] * 3,
    "31.12.2024": [None, "2024-12-31", None],
    "31/12/2024 9:05": [None, "2024-12-31 09:05", None],
    "12/31/2024": [None, None, "2024-12-31"],
    "12/31/2024 12:05 am": [None, None, "2024-12-31 00:05"],
    "03-04-2024": [None, "2024-04-03", "2024-03-04"],
    "30.02.2024": [None] * 3,
    "31.12.24": [None] * 3,
    "31.12/2024": [None] * 3,
    "Dec 31, 2024": ["2024-12-31"] * 3,
    "5. M\u00e4rz 2024": ["2024-03-05"] * 3,
    "01-Jan-2000": ["2000-01-01"] * 3,
    "Foo 1 2000": [None] * 3,
}


@pytest.mark.parametrize("text", MOMENTS)
def test_dates_in_text(text):
    found = [moment_of(text, order) for order in ("year first", "day first", "month first")]
    assert found == [None if day is None else pd.Timestamp(day).to_pydatetime() for day in MOMENTS[text]]


def months(form, n=12):
    return pd.date_range("2024-01-01", periods=40 * n, freq="D").strftime(form).tolist()


#: values of a column, and the kind that is proposed with some of its fields; or why it is left out
PROPOSALS = {
    "decimal comma": (["44,70", "1.234,50", "3"] * 20, Number, {"decimal": ","}),
    "decimal point": (["44.70", "1,234.50", "3"] * 20, Number, {"decimal": "."}),
    "two forms": (["1.234", "44,70"] * 20, "points and with commas, '1.234' and '44,70': write them in one form", {}),
    "units": (["12 %", "7%", "3"] * 20, "'12 %' is a number with a unit", {}),
    "infinite": ([1.0, 2.5, math.inf] * 20, Number, {"missing": "indicate"}),
    "durations": (pd.to_timedelta(np.arange(60) % 7, "D"), "holds durations: turn them into numbers", {}),
    "periods": (pd.period_range("2020-01", periods=60, freq="M"), Date, {"order": "year first"}),
    "thousands": (["1,000", "2,500", "7"] * 20, "'1,000' may be a thousand and more, or have a decimal comma", {}),
    "postal codes": (["01067", "80331", "20095"] * 20, Category, {"levels": ("01067", "20095", "80331")}),
    "many codes": ([f"{i:05d}" for i in range(0, 90000, 900)], "is a code, not a number, that hardly repeats", {}),
    "zip code": ([2139, 94103, 60601] * 20, Category, {}),
    "order": (
        pd.Categorical(["S", "L", "M"] * 20, ["S", "M", "L"], ordered=True),
        Ordinal,
        {"levels": ("S", "M", "L")},
    ),
    "bins": (pd.cut(np.arange(60) % 7, [-1, 2, 4, 9]), Ordinal, {"levels": ("(-1, 2]", "(2, 4]", "(4, 9]")}),
    "classes": (pd.Categorical([1, 3, 2] * 20), Category, {"levels": ("1", "2", "3")}),
    "ja": (["ja", "Nein", "-"] * 20, Flag, {"yes": ("ja", "j", "wahr"), "missing": "indicate"}),
    "oui": (["OUI", "non"] * 20, Flag, {"yes": ("oui", "vrai")}),
    "yn": (["Y", "N"] * 20, Flag, {"missing": "drop"}),
    "bools": ([True, False] * 20, Flag, {}),
    "two words": (["yes", "y"] * 20, Category, {}),
    "gaps": (["1.5", "2.5", "?", "NULL", "n/a", "-"] * 20, Number, {"missing": "indicate"}),
    "German dates": (months("%d.%m.%Y"), Date, {"order": "day first"}),
    "British dates": (months("%d/%m/%Y"), Date, {"order": "day first"}),
    "American dates": (months("%m/%d/%Y"), Date, {"order": "month first"}),
    "dates with points": (["01.02.2024", "03.04.2024"] * 20, Date, {"order": "day first"}),
    "doubtful dates": (["01/02/2024", "03/04/2024"] * 20, "'01/02/2024' may have the day or the month first", {}),
    "two orders": (["31/12/2024", "12/31/2024"] * 20, "dates in two orders, '31/12/2024' and '12/31/2024'", {}),
    "short years": (["31.12.24", "30.11.24"] * 20, "two digits for the year: write all four", {}),
    "moments": (months("%Y-%m-%dT10:00:00+02:00"), Date, {"order": "year first"}),
    "named months": (months("%b %d %Y"), Date, {"order": "year first"}),
    "lines": (["a\nb", "c"] * 20, Category, {"levels": ("a\nb", "c")}),
    "steering": (["a\x1b[2J", "c"] * 20, "has control characters", {}),
    "nearly always": (["a"] * 999 + ["b"], "is nearly always 'a'", {}),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_proposals(name):
    values, kind, fields = PROPOSALS[name]
    x = np.random.default_rng(0).normal(size=len(values))
    proposed = skl.schema(pd.DataFrame({"x": x, name: values}))
    if isinstance(kind, str):
        assert kind in dict(proposed.left_out)[name]
        return
    (found,) = [column for column in proposed.columns if column.name == name]
    assert type(found) is kind
    assert {field: getattr(found, field) for field in fields} == fields
    assert skl.Schema.from_json(json.loads(json.dumps(proposed.to_json()))) == proposed
    assert len(str(proposed).splitlines()) == 3


def test_files_tell_what_frames_tell(tmp_path):
    columns = {
        name: values
        for name, (values, _, _) in PROPOSALS.items()
        if len(values) == 60 and isinstance(values, list) and name not in ("zip code", "infinite")
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    expected = skl.schema(frame)
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        found = skl.schema(tmp_path / f"a.{ending}")
        assert found == expected
        assert found.left_out == expected.left_out


def test_an_order_weighs_as_much_as_a_number():
    sizes = pd.Categorical(np.random.default_rng(0).choice(["S", "M", "L"], 3000), ["S", "M", "L"], ordered=True)
    proposed = skl.schema(pd.DataFrame({"size": sizes}))
    rows = np.concatenate([block.rows for block in skl.source(pd.DataFrame({"size": sizes}), schema=proposed).blocks()])
    assert rows.var() == pytest.approx(1, rel=0.2)


def test_profiles_show_levels_in_print():
    rng = np.random.default_rng(0)
    young = rng.random(1000) < 0.3
    size = pd.Categorical(np.where(young, "small", "large\nsize"), ["small", "middle", "large\nsize"], ordered=True)
    frame = pd.DataFrame({"age": np.where(young, 20.0, 60.0) + rng.normal(size=1000), "size": size})
    said = str(skl.profiles(skl.SketchKMeans(2, schema="auto", random_state=0).fit(frame)))
    assert len(said.splitlines()) == 2
    assert r"size large\nsize 100 %" in said
    assert "size small 100 %" in said


MISSING = ["", "NA", "n/a", "N/A", "NULL", "null", "NaN", "nan", "None", "-", "--", "?", "#N/A", "<NA>", "NaT"]


@pytest.mark.parametrize("word", MISSING)
def test_one_list_of_words_for_missing_values(word, tmp_path):
    assert is_missing(f" {word} ")
    text = f"a,b\n1,2\n3,{word}\n5,6\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in ({"a": 1, "b": 2}, {"a": 3, "b": word}))
    )
    for rows in (
        skl.source(tmp_path / "a.csv", nulls="drop"),
        CsvStream(io.BytesIO(text.encode()), nulls="drop"),
        skl.source(tmp_path / "a.jsonl", schema=skl.Schema([Number("a"), Number("b")])),
    ):
        assert next(rows.blocks()).rows.tolist()[0] == [1, 2]
        assert rows.dropped == 1


def test_listed_words_are_no_missing_values(tmp_path):
    words = ["NA", "-", "none", "x", ""]
    frame = pd.DataFrame({"c": words, "f": ["-", "x", "-", "x", "?"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    schema = skl.Schema(
        [Category("c", ["NA", "-", "none"], missing="indicate"), Flag("f", yes=["x"], no=["-"], missing="indicate")]
    )
    expected = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    for data in (frame, tmp_path / "a.csv"):
        rows = next(skl.source(data, schema=schema).blocks()).rows
        assert rows[:, :5].tolist() == expected
        assert rows[:, 5:].tolist() == [[0, 0], [1, 0], [0, 0], [1, 0], [0.5, 1]]


def test_folders_without_a_value_have_none(tmp_path):
    folder = tmp_path / "city=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    (folder / "a.csv").write_text("x\n1\n2\n")
    schema = skl.Schema([Number("x"), Category("city", ["Rome"], missing="indicate")])
    assert next(skl.source(folder / "a.csv", schema=schema).blocks()).rows.tolist() == [[1, 0, 0, 1], [2, 0, 0, 1]]


def test_text_in_other_encodings(tmp_path):
    frame = pd.DataFrame({"größe": [1.5, 2.5] * 20, "stadt": ["Köln", "Zürich"] * 20})
    path = tmp_path / "a.csv"
    expected = skl.schema(frame)
    frame.to_csv(path, sep=";", decimal=",", index=False, encoding="cp1252")
    assert next(skl.source(path, columns=["größe"]).blocks()).rows[:2].tolist() == [[1.5], [2.5]]
    with pytest.raises(
        ValueError, match="column 'stadt' is not UTF-8: say encoding=\"cp1252\" if it was saved on Windows"
    ):
        skl.schema(path)
    assert skl.schema(skl.source(path, encoding="cp1252")) == expected
    with pytest.raises(ValueError, match="is not text in ascii: say which encoding it has"):
        skl.schema(skl.source(path, encoding="ascii"))
    with pytest.raises(ValueError, match="there is no encoding 'klingon'"):
        skl.source(path, encoding="klingon")
    for encoding in ("utf-16", "utf-8-sig"):
        frame.to_csv(path, sep=";", decimal=",", index=False, encoding=encoding)
        assert skl.schema(path) == expected
        rows = CsvStream(io.BytesIO(path.read_bytes()), numeric_only=True)
        assert next(rows.blocks()).rows[:2].tolist() == [[1.5], [2.5]]


def test_large_whole_numbers_are_kept_or_count_as_no_level():
    keys = [2**53 + 1, 2**53 + 3, None]
    schema = skl.Schema([Category("key", [str(2**53 + 1), str(2**53 + 3)], missing="indicate")])
    for kept in (pd.Series(keys, dtype="Int64"), pd.Series(keys, dtype=object), pa.array(keys)):
        table = pa.table({"key": kept}) if isinstance(kept, pa.Array) else pd.DataFrame({"key": kept})
        rows = next(skl.source(table, schema=schema).blocks()).rows
        assert rows.argmax(axis=1).tolist() == [0, 1, 3]
    with pytest.warns(UserWarning, match=r"'key' holds 9007199254740992 as a floating-point number.*; read .* as text"):
        rows = next(skl.source(pd.DataFrame({"key": keys}), schema=schema).blocks()).rows
    assert rows.argmax(axis=1).tolist() == [2, 2, 3]
    rows = next(skl.source(pd.DataFrame({"key": keys}), schema=skl.Schema([Number("key")])).blocks()).rows
    assert rows.tolist() == [[2.0**53], [2.0**53 + 4]]


def test_columns_whose_numbers_would_have_one_name():
    frame = pd.DataFrame({"c": ["a", "b"] * 20, "c=a": np.arange(40) % 7})
    assert "rename one of them" in dict(skl.schema(frame).left_out)["c=a"]
    with pytest.raises(ValueError, match="columns 'c' and 'c=a' would both give a number called 'c=a': rename"):
        skl.Schema([Category("c", ["a"]), Number("c=a")])
    with pytest.raises(ValueError, match="a level of column 'c' has control characters"):
        Category("c", ["a\x1b[2J"])


PLAIN = pd.DataFrame({"a": np.arange(40) % 7, "c": ["x", "y"] * 20})
FIXED = skl.Schema([Number("a"), Category("c", ["x", "y"])])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: skl.schema(PLAIN.set_axis([0, 1], axis=1)), "these rows have none: give a data frame or table whose"),
        (lambda: skl.SketchKMeans(2, schema=FIXED).fit(np.zeros((9, 2))), r"their names \(a, c\), but these rows"),
        (lambda: skl.SketchKMeans(2, schema="auto").fit(PLAIN.to_numpy()), "give a data frame and a schema"),
        (
            lambda: skl.source(PLAIN.assign(c=None), schema=FIXED) and fitted(PLAIN.assign(c=None)),
            "every row has values",
        ),
        (lambda: skl.design(PLAIN.assign(a="?"), n_components=2, schema=FIXED), r"every row .*40 in column 'a'"),
        (lambda: skl.design(skl.source(PLAIN[["a"]] * np.nan, nulls="drop"), n_components=2), "fill them, or read"),
        (lambda: fitted(PLAIN).predict(np.zeros((3, 2))), r"their names \(a, c\), but these rows have none"),
        (lambda: fitted(PLAIN).predict(PLAIN.set_axis([0, 1], axis=1)), "column names are text"),
    ],
)
def test_refusals_name_the_remedy(use, message):
    with pytest.raises((ValueError, TypeError), match=message):
        use()


def fitted(frame):
    return skl.SketchKMeans(2, schema=FIXED, random_state=0).fit(frame)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_an_array_of_encoded_rows_is_taken_as_it_is():
    model = fitted(PLAIN)
    rows = next(skl.source(PLAIN, schema=FIXED).blocks()).rows
    assert np.array_equal(model.predict(rows), model.predict(PLAIN))


def test_json_lines_of_several_types(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"a": i % 7, "b": i % 5 if i % 2 else str(i % 5)}) + "\n" for i in range(50)))
    with pytest.raises(TypeError, match=r"column 'b' is values of several kinds, not numbers: encode it with a schema"):
        next(skl.source(path).blocks())
    assert next(skl.source(path, columns=["a"]).blocks()).rows[:2].tolist() == [[0], [1]]
    assert skl.schema(path).names == ("a", "b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"größe": rng.normal(size=200).round(2), "stadt": rng.choice(["Köln", "Rom"], 200)})
    frame.to_csv(folder / "a.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    frame.loc[3, "größe"] = None
    frame.to_csv(folder / "gaps.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    (folder / "no.csv").write_text("größe;stadt\n-;Rom\n?;Rom\n", encoding="cp1252")
    windows = ("--encoding", "cp1252")
    done("schema", "a.csv", *windows, "-o", "schema.json", cwd=folder)
    done("design", "a.csv", *windows, "-k", 2, "--rows", 50, "--schema", "schema.json", "-o", "design.json", cwd=folder)
    done("sketch", "a.csv", *windows, "--design", "design.json", "-o", "a.sketch", cwd=folder)
    done("fit", "kmeans", "-k", 2, "a.sketch", "-o", "model.json", cwd=folder)
    return folder


def test_a_schema_is_printed_and_described(folder):
    printed = done("schema", "a.csv", "--encoding", "cp1252", cwd=folder).stdout
    expected = ["größe   number, standardised ", "stadt   category of 2 values (Rom, Köln), and other"]
    for line, start in zip(printed.splitlines()[1:], expected, strict=True):
        assert line.startswith(start)
        assert line.endswith("row left out")
    told = done("info", "schema.json", cwd=folder).stdout
    assert "schema, proposed from rows" in told
    assert "which become 4 numbers" in told
    assert json.loads(done("info", "schema.json", "--json", cwd=folder).stdout)["kind"] == "schema"
    assert json.loads(done("schema", "a.csv", "--encoding", "cp1252", "--json", cwd=folder).stdout)["output"] is None


def test_rows_that_a_schema_cannot_read_are_refused_or_empty(folder):
    result = called("predict", "model.json", "gaps.csv", "--encoding", "cp1252", cwd=folder)
    assert result.returncode == 1
    assert (
        "row 3 of gaps.csv, column 'größe' has no value that the schema can read: fill it, or use --nulls drop"
        in result.stderr
    )
    labels = done("predict", "model.json", "gaps.csv", "--encoding", "cp1252", "--nulls", "drop", cwd=folder).stdout
    assert [i for i, label in enumerate(labels.split("\n")[:200]) if not label] == [3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schema", "a.csv"], "column 'stadt' is not UTF-8: use --encoding cp1252 if it was saved on Windows"),
        (["schema", "a.csv", "--encoding", "x"], "there is no encoding 'x'"),
        (["fit", "a.csv"], "type sketchlearn sketch a.csv -k K -o FILE, then sketchlearn fit kmeans -k K FILE"),
        (["fit", "kmeans", "-k", 2, "a.csv"], "first type sketchlearn sketch a.csv -k K -o FILE, then this command"),
        (["fit", "kmeans", "-k", 2, "a.csv", "--standardize"], "it belongs to sketchlearn design, sketch, as fit"),
        (["fit", "kmeans", "-k", 2, "a.csv", "--exclude", "b"], "sketchlearn sketch TABLE --exclude -k K -o FILE"),
        (["merge", "a.sketch", "--delimiter", ";"], "No such option: --delimiter; it belongs to sketchlearn schema"),
        (["sketch", "no.csv", "--encoding", "cp1252", "--design", "design.json", "-o", "x"], "all 2 rows lack a value"),
        (["design", "no.csv", "--encoding", "cp1252", "-k", 2, "--schema", "schema.json", "-o", "x"],
         "cannot be read (2 in column 'größe'): give those columns missing: indicate in the schema, or leave them out"),
    ],
)  # fmt: skip
def test_the_command_line_names_the_remedy(arguments, message, folder):
    result = called(*arguments, cwd=folder)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr

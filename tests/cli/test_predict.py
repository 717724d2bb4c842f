"""`sketchlearn predict`: one line for each row, which can be joined with the table it came from."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import called, done

import sketchlearn as skl

N = 400
COLUMNS = ["income", "age"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of customers, 20 of whom have no age; and models of its rows."""
    folder = tmp_path_factory.mktemp("customers")
    rng = np.random.default_rng(0)
    centers = np.array([[20_000, 30], [60_000, 60]])
    rows = rng.standard_normal((N, 2)) * [1000, 3] + centers[rng.integers(0, 2, N)]
    table = pd.DataFrame(rows.round(2), columns=COLUMNS)
    table.insert(0, "customer_id", [f"{i:04d}" for i in range(N)])
    table.insert(1, "number", np.arange(N) + 10**17 + 1)
    table["city"] = rng.choice(["Köln", "=Paris"], N)
    table.loc[::20, "age"] = np.nan
    table.to_csv(folder / "customers.csv", index=False)
    table.to_parquet(folder / "customers.parquet")
    np.save(folder / "rows.npy", rows)
    options = ["--columns", ",".join(COLUMNS), "--nulls", "drop"]
    done("sketch", "customers.csv", "-k", 2, *options, "-o", "rows.sketch", cwd=folder)
    done("fit", "kmeans", "-k", 2, "rows.sketch", "-o", "model.json", cwd=folder)
    done("fit", "gmm", "-k", 2, "--covariance-type", "diag", "rows.sketch", "-o", "gmm.json", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """The label of each customer, NaN where there is none."""
    table = pd.read_parquet(folder / "customers.parquet")
    whole = table[COLUMNS].dropna()
    labels = skl.load(folder / "model.json").predict(whole)
    return pd.Series(labels, whole.index).reindex(table.index).to_numpy()


def read(path):
    if path.suffix == ".csv":
        return pd.read_csv(path, dtype={"customer_id": str})
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_json(path, lines=True, dtype=False)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("data", ["customers.csv", "customers.parquet"])
def test_labels_are_joined_by_an_id(data, ending, folder, expected, tmp_path):
    output = tmp_path / f"labels{ending}"
    arguments = ["predict", "model.json", data, "--nulls", "drop", "-o", output]
    told = done(*arguments, "--id", "customer_id", cwd=folder).stdout
    assert told == f"labels of {N} rows\n20 of them are empty: these rows have missing values\n"
    labels = read(output)
    assert list(labels) == ["customer_id", "label"]
    assert list(labels.customer_id) == [f"{i:04d}" for i in range(N)]
    np.testing.assert_array_equal(labels.label, expected)
    done(*arguments, "--id", "number", cwd=folder)
    joined = pd.read_csv(folder / "customers.csv").merge(read(output), on="number")
    assert len(joined) == N
    np.testing.assert_array_equal(joined.label, expected)
    done(*arguments, cwd=folder)
    np.testing.assert_array_equal(read(output).label, expected)


def test_standard_output_has_one_line_per_row(folder, expected):
    arguments = ["predict", "model.json", "customers.csv", "--nulls", "drop"]
    lines = done(*arguments, cwd=folder).stdout.split("\n")[:-1]
    assert lines == ["" if np.isnan(label) else f"{label:.0f}" for label in expected]
    lines = done(*arguments, "--id", "city", "--safe-csv", cwd=folder).stdout.splitlines()
    assert lines[0] == "city,label"
    assert {line.split(",")[0] for line in lines[1:]} == {"Köln", "'=Paris"}
    assert [line.split(",")[1] for line in lines[1:]] == ["" if np.isnan(x) else f"{x:.0f}" for x in expected]
    assert done(*arguments, "--id", "city", "-o", "-", cwd=folder).stdout.splitlines()[1:][1].split(",")[1] != ""
    told = json.loads(done(*arguments, "--id", "number", "--json", cwd=folder).stdout)
    assert (told["rows"], told["empty"], told["labels"][0]) == (N, 20, None)
    assert told["ids"][:2] == [10**17 + 1, 10**17 + 2]
    piped = (folder / "customers.csv").read_bytes()
    through = called("predict", "model.json", "-", "--nulls", "drop", cwd=folder, input=piped)
    assert "is not a number" not in through.stderr
    assert through.stdout.split("\n")[:-1] == ["" if np.isnan(x) else f"{x:.0f}" for x in expected]


def test_probabilities_have_one_line_per_row_too(folder, expected, tmp_path):
    arguments = ["predict", "gmm.json", "customers.csv", "--nulls", "drop", "--proba"]
    lines = done(*arguments, cwd=folder).stdout.splitlines()
    assert (lines[0], len(lines), lines[1]) == ("component_0,component_1", N + 1, ",")
    done(*arguments, "--id", "customer_id", "-o", tmp_path / "chances.parquet", cwd=folder)
    chances = pd.read_parquet(tmp_path / "chances.parquet")
    assert list(chances) == ["customer_id", "component_0", "component_1"]
    np.testing.assert_array_equal(chances.component_0.isna(), np.isnan(expected))
    told = json.loads(done(*arguments, "--json", cwd=folder).stdout)["probabilities"]
    assert told[0] is None
    assert len(told[1]) == 2


def test_columns_are_found_by_name_in_any_order(folder, expected, tmp_path):
    table = pd.read_parquet(folder / "customers.parquet")
    table[["age", "city", "income"]].to_csv(tmp_path / "other.csv", index=False)
    labels = done("predict", folder / "model.json", tmp_path / "other.csv", "--nulls", "drop").stdout
    assert labels.split("\n")[:-1] == ["" if np.isnan(label) else f"{label:.0f}" for label in expected]
    table.rename(columns={"age": "years"}).to_csv(tmp_path / "other.csv", index=False)
    arguments = ["predict", folder / "model.json", tmp_path / "other.csv", "--nulls", "drop"]
    chosen = done(*arguments, "--columns", "income,years").stdout
    assert chosen == labels
    np.save(tmp_path / "rows.npy", table[COLUMNS].dropna().to_numpy())
    assert done("predict", folder / "model.json", tmp_path / "rows.npy").stdout == labels.replace("\n\n", "\n").lstrip()


def test_several_ids(folder, tmp_path):
    arguments = ["predict", folder / "model.json", folder / "customers.csv", "--nulls", "drop"]
    done(*arguments, "--id", "customer_id", "--id", "number", "-o", tmp_path / "labels.csv")
    read, table = pd.read_csv(tmp_path / "labels.csv", dtype=str), pd.read_csv(folder / "customers.csv", dtype=str)
    assert list(read) == ["customer_id", "number", "label"]
    assert read[["customer_id", "number"]].equals(table[["customer_id", "number"]])


REFUSALS = [
    (["customers.csv"], 1, "row 0 of customers.csv, column 'age' is missing (nan): fill it, or use --nulls drop"),
    (["less.csv"], 1, "less.csv has no columns (income, age), which the model needs: its columns are (customer_id, c"),
    (["customers.csv", "--id", "zip"], 1, "customers.csv has no column 'zip' for --id: its columns are (customer_id,"),
    (["rows.npy", "--id", "zip"], 1, "rows.npy has no column names: --id zip needs them"),
    (["-", "--id", "zip"], 2, "--id needs files: save standard input to one first"),
    (["customers.csv", "-o", "labels.xls"], 2, "give a name that ends in .csv, .parquet or .jsonl"),
    (["customers.csv", "-o", "customers.csv"], 2, "customers.csv is an input too"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSALS)
def test_refusals_are_sentences_and_leave_nothing(arguments, code, message, folder):
    less = folder / "less.csv"
    less.write_text("customer_id,city\n1,Rome\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = called("predict", "model.json", *arguments, cwd=folder, input=b"income,age\n1,2\n")
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_of_labels_is_replaced_as_a_whole(folder, tmp_path):
    for ending in (".csv", ".parquet", ".jsonl"):
        output = tmp_path / f"labels{ending}"
        output.write_text("before")
        assert called("predict", "model.json", "customers.csv", "-o", output, cwd=folder).returncode == 1
        assert output.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 3


def test_ids_of_several_files_and_of_other_readers(folder, expected, tmp_path):
    table = pd.read_parquet(folder / "customers.parquet")
    table["city"] = table.city.astype("category")
    table["day"] = pd.Timestamp("2026-01-05").date()
    table[:150].to_csv(tmp_path / "1.csv.gz", index=False)
    table[150:].to_parquet(tmp_path / "2.parquet")
    table[150:].to_pickle(tmp_path / "2.pickled")
    skl.extend.register_reader(".pickled", pd.read_pickle)
    model, output = folder / "model.json", tmp_path / "labels.jsonl"
    for files, name in [(["1.csv.gz", "2.parquet"], "customer_id"), (["1.csv.gz", "2.pickled"], "city")]:
        done("predict", model, *files, "--nulls", "drop", "--id", name, "-o", output, cwd=tmp_path)
        labels = read(output)
        assert list(labels[name]) == list(table[name])
        np.testing.assert_array_equal(labels.label, expected)
    for name in ("city", "day"):
        output = tmp_path / "labels.parquet"
        done("predict", model, "2.parquet", "--nulls", "drop", "--id", name, "-o", output, cwd=tmp_path)
        labels = pd.read_parquet(output)
        assert list(labels[name]) == list(table[name][150:])
        np.testing.assert_array_equal(labels.label, expected[150:])
    table[:0].to_parquet(tmp_path / "none.parquet")
    done("predict", model, "none.parquet", "--id", "number", "-o", output, cwd=tmp_path)
    assert list(pd.read_parquet(output).columns) == ["number", "label"]
    assert len(pd.read_parquet(output)) == 0

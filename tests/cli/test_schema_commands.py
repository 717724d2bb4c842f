"""The commands as a person types them: a semicolon CSV with text, dates, flags and gaps, to labels joined by id."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("customers")
    customers().to_csv(folder / "customers.csv", sep=";", decimal=",", index=False)
    return folder


def customers(n=4000):
    rng = np.random.default_rng(0)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    income = np.exp(rng.normal(np.array([9.5, 10.5, 9.0])[group], 0.2)).round(2)
    income[rng.random(n) < 0.03] = np.nan
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 500, n) + 700 * group, "D")
    return pd.DataFrame(
        {
            "customer_id": [f"0{i:05d}" for i in range(n)],
            "age": (np.array([25.0, 45.0, 70.0])[group] + rng.normal(0, 2, n)).round(1),
            "income": income,
            "country": np.where(rng.random(n) < 0.9, np.array(["FR", "DE", "Zoë"])[group], "IT"),
            "member": np.where(rng.random(n) < np.array([0.05, 0.95, 0.5])[group], "yes", "no"),
            "since": days.strftime("%Y-%m-%d"),
            "always": 1,
        }
    )


def ran(folder, line):
    command = [sys.executable, "-m", "sketchlearn", *line.split()[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, input="a,b\n1,2\n")


def typed(folder, line):
    """What a command that is typed into a shell prints."""
    done = ran(folder, line)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def shown(folder, line):
    """What a command prints, run in this process."""
    return done(*line.split()[1:], cwd=folder).stdout


def test_from_a_file_to_labels_that_can_be_joined(folder):
    printed, told = typed(folder, "sketchlearn schema customers.csv -o schema.json")
    assert "semicolons" in told
    assert "decimal commas" in told
    kinds = {line.split()[0]: line for line in printed.splitlines()}
    assert "number, standardised" in kinds["age"]
    assert "filled in, and marked" in kinds["income"]
    assert "boolean" in kinds["member"]
    assert "date" in kinds["since"]
    assert "left out: is always '1'" in kinds["always"]
    assert "left out" in kinds["customer_id"]
    typed(folder, "sketchlearn design customers.csv -k 3 --schema schema.json --rows 500 -o design.json")
    typed(folder, "sketchlearn sketch customers.csv --design design.json -o customers.sketch")
    printed, _ = typed(folder, "sketchlearn fit kmeans -k 3 customers.sketch -o model.json")
    typed(folder, "sketchlearn predict model.json customers.csv --id customer_id -o labels.csv")
    labels = pd.read_csv(folder / "labels.csv", dtype={"customer_id": str})
    joined = customers().merge(labels, on="customer_id")
    assert len(joined) == 4000
    profiles = [line for line in printed.splitlines() if line.startswith("cluster")]
    assert len(profiles) == 3
    for number, line in enumerate(profiles):
        rows = joined[joined["label"] == number]
        found = re.match(r"cluster (\d): ([\d.]+)(?: \+- [\d.]+)? % \(([\d,]+)(?: \+- [\d.,]+)? records\): (.*)", line)
        assert int(found[1]) == number
        assert float(found[2]) / 100 == pytest.approx(len(rows) / 4000, abs=0.015)
        assert int(found[3].replace(",", "")) == pytest.approx(40 * float(found[2]), abs=3)
        columns = dict(column.split(" ", 1) for column in found[4].split("; "))
        age, spread = (float(part) for part in columns["age"].split(" +- "))
        assert age == pytest.approx(rows["age"].mean(), abs=1.0)
        assert spread == pytest.approx(rows["age"].std(), abs=1.0)
        top = rows["country"].value_counts(normalize=True)
        word, percent = re.match(r"(\S+) (\d+) %", columns["country"]).groups()
        assert word == top.index[0]
        assert int(percent) / 100 == pytest.approx(top.iloc[0], abs=0.05)
        assert int(columns["member"].removesuffix(" %")) / 100 == pytest.approx(
            (rows["member"] == "yes").mean(), abs=0.07
        )


@pytest.fixture(scope="module")
def sketches(folder):
    """Of the customers, and of others with more Italians, who are older by three years."""
    rng = np.random.default_rng(1)
    later = customers().assign(age=lambda frame: frame["age"] + 3)
    later.loc[rng.random(len(later)) < 0.3, "country"] = "IT"
    later.to_csv(folder / "later.csv", sep=";", decimal=",", index=False)
    shown(folder, "sketchlearn design customers.csv -k 3 --schema auto --rows 500 -o auto.json")
    for name in ("customers", "later"):
        shown(folder, f"sketchlearn sketch {name}.csv --design auto.json -o {name}.auto")
    return customers(), later


def test_columns_are_asked_for_by_their_names(folder, sketches):
    frame = sketches[0]
    printed = shown(folder, "sketchlearn marginal customers.auto country")
    told = {line.split()[0]: float(line.split()[1]) for line in printed.splitlines()[1:5]}
    assert told == pytest.approx(dict(frame["country"].value_counts(normalize=True)), abs=6e-4)
    assert "exact counts" in printed
    printed = shown(folder, "sketchlearn marginal customers.auto since --bins 4 --json")
    found = json.loads(printed)
    days = (pd.to_datetime(frame["since"]) - pd.Timestamp("1970-01-01")).dt.days
    assert found["shares"] == pytest.approx(list(np.histogram(days, found["edges"])[0] / len(frame)), abs=1e-9)
    printed = shown(folder, "sketchlearn marginal customers.auto 0 --bins 4 --json")
    found = json.loads(printed)
    assert found["column"] == "age"
    assert found["shares"] == pytest.approx(list(np.histogram(frame["age"], found["edges"])[0] / len(frame)), abs=1e-3)


def test_columns_are_described(folder, sketches):
    frame = sketches[0]
    lines = shown(folder, "sketchlearn ask customers.auto").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["age", "income", "country", "member", "since"]
    text = shown(folder, "sketchlearn ask customers.auto since 0")
    assert "since (date)" in text
    assert "age (number)" in text
    age, since = json.loads(shown(folder, "sketchlearn ask customers.auto age since --json"))["columns"]
    assert age["50%"]["low"] <= frame["age"].median() <= age["50%"]["high"]
    assert age["mean"]["low"] <= frame["age"].mean() <= age["mean"]["high"]
    assert since["min"]["low"][:2] == "20"
    assert since["count"]["value"] == frame["since"].count()


def test_what_moved_is_named(folder, sketches):
    shares = [100 * np.mean(frame["country"] == "IT") for frame in sketches]
    sentence = f"country: IT {shares[0]:.0f} % -> {shares[1]:.0f} %"
    compared = shown(folder, "sketchlearn compare customers.auto later.auto")
    watched = shown(folder, "sketchlearn watch customers.auto later.auto")
    for printed in (compared, watched):
        assert sentence in printed
        assert re.search(r"age \(\+3(\.\d+)?, spread", printed)
        assert "=" not in printed.split("Most in")[1].split("\n")[0]


@pytest.mark.usefixtures("sketches")
def test_fit_and_info_say_the_same(folder):
    printed = shown(folder, "sketchlearn fit kmeans -k 3 customers.auto -o auto.model")
    told = shown(folder, "sketchlearn info auto.model")
    sizes = re.compile(r"cluster (\d): ([\d.]+)(?: \+- [\d.]+)? % \(([\d,]+)(?: \+- [\d.,]+)? records\)")
    assert sizes.findall(printed) == sizes.findall(told)
    assert len(sizes.findall(told)) == 3
    assert "category of 4 values (FR, DE, Zoë, IT), and other" in told
    assert "country=" not in told
    assert "country FR 9" in told
    figures = json.loads(shown(folder, "sketchlearn info auto.model --json"))
    assert figures["columns"] == ["age", "income", "country", "member", "since"]
    assert figures["clusters"][0]["columns"]["country"].startswith("FR 9")
    assert "5 columns of the table become 10 numbers" in shown(folder, "sketchlearn explain customers.auto -k 3")


def test_a_schema_that_was_edited_counts(folder, tmp_path):
    typed(folder, "sketchlearn schema customers.csv -o schema.json")
    document = json.loads((folder / "schema.json").read_text())
    columns = document["schema"]["columns"]
    document["schema"]["columns"] = [column for column in columns if column["name"] in ("age", "member")]
    (folder / "edited.json").write_text(json.dumps(document))
    printed, _ = typed(folder, "sketchlearn design customers.csv -k 3 --schema edited.json -o small.json")
    assert "of 2 columns" in printed
    typed(folder, f"sketchlearn sketch customers.csv --design small.json -o {tmp_path}/small.sketch")


@pytest.mark.slow
def test_rows_of_a_mixture_come_back_in_the_tables_terms(folder):
    typed(folder, "sketchlearn design customers.csv -k 3 --task mixture --schema auto --rows 500 -o mixture.json")
    typed(folder, "sketchlearn sketch customers.csv --design mixture.json -o mixture.sketch")
    typed(folder, "sketchlearn fit gmm -k 3 --covariance-type diag mixture.sketch -o gmm.json")
    printed, _ = typed(folder, "sketchlearn sample gmm.json -n 50")
    lines = printed.splitlines()
    assert lines[0] == "age,income,country,member,since"
    rows = pd.DataFrame([line.split(",") for line in lines[1:]], columns=lines[0].split(","))
    assert set(rows["country"]) <= {"FR", "DE", "Zoë", "IT", "other"}
    assert set(rows["member"]) <= {"True", "False"}
    assert pd.to_datetime(rows["since"]).between("2010-01-01", "2025-01-01").all()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("sketchlearn design customers.csv -k 3 --schema nonsense.json -o x.json", "nonsense.json"),
        ("sketchlearn design customers.csv -k 3 --schema customers.csv -o x.json", "is a table of rows, not a schema"),
        ("sketchlearn design - -k 3 --schema auto -o x.json", "--schema needs files: save standard input"),
        ("sketchlearn design --bounds 0,1 -k 3 --schema auto -o x.json", "--schema says how columns of DATA"),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(folder, line, sentence):
    done = ran(folder, line)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr

"""What README.md and the pages show, run on a public table with columns of all kinds: flights in May and June."""

import re
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from command_line import called, done
from mixed_tables import whole_table

import sketchlearn as skl

ROOT = Path(__file__).parents[2]
ROWS = 2000  # of each month
#: lines of pages that need what a page cannot bring
ELSEWHERE = ("--trusted lab.pub",)  # the key of another sender


def lines_of(page, heading=None):
    """Commands of a page, or of one of its sections, without comments."""
    text = (ROOT / page).read_text()
    if heading is not None:
        text = re.split(r"^## ", text.split(f"\n## {heading}\n")[1], flags=re.M)[0]
    return re.findall(r"^    (sketchlearn .*?)(?:  +#.*)?$", text, flags=re.M)


def flights(month):
    rows = whole_table("flights")
    return rows[rows.month == month].sample(ROWS, random_state=month)


def typed(line, folder):
    """Runs a line as a shell would: quotes are taken off, and patterns become files."""
    found = []
    for word in line.split()[1:]:
        files = sorted(path.name for path in folder.glob(word)) if word.startswith("*") else []
        found += files or [word.strip("'")]
    return done(*found, cwd=folder)


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    for month, name in ((5, "may"), (6, "june")):
        flights(month).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.filterwarnings("ignore")
def test_the_recipe_of_the_readme(months):
    lines = lines_of("README.md")
    assert [line.split()[1] for line in lines] == ["design", "sketch", "ask", "fit", "predict", "sketch", "compare"]
    told = {line: typed(line, months) for line in lines}
    assert skl.load(months / "design.json").n_features > 64
    assert "distance" in told[lines[2]].stdout
    fitted = told[lines[3]].stdout
    assert "dest " in fitted
    assert "dest=" not in fitted  # columns of the table, not the schema's
    assert (months / "clusters.png").stat().st_size > 10_000
    assert len((months / "labels.csv").read_text().splitlines()) == ROWS + 1
    assert "The two sketches differ" in told[lines[-1]].stdout
    assert "time_hour (+3" in told[lines[-1]].stdout  # a month later, in days
    assert "2,000 records" in done("info", "may.sketch", cwd=months).stdout
    watched = done("watch", "may.sketch", "june.sketch", cwd=months).stdout
    assert "changed since june.sketch" in watched
    assert "JFK" in done("marginal", "may.sketch", "origin", cwd=months).stdout
    done("report", "june.sketch", "model.json", "--against", "may.sketch", "-o", "report.html", cwd=months)
    assert "dest" in (months / "report.html").read_text()


def test_the_ten_lines_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.S | re.M)
    found = {}
    exec(code.replace("100_000", "10_000"), found)
    assert found["both"].cluster_centers_.shape == (10, 5)
    assert capsys.readouterr().out


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Flights of two months, with two columns of numbers within 20, as files of all kinds."""
    folder = tmp_path_factory.mktemp("days")
    for month, name in ((5, "day1"), (6, "day2")):
        rows = flights(month)
        more = {"a": rows.dep_delay.fillna(0).clip(-20, 20), "b": rows.hour - 12.5}
        rows.assign(**more).to_csv(folder / f"{name}.csv", index=False)
    numbers = flights(5)[["distance", "hour"]].astype(float)
    numbers.to_csv(folder / "kunden.csv", sep=";", decimal=",", index=False)
    customers = numbers.assign(id=range(len(numbers)), name="Zoë")
    customers.to_csv(folder / "customers.csv", index=False)
    with sqlite3.connect(folder / "shop.db") as shop:
        customers.to_sql("orders", shop, index=False)
    shop.close()
    customers.to_excel(folder / "book.xlsx", sheet_name="May", index=False)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "sections",
    [
        ["Files as you have them"],
        ["Two machines, one result"],
        ["Rows beside the sketch", "A page for people to read", "Labels that can be joined"],
        ["Private releases"],
    ],
    ids=lambda sections: sections[0],
)
def test_lines_of_the_command_lines_page(sections, days, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(days, folder)
    lines = [line for section in sections for line in lines_of("docs/how-to/command-line.md", section)]
    assert lines
    if "A page for people to read" in sections:
        at = next(i for i, line in enumerate(lines) if "day2.sketch" in line)
        lines.insert(at, "sketchlearn sketch day2.csv --design design.json -o day2.sketch")
    for line in lines:
        if not any(word in line for word in ELSEWHERE):
            typed(line, folder)


def test_every_line_of_that_page_is_in_a_section_that_is_run():
    page = "docs/how-to/command-line.md"
    headings = re.findall(r"^## (.*)$", (ROOT / page).read_text(), flags=re.M)
    run = {
        heading
        for mark in test_lines_of_the_command_lines_page.pytestmark
        if mark.name == "parametrize"
        for sections in mark.args[1]
        for heading in sections
    }
    assert {heading for heading in headings if lines_of(page, heading)} == run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_of_queries(tmp_path, monkeypatch, capsys):
    """Its indented blocks of Python, one after the other."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/how-to/queries.md").read_text()
    blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", text, flags=re.M)]
    python = [block for block in blocks if re.match(r"(\w+ = |print|from|skl)", block) and "sum over" not in block]
    assert len(python) >= 5
    tables = [flights(month)[["air_time", "distance"]].dropna().set_axis(["age", "income"], axis=1) for month in (5, 6)]
    operator = skl.design(tables[0], n_components=3)
    january, february = map(operator.sketch, tables)
    kmeans = skl.SketchKMeans(3, random_state=0).fit(tables[0])
    days = [operator.sketch(part) for part in np.array_split(tables[0], 4)]
    points, table = tables[0].to_numpy()[:5], tables[0]
    names = {"skl": skl, "january": january, "february": february, "sketch": january, "days": days}
    names |= {"kmeans": kmeans, "points": points, "table": table}
    people = tables[0].assign(country=np.resize(["FR", "DE", "IT"], len(tables[0])))
    mixed = skl.SketchKMeans(3, schema="auto", random_state=0).design(people).sketch(people)
    for block in python:
        of_table = "describe" in block or "country" in block
        names |= {"sketch": mixed if of_table else january, "ask": skl.Questions(mixed if of_table else january)}
        exec(block, names)
    assert "MMD" in capsys.readouterr().out
    january.save("day.sketch")
    (shown,) = set(re.findall(r"`(sketchlearn [^`]*)`", text)) & {"sketchlearn marginal day.sketch age"}
    assert called(*shown.split()[1:]).returncode == 0

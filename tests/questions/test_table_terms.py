"""Questions to sketches with a schema are answered in the terms of the table: levels, dates, and its own units."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from command_line import done

import sketchlearn as skl
from sketchlearn.questions.explain import explain
from sketchlearn.questions.profiles import profiles_of_centers
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text
from sketchlearn.views.pictures import plot_marginal

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SCHEMA = skl.Schema(
    [
        Number("age", scaling="standard", center=45.0, width=18.0),
        Number("income", scaling="log", center=9.5, width=0.7, missing="indicate"),
        Category("country", ["FR", "DE"], weight=1.4, missing="indicate"),
        Flag("member", weight=2.0, missing="indicate"),
        Date("since", center=17_000.0, width=300.0),
        Ordinal("size", ["S", "M", "L"], weight=1.5),
        Text("comment"),
        Text("words", n_words=2),
    ]
)


def customers(n=4000, seed=0, italians=0.05, older=0.0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    gone = rng.random((3, n)) < 0.1
    return pd.DataFrame(
        {
            "age": (np.array([25.0, 60.0])[group] + older + rng.normal(0, 4, n)).round(1),
            "income": np.where(gone[0], np.nan, np.exp(rng.normal(9.5, 0.7, n)).round(2)),
            "country": np.where(gone[1], None, np.where(rng.random(n) < italians, "IT", np.array(["FR", "DE"])[group])),
            "member": np.where(gone[2], None, np.where(rng.random(n) < 0.3, "yes", "no")),
            "since": (pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%Y-%m-%d"),
            "size": rng.choice(["S", "M", "L"], n, p=[0.2, 0.5, 0.3]),
            "comment": np.array(["short", "a longer comment"])[group],
            "words": "some words",
        }
    )


FRAME = customers()


@pytest.fixture(scope="module", params=["kmeans", "mixture"])
def operator(request):
    """With histograms, and with frequencies alone."""
    return skl.design(FRAME, n_components=2, task=request.param, schema=SCHEMA, rows=300)


@pytest.fixture(scope="module")
def sketch(operator):
    with pytest.warns(UserWarning, match="does not know"):  # the country IT, which counts as other
        return operator.sketch(FRAME)


@pytest.fixture(scope="module")
def ask(sketch):
    return skl.Questions(sketch)


def shares(frame, column, words):
    return {word: float(np.mean(frame[column] == value)) for word, value in words.items()}


LEVELS = {
    "country": {"FR": "FR", "DE": "DE", "other": "IT"},
    "member": {"yes": "yes", "no": "no"},
}


@pytest.mark.parametrize("column", LEVELS)
def test_levels_have_the_shares_that_they_have(ask, column):
    found = ask.marginal(column)
    assert dict(zip(found.levels, found.shares, strict=True)) == pytest.approx(
        shares(FRAME, column, LEVELS[column]), abs=1e-6
    )
    assert found.missing == pytest.approx(FRAME[column].isna().mean(), abs=1e-6)
    assert list(found.shares) == sorted(found.shares, reverse=True) or column == "member"
    if found.exact is not None:
        assert found.exact.all()
        assert "exact counts" in str(found)
    assert "missing" in str(found)
    plot_marginal(found)


def test_an_order_stays_in_order(ask):
    """Without histograms three levels are read off a density of Gaussians: eight designs were wrong by 0.02 to 0.19."""
    found = ask.marginal("size")
    assert found.levels == ("S", "M", "L")
    expected = [np.mean(FRAME["size"] == level) for level in found.levels]
    assert found.shares == pytest.approx(expected, abs=1e-9 if found.exact is not None else 0.25)


@pytest.mark.parametrize("column", ["age", "income", "since", "comment"])
def test_histograms_are_in_the_tables_unit(ask, column):
    found = ask.marginal(column, 10)
    values = FRAME[column].str.len() if column == "comment" else FRAME[column]
    if column == "since":
        values = (pd.to_datetime(values) - pd.Timestamp("1970-01-01")).dt.days
        assert found.dates
        assert re.search(r"  201\d-\d\d-\d\d to 201\d-", str(found))
    plot_marginal(found)
    values = values.dropna().to_numpy(float)
    if found.exact is None:
        assert found.edges[0] < np.median(values) < found.edges[-1]
        return
    expected = np.histogram(values, found.edges)[0] / len(FRAME)
    assert found.shares[found.exact] == pytest.approx(expected[found.exact], abs=2e-3)  # values on edges
    ends = [0, 1e9] if column == "income" else [values.min() - 1, np.median(values), values.max() + 1]
    assert ask.marginal(column, ends).shares.sum() == pytest.approx(len(values) / len(FRAME), abs=0.01)


def test_columns_are_those_of_the_table(ask):
    assert ask.columns == SCHEMA.names
    assert ask.marginal(2).column == "country"
    with pytest.raises(ValueError, match="no column 'country=FR': its columns are 'age, income"):
        ask.marginal("country=FR")
    with pytest.raises(ValueError, match="'words' is words, hashed"):
        ask.marginal("words")


@pytest.mark.filterwarnings("ignore:.*does not know:UserWarning")
def test_what_moved_is_named_as_in_the_table(operator, sketch):
    later = customers(seed=1, italians=0.3, older=3.0)
    later.loc[:800, "income"] = np.nan
    drift = skl.two_sample_test(sketch, operator.sketch(later))
    found = {column.column: column for column in drift.columns if column.p_value < 0.01}
    assert found.keys() == {"age", "country", "income"}
    assert found["age"].shift == pytest.approx(3.0, abs=0.6)
    told = {one.level: (one.before, one.after) for one in found["country"].levels}
    for word, value in LEVELS["country"].items():
        assert told[word] == pytest.approx([np.mean(frame["country"] == value) for frame in (FRAME, later)], abs=1e-6)
    gaps = [frame["income"].isna().mean() for frame in (FRAME, later)]
    assert (found["income"].missing.before, found["income"].missing.after) == pytest.approx(gaps, abs=1e-6)
    before, after = (100 * np.mean(frame["country"] == "IT") for frame in (FRAME, later))
    assert f"country: other {before:.0f} % -> {after:.0f} %" in str(drift)
    same = skl.two_sample_test(sketch, operator.sketch(customers(seed=2)))
    assert not same.differ


@pytest.mark.filterwarnings("ignore:.*does not know:UserWarning")
def test_a_flag_that_moved():
    operator = skl.design(FRAME, n_components=1, schema=skl.Schema(SCHEMA.columns[:5]))
    later = customers(seed=3).assign(since="2018-01-01")
    later.loc[later["member"] == "no", "member"] = "yes"
    drift = skl.two_sample_test(operator.sketch(FRAME), operator.sketch(later))
    found = {column.column: column for column in drift.columns}
    yes = next(one for one in found["member"].levels if one.level == "yes")
    expected = [np.mean(frame["member"] == "yes") for frame in (FRAME, later)]
    assert (yes.before, yes.after) == pytest.approx(expected, abs=1e-6)
    days = pd.to_datetime(later["since"]).mean() - pd.to_datetime(FRAME["since"]).mean()
    assert found["since"].unit == "days"
    assert found["since"].shift == pytest.approx(days.days, rel=0.1)
    assert "days" in str(found["since"])


@pytest.mark.filterwarnings("ignore:.*does not know:UserWarning")
def test_profiles_of_orders_and_text():
    fitted = skl.SketchKMeans(2, schema=SCHEMA, random_state=0).fit(FRAME)
    for found in (skl.profiles(fitted), profiles_of_centers(fitted)):
        tables = ({column.name: column for column in cluster.columns} for cluster in found)
        columns = next(columns for columns in tables if columns["age"].estimates["mean"].value > 40)
        assert "words" not in columns
        assert str(columns["comment"]).startswith("16")
        assert str(columns["comment"]).endswith("letters")
        assert str(columns["country"]).startswith("DE 9")
        assert columns["income"].missing == pytest.approx(0.1, abs=0.03)
        assert str(columns["size"]).startswith("about M" if columns["size"].kind == "middle" else "M ")
        own = FRAME[FRAME["age"] > 42]
        assert columns["age"].estimates["mean"].value == pytest.approx(own["age"].mean(), abs=0.5)
    sizes = {column.name: column for column in skl.profiles(fitted).overall}["size"]
    assert {level: one.value for level, one in sizes.estimates.items()} == pytest.approx(
        shares(FRAME, "size", {level: level for level in "SML"}), abs=0.04
    )
    assert explain(fitted, FRAME).sentences[0].startswith("The 8 columns of the table become 14 numbers (age: number")


@pytest.mark.filterwarnings("ignore:.*does not know:UserWarning")
def test_rows_of_a_mixture_are_those_of_the_table(tmp_path):
    schema = skl.Schema(SCHEMA.columns[:6])
    fitted = skl.SketchGaussianMixture(2, covariance_type="diag", schema=schema, random_state=0).fit(FRAME)
    rows, components = fitted.sample(500)
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == list(schema.names)
    assert len(rows) == len(components) == 500
    assert set(rows["country"].dropna()) <= {"FR", "DE", "other"}
    assert rows["income"].isna().mean() == pytest.approx(0.1, abs=0.08)
    assert rows["since"].astype(str).str.match(r"20\d\d-\d\d-\d\d").all()
    assert fitted.predict(rows.dropna()).shape == (rows.notna().all(axis=1).sum(),)
    skl.save(fitted, tmp_path / "gmm.json")
    printed = json.loads(done("sample", "gmm.json", "-n", 500, "--json", cwd=tmp_path).stdout)
    assert printed["columns"] == list(schema.names)
    again = skl.load(tmp_path / "gmm.json").set_params(random_state=0).sample(500)[0]
    assert [row[2] for row in printed["rows"]] == [
        None if pd.isna(country) else country for country in again["country"]
    ]


def test_years_have_no_commas_and_gaps_have_spreads():
    rng = np.random.default_rng(0)
    ages = np.where(rng.random(3000) < 0.3, np.nan, rng.normal(40, 5, 3000))
    table = pd.DataFrame({"year": rng.integers(1990, 2020, 3000), "age": ages, "side": rng.choice([0.0, 90.0], 3000)})
    fitted = skl.SketchGaussianMixture(1, schema="auto", random_state=0, covariance_type="diag").fit(table)
    ages_of = [next(c for c in profile.columns if c.name == "age") for profile in profiles_of_centers(fitted)]
    assert all(4 < column.spread < 6 for column in ages_of)
    told = str(skl.profiles(fitted))
    assert "year 200" in told
    assert "2,0" not in told
    frame = skl.profiles(fitted).to_frame()
    assert list(frame.index) == [0]
    assert frame["share"].sum() == pytest.approx(1)
    assert frame["age missing"].between(0.2, 0.4).all()

"""Statistics of columns from a sketch: in the table's units, within their intervals, or refused with the remedy."""

import datetime

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.questions import Statistic
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PROBABILITIES = (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
SCHEMA = skl.Schema(
    [
        Number("age", scaling="standard", center=45.0, width=18.0),
        Number("income", scaling="log", center=9.5, width=0.7, missing="indicate"),
        Category("country", ["FR", "DE"], weight=1.4, missing="indicate"),
        Flag("member", weight=2.0, missing="indicate"),
        Date("since", center=17_000.0, width=300.0, missing="indicate"),
        Ordinal("size", ["S", "M", "L"], weight=1.5),
        Text("comment"),
        Text("words", n_words=2),
    ]
)


def customers(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    gone = rng.random((4, n)) < [[0.1], [0.2], [0.05], [0.3]]
    since = pd.Series(pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"))
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.where(gone[0], np.nan, np.exp(rng.normal(9.5, 0.7, n)).round(2)),
            "country": np.where(gone[1], None, rng.choice(["FR", "DE"], n, p=[0.7, 0.3])),
            "member": np.where(gone[2], None, rng.choice(["yes", "no"], n, p=[0.3, 0.7])),
            "since": since.mask(gone[3]),
            "size": rng.choice(["S", "M", "L"], n, p=[0.2, 0.5, 0.3]),
            "comment": rng.choice(["short", "a longer comment"], n),
            "words": "some words",
        }
    )


FRAME = customers()
KNOWN = {
    "age": FRAME["age"].astype(float),
    "income": FRAME["income"].dropna(),
    "since": (FRAME["since"].dropna() - pd.Timestamp(0)) / pd.Timedelta(days=1),
    "comment": FRAME["comment"].str.len().astype(float),
}
ROWS = np.random.default_rng(1).standard_t(3, (9000, 3)) * [1, 10, 0.1] + [0, 2000, -3]
ROWS[:, 1] += 8 * ROWS[:, 0]


def standard(rows, sample=None, **given):
    """The standard sketch of rows, none of which it keeps."""
    design = skl.SketchKMeans(3, random_state=0, **given).design(rows[::3] if sample is None else sample)
    return design.sketch(rows).without_rows()


SKETCHES = {
    "standard": lambda: standard(FRAME, schema=SCHEMA),
    "frequencies and histograms": lambda: skl.design(FRAME[::3], n_components=2, schema=SCHEMA).sketch(FRAME),
    "all rows": lambda: skl.design(FRAME[::3], n_components=2, schema=SCHEMA, rows=6000).sketch(FRAME),
}


@pytest.fixture(scope="module", params=SKETCHES)
def ask(request):
    return skl.Questions(SKETCHES[request.param]())


def contains(found, true, slack=1e-9):
    return found.low - slack * abs(true) <= true <= found.high + slack * abs(true)


# tables with a schema


@pytest.mark.parametrize("column", KNOWN)
def test_statistics_are_within_their_intervals_in_the_units_of_the_table(ask, column):
    values = KNOWN[column].to_numpy()
    for q in PROBABILITIES:
        found = ask.quantile(column, q)
        assert contains(found, np.quantile(values, q))
        assert found.confidence == 1.0
        assert found.dates == (column == "since")
    assert contains(ask.mean(column), values.mean())
    assert contains(ask.std(column), values.std(ddof=1))
    assert not ask.std(column).dates
    for value in values[:20]:
        assert contains(ask.count_above(column, value), np.sum(values > value))


def test_missing_values_are_counted(ask):
    for column in ("income", "country", "member", "since"):
        assert (
            ask.missing(column).low == ask.missing(column).high == pytest.approx(FRAME[column].isna().mean(), abs=1e-12)
        )
    assert str(ask.missing("age")) == "0"


def test_booleans_and_categories_have_shares(ask):
    assert contains(ask.mean("member"), (FRAME["member"].dropna() == "yes").mean())
    found = ask.top("country", 2)
    assert found.levels == ("FR", "DE")
    assert found.shares == pytest.approx([np.mean(FRAME["country"] == word) for word in found.levels], abs=1e-9)
    assert found.missing == pytest.approx(FRAME["country"].isna().mean(), abs=1e-9)
    assert ask.top("member").levels == ("no", "yes")
    assert ask.top("size").levels == ("M", "L", "S")


def test_integers_and_dates_are_exact():
    ask = skl.Questions(SKETCHES["standard"]())
    for q in PROBABILITIES:
        found = ask.quantile("age", q)
        assert found.low == np.quantile(FRAME["age"], q, method="lower")
        assert found.high == np.quantile(FRAME["age"], q, method="higher")
    assert ask.count_above("age", 40).value == np.sum(FRAME["age"] > 40)
    after = ask.count_above("since", "2016-01-31")
    assert contains(after, np.sum(FRAME["since"] > "2016-01-31"))
    assert str(after) == str(ask.count_above("since", datetime.date(2016, 1, 31)))


def test_a_description_is_a_data_frame(ask):
    frame = ask.describe().to_frame()
    assert list(frame.index) == list(FRAME.columns)
    assert frame.loc["age", "min"] == FRAME["age"].min()
    assert isinstance(frame.loc["age", "max"], int)
    assert frame.loc["since", "50% low"] <= FRAME["since"].quantile(0.5) <= frame.loc["since", "50% high"]
    assert frame.loc["income", "count"] == FRAME["income"].count()
    assert frame.loc["country", ["top", "freq"]].tolist() == ["FR", pytest.approx(np.mean(FRAME["country"] == "FR"))]
    assert frame.loc["member", "kind"] == "boolean"


def test_a_description_prints(ask):
    lines = str(ask.describe()).splitlines()
    assert len(lines) == 1 + len(FRAME.columns)
    assert lines[0].split()[:3] == ["kind", "count", "missing"]
    text = str(next(iter(ask.describe(["since"]))))
    assert "since (date)" in text
    assert "2016" in text.split("50%")[1].splitlines()[0]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda ask: ask.quantile("country", 0.5), r"\(category\) has no quantiles: ask for top\(column\)"),
        (lambda ask: ask.mean("size"), r"\(ordered category\) has no mean: ask for top\(column\)"),
        (lambda ask: ask.std("words"), r"\(text, by its words\) has no standard deviation: ask for missing\(column\)"),
        (lambda ask: ask.quantile("member", 0.5), "has no quantiles"),
        (lambda ask: ask.quantile("age", 1.5), "q=1.5 must be between 0 and 1"),
        (lambda ask: ask.quantile("age", 0.5, confidence=1), "confidence must be between 0 and 1"),
        (lambda ask: ask.top("income"), r"takes many values, .*: ask for marginal\(column\)"),
        (lambda ask: ask.mean("who"), "no column 'who'"),
    ],
)
def test_questions_that_a_column_does_not_answer(ask, question, message):
    with pytest.raises(ValueError, match=message):
        question(ask)


def test_a_column_without_values():
    table = pd.DataFrame({"a": np.arange(300.0), "b": np.nan})
    schema = skl.Schema([Number("a"), Number("b", missing="indicate")])
    ask = skl.Questions(standard(table, schema=schema))
    assert ask.missing("b").value == 1.0
    for question in (ask.mean, ask.std, lambda column: ask.quantile(column, 0.5)):
        with pytest.raises(ValueError, match="'b' has no values: all are missing"):
            question("b")
    assert ask.describe(["b"]).notes == ()


# numbers


def test_moments_of_numbers_are_exact():
    ask = skl.Questions(standard(ROWS))
    for i in range(3):
        assert ask.mean(i).value == pytest.approx(ROWS[:, i].mean(), rel=1e-5, abs=1e-5)
        assert ask.std(i).value == pytest.approx(ROWS[:, i].std(ddof=1), rel=1e-4)


@pytest.mark.parametrize("kind", ["standard", "moments", "frequencies", "rows"])
def test_correlations(kind):
    made = {
        "standard": lambda: standard(ROWS),
        "moments": lambda: skl.features.SecondMoments(3, bound=1e3, center=[0, 2000, 0]).sketch(ROWS),
        "frequencies": lambda: skl.design(ROWS, n_components=2).sketch(ROWS),
        "rows": lambda: skl.design(ROWS, n_components=2, rows=1000).sketch(ROWS),
    }
    found, true = skl.Questions(made[kind]()).correlation(0, 1), np.corrcoef(ROWS.T)[0, 1]
    assert contains(found, true, 1e-6) or kind in ("frequencies", "rows")  # at 95 %, of heavy tails
    assert found.value == pytest.approx(true, abs=0.15)
    assert (found.confidence == 1.0) == (kind in ("standard", "moments"))


def test_correlations_with_missing_values_need_rows():
    whole = skl.Questions(SKETCHES["all rows"]()).correlation("age", "income")
    assert whole.value == pytest.approx(FRAME["age"].corr(FRAME["income"]))
    with pytest.raises(ValueError, match=r"does not determine the correlation of 'age' and 'income': .*rows="):
        skl.Questions(standard(FRAME, schema=SCHEMA)).correlation("age", "income")


def test_ends_are_open_where_records_lie_beyond_all_bins():
    rows = np.concatenate([ROWS, np.full((200, 3), 1e7)])
    ask = skl.Questions(standard(rows, sample=ROWS))
    assert ask.quantile(0, 0.5).high < 1
    found = ask.quantile(0, 0.999)
    assert found.low < 1e7 < found.high == np.inf
    assert str(found).endswith("or more)")
    for statistic, true in ((ask.mean(0), rows[:, 0].mean()), (ask.std(0), rows[:, 0].std(ddof=1))):
        assert contains(statistic, true)
        assert statistic.high == np.inf


@pytest.mark.parametrize(
    ("operator", "refused"),
    [
        (skl.features.SecondMoments(3, bound=1e4), True),
        (skl.features.ColumnMoments(3, bound=1e4), True),
        (skl.features.Histograms.even([-500, 1000, -50], [500, 3000, 50], bins=500), False),
    ],
    ids=lambda own: type(own).__name__,
)
def test_sketches_of_one_operator(operator, refused):
    ask = skl.Questions(operator.sketch(ROWS))
    for i in range(3):
        assert contains(ask.mean(i), ROWS[:, i].mean())
        assert contains(ask.std(i), ROWS[:, i].std(ddof=1))
        if not refused:
            assert contains(ask.quantile(i, 0.99), np.quantile(ROWS[:, i], 0.99))
            continue
        with pytest.raises(ValueError, match=r"does not determine the distribution of 'column \d': sketch with design"):
            ask.quantile(i, 0.5)
        (note,) = ask.describe().notes
        assert note.startswith("quantiles of 3 columns are not known: sketch with design")


def test_a_sample_of_rows_has_quantiles_of_hundreds_of_columns():
    """Of 300 independent intervals of 95 %, at least 270 hold in all but 1 of 10,000 runs."""
    rows = np.random.default_rng(2).gamma(2.0, size=(5000, 300))
    ask = skl.Questions(skl.design(rows[:1000], n_components=2, rows=400).sketch(rows))
    found = [
        contains(ask.quantile(i, q), np.quantile(rows[:, i], q)) for i in range(0, 300, 3) for q in (0.05, 0.5, 0.9)
    ]
    assert sum(found) >= 270
    assert ask.mean(7).value == pytest.approx(rows[:, 7].mean(), rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_intervals_of_private_releases(epsilon):
    """Of 20 releases, each interval of 95 % misses at most 5 in all but 3 of 10,000 runs; they are conservative."""
    bounds = ([-50.0, 1500.0, -10.0], [50.0, 2500.0, 10.0])
    operator = skl.design(bounds=bounds, n_components=2, features=skl.features.Fourier(n_frequencies=60))
    rows = np.clip(ROWS, *bounds)
    sketch = operator.sketch(rows)
    truths = {"mean": rows.mean(axis=0), "std": rows.std(axis=0, ddof=1)}
    misses = {}
    for seed in range(20):
        ask = skl.Questions(skl.privatize(sketch, epsilon=epsilon, delta=1e-6, seed_for_tests_not_private=seed))
        for i in range(3):
            found = {name: (getattr(ask, name)(i), true[i]) for name, true in truths.items()}
            found |= {q: (ask.quantile(i, q), np.quantile(rows[:, i], q)) for q in (0.01, 0.5, 0.9)}
            found["above"] = ask.count_above(i, rows[0, i]), np.sum(rows[:, i] > rows[0, i])
            for what, (own, true) in found.items():
                assert own.confidence == 0.95
                misses[what, i] = misses.get((what, i), 0) + (not contains(own, true))
    assert max(misses.values()) <= 5


def test_statistics_print_as_people_write_them():
    assert str(Statistic(24213.7, 24213.7, 24213.7)) == "24,210"
    assert str(Statistic(3.0, 3.0, 3.0)) == "3"
    assert str(Statistic(0.5, -np.inf, np.inf)) == "0.5 (no bounds)"
    assert str(Statistic(5.0, -np.inf, 7.0)) == "5 (7 or less)"
    assert str(Statistic(17000.2, 16999.6, 17001.4, dates=True)) == "2016-07-18 (2016-07-17 to 2016-07-20)"

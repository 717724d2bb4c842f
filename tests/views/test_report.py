"""The report: its numbers are those of the sketch and the model, its names are never markup, and it is a good page."""

import html
import json
import re
import shutil
import stat
import subprocess
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from jinja2 import UndefinedError
from page_reader import read_page
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.rows.schemas.columns import Category, Flag, Number
from sketchlearn.views.templates import environment

N, N_EARLIER = 5000, 3000
MIDDLES = np.array([[24, 9.8], [45, 10.8], [68, 10.2]])


def customers(n, seed, share=0.3):
    rng = np.random.default_rng(seed)
    kind = np.where(rng.random(n) < share, 0, rng.integers(1, 3, n))
    days = np.array([2500, 1200, 300])[kind] + rng.normal(0, 150, n).round()
    return pd.DataFrame(
        {
            "age": MIDDLES[kind, 0] + rng.normal(0, 4, n),
            "income": np.exp(MIDDLES[kind, 1] + rng.normal(0, 0.3, n)),
            "country": np.where(rng.random(n) < 0.1, "IT", np.array(["FR", "DE", "FR"])[kind]),
            "member": np.where(rng.random(n) < np.array([0.1, 0.8, 0.5])[kind], "yes", "no"),
            "since": pd.to_datetime("2015-01-01") + pd.to_timedelta(days, unit="D"),
        }
    )


@pytest.fixture(scope="module")
def table():
    return customers(N, 1, share=0.45)


@pytest.fixture(scope="module")
def sketches(table):
    """This week's sketch, and an earlier one."""
    earlier = customers(N_EARLIER, 0)
    operator = skl.design(earlier, n_components=3, rows=400, schema="auto")
    return operator.sketch(table), operator.sketch(earlier)


@pytest.fixture(scope="module")
def model(sketches):
    return skl.SketchKMeans(3, random_state=0).fit_sketch(sketches[0])


@pytest.fixture(scope="module")
def text(sketches, model):
    return skl.report(sketches[0], model, against=sketches[1], title="Customers")


@pytest.fixture
def page(text):
    return read_page(text)


def section(page, name):
    return page.one("section", id=name)


def card(page, column):
    return next(part for part in section(page, "data").all("article") if part.one("h3").text == column)


# The numbers


def test_clusters_are_those_of_the_profiles(page, sketches, model):
    profiles = skl.profiles(model, sketches[0])
    rows = section(page, "clusters").rows("All clusters")
    assert len(rows) == len(profiles.clusters) == 3
    for (number, share, records, _, by_rows), profile in zip(rows, profiles, strict=True):
        assert number.value == profile.number
        assert share.values == [model.weights_[profile.number]]
        assert records.value == round(model.weights_[profile.number] * N)
        assert by_rows.values == [profile.share.value, profile.share.error]
    for article, profile in zip(section(page, "clusters").all("article"), profiles, strict=True):
        assert article.one("h3").value == profile.number
        overall = {column.name: column for column in profiles.overall}
        rows = article.rows("Distinguishing features")
        assert [name.text for name, *_ in rows] == [column.name for column in profile.columns]
        for (_, own, spread, everyone), column in zip(rows, profile.columns, strict=True):
            if column.kind == "levels":
                told = dict(zip([level.text for level in own.all("bdi")], own.values, strict=True))
                assert told == {level: column.estimates[level].value for level in told}
                continue
            (mean,), (mean_of_all,) = column.estimates.values(), overall[column.name].estimates.values()
            assert own.values == [mean.value, mean.error]
            assert everyone.values == [mean_of_all.value, mean_of_all.error]
            assert spread.values == ([] if column.kind == "share" else [column.spread])


def test_the_picture_shows_where_clusters_lie(page, sketches, model):
    profiles = skl.profiles(model, sketches[0])
    rows = list(page.one("div", class_="wide heat").one("tbody").all("tr"))
    heat = {row.one("bdi").text: row for row in rows}
    assert set(heat) == {"age", "income", "country: DE", "member", "since"}
    age = next(column for column in profiles.overall if column.name == "age")
    for number, cell in enumerate(heat["age"].all("td")):
        own = next(column for column in profiles.clusters[number].columns if column.name == "age")
        away = (own.estimates["mean"].value - age.estimates["mean"].value) / age.spread
        assert cell.one("span").value == pytest.approx(away)
        assert ("213 94 0" in cell.attributes["style"]) == (away > 0)


def test_histograms_and_shares_are_those_of_the_records(page, table, sketches):
    ask = skl.Questions(sketches[0])
    for column in ("age", "income", "since"):
        bars = list(card(page, column).one("svg").all("rect"))
        assert [bar.value for bar in bars] == ask.marginal(column, 24).shares.tolist()
        low, high = (end.value for end in card(page, column).one("div", class_="ends").all("span", data_value=...))
        values = table[column]
        if column == "since":
            values = (values - pd.Timestamp("1970-01-01")).dt.days
        assert np.isclose(np.mean((values >= low) & (values <= high)), sum(bar.value for bar in bars), atol=1e-3)
    for column in ("country", "member"):
        told = {level.text: share.value for level, share, _ in card(page, column).rows("Shares")}
        assert told == pytest.approx(dict(table[column].value_counts(normalize=True)))


def test_drift_is_that_of_the_two_sample_test(page, sketches, model):
    now, earlier = sketches
    drift, changed = skl.two_sample_test(earlier, now), section(page, "change")
    figures = [drift.distance, drift.expected, drift.p_value, N_EARLIER, N]
    assert next(changed.all("p")).values == figures
    moved = {name.text: (by, spread, chance) for name, by, spread, chance in changed.rows("Columns that moved")}
    found = {column.column: column for column in drift.columns if column.p_value < 0.01}
    assert moved.keys() == found.keys() >= {"age", "country"}
    for name, (by, spread, chance) in moved.items():
        assert chance.value == found[name].p_value
        if name == "country":
            assert by.values[:2] == [found[name].levels[0].before, found[name].levels[0].after]
        elif not found[name].levels:
            assert spread.value == found[name].spread_ratio
    means = [customers(N, 1, share=0.45)["age"].mean(), customers(N_EARLIER, 0)["age"].mean()]
    assert moved["age"][0].value == pytest.approx(means[0] - means[1], abs=1)  # in years, not in what they became
    shares = [skl.profiles(model, sketch) for sketch in (earlier, now)]
    for (_, before, after, change), old, new in zip(changed.rows("Shares"), *shares, strict=True):
        assert (before.value, after.value) == (old.share.value, new.share.value)
        assert change.value == new.share.value - old.share.value


def test_every_number_has_its_value(page, sketches):
    """Whatever has a digit is a number with its value, a name of the table, or how it looks."""

    def bare(part):
        if part.tag in ("bdi", "style", "code", "title") or "data-value" in part.attributes:
            return
        for child in part.children:
            if isinstance(child, str):
                yield child
            else:
                yield from bare(child)

    assert [line for line in bare(page) if re.search(r"\d", line)] == []
    assert page.one("header").values == [sketches[0].count, 3]


def test_numbers_are_shown_as_people_write_them(page):
    plain = re.compile(r"([+-]?[\d,]*\.?\d+)( %| days| percentage points)?")
    shown = [(part, plain.fullmatch(part.text)) for part in page.all("span", data_value=...)]
    read = [(part.value, float(found[1].replace(",", "")), found[2]) for part, found in shown if found]
    assert len(read) > 100
    for value, told, unit in read:
        scale = 100 if unit in (" %", " percentage points") else 1
        assert told == pytest.approx(scale * value, rel=0.06, abs=0.51 if scale == 100 else 0)
    assert not any(re.search(r"\de[+-]?\d|(?<![.\d])\d{4,}(?!-)", part.text) for part, _ in shown)


# The page


def test_it_is_a_good_page(page, text):
    assert text.startswith("<!doctype html>")
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("h1").text == page.one("head").one("title").text == "Customers"
    for landmark in ("header", "nav", "main", "footer"):
        page.one(landmark)
    levels = [int(part.tag[1]) for part in page.all() if re.fullmatch("h[1-6]", part.tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert all(head.attributes["scope"] in ("row", "col") and head.text for head in page.all("th"))
    assert all(part.one("caption").text for part in page.all("table"))
    for picture in page.all("svg"):
        assert picture.attributes.get("aria-hidden") == "true" or picture.attributes["aria-label"]
    names = [part.attributes["id"] for part in page.all(id=...)]
    assert len(set(names)) == len(names)
    for link in page.all("a"):
        assert link.attributes["href"].removeprefix("#") in names
    assert all(part.attributes["aria-labelledby"] in names for part in page.all("section"))


def test_it_needs_no_network_and_no_script(page, text):
    assert not {part.tag for part in page.all()} & {"script", "link", "img", "iframe", "object", "embed", "form"}
    assert not re.search(r"https?:|url\(|@import|src=|\bon\w+=", text)


def test_the_same_page_twice(sketches, model, text):
    assert skl.report(sketches[0], model, against=sketches[1], title="Customers") == text


ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(2)</script>",
    "&lt;b&gt; &amp;",
    "a]]><!--",
]


def test_names_are_never_markup():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 5)) + 6 * rng.integers(0, 2, (2000, 1))
    frame = pd.DataFrame(rows, columns=ATTACKS)
    level = "<svg onload=alert(3)>"
    frame["kind"] = np.where(rows[:, 0] > 3, level, "other</td>")
    schema = skl.Schema([*map(Number, ATTACKS), Category("kind", [level, "other</td>"])])
    operator = skl.design(frame, n_components=2, rows=300, schema=schema)
    now, earlier = operator.sketch(frame), operator.sketch(frame.assign(**{ATTACKS[0]: rows[:, 0] + 1}))
    for kept in (True, False):
        chosen, before = (now, earlier) if kept else (now.without_rows(), earlier.without_rows())
        model = skl.SketchKMeans(2, random_state=0).fit_sketch(now)
        text = skl.report(chosen, model, against=before, title=f"{ATTACKS[2]}\u202e")
        page = read_page(text)
        assert not {part.tag for part in page.all()} & {"script", "img", "b"}
        assert not [name for part in page.all() for name in part.attributes if name.startswith("on")]
        names = {part.text for part in page.all("bdi")}
        assert {*ATTACKS, level, "kind"} <= names
        assert page.one("h1").text == f"{ATTACKS[2]}\\u202e"


def test_all_templates_escape_and_name_what_they_show():
    templates = environment().list_templates(extensions=["html"])
    assert {"views/macros.html", "views/report/page.html", "collector/page/page.html"} <= set(templates)
    assert all(environment().get_template(name) for name in templates)
    assert environment().from_string("{{ name }}").render(name=ATTACKS[0]) == html.escape(ATTACKS[0])
    with pytest.raises(UndefinedError):
        environment().from_string("{{ name }}").render()


# What it says of other sketches and models


def blobs(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.array([[0, 0], [10, 0], [0, 10]])[rng.integers(0, 3, n)] + rng.standard_normal((n, 2))
    return pd.DataFrame(rows, columns=["a", "b"])


def test_without_rows_it_says_how_to_keep_some():
    sketch = skl.design(blobs(), n_components=3).sketch(blobs())
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    clusters = section(read_page(skl.report(sketch, model)), "clusters")
    assert not list(clusters.all("article"))
    assert "this one has no sample. To have one" in clusters.text
    assert [share.value for _, share, _ in clusters.rows("All clusters")] == model.weights_.tolist()
    middles = np.array([[cell.value for cell in cells] for _, *cells in clusters.rows("The middle")])
    assert np.array_equal(middles.T, model.cluster_centers_)


def test_components_of_a_mixture_and_plain_fourier_features():
    sketch = skl.design(blobs(), n_components=3, task="mixture", rows=200).sketch(blobs())
    model = skl.SketchGaussianMixture(3, random_state=0).fit_sketch(sketch)
    page = read_page(skl.report(sketch, model))
    assert "The components" in page.text
    figures = {what.text: much.value for what, much in section(page, "certainty").rows("The figures")}
    assert figures["Goodness of fit (one is perfect)"] == model.fit_test_
    assert figures["Sampled rows"] == len(sketch.kept)
    assert model.outcome_.status.value in section(page, "certainty").text
    assert "no histograms" in section(page, "data").text


def test_few_records_and_exact_sketches_are_named():
    sketch = skl.design(blobs(80), n_components=2, rows=100).sketch(blobs(80))
    page = read_page(skl.report(sketch, skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)))
    privacy = section(page, "privacy")
    assert "an exact sketch is personal data" in privacy.text
    few = next(privacy.all("p", class_="warn"))
    assert "An exact sketch of few records gives them back, and this one has 80." in few.text
    assert "have no sampling error" in section(page, "certainty").text


def test_the_ledger_of_a_private_sketch():
    operator = skl.design(bounds=([-10, -10], [20, 20]), n_components=3).with_columns(("a", "b"))
    exact = operator.sketch(blobs())
    private = skl.privatize(exact, epsilon=3.0)
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(private)
    page = read_page(skl.report(private, model))
    told = {what.text: much for what, much in section(page, "privacy").rows("This sketch")}
    assert told["Epsilon"].value == private.ledger.epsilon == 3.0
    assert told["Noise on the number of records, standard deviation"].value == private.ledger.count_variance**0.5
    assert "personal data" not in page.text
    of_exact = skl.SketchKMeans(3, random_state=0).fit_sketch(exact)
    assert "The model was learned from an exact sketch" in skl.report(private, of_exact)
    both = read_page(skl.report(exact, model))
    assert "personal data" in both.text
    assert section(both, "privacy").rows("The model")[0][1].value == 3.0
    pretended = skl.privatize(operator.sketch(blobs(seed=1)), epsilon=3.0, seed_for_tests_not_private=0)
    assert "This sketch is not private" in skl.report(pretended, model)


def test_missing_values_have_a_share_of_their_own():
    frame = blobs()
    frame.loc[:299, "b"] = np.nan
    schema = skl.Schema([Number("a"), Number("b", missing="indicate")])
    sketch = skl.design(frame, n_components=2, rows=200, schema=schema).sketch(frame)
    page = read_page(skl.report(sketch, skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)))
    b = card(page, "b")
    gaps = next(part for part in b.all("p") if "no value here" in part.text)
    assert gaps.value == pytest.approx(0.1)
    assert sum(bar.value for bar in b.all("rect")) == pytest.approx(0.9, abs=2e-3)


def test_levels_that_the_design_has_not_seen():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(1000), "kind": rng.choice(["a", "b"], 1000), "paid": "no"})
    schema = skl.Schema([Number("x"), Category("kind", ["a", "b"]), Flag("paid")])
    operator = skl.design(frame, n_components=2, rows=100, schema=schema)
    later = frame.assign(kind=rng.choice(["a", "b", "z"], 1000), paid=rng.choice(["yes", "no"], 1000))
    with pytest.warns(UserWarning, match="values that the schema does not know"):
        sketch = operator.sketch(later)
    page = read_page(skl.report(sketch, skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)))
    for column, renamed in (("kind", {"z": "other"}), ("paid", {})):
        told = {level.text: share.value for level, share, _ in card(page, column).rows("Shares")}
        assert told == pytest.approx(dict(later[column].replace(renamed).value_counts(normalize=True)))


def test_a_model_of_another_week_is_said_to_be_one(sketches, model):
    page = read_page(skl.report(sketches[1], model))
    assert "another number of records" in section(page, "certainty").text
    assert "has another share here than in the model" in section(page, "certainty").text
    profile = skl.profiles(model, sketches[1]).clusters[0]
    _, share, records, _, learned = section(page, "clusters").rows("All clusters")[0]
    assert share.values == [profile.share.value, profile.share.error]
    assert share.value < 0.4 < learned.value == model.weights_[0]
    assert records.value == round(profile.size)


def test_a_cluster_that_the_sketch_has_not():
    """As many records as the model has, but others: the model's shares are not taken for theirs."""
    frame = blobs()
    far = frame.copy()
    far.loc[:299, "a"] = 100.0
    operator = skl.design(far, n_components=4, rows=200)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(operator.sketch(far))
    page = read_page(skl.report(operator.sketch(frame), model))
    rows, number = section(page, "clusters").rows("All clusters"), int(np.argmax(model.cluster_centers_[:, 0]))
    assert (rows[number][1].value, rows[number][-1].value) == (0, model.weights_[number])
    article = list(section(page, "clusters").all("article"))[number]
    assert "No sampled row is in it" in article.text
    assert "nan" not in page.text
    assert "has another share here than in the model" in section(page, "certainty").text


def test_what_does_not_fit_is_refused(sketches, model):
    sketch = skl.design(blobs(), n_components=3).sketch(blobs())
    own = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    with pytest.raises(ValueError, match=r"does not fit the sketch: the model's columns are \(age, .*\(a, b\); give"):
        skl.report(sketch, model)
    turned = skl.design(blobs()[["b", "a"]], n_components=3).sketch(blobs()[["b", "a"]])
    with pytest.raises(ValueError, match=r"columns are \(a, b\) and the sketch's columns are \(b, a\)"):
        skl.report(turned, own)
    with pytest.raises(ValueError, match="cannot compare sketches"):
        skl.report(sketch, own, against=sketches[0])
    with pytest.raises(ValueError, match="the sketch is empty: add records"):
        skl.report(skl.Sketch(sketch.operator), own)
    with pytest.raises(TypeError, match="a report is about a sketch, not DataFrame"):
        skl.report(blobs(), own)
    with pytest.raises(TypeError, match="a SketchPCA has none: give a SketchKMeans"):
        skl.report(sketch, skl.SketchPCA(1).fit(blobs()))


def test_the_command(sketches, model, tmp_path):
    for name, sketch in zip(("now", "earlier"), sketches, strict=True):
        sketch.save(tmp_path / f"{name}.sketch")
    skl.save(model, tmp_path / "model.json")

    def run(*arguments):
        return CliRunner().invoke(app, ["report", str(tmp_path / "now.sketch"), *map(str, arguments)])

    page = tmp_path / "report.html"
    found = run(tmp_path / "model.json", "--against", tmp_path / "earlier.sketch", "-o", page, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == {"output": str(page), "records": N, "clusters": 3, "bytes": page.stat().st_size}
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    loaded = skl.load(tmp_path / "model.json")
    assert page.read_text() == skl.report(sketches[0], loaded, against=sketches[1], title="Report on now.sketch")
    skl.save(skl.SketchPCA(1).fit(blobs()), tmp_path / "pca.json")
    refused = run(tmp_path / "pca.json", "-o", page)
    assert refused.exit_code == 2
    assert "has no clusters or components to report on: give one of fit kmeans" in refused.stderr
    sketch = skl.design(blobs(), n_components=3).sketch(blobs())
    skl.save(skl.SketchKMeans(3, random_state=0).fit_sketch(sketch), tmp_path / "other.json")
    refused = run(tmp_path / "other.json", "-o", tmp_path / "none.html")
    assert refused.exit_code == 1
    assert "the model does not fit the sketch" in refused.stderr
    assert not (tmp_path / "none.html").exists()


# A browser

LOOK = """<script>
const light = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const behind = e => { if (!e) return [255, 255, 255]; const c = rgb(getComputedStyle(e).backgroundColor);
  const share = c.length < 4 ? 1 : c[3]; if (share == 1) return c.slice(0, 3);
  return behind(e.parentElement).map((v, i) => share * c[i] + (1 - share) * v); };
let least = 99;
for (const e of document.querySelectorAll('body *:not(svg *)')) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
  const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(behind(e))].sort((x, y) => y - x);
  least = Math.min(least, (a + .05) / (b + .05));
}
Object.assign(parent.document.documentElement.dataset, {
  contrast: least, needed: document.documentElement.scrollWidth, window: innerWidth,
  page: getComputedStyle(document.body).backgroundColor,
});
</script></body>"""
# windows of Chromium are at least 500 pixels wide, frames are as wide as one wants
FRAME = '<meta name="color-scheme" content="light dark"><iframe style="width: {}px; border: 0" srcdoc="{}"></iframe>'


def chromium(page, folder, width, dark, *options):
    settings = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    places = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},2400"]
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", settings, *places]
    return subprocess.run([*command, *options, page.as_uri()], capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium, which would show the page, is not installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it(text, tmp_path, width, dark):
    """Nothing is wider than the window, and text can be read, as the browser itself computes it."""
    page = tmp_path / "report.html"
    page.write_text(FRAME.format(width, html.escape(text.replace("</body>", LOOK))))
    told = read_page(chromium(page, tmp_path, width, dark, "--dump-dom").stdout).one("html").attributes
    assert int(told["data-window"]) == width
    assert int(told["data-needed"]) <= width
    assert float(told["data-contrast"]) >= 4.5
    brightness = sum(map(int, re.findall(r"\d+", told["data-page"])))
    assert brightness < 150 if dark else brightness > 600
    page.write_text(text)
    picture = tmp_path / "page.png"
    chromium(page, tmp_path, width, dark, f"--screenshot={picture}")
    pixels = pytest.importorskip("matplotlib.image").imread(picture)[..., :3]
    assert pixels.shape[1] == width
    assert len(np.unique((pixels[::8, ::8] * 255).astype(int).reshape(-1, 3), axis=0)) > 8

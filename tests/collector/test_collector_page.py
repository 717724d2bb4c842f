"""The page of a collection: what it shows and withholds, and, in Chromium, that it lives, fits and can be read."""

import html
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as skl

pytest.importorskip("starlette")
with warnings.catch_warnings():  # that another client for requests is to come
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from sketchlearn.collector import senders
from sketchlearn.collector.application import create_app
from sketchlearn.collector.database import open_database
from sketchlearn.collector.demonstration import DESIGN, readings
from sketchlearn.collector.page import window_models
from sketchlearn.collector.page.page_routes import COOKIE, Pages
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_from_bytes, design_to_bytes

NOON = 1_700_000_000 // 86400 * 86400 + 43200
OPERATOR = design_from_bytes(DESIGN.read_bytes())[0]
SMALL = skl.features.SecondMoments(2, bound=100.0)


class Collector:
    """A store with a clock that is set by hand, its application and a browser's requests."""

    def __init__(self, folder, operator=SMALL, **rules):
        self.now = float(NOON)
        self.store = Store(open_database(folder / "c.sqlite"), folder, clock=lambda: self.now)
        self.admin = self.store.first_token()
        self.pages = Pages(self.store)
        self.client = TestClient(create_app(self.store, more_routes=self.pages.routes(), housekeeping_seconds=None))
        title = "<b>Rooms</b>"
        rules = {"min_records": 20, "grace_seconds": 0, **rules}
        self.collection = self.store.create_collection("test", "rooms", title, design_to_bytes(operator), rules)
        self.token = self.store.write("test", senders.add_senders, self.collection, ["roof<i>"[:4], "cellar"], None)[0][
            "token"
        ]
        self.reader = self.store.write("test", senders.add_token, self.collection, "read")["token"]

    def report(self, number, rows):
        body = self.collection.known.operator.sketch(rows).to_bytes()
        path = f"/v1/collections/rooms/reports/{number}"
        return self.client.post(path, content=body, headers={"Authorization": f"Bearer {self.token}"})

    def get(self, path, token=None):
        return self.client.get(path, headers={"cookie": f"{COOKIE}={token or self.reader}"}, follow_redirects=False)

    def close(self):
        self.pages.close()
        self.store.close()


@pytest.fixture
def collector(tmp_path):
    found = Collector(tmp_path)
    yield found
    found.close()


def in_words(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def test_nobody_sees_a_page_without_a_token(collector):
    for path in ("/", "/collections/rooms", "/collections/rooms/events", "/collections/rooms/sections/drift"):
        assert collector.client.get(path).status_code == 401
        assert collector.get(path, "wrong").status_code == 401
    assert collector.get("/collections/rooms", collector.token).status_code == 403
    assert collector.get("/collections/other").status_code == 404
    assert "Rooms" not in collector.client.get("/").text


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(collector):
    refused = collector.client.post("/token", data={"token": "nonsense"}, follow_redirects=False)
    assert refused.status_code == 401
    answer = collector.client.post("/token", data={"token": collector.reader}, follow_redirects=False)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert collector.client.post("/token", content=b"token=" + b"x" * 5000).status_code == 413


def test_names_are_text_and_headers_keep_the_browser_strict(collector):
    answer = collector.get("/collections/rooms")
    assert answer.status_code == 200
    assert "<b>Rooms" not in answer.text
    assert "&lt;b&gt;Rooms&lt;/b&gt;" in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    for path, media in (("/page.css", "text/css"), ("/page.js", "text/javascript")):
        found = collector.client.get(path)
        assert found.headers["content-type"].startswith(media)
        assert "http" not in found.text.replace("http-equiv", "")


def test_nothing_is_shown_of_fewer_records_than_the_minimum(collector):
    rows = np.arange(38.0).reshape(19, 2)
    assert collector.report("one", rows).status_code == 201
    collector.now += 3600
    collector.store.maintain()
    page = in_words(collector.get("/collections/rooms?window=day").text)
    assert "Records so far fewer than 20" in page
    assert "not shown: it has fewer than 20 records" in page
    assert "There is nothing to show in this window" in page
    assert not re.search(r"\b19\b(?!:)", page.split("Reports so far")[1].split("As a table")[0].replace("-19", ""))


@pytest.mark.parametrize("sealed_only", [True, False])
def test_an_open_epoch_shows_no_clusters(tmp_path, sealed_only):
    """Sums that grow by one report at a time would tell what each report holds."""
    collector = Collector(tmp_path, sealed_only=sealed_only)
    collector.report("one", np.arange(80.0).reshape(40, 2))
    page = in_words(collector.get("/collections/rooms").text)
    assert f"Records so far {'fewer than 20' if sealed_only else 40}" in page
    assert "There is nothing to show in this window" in page
    collector.close()


def test_refusals_and_silent_senders_are_told(collector):
    collector.report("one", np.arange(80.0).reshape(40, 2))
    assert collector.report("one", np.arange(60.0).reshape(30, 2)).status_code == 409
    collector.now += 3 * 86400
    collector.store.maintain()
    page = in_words(collector.get("/collections/rooms").text)
    assert "a report of this id came before with other bytes" in page
    assert "2 of 2 senders reported nothing for more than 2 days" in page


def test_one_section_can_be_renewed(collector):
    for name in ("alarms", "arrivals", "clusters", "drift", "senders", "privacy", "refused"):
        answer = collector.get(f"/collections/rooms/sections/{name}")
        assert answer.text.startswith(f'<section id="{name}"')
    assert collector.get("/collections/rooms/sections/other").status_code == 404


def test_odd_queries_are_taken_as_the_default(collector):
    for query in (
        "window=x",
        "from=a&to=b",
        "from=2&to=1",
        "clusters=-1",
        "clusters=1e9",
        "clusters=٣",
        "window=" + "x" * 900,
    ):
        assert collector.get(f"/collections/rooms?{query}").status_code == 200


def test_clusters_know_where_they_were_before():
    """Numbers of two windows are matched by place: the kind that moved is seen to, beyond its error."""
    rng = np.random.default_rng(4)
    before, now = (OPERATOR.sketch(readings(rng, 8000, moved)) for moved in (0.0, 1.0))
    found = window_models.learned(now, before, 4)
    centers = found.model.fitted_model().centers_of_parts
    moved = np.abs(centers - found.centers_before)[:, 0]
    assert sorted(moved > 3)[-2:] == [False, True]
    assert np.sort(moved)[:3].max() < 0.5
    assert found.errors["cluster_centers_"].shape == centers.shape
    assert found.drift.differ


# In a browser


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """`sketchlearn serve --demo`, as a newcomer starts it, with hours of two seconds."""
    port, log = free_port(), tmp_path_factory.mktemp("demo") / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sketchlearn", "serve", "--demo", "--port", str(port), "--hour", "2"],
            stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        url, began = f"http://127.0.0.1:{port}/", time.monotonic()
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).read()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() - began < 120
                time.sleep(0.05)
        print(f"the page came after {time.monotonic() - began:.1f} s")
        yield url
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield found
        found.close()


def until(condition, seconds):
    """Waits for a condition; the page's own rules let no script wait inside of it."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not seen within {seconds} s"
        time.sleep(0.05)


needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")


@pytest.mark.slow
@needs_chromium
def test_the_demonstration_lives_in_a_browser(demonstration, browser, tmp_path):
    """Figures within 2 s of a report, an alarm after the shift, three widths, no errors, axe content."""
    from axe_core_python.sync_playwright import Axe

    problems = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(demonstration)

    def reports():
        return int(page.text_content("#live-reports").replace(",", ""))

    until(lambda: reports() > 380, 120)
    seen = reports()  # a machine reports every 2 / 24 s: a look 2 s later sees more
    until(lambda: reports() > seen, 2)
    page.wait_for_selector("#alarms .warn", timeout=120_000)
    assert "The records changed" in page.text_content("#alarms")
    page.wait_for_selector("#clusters .cluster", timeout=120_000)
    pictures = Path(os.environ.get("PICTURES", tmp_path))
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        for width in (360, 820, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=pictures / f"{width}-{'dark' if dark else 'light'}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page)["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in serious]
    assert problems == []
    assert {url.split("/")[2] for url in requests if not url.startswith("data:")} == {demonstration.split("/")[2]}


@pytest.mark.slow
@needs_chromium
def test_the_page_is_used_by_keyboard(demonstration, browser):
    """The first key leads to the content; each stop has a visible outline."""
    page = browser.new_page()
    page.goto(demonstration)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    stops = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        tag = page.evaluate("document.activeElement.tagName")
        if tag == "BODY":  # past the last stop
            break
        stops.add(tag)
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")[:200]
    assert {"A", "SUMMARY"} <= stops


def test_a_simulated_fleet_is_as_it_says():
    """The kind that fails moves; the others stay."""
    rng = np.random.default_rng(0)
    assert abs(readings(rng, 20_000, 1.0)[:, 0].mean() - readings(rng, 20_000, 0.0)[:, 0].mean() - 1.0) < 0.3


def test_of_a_span_that_moves_on_only_the_newest_waits(monkeypatch):
    begun, may_end, order = threading.Event(), threading.Event(), []

    def learned(sketch, _before, _k):
        order.append(sketch.count)
        begun.set()
        assert may_end.wait(30)
        return f"clusters of {sketch.count} records"

    monkeypatch.setattr(window_models, "learned", learned)
    operator = skl.features.SecondMoments(1, bound=9.0)
    hours = [operator.sketch(np.ones((n, 1))) for n in (1, 2, 3)]
    models = window_models.WindowModels(lambda _: None)
    assert models.get("rooms", "day", hours[0], None, 2) is None
    assert begun.wait(30)
    assert models.get("rooms", "day", hours[1], None, 2) is None
    assert models.get("rooms", "day", hours[2], None, 2) is None
    assert models.latest("rooms", "day", 2) is None
    may_end.set()
    while (found := models.get("rooms", "day", hours[2], None, 2)) is None:
        time.sleep(0.01)
    assert found == models.latest("rooms", "day", 2) == "clusters of 3 records"
    assert order == [1, 3]
    models.close()

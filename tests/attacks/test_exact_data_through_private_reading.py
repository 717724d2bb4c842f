"""Private reading: whatever a reader asks for, the answer is the same for one record, or one sender, more or less."""

import inspect
import re
import time
import typing

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from house import HOUR, NOON, House

import sketchlearn as skl
from sketchlearn.collector import releases
from sketchlearn.collector.page import page_routes as live_events
from sketchlearn.collector.routes import ENDPOINTS

OPERATOR = skl.design(bounds=([-6, -6], [6, 6]), n_components=2, features=skl.features.Fourier(n_frequencies=50))
HOURS = 5
SECTIONS = ("alarms", "arrivals", "clusters", "drift", "senders", "privacy", "refused", "releases")
PAGES = ["/", "/collections/c", "/collections/c?window=day&clusters=2", "/collections/c/events"]
PAGES += [f"/collections/c/sections/{name}" for name in SECTIONS]
NAMED = {"collection": "c", "report": "r0", "release": "1", "start": str(NOON), "sender": "a", "token": "0" * 16}
RANDOM = re.compile(rb'skl_[0-9a-f]{16}_[\w-]+|"(id|key)":"[0-9a-f]+"')  # tokens and keys, which are drawn at random


@pytest.fixture(autouse=True)
def released_values(monkeypatch):
    """Every release has the same values, so that whatever differs is not of a release."""
    rows = np.random.default_rng(1).standard_normal((500, 2))
    made = skl.privatize(OPERATOR.sketch(rows), epsilon=1.0, seed_for_tests_not_private=0)
    monkeypatch.setattr(releases, "privatize", lambda *_sketch, **_more: made)


def filled(folder, kind, **rules):
    """A collector with a release, whose records differ from the others'."""
    folder.mkdir()
    house, rng = House(folder), np.random.default_rng(0)
    house.collection(operator=OPERATOR, private_reading=True, grace_seconds=0, min_records=100, **rules)
    tokens = [house.sender(name) for name in ("a", "b")]
    names = ["c", "d"] if kind == "one sender more" else ["c"]
    tokens += [house.sender(name) for name in names]
    for hour in range(HOURS):
        rows = rng.standard_normal((99, 2))
        if kind == "one record more":
            rows = np.concatenate([rows, [[5.0, 5.0]]])
        if kind == "other records":  # which raise an alarm
            rows = rows + (hour >= 3) * 4.0
        assert house.send(tokens[0], OPERATOR.sketch(rows), f"r{hour}").status_code == 201
        if kind != "one report less" or hour != 2:
            assert house.send(tokens[1], OPERATOR.sketch(rows[:60] * 1.1), f"r{hour}").status_code == 201
        for token in tokens[3:]:
            assert house.send(token, OPERATOR.sketch(rows[:70] * 1.2), f"r{hour}").status_code == 201
        if kind == "refused reports":
            assert house.send(tokens[0], b"nonsense", f"x{hour}").status_code == 400
        house.now += HOUR
        house.store.maintain()
    if kind == "a report in the open epoch":
        house.send(tokens[0], OPERATOR.sketch([[1.0, 1.0]]), "open")
    house.store.flush_refusals()
    form = {"from": str(NOON), "to": str(NOON + HOURS * HOUR), "epsilon": 1.0}
    house.ask("POST", "/collections/c/releases", json=form, status=201)
    return house


def answers(house, token, monkeypatch):
    """What a token is answered, route by route and page by page."""
    found = {}
    for endpoint in ENDPOINTS:
        path = re.sub(r"{(\w+)}", lambda name: NAMED[name[1]], endpoint.path)
        body = {"content": b"{}"} if endpoint.method != "GET" else {}
        headers = {"Authorization": f"Bearer {token}"}
        answer = house.client.request(endpoint.method, path, headers=headers, **body)
        assert answer.status_code != 500
        found[endpoint.method, path] = (answer.status_code, RANDOM.sub(b"", answer.content))

    async def last_look(_seconds):
        house.pages.ended = True  # events go on for ever otherwise

    monkeypatch.setattr(live_events.asyncio, "sleep", last_look)
    for path in PAGES:
        until = time.monotonic() + 60
        while True:  # until the clusters that the page asks for are learned
            house.pages.ended = False
            answer = house.page(path, token)
            if "data-pending" not in answer.text or time.monotonic() > until:
                break
            time.sleep(0.05)
        assert answer.status_code != 500
        found["GET", path] = (answer.status_code, answer.content)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        "one record more",
        "one sender more",
        "one report less",
        "other records",
        "refused reports",
        "a report in the open epoch",
    ],
)
def test_neighbouring_collections_give_the_same_bytes(tmp_path, monkeypatch, kind):
    seen = []
    for number, each in enumerate(("", kind)):
        house = filled(tmp_path / str(number), each)
        everywhere = house.ask("POST", "/tokens", json={"scope": "read"}, status=201).json()["token"]
        for token in (house.token("read"), everywhere):
            with monkeypatch.context() as patched:
                seen.append(answers(house, token, patched))
        house.close()
    for first, second in zip(seen[:2], seen[2:], strict=True):
        assert set(first) == set(second)
        different = [key for key in first if first[key] != second[key]]
        assert different == []


def test_a_reader_gets_what_was_released(tmp_path):
    house = filled(tmp_path / "c", "")
    reader = house.token("read")
    (made,) = house.ask("GET", "/collections/c/releases", reader, status=200).json()["releases"]
    file = house.ask("GET", f"/collections/c/releases/{made['id']}/sketch", reader, status=200).content
    assert skl.from_bytes(file).ledger.epsilon == 1.0
    page = house.page("/collections/c", reader).text
    assert "shows private releases alone" in page
    assert "Private releases, the newest first" in page
    until = time.monotonic() + 60
    while "data-pending" in (section := house.page("/collections/c/sections/clusters", reader).text):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "Center of cluster 0" in section
    for path in ("epochs", "window", "window/sketch", "drift", "alarms", "senders", "refusals", "passed-on"):
        house.refused(house.ask("GET", f"/collections/c/{path}", reader), 403, "private releases alone")
        house.ask("GET", f"/collections/c/{path}", status=200)  # with the token that administers it
    house.close()


def test_metrics_count_exactly(tmp_path):
    """They are for administrators as soon as one collection has private reading."""
    house = House(tmp_path)
    reader = house.ask("POST", "/tokens", json={"scope": "read"}, status=201).json()["token"]
    house.collection("exact")
    assert house.client.get("/metrics", headers={"Authorization": f"Bearer {reader}"}).status_code == 200
    house.collection("private", private_reading=True)
    assert house.client.get("/metrics", headers={"Authorization": f"Bearer {reader}"}).status_code == 403
    assert house.client.get("/metrics", headers={"Authorization": f"Bearer {house.admin}"}).status_code == 200
    house.close()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_a_route_sees_its_view_and_nothing_else(endpoint):
    """A route that forgot to ask for exact data has no way to it: neither its view nor its call holds the store."""
    from sketchlearn.collector import routes, views

    hints = typing.get_type_hints(endpoint.handler)
    _, given = inspect.signature(endpoint.handler).parameters
    assert hints[given] is endpoint.view
    assert issubclass(endpoint.view, views.View)
    assert not hasattr(routes.Call, "store")
    if not issubclass(endpoint.view, views.AdminView | views.ServerAdminView):
        assert not [name for name in vars(endpoint.view) if name == "store"]


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([[0.0, 0.0]], {"sample_weight": [0.5]}, "fractional weights"),
        ([[0.0, 0.0]], {"sample_weight": [3.0]}, "weight up to 3"),
        ([[0.0, 0.0]], {"unit": ["p"], "rows_per_unit": 1}, "name no unit"),
    ],
)
def test_no_report_makes_releases_fail(tmp_path, rows, options, words):
    """A release that is refused for what one report is would tell readers about it: the report is refused instead."""
    house = House(tmp_path)
    house.collection(operator=OPERATOR, private_reading=True)
    token = house.sender()
    house.refused(house.send(token, OPERATOR.sketch(rows, **options), "r"), 422, words)
    twice = OPERATOR.sketch(rows)
    house.refused(house.send(token, twice.merged(twice, overlapping=True), "r"), 422, "count several times")
    house.close()

"""Collectors that report to a parent: the same bits as one collector, whatever fails on the way."""

import json
import sqlite3
import time

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")

from served import Server

import sketchlearn as skl
from sketchlearn.collector import senders
from sketchlearn.collector.clients.client import Collector
from sketchlearn.collector.database import open_database
from sketchlearn.collector.epochs import epochs_between
from sketchlearn.collector.forwarding import forward, forwarded
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import ExactView
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0)
ROWS = np.random.default_rng(0).standard_normal((360, 2))
HOUR = 3600
THEN = time.time() // HOUR * HOUR - 6 * HOUR


class Leaf:
    """A collector in this process, with a clock of its own and one sender."""

    def __init__(self, folder, parent_url, token, **rules):
        folder.mkdir()
        self.folder, self.now = folder, THEN + 60
        (folder / "parent-collector.json").write_text(json.dumps({"url": parent_url, "tokens": {"c": token}}))
        self.store = Store(open_database(folder / "c.sqlite"), folder, clock=lambda: self.now)
        rules = {"min_records": 1, "grace_seconds": 60, **rules}
        self.collection = self.store.create_collection("test", "c", "C", design_to_bytes(OPERATOR), rules)
        self.store.write("test", senders.add_senders, self.collection, ["a"], None)

    def take(self, rows, name, at):
        self.now = at
        body = OPERATOR.sketch(rows).to_bytes()
        self.store.submit_report(self.collection, 1, name, body, at).result()

    def said(self):
        with self.store.reading() as transaction:
            return [row["sentence"] for row in forwarded(transaction, self.collection)]


def new_collection(server, senders, **rules):
    admin = Collector(server.url, server.token)
    rules = {"min_records": 1, "sealed_only": False, "epoch": "day", "grace_seconds": 5 * 86400, **rules}
    admin.post("/v1/collections", {"name": "c", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules})
    return admin, [one["token"] for one in admin.post("/v1/collections/c/senders", {"names": senders})["senders"]]


def test_a_tree_gives_the_bits_of_one_collector(tmp_path):
    """Two leaves, three hours each, a parent that is away meanwhile, and an answer that is lost."""
    parent = Server(tmp_path / "parent").start()
    admin, tokens = new_collection(parent, ["north", "south"])
    leaves = [Leaf(tmp_path / name, parent.url, token) for name, token in zip("ab", tokens, strict=True)]
    parent.stop()
    for n, rows in enumerate(np.array_split(ROWS, 12)):
        leaves[n % 2].take(rows, f"r{n}", THEN + n // 4 * HOUR + 60 + n)
    for leaf in leaves:
        leaf.now = THEN + 5 * HOUR
        assert leaf.store.maintain() == []
        assert "cannot be reached" in forward(leaf.store)[0]
        assert leaf.said() == ["waiting"] * 3
    parent.start()
    admin.close()
    for leaf in leaves:
        assert forward(leaf.store) == []
        with sqlite3.connect(leaf.folder / "c.sqlite") as database:  # as if the last answer had been lost
            last = ExactView(leaf.store, leaf.collection).read(epochs_between, 0, 2**40)[-1]
            again = (last.sketch(leaf.collection).to_bytes(), last.start)
            database.execute("UPDATE passed_on SET sent = NULL, body = ? WHERE epoch = ?", again)
        database.close()
        assert forward(leaf.store) == []
        assert leaf.said() == ["acknowledged"] * 3
        leaf.store.maintain()
        assert forward(leaf.store) == []
    found = admin.window("c")
    assert found == OPERATOR.sketch(ROWS)
    assert found.sums.tobytes() == OPERATOR.sketch(ROWS).sums.tobytes()
    assert sum(epoch["reports"] for epoch in admin.get("/v1/collections/c/epochs")["epochs"]) == 6
    for leaf in leaves:
        leaf.store.close()
    admin.close()
    parent.stop()


def test_what_is_hidden_is_held_back_and_what_is_refused_is_said(tmp_path):
    with Server(tmp_path / "parent") as parent:
        admin, tokens = new_collection(parent, ["north"], records_per_report=50)
        leaf = Leaf(tmp_path / "a", parent.url, tokens[0], min_records=20)
        leaf.take(ROWS[:10], "few", THEN + 60)
        leaf.take(ROWS[:100], "many", THEN + HOUR + 60)
        leaf.take(ROWS[100:130], "right", THEN + 2 * HOUR + 60)
        leaf.now = THEN + 5 * HOUR
        leaf.store.maintain()
        for _ in range(2):  # and it is said until somebody looks after it
            problems = forward(leaf.store)
            assert [problem.partition(" was ")[2] for problem in problems] == [
                "refused by the parent: a report has at most 50 records here, and this one 100"
            ]
        right, many, few = leaf.said()
        assert right == "acknowledged"
        assert "refused by the parent" in many
        assert few == "held back: it has fewer than 20 records"
        assert admin.window("c") == OPERATOR.sketch(ROWS[100:130])
        (leaf.folder / "parent-collector.json").write_text("{}")
        leaf.store.maintain()
        assert "must be such as" in forward(leaf.store)[0]
        leaf.store.close()
        admin.close()


def test_coarser_epochs_are_not_told_again(tmp_path):
    with Server(tmp_path / "parent") as parent:
        admin, tokens = new_collection(parent, ["north"])
        leaf = Leaf(tmp_path / "a", parent.url, tokens[0], hours_kept_days=1)
        for n, rows in enumerate(np.array_split(ROWS, 3)):
            leaf.take(rows, f"r{n}", THEN + n * HOUR + 60)
        leaf.now = THEN + 5 * HOUR
        leaf.store.maintain()
        assert forward(leaf.store) == []
        leaf.now = THEN + 10 * 86400
        leaf.store.maintain()
        leaf.store.maintain()
        assert {epoch.span for epoch in ExactView(leaf.store, leaf.collection).read(epochs_between, 0, 2**40)} == {
            "day"
        }
        assert forward(leaf.store) == []
        assert leaf.said() == ["acknowledged"] * 3
        assert admin.window("c") == OPERATOR.sketch(ROWS)
        leaf.store.close()
        admin.close()


def test_a_real_leaf_reports_by_itself(tmp_path):
    """Housekeeping of a server seals the epoch and passes it on, without being asked."""
    with Server(tmp_path / "parent") as parent, Server(tmp_path / "leaf") as leaf:
        admin, tokens = new_collection(parent, ["leaf"])
        own, (device,) = new_collection(leaf, ["device"], epoch="hour", grace_seconds=86400)
        named = {"url": parent.url, "tokens": {"c": tokens[0]}}
        (tmp_path / "leaf" / "parent-collector.json").write_text(json.dumps(named))
        with Collector(leaf.url, device) as sender:
            sender.report("c", OPERATOR.sketch(ROWS), id="r", time=THEN + 60)
        own.ask("PATCH", "/v1/collections/c", None, json.dumps({"rules": {"grace_seconds": 60}}).encode())
        until = time.monotonic() + 60
        while [one["sentence"] for one in own.get("/v1/collections/c/passed-on")["epochs"]] != ["acknowledged"]:
            assert time.monotonic() < until, "".join(leaf.said)
            time.sleep(0.2)
        assert admin.window("c") == OPERATOR.sketch(ROWS)
        admin.close()
        own.close()

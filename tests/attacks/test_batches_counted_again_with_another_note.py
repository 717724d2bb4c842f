"""The same batches once more, with another note in the file and under another id: they must not count twice."""

import json
import threading

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import HOUR, OPERATOR, ROWS, House

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector
from sketchlearn.collector.clients.device_client import Design
from sketchlearn.collector.clients.device_designs import device_design
from sketchlearn.collector.forwarding import forward
from sketchlearn.collector.verification import verify


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path)
    yield found
    found.close()


def with_note(sketch):
    """The same sums and batches in other bytes."""
    return sketch.to_bytes(software="another program")


def test_a_changed_note_and_a_new_id(house):
    house.collection()
    a, b = house.sender("a"), house.sender("b")
    sketch = OPERATOR.sketch(ROWS[:50])
    assert house.send(a, sketch, "first").status_code == 201
    assert house.sum() == sketch
    for sender, number in ((a, "second"), (b, "second"), (b, "third")):
        house.refused(house.send(sender, with_note(sketch), number), 409, "would count twice")
    assert house.send(a, sketch, "first").status_code == 201  # a resend is no repetition
    both = sketch + OPERATOR.sketch(ROWS[50:60])  # one of its batches was counted, the other was not
    house.refused(house.send(b, both, "sum"), 409, "would count twice")
    assert house.sum() == sketch
    assert verify(house.store.database).problems == []


def test_in_one_transaction(house):
    """Reports that queue up behind one another are written together."""
    house.collection()
    house.sender()
    collection, sketch = house.store.all_collections()[0], OPERATOR.sketch(ROWS[:50])
    gate = threading.Event()
    first = house.store.writer.submit(lambda _group: gate.wait(10))
    waiting = [house.store.submit_report(collection, 1, f"r{i}", with_note(sketch), None) for i in range(3)]
    gate.set()
    assert first.result(10)
    outcomes = [one.exception(10) for one in waiting]
    assert [error is None for error in outcomes] == [True, False, False]
    assert house.sum() == sketch


def test_batches_of_files_without_numbers(house):
    """What `sketchlearn push` sends has no numbers: its content tells."""
    house.collection()
    token, sketch = house.sender(), OPERATOR.sketch(ROWS[:50])
    assert house.send(token, sketch.content(), "first").status_code == 201
    house.refused(house.send(token, sketch.content(software="another"), "second"), 409, "would count twice")
    assert house.sum() == sketch


def test_private_sketches_again(house):
    house.collection(private_reports=True)
    token = house.sender()
    private = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0)
    assert house.send(token, private, "first").status_code == 201
    house.refused(house.send(token, private.to_bytes(software="another"), "second"), 409, "would count twice")
    assert np.array_equal(house.sum().sums, private.sums)


def test_bits_of_two_devices_may_be_equal(house):
    operator = skl.features.FourierFeatures(2, 8, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=3)
    house.collection(operator=operator.with_origin("declared"))
    tokens, body = [house.sender(name) for name in "ab"], Design(device_design(operator)).message([[0.1, 0.2]])
    for token in tokens:
        assert house.send(token, body, "first").status_code == 201
    assert house.sum().count == 2


def test_what_was_forgotten_does_not_come_back(house):
    """Sums and bodies are removed after a day; the batches stay known."""
    house.collection(grace_seconds=0, forget_days=1, body_days=0)
    token, sketch = house.sender(), OPERATOR.sketch(ROWS[:50])
    assert house.send(token, sketch, "first").status_code == 201
    house.now += 3 * 24 * HOUR
    house.store.maintain()
    house.store.maintain()
    with house.store.reading() as transaction:
        assert transaction.one("SELECT count(*) FROM epochs") == (0,)
    house.refused(house.send(token, with_note(sketch), "second"), 409, "would count twice")


def test_what_was_subtracted_may_come_again(house):
    house.collection(grace_seconds=0)
    a, b = house.sender("a"), house.sender("b")
    sketch = OPERATOR.sketch(ROWS[:50])
    house.send(a, sketch, "first")
    house.refused(house.send(b, with_note(sketch), "second"), 409, "would count twice")
    house.ask("POST", "/collections/c/senders/a/revoke", json={"subtract": True}, status=200)
    assert house.send(b, with_note(sketch), "second").status_code == 201
    assert house.sum() == sketch
    assert verify(house.store.database).problems == []


def test_a_sender_is_not_told_what_others_have_sent(house):
    """With private reading, a repetition of another sender's rows is a report like any other."""
    house.collection(private_reading=True, reports_per_epoch=2)
    a, b = house.sender("a"), house.sender("b")
    guess, other = OPERATOR.sketch(ROWS[:1]).content(), OPERATOR.sketch(ROWS[1:2]).content()
    assert house.send(a, guess, "mine").status_code == 201
    answers = [house.send(b, body, f"guess-{i}") for i, body in enumerate((guess, other))]
    assert [answer.status_code for answer in answers] == [201, 201]
    first, second = (answer.json() for answer in answers)
    for name in ("epoch", "records", "received", "late"):
        assert first[name] == second[name]
    assert house.ask("GET", "/collections/c/reports/guess-0", b).json() == first
    assert house.send(b, guess, "guess-0").json() == first
    house.refused(house.send(b, OPERATOR.sketch(ROWS[2:3]), "third"), 429, "2 reports in an epoch")
    assert house.sum().count == 3
    house.refused(house.send(a, guess, "mine-again"), 409, "would count twice")
    assert verify(house.store.database).problems == []


def test_at_a_parent(house, tmp_path, monkeypatch):
    """An epoch of a leaf that comes again with another note and another id."""
    house.collection(grace_seconds=86400)
    token = house.sender("leaf")
    (tmp_path / "leaf").mkdir()
    leaf = House(tmp_path / "leaf")
    leaf.collection(grace_seconds=0)
    leaf.send(leaf.sender("device"), OPERATOR.sketch(ROWS), "r")
    named = {"url": "http://parent.example", "tokens": {"c": token}}
    (leaf.folder / "parent-collector.json").write_text(json.dumps(named))

    def report(_self, collection, body, *, id, time):
        answer = house.send(token, body, id, collection, time)
        assert answer.status_code == 201, answer.text
        return answer.json()

    monkeypatch.setattr(Collector, "report", report)
    leaf.now += HOUR
    leaf.store.maintain()
    assert forward(leaf.store) == []
    epoch = skl.from_bytes(leaf.ask("GET", "/collections/c/window/sketch").content)
    house.refused(house.send(token, with_note(epoch), "again"), 409, "would count twice")
    assert house.sum() == OPERATOR.sketch(ROWS)
    leaf.close()

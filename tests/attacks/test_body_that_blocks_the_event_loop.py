"""Bodies that take long to read: none is read in the event loop, and no sender keeps the threads from the others."""

import asyncio
import json
import threading

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import OPERATOR, ROWS, House

import sketchlearn as skl
from sketchlearn.collector import routes
from sketchlearn.features.operator import Operator
from sketchlearn.files import sketches as known_operator

LONG = 60  # seconds: for what should not wait at all


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path)
    found.collection(largest_body=8_000_000)
    with found.client:  # one event loop for all requests, as in a server
        yield found
    found.close()


def in_event_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def hostile(operator):
    """A report of another operator than the collection's."""
    return operator.sketch(np.zeros((2, operator.n_features))).to_bytes()


def test_no_body_is_parsed_in_the_event_loop(house, monkeypatch):
    """Reports, of the own design and of others, and JSON: recorded where each is parsed."""
    where = []

    def recorded(function):
        def called(*arguments, **more):
            where.append(in_event_loop())
            return function(*arguments, **more)

        return called

    monkeypatch.setattr(known_operator, "unpack", recorded(known_operator.unpack))
    monkeypatch.setattr(routes, "json_object", recorded(routes.json_object))
    token = house.sender()
    house.send(token, OPERATOR.sketch(ROWS), "own")
    house.send(token, hostile(skl.features.SecondMoments(2, bound=9.0)), "other")
    house.ask("PATCH", "/collections/c", json={"rules": {"min_records": 5}}, status=200)
    assert len(where) == 4
    assert not any(where)


def test_others_are_answered_while_a_body_is_read(house, monkeypatch):
    """Each of five senders sends a body that never ends to be read; a sixth is answered."""
    begun, may_end, read = threading.Semaphore(0), threading.Event(), known_operator.unpack

    def slow(data, *parse):
        if b"SecondMoments" in data:
            begun.release()
            assert may_end.wait(LONG)
        return read(data, *parse)

    monkeypatch.setattr(known_operator, "unpack", slow)
    tokens, body = [house.sender(f"s{i}") for i in range(6)], hostile(skl.features.SecondMoments(2, bound=9.0))
    attackers = [threading.Thread(target=house.send, args=(token, body, "x")) for token in tokens[:5]]
    for attacker in attackers:
        attacker.start()
    try:
        assert begun.acquire(timeout=LONG)
        answers = []
        other = threading.Thread(target=lambda: answers.append(house.send(tokens[5], OPERATOR.sketch(ROWS), "r")))
        other.start()
        other.join(LONG / 2)
        assert [answer.status_code for answer in answers] == [201]
    finally:
        may_end.set()
        for thread in (*attackers, other):
            thread.join(LONG)
    assert house.sum() == OPERATOR.sketch(ROWS)


def test_a_description_of_the_own_design_hides_no_other_one(house, monkeypatch):
    """A header that has the collection's operator beside another one is not taken for a quick one and then parsed."""
    parsed = []
    monkeypatch.setattr(Operator, "unverified", lambda form: parsed.append(form))
    other = skl.features.SecondMoments(2, bound=9.0).sketch(ROWS)
    decoy = other.to_bytes(a={"operator": OPERATOR.to_json()})
    house.refused(house.send(house.sender(), decoy, "x"), 422, "another design")
    assert parsed == []


def test_headers_are_not_longer_than_a_report_needs(house, monkeypatch):
    """Megabytes of JSON are refused by the length that their first bytes tell."""
    monkeypatch.setattr(known_operator, "unpack", lambda *_: pytest.fail("it was parsed"))
    body = OPERATOR.sketch(ROWS).to_bytes(software="x" * 2_000_000)
    house.refused(house.send(house.sender(), body, "x"), 400, "its header has more than")
    house.refused(house.send(house.sender("b"), b"\xff" * 100, "x"), 400, "its header has more than")


def test_senders_take_turns():
    """One sender queues ten bodies, two others one each: nobody waits for more than one body of each other."""
    from sketchlearn.collector.writer import Turns

    turns, order = Turns(), []
    for number in range(10):
        turns.put("a", lambda number=number: order.append(("a", number)))
    for sender in "bc":
        turns.put(sender, lambda sender=sender: order.append((sender, 0)))
    turns.end()
    thread = threading.Thread(target=turns.run)
    thread.start()
    thread.join(LONG)
    assert order[:4] == [("a", 0), ("b", 0), ("c", 0), ("a", 1)]
    assert len(order) == 12


def test_one_sender_has_one_thread():
    """However many threads there are: they are not all busy with the bodies of one sender."""
    from sketchlearn.collector.writer import Turns

    turns, first, may_end, order = Turns(), threading.Event(), threading.Event(), []

    def slow(number):
        first.set()
        assert may_end.wait(LONG)
        order.append(number)

    for number in range(3):
        turns.put("a", lambda number=number: slow(number))
    done = threading.Event()
    threads = [threading.Thread(target=turns.run) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert first.wait(LONG)
    turns.put("b", done.set)
    assert done.wait(LONG)
    may_end.set()
    turns.end()
    for thread in threads:
        thread.join(LONG)
    assert order == [0, 1, 2]


def test_forms_are_json(house):
    """What is parsed in a thread is refused in a sentence, as before."""
    for body in (b"[]", b"{", b"[" * 100_000, json.dumps({"nothing": 1}).encode()):
        answer = house.ask("PATCH", "/collections/c", content=body)
        assert answer.status_code == 400

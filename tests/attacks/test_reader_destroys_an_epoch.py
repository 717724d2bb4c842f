"""A reader at the second of two collectors asks for a total over few reports: the seeds of the others must stay."""

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("cryptography")

from two_collectors import HOUR, NAMES, OPERATOR, ROWS, RULES, Server, parts, send

import sketchlearn as skl
from sketchlearn.collector import secure_aggregation as first_collector
from sketchlearn.collector.clients.secret_shares import HiddenPart
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.secure_aggregation import RefusedError, RemoteSecond


@pytest.fixture
def servers(tmp_path):
    found = [Server(tmp_path / role, {**RULES, "hidden": role}) for role in ("first", "second")]
    yield found
    for server in found:
        server.store.close()


def second_over_routes(b, token):
    def post(path, body):
        answer = b.client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
        if answer.status_code >= 400:
            raise RefusedError(answer.json()["error"])
        return answer.json()

    return RemoteSecond("phones", post)


def test_a_reader_opens_an_epoch_over_some_reports(servers):
    a, b = servers
    sketches = dict(zip(NAMES, map(OPERATOR.sketch, np.array_split(ROWS, len(NAMES))), strict=True))
    messages = parts(b, sketches)
    for name, body in messages.items():
        assert send(a, name, body).status_code == 201
    a.now = b.now = HOUR + 3661
    seeds = [HiddenPart.from_bytes(body).sealed_seed for body in messages.values()]
    some = sorted(seed.fingerprint for seed in seeds)[:10]  # as many as the minimum asks for
    attack = {"collection": "phones", "epoch": in_iso(HOUR), "opening": "mine", "reports": some}
    own = second_over_routes(b, getattr(b, "first", b.reader))
    own.receive(seeds)
    for token in (b.reader, b.tokens[NAMES[0]]):
        assert b.ask("POST", "/totals", token, json=attack).status_code == 403
        assert b.ask("POST", "/seeds", token, json={"seeds": []}).status_code == 403
    total = first_collector.open_epoch(a.store, a.collection, HOUR, own)
    assert total == OPERATOR.sketch(ROWS)
    assert skl.from_bytes(a.ask("GET", "/window/sketch", a.reader).content) == OPERATOR.sketch(ROWS)


def test_the_first_collector_reads_nothing_at_the_second(servers):
    """Its scope is for seeds and totals alone."""
    _, b = servers
    for path in ("/epochs", "/window", "/window/sketch", "/senders", "/releases", "/refusals", "/tokens"):
        assert b.ask("GET", path, b.first).status_code == 403
    assert b.ask("GET", "/design", b.first).status_code == 200

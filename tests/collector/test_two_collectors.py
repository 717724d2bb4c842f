"""Two collectors, each a server of its own: totals are exact and opened once; bits of devices are counted."""

import json
import sqlite3
import time

import numpy as np
import pytest
from served import Server as ServerProcess
from typer.testing import CliRunner

import sketchlearn as skl

pytest.importorskip("starlette")

from two_collectors import HOUR, NAMES, OPERATOR, ROWS, RULES, Server, parts, send

from sketchlearn.cli.commands import app
from sketchlearn.collector import secure_aggregation as first_collector
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.clients.device_client import Design
from sketchlearn.collector.clients.device_designs import device_design
from sketchlearn.collector.database import open_database
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.secure_aggregation import RefusedError
from sketchlearn.collector.verification import verify
from sketchlearn.files.designs import design_to_bytes


@pytest.fixture
def servers(tmp_path, monkeypatch):
    found = Server(tmp_path / "a", {**RULES, "hidden": "first"}), Server(tmp_path / "b", {**RULES, "hidden": "second"})
    a, b = found

    def over_routes(_store, collection):
        def post(path, body):
            answer = b.client.post(path, json=body, headers={"Authorization": f"Bearer {b.first}"})
            if answer.status_code >= 400:
                raise RefusedError(f"the second collector refuses: {answer.json()['error']}")
            return answer.json()

        return first_collector.RemoteSecond(collection.name, post)

    monkeypatch.setattr(first_collector, "second_of", over_routes)
    yield found
    a.store.close()
    b.store.close()


def test_the_total_is_exact_and_opened_once(servers):
    a, b = servers
    sketches = dict(zip(NAMES, map(OPERATOR.sketch, np.array_split(ROWS, len(NAMES))), strict=True))
    messages = parts(b, sketches)
    for name, body in messages.items():
        assert send(a, name, body).status_code == 201
    first = send(a, NAMES[0], messages[NAMES[0]])
    assert (first.status_code, first.json()["epoch"]) == (201, in_iso(HOUR))
    assert send(a, NAMES[0], parts(b, {NAMES[0]: sketches[NAMES[0]]})[NAMES[0]]).status_code == 409
    path = f"/epochs/{HOUR}/open"
    assert a.ask("POST", path, a.admin).status_code == 409  # not over
    a.now = b.now = HOUR + 3600 + 61
    assert send(a, NAMES[0], b"SKLPART\x01damaged").status_code == 400
    assert a.ask("POST", path, a.admin).json() == {"epoch": in_iso(HOUR), "records": 300}
    shown = a.ask("GET", "/window/sketch", a.reader).content
    assert skl.from_bytes(shown) == OPERATOR.sketch(ROWS)
    again = a.ask("POST", path, a.admin)
    assert again.status_code == 409
    assert "opened already" in again.json()["error"]
    asked = {"collection": "phones", "epoch": in_iso(HOUR), "opening": "mine", "reports": []}
    refused = b.ask("POST", "/totals", b.first, json=asked)
    assert refused.status_code == 409
    assert "told once" in refused.json()["error"]
    with a.store.reading() as transaction:
        assert transaction.all("SELECT body FROM hidden_parts WHERE body IS NOT NULL") == []
    assert send(a, NAMES[1], messages[NAMES[1]]).status_code == 201  # a resend: the same answer, nothing changes
    assert first_collector.open_epochs(a.store) == []


def test_an_epoch_below_the_minimum_stays_closed_at_both(servers):
    a, b = servers
    sketches = {name: OPERATOR.sketch(ROWS[:20]) for name in NAMES[:9]}
    for name, body in parts(b, sketches).items():
        send(a, name, body)
    a.now = HOUR + 3661
    answer = a.ask("POST", f"/epochs/{HOUR}/open", a.admin)
    assert answer.status_code == 409
    assert "9 senders" in answer.json()["error"]
    asked = {"collection": "phones", "epoch": in_iso(HOUR), "opening": "mine", "reports": []}
    assert "needs at least 10" in b.ask("POST", "/totals", b.first, json=asked).json()["error"]
    assert "needs at least 10" in first_collector.open_epochs(a.store)[0]


def test_senders_that_the_second_does_not_know_are_left_out(servers):
    """The first collector cannot fill an epoch with reports of its own."""
    a, b = servers
    sketches = {name: OPERATOR.sketch(ROWS[i : i + 20]) for i, name in enumerate(NAMES)}
    invented = {name: b.tokens[name] if i < 11 else "skl_guessed" for i, name in enumerate(NAMES)}
    for name, body in parts(b, sketches, invented).items():
        send(a, name, body)
    a.now = HOUR + 3661
    assert a.ask("POST", f"/epochs/{HOUR}/open", a.admin).json()["records"] == 220
    assert skl.from_bytes(a.ask("GET", "/window/sketch", a.reader).content) == skl.merge(
        [sketches[name] for name in NAMES[:11]], overlapping=True
    )


def test_sketches_and_parts_are_not_mixed_up(servers):
    a, b = servers
    body = OPERATOR.sketch(ROWS).to_bytes()
    assert a.ask("POST", "/reports/r1", a.tokens[NAMES[0]], content=body).status_code == 422
    assert b.ask("POST", "/seeds", b.tokens[NAMES[0]], json={"seeds": []}).status_code == 403
    assert b.ask("POST", "/seeds", b.first, json={"seeds": [{}]}).status_code == 400
    assert a.ask("POST", "/seeds", a.first, json={"seeds": []}).status_code == 409
    changed = a.ask("PATCH", "", a.admin, json={"rules": {"min_reports": 2}})
    assert "cannot be changed" in changed.json()["error"]


@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_bits_of_a_device_are_counted(tmp_path, epsilon):
    """What the device client sends is, at the collector, the sketch of the readings."""
    operator = skl.features.FourierFeatures(2, 30, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=3)
    operator = operator.with_origin("declared")
    server = Server(tmp_path / "a", {"min_records": 10, "disjoint": True, "sealed_only": False}, operator)
    device = Design(device_design(operator, epsilon=epsilon))
    bodies = [device.message(rows.tolist()) for rows in np.array_split(ROWS[:60], 2)]
    for i, body in enumerate(bodies):
        assert server.ask("POST", f"/reports/r{i}", server.tokens[NAMES[0]], content=body).status_code == 201
    found = skl.from_bytes(server.ask("GET", "/window/sketch", server.reader).content)
    kind = skl.features.PackedBits if epsilon is None else skl.privacy.PrivateBits
    sums = sum(operator.sketch_packed(kind.from_bytes(body)).sums for body in bodies)
    assert np.array_equal(found.sums, sums)
    assert (found.ledger is None) == (epsilon is None)
    if epsilon is None:
        assert found == operator.sketch(ROWS[:60])
    server.store.close()


def test_push_hides_what_it_sends(servers, tmp_path, monkeypatch):
    """The command, with its requests given to the first collector's application; noise as the rules ask for it."""
    a, b = servers

    def ask(self, method, path, query=None, data=None, media="application/json"):
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media}
        answer = a.client.request(method, path, params=query, content=data, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.content

    monkeypatch.setattr(Collector, "ask", ask)
    key = b.ask("GET", "/second-key", b.tokens[NAMES[0]]).json()["key"]
    a_time = in_iso(HOUR + 100)
    for i, name in enumerate(NAMES[:12]):
        OPERATOR.sketch(ROWS[20 * i : 20 * i + 20]).save(tmp_path / f"{name}.sketch")
        (tmp_path / "token").write_text(a.tokens[name])
        (tmp_path / "second").write_text(b.tokens[name])
        where = ["--to", "http://a", "--collection", "phones", "--time", a_time, "--token", str(tmp_path / "token")]
        more = ["--second-key", key, "--second-token", str(tmp_path / "second"), "--spool", str(tmp_path / "spool")]
        done = CliRunner().invoke(app, ["push", str(tmp_path / f"{name}.sketch"), *where, *more])
        assert done.exit_code == 0, done.output
    a.now = HOUR + 3661
    assert a.ask("POST", f"/epochs/{HOUR}/open", a.admin).json()["records"] == 240
    assert skl.from_bytes(a.ask("GET", "/window/sketch", a.reader).content) == OPERATOR.sketch(ROWS[:240])


def new_phones(server, role):
    """The collection at a real server, with the tokens of its senders."""
    admin = Collector(server.url, server.token, attempts=1)
    rules = {**RULES, "hidden": role, "grace_seconds": 86400}
    form = {"name": "phones", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules}
    admin.post("/v1/collections", form)
    made = admin.post("/v1/collections/phones/senders", {"names": NAMES})["senders"]
    return admin, {one["name"]: one["token"] for one in made}


def verified(folder):
    database = open_database(folder / "collector.sqlite", writable=False)
    found = verify(database)
    database.close()
    return found


def test_two_servers_from_report_to_total(tmp_path):
    """Two processes and their own calls: pushed, revoked, the second one away, opened by itself, verified."""
    first, second = ServerProcess(tmp_path / "first").start(), ServerProcess(tmp_path / "second").start()
    (a, tokens), (b, credentials) = new_phones(first, "first"), new_phones(second, "second")
    own = b.post("/v1/collections/phones/tokens", {"scope": "first"})["token"]
    named = {"url": second.url, "token": own}
    (tmp_path / "first" / "second-collector.json").write_text(json.dumps(named))
    key = Collector(second.url, credentials[NAMES[0]]).get("/v1/collections/phones/second-key")["key"]
    hour = time.time() // 3600 * 3600 - 2 * 3600
    for name, rows in zip(NAMES, np.array_split(ROWS, len(NAMES)), strict=True):
        OPERATOR.sketch(rows).save(tmp_path / f"{name}.sketch")
        (tmp_path / "token").write_text(tokens[name])
        (tmp_path / "credential").write_text(credentials[name])
        where = ["--to", first.url, "--collection", "phones", "--time", in_iso(hour), "--token", tmp_path / "token"]
        more = ["--second-key", key, "--second-token", tmp_path / "credential", "--spool", tmp_path / "spool"]
        done = CliRunner().invoke(app, [str(one) for one in ["push", tmp_path / f"{name}.sketch", *where, *more]])
        assert done.exit_code == 0, done.output
    revoke = "/v1/collections/phones/senders/{}/revoke"
    assert a.post(revoke.format(NAMES[0]), {"subtract": True}) == {"reports_subtracted": 1, "reports_kept": 0}
    b.post(revoke.format(NAMES[1]), {})  # the second collector leaves it out, too
    assert verified(tmp_path / "first").problems == []
    second.stop()
    b.close()
    a.ask("PATCH", "/v1/collections/phones", None, json.dumps({"rules": {"grace_seconds": 60}}).encode())
    with pytest.raises(CollectorError, match="the second collector cannot be reached") as away:
        a.post(f"/v1/collections/phones/epochs/{int(hour)}/open", {})
    assert away.value.status == 503
    second.start()
    until = time.monotonic() + 60
    while not (epochs := a.get("/v1/collections/phones/epochs")["epochs"]):
        assert time.monotonic() < until, "".join(first.said)
        time.sleep(0.1)
    assert (epochs[0]["reports"], epochs[0]["records"]) == (13, 260)
    assert a.window("phones") == OPERATOR.sketch(ROWS[40:])
    with pytest.raises(CollectorError, match="opened already"):
        a.post(f"/v1/collections/phones/epochs/{int(hour)}/open", {})
    asked = {"collection": "phones", "epoch": in_iso(hour), "opening": "mine", "reports": []}
    with pytest.raises(CollectorError, match="told once"):
        b.post("/v1/collections/phones/totals", asked)
    assert a.post(revoke.format(NAMES[2]), {"subtract": True}) == {"reports_subtracted": 0, "reports_kept": 1}
    assert a.window("phones") == OPERATOR.sketch(ROWS[40:])
    for server in (first, second):
        server.stop()
        assert verified(server.folder).problems == []
    with sqlite3.connect(tmp_path / "first" / "collector.sqlite") as database:
        database.execute("DELETE FROM hidden_parts WHERE sender > 3")
    database.close()
    assert "parts, and says 13" in verified(tmp_path / "first").problems[0]


def test_damaged_parts_are_found(servers):
    a, b = servers
    for name, body in parts(b, {name: OPERATOR.sketch(ROWS[:20]) for name in NAMES[:2]}).items():
        send(a, name, body)
    assert verify(a.store.database).problems == []
    change = "UPDATE hidden_parts SET body = ? WHERE sender = 1"
    a.store.writer.do(lambda transaction: transaction.execute(change, (b"SKLPART\x01damaged",)) and None)
    assert "the body of a part is not the one" in verify(a.store.database).problems[0]


def test_noise_in_shares_makes_the_opened_total_private(tmp_path):
    """Terms of both follow from their rules; what senders claim is what both expect."""
    noise = {"noise_epsilon": 1.0, "noise_parties": 10}
    server = Server(tmp_path / "n", {**RULES, "hidden": "first", **noise})
    terms = first_collector.terms_of(server.collection)
    share = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0, parties=10)
    assert terms.ledger == share.ledger
    server.store.close()

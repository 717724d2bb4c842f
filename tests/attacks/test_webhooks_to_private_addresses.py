"""Webhooks that lead to the server's own machine or network: they are not called, whatever name they have."""

import http.client
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")

import sketchlearn as skl
from sketchlearn.collector import senders
from sketchlearn.collector.background import Housekeeper
from sketchlearn.collector.database import open_database
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_to_bytes

FACTS = {"collection": "c", "kind": "drift"}


class Inside(BaseHTTPRequestHandler):
    """A service beside the collector that nobody outside should reach; it can redirect, too."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Host"]))
        self.send_response(307 if self.path == "/away" else 204)
        if self.path == "/away":
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/secret")
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def inside():
    server = HTTPServer(("127.0.0.1", 0), Inside)
    server.taken = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collection_calls_the_machine_of_its_server(inside, tmp_path):
    """Drift raises an alarm, and the rules send it to a service on loopback."""
    now = [1_800_000_000.0 // 86400 * 86400]
    operator = skl.design(bounds=([-6, -6], [6, 6]), n_components=2, features=skl.features.Fourier(n_frequencies=50))
    store = Store(open_database(tmp_path / "c.sqlite"), tmp_path, clock=lambda: now[0])
    rules = {"grace_seconds": 0, "webhook": f"http://127.0.0.1:{inside.server_port}/secret"}
    collection = store.create_collection("test", "c", "C", design_to_bytes(operator), rules)
    store.write("test", senders.add_senders, collection, ["a"], None)
    rng = np.random.default_rng(0)
    for hour in range(4):
        now[0] += 3600
        rows = rng.standard_normal((500, 2))
        rows[:, 0] += 4.0 * (hour == 3)
        body = operator.sketch(rows).to_bytes()
        store.submit_report(collection, 1, f"r{hour}", body, None).result()
    now[0] += 3600
    keeper, until = Housekeeper(store, Metrics(), 0.02), time.monotonic() + 60

    def attempts():
        with store.reading() as transaction:
            return transaction.all("SELECT attempts FROM alarms")

    while not (found := attempts()) or found[0][0] == 0:
        assert time.monotonic() < until
        time.sleep(0.02)
    keeper.close()
    store.close()
    assert inside.taken == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.5",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::a00:5",
    ],
)
def test_no_private_address_is_connected_to(monkeypatch, address):
    """Whatever the name says; if one of several addresses is private, none is called."""
    from sketchlearn.collector import webhooks

    connected = []
    monkeypatch.setattr(socket, "create_connection", lambda *where, **_: connected.append(where))
    for found in ([address], ["93.184.216.34", address]):
        answers = [(0, 0, 0, "", (one, 80)) for one in found]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, answers=answers, **__: answers)
        assert not webhooks.send("http://innocent.example/hook", FACTS)
    assert connected == []


def test_the_address_that_was_checked_is_the_one_that_is_called(monkeypatch, inside):
    """A name that answers with a public address when it is checked, and with a private one afterwards."""
    from sketchlearn.collector import webhooks

    looked_up, connected = [], []

    def getaddrinfo(*_where, **_more):
        looked_up.append(1)
        return [(0, 0, 0, "", ("93.184.216.34" if len(looked_up) == 1 else "127.0.0.1", inside.server_port))]

    def create_connection(address, *_more):
        connected.append(address)
        raise OSError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    assert not webhooks.send(f"http://rebinding.example:{inside.server_port}/secret", FACTS)
    assert connected == [("93.184.216.34", inside.server_port)]
    assert (len(looked_up), inside.taken) == (1, [])


def test_redirections_are_not_followed(inside):
    from sketchlearn.collector import webhooks

    own = f"127.0.0.1:{inside.server_port}"
    assert not webhooks.send(f"http://{own}/away", FACTS, {own})
    assert [path for path, _ in inside.taken] == ["/away"]


def test_hosts_that_the_server_names_are_called(inside):
    """By host and port; another port of the same host is not."""
    from sketchlearn.collector import webhooks

    own = f"127.0.0.1:{inside.server_port}"
    assert not webhooks.send(f"http://{own}/hook", FACTS, {"127.0.0.1:1"})
    assert webhooks.send(f"http://{own}/hook", FACTS, {own})
    assert inside.taken == [("/hook", own)]


@pytest.mark.parametrize("url", ["http:///x", "http://[::1/x", "http://a:99999/", "ftp://a/", "http://a b/"])
def test_odd_addresses_are_no_errors(monkeypatch, url):
    from sketchlearn.collector import webhooks

    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it was called"))
    monkeypatch.setattr(http.client.HTTPConnection, "connect", lambda _: pytest.fail("it was called"))
    assert not webhooks.send(url, FACTS)

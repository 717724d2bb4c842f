"""Clients of a collector, over a real socket: pushed, spooled, pulled; slow and huge clients; a small fleet."""

import contextlib
import json
import socket
import time

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")

import fleet
from served import Server

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.collector.clients import client
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.clients.spool import Spool
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0, columns=("a", "b"))
ROWS = np.random.default_rng(0).standard_normal((90, 2))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("collector")) as found:
        yield found


@pytest.fixture
def token(server, request):
    """The token of a sender of a new collection, which has the test's name."""
    name = request.node.name.replace("_", "-")[:60]
    admin = Collector(server.url, server.token)
    rules = {"min_records": 1, "sealed_only": False}
    form = {"name": name, "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules}
    admin.post("/v1/collections", form)
    return name, admin.post(f"/v1/collections/{name}/senders", {"names": ["a"]})["senders"][0]["token"]


def run(*arguments, code=0):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found.stdout


def test_idle_connections_are_not_used_again(server, monkeypatch):
    """The collector may have ended them, and a POST that is lost on the way is not repeated."""
    admin = Collector(server.url, server.token)
    admin.get("/v1/collections")
    first = admin._connection
    admin.get("/v1/collections")
    assert admin._connection is first
    monkeypatch.setattr(client, "SECONDS_IDLE", 0.0)
    admin.get("/v1/collections")
    assert admin._connection is not first
    admin.close()


def test_push_and_pull(server, token, tmp_path, monkeypatch):
    name, secret = token
    monkeypatch.setenv("SKETCHLEARN_TOKEN", secret)
    for i in range(3):
        np.savetxt(tmp_path / f"{i}.csv", ROWS[30 * i : 30 * i + 30], delimiter=",", header="a,b", comments="")
    where = ["--collection", name, "--spool", tmp_path / "spool", "--attempts", 1]
    files = sorted(tmp_path.glob("*.csv"))
    nobody = "http://127.0.0.1:9"
    run("push", files[0], "--to", nobody, *where, code=1)  # no design yet
    assert json.loads(run("push", files[0], "--to", server.url, *where, "--json"))["acknowledged"] == 1
    run("merge", "--help")
    again = json.loads(run("push", *files[:2], "--to", server.url, *where, "--json"))
    assert again["acknowledged"] == 2  # the first is sent again, and counts once
    monkeypatch.setenv("SKETCHLEARN_TOKEN", server.token)
    output = tmp_path / "sum.sketch"
    run("pull", "--from", server.url, "--collection", name, "-o", output)
    assert skl.load(output) == OPERATOR.sketch(ROWS[:60])
    run("pull", "--from", server.url, "--collection", name, "--design", "-o", tmp_path / "design.json")
    assert skl.load(tmp_path / "design.json") == OPERATOR


def test_reports_wait_in_the_spool(server, token, tmp_path):
    name, secret = token
    spool = Spool(tmp_path / "spool")
    for i in range(3):
        spool.add(name, OPERATOR.sketch(ROWS[i::3]), id=f"r{i}")
    spool.add(name, b"damaged", id="bad")
    away = Collector("http://127.0.0.1:9", secret, attempts=2)
    pauses = []
    away._sleep = pauses.append
    sent = spool.send(away)
    assert (sent.waiting, len(pauses)) == (4, 1)
    assert "cannot be reached" in sent.reason
    sent = Spool(tmp_path / "spool").send(Collector(server.url, secret))
    assert len(sent.acknowledged) == 3
    assert "cannot be read" in sent.refused["bad"]
    assert spool.waiting() == []
    assert Collector(server.url, server.token).window(name) == OPERATOR.sketch(ROWS)


def test_refusals_come_as_errors(server, token):
    name, secret = token
    collector = Collector(server.url, secret, attempts=1)
    assert collector.design(name) == OPERATOR
    with pytest.raises(CollectorError, match="no such collection") as refused:
        collector.report("nobodys", OPERATOR.sketch(ROWS))
    assert refused.value.status == 404
    with pytest.raises(CollectorError, match="scope read"):
        collector.window(name)
    with pytest.raises(ValueError, match="the URL of a collector"):
        Collector("ftp://x", secret)


def raw(server, data, seconds=20.0):
    """What the server answers to bytes on a socket, until it ends the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        parts = []
        with contextlib.suppress(ConnectionResetError):  # it has sent what was not read
            while part := connection.recv(4096):
                parts.append(part)
    return b"".join(parts)


def test_huge_bodies_are_not_read(server, token):
    name, secret = token
    head = f"POST /v1/collections/{name}/reports/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
    answer = raw(server, (head + "Content-Length: 99999999999\r\n\r\n").encode() + b"0" * 1000)
    assert answer.startswith(b"HTTP/1.1 413")
    chunk = b"10000\r\n" + b"0" * 0x10000 + b"\r\n"
    answer = raw(server, (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + 20 * chunk)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
    assert server.memory() < 1000


@pytest.mark.slow
def test_slow_headers_end(server):
    began = time.monotonic()
    assert raw(server, b"GET /v1/health HTTP/1.1\r\nHost:", 30.0) == b""
    assert time.monotonic() - began < 25


@pytest.mark.slow
def test_a_small_fleet(tmp_path):
    found = fleet.run(Server(tmp_path), 10, 60, 1, 1)
    assert found["server kills"] == 1

"""One sender that announces bodies and never sends them, or opens all connections: others are served."""

import asyncio
import contextlib
import json
import socket

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")

from served import Server

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0)
ROWS = np.random.default_rng(0).standard_normal((90, 2))
ANNOUNCED, CONNECTIONS = 1_000_000, 260  # bytes, the most of one body by default; more of them than fit into memory
FEW = "from sketchlearn.collector import serving; serving.MOST_CONNECTIONS_EACH = 20"


def senders(server, *names):
    with Collector(server.url, server.token) as admin:
        form = {"name": "c", "design": json.loads(design_to_bytes(OPERATOR))}
        admin.post("/v1/collections", form)
        made = admin.post("/v1/collections/c/senders", {"names": list(names)})["senders"]
    return [one["token"] for one in made]


def header(token, number):
    head = f"POST /v1/collections/c/reports/r{number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    return (head + f"Content-Length: {ANNOUNCED}\r\n\r\n").encode()


def test_announced_bodies_that_never_come(tmp_path):
    """260 headers of one sender that announce a megabyte each; another sender is answered, and so is the same one."""
    with Server(tmp_path) as server, contextlib.ExitStack() as stack:
        busy, other = senders(server, "busy", "other")
        for number in range(CONNECTIONS):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            held.sendall(header(busy, number))
        with Collector(server.url, other, attempts=1) as collector:
            assert collector.report("c", OPERATOR.sketch(ROWS), id="r")["records"] == 90


def test_all_connections_of_one_address(tmp_path):
    """One address opens as many connections as it gets; another one is served."""
    with Server(tmp_path, first=FEW) as server, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        assert health(server, "127.0.0.1") == b""  # closed: that address has its share
        assert health(server, "127.0.0.2").startswith(b"HTTP/1.1 200")


def health(server, address):
    """What an address is answered; nothing, if the connection ends at once."""
    where = ("127.0.0.1", server.port)
    with socket.create_connection(where, timeout=30, source_address=(address, 0)) as connection:
        try:
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            return connection.recv(100)
        except ConnectionError:
            return b""


def test_proxies_have_the_connections_of_many(tmp_path):
    with Server(tmp_path, first=FEW, options=["--proxies", "127.0.0.1"]) as server, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        assert health(server, "127.0.0.1").startswith(b"HTTP/1.1 200")


def test_bytes_count_when_they_come_and_each_sender_has_a_share():
    from sketchlearn.collector import limits
    from sketchlearn.collector.refusals import RefusalError

    under_way = limits.BodiesUnderWay()
    with under_way.body("a") as came:
        assert under_way.total == 0
        came(limits.MOST_BYTES_EACH)
        with pytest.raises(RefusalError, match="send less at once"):
            came(1)
        with under_way.body("b") as others, contextlib.ExitStack() as stack:
            others(1_000_000)
            for _ in range(limits.MOST_BODIES_EACH):
                stack.enter_context(under_way.body("c"))
            with pytest.raises(RefusalError, match="bodies under way"):
                stack.enter_context(under_way.body("c"))
            others(1_000_000)
            assert under_way.total == limits.MOST_BYTES_EACH + 2_000_000
    assert (under_way.total, len(under_way.bytes), len(under_way.bodies)) == (0, 0, 0)


def test_a_body_is_counted_chunk_by_chunk():
    from sketchlearn.collector.limits import whole_body

    seen = []

    async def chunks():
        for part in (b"abc", b"", b"de"):
            yield part

    assert asyncio.run(whole_body(chunks(), "5", 10, seen.append)) == b"abcde"
    assert seen == [3, 0, 2]


def test_too_many_bodies_of_one_sender_are_refused_to_that_sender(tmp_path):
    with Server(tmp_path) as server, contextlib.ExitStack() as stack:
        busy, other = senders(server, "busy", "other")
        for number in range(110):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            held.sendall(header(busy, number))
        with Collector(server.url, other, attempts=1) as collector:
            collector.report("c", OPERATOR.sketch(ROWS), id="r")
        with Collector(server.url, busy, attempts=1) as collector, pytest.raises(CollectorError, match="at a time"):
            collector.report("c", OPERATOR.sketch(ROWS[:50]), id="r")

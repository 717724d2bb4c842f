"""A collector over loopback: acknowledged reports a second, seconds to an answer at a given rate, memory over many.

The load comes from this process, the collector is one of its own; both share the machine.

python benchmarks/collector/load.py --reports 5000
python benchmarks/collector/load.py --only memory --reports 100000
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

import sketchlearn as skl

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from served import Cluster, Server

OPERATOR = skl.features.FourierFeatures(
    5, 1000, law=skl.features.frequencies.Gaussian(1.0), seed=0
)  # 2000 sums: reports of 16 kB


try:
    from uvloop import run
except ImportError:  # the load then costs more
    from asyncio import run


def ask(server, path, form=None, token=None):
    """The JSON answer of a route."""
    data = None if form is None else json.dumps(form).encode()
    headers = {"Authorization": f"Bearer {token or server.token}"}
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers)) as answer:
        return json.load(answer)


def prepare(server, n_senders=100):
    """A collection and the tokens of its senders."""
    from sketchlearn.files.designs import design_to_bytes

    rules = {"reports_per_minute": 1_000_000, "epoch": "day"}
    ask(server, "/v1/collections", {"name": "c", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules})
    names = [f"device-{i}" for i in range(n_senders)]
    return [one["token"] for one in ask(server, "/v1/collections/c/senders", {"names": names})["senders"]]


def bodies(n, seed):
    """Reports of 20 rows each."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield OPERATOR.sketch(rng.standard_normal((20, 5)), n_jobs=1).to_bytes()


class Connection(asyncio.Protocol):
    """A kept-alive connection that sends one report after the other, at little cost to the machine that it shares."""

    def __init__(self):
        self.answer, self.received = None, b""

    @classmethod
    async def open(cls, port):
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(cls, "127.0.0.1", port))[1]

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        head, ended, body = self.received.partition(b"\r\n\r\n")
        if ended and len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            self.received = b""
            self.answer.set_result(int(head[9:12]))

    def connection_lost(self, _error):
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the collector ended the connection"))

    def send(self, name, token, body):
        """Sends a report; the status of the answer is to be awaited."""
        head = (
            f"POST /v1/collections/c/reports/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.writelines([head.encode(), body])
        return self.answer


async def at_full_speed(server, tokens, reports, n_connections, prefix):
    """Reports a second, each connection sending its next one when the last was answered."""
    connections = [await Connection.open(server.port) for _ in range(n_connections)]
    pending = list(enumerate(reports))

    async def work(connection):
        while pending:
            number, body = pending.pop()
            status = await connection.send(f"{prefix}{number}", tokens[number % len(tokens)], body)
            assert status == 201, status

    began = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    return len(reports) / (time.perf_counter() - began)


async def at_rate(server, tokens, reports, rate, n_connections, prefix):
    """Seconds to each answer, reports being due at a fixed rate whether or not earlier ones were answered."""
    free = asyncio.Queue()
    for _ in range(n_connections):
        free.put_nowait(await Connection.open(server.port))
    began, seconds = time.perf_counter() + 0.1, []

    async def one(number, body):
        due = began + number / rate
        await asyncio.sleep(max(0, due - time.perf_counter()))
        connection = await free.get()
        assert await connection.send(f"{prefix}{number}", tokens[number % len(tokens)], body) == 201
        seconds.append(time.perf_counter() - due)
        free.put_nowait(connection)

    await asyncio.gather(*(one(number, body) for number, body in enumerate(reports)))
    return np.array(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=5000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--only", choices=["speed", "latency", "memory"])
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        if options.postgresql:
            with Cluster() as cluster:
                measure(Server(folder, cluster.url), options)
        else:
            measure(Server(folder), options)


def measure(server, options):
    with server:
        tokens = prepare(server)
        if options.only in (None, "speed"):
            reports, before = list(bodies(options.reports, 1)), server.cpu_seconds()
            speed = run(at_full_speed(server, tokens, reports, options.connections, "s"))
            each = (server.cpu_seconds() - before) / options.reports
            size = f"{len(reports[0]):,} bytes, {options.reports:,} reports"
            print(f"load average {os.getloadavg()[0]:.1f}", end=": ")
            print(f"{speed:.0f} acknowledged reports a second ({size}; {1000 * each:.2f} ms of processor time each)")
        if options.only in (None, "latency"):
            reports = list(bodies(min(options.reports, int(30 * options.rate)), 2))
            seconds = run(at_rate(server, tokens, reports, options.rate, options.connections, "l"))
            shown = ", ".join(f"{q} % {1000 * np.percentile(seconds, q):.0f} ms" for q in (50, 90, 99, 100))
            print(f"load average {os.getloadavg()[0]:.1f}: at {options.rate:g} a second: {shown}")
        if options.only in (None, "memory"):
            step = max(1, options.reports // 10)
            for part in range(10):
                run(at_full_speed(server, tokens, list(bodies(step, 3 + part)), 16, f"m{part}-"))
                print(f"{(part + 1) * step:,} reports: {server.memory():.0f} MB")


if __name__ == "__main__":
    main()

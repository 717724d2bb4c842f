"""A collector on a network: TLS, proxies, webhooks, slow clients, and senders that are offline for a while."""

import contextlib
import http.client
import ipaddress
import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from served import Server

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.collector import senders
from sketchlearn.collector.background import Housekeeper
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.database import open_database
from sketchlearn.collector.limits import FAILURES_PER_MINUTE
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0, columns=("a", "b"))
ROWS = np.random.default_rng(0).standard_normal((90, 2))
SHORT = "from sketchlearn.collector import limits; limits.SECONDS_FOR_BODY = 1.5"


def new_sender(server, certificate=None):
    """A collection "c", and the token of its sender."""
    with Collector(server.url, server.token, certificate=certificate) as admin:
        rules = {"min_records": 1, "sealed_only": False}
        form = {"name": "c", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules}
        admin.post("/v1/collections", form)
        return admin.post("/v1/collections/c/senders", {"names": ["a"]})["senders"][0]["token"]


def own_certificate(folder):
    """Files of a certificate for 127.0.0.1 that nobody else has signed, and of its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "collector")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return paths


def test_tls_by_certificate_files(tmp_path):
    certificate, key = own_certificate(tmp_path)
    with Server(tmp_path / "c", options=["--certificate", certificate, "--certificate-key", key]) as server:
        assert server.url.startswith("https://")
        token = new_sender(server, str(certificate))
        with Collector(server.url, token, certificate=str(certificate)) as sender:
            sender.report("c", OPERATOR.sketch(ROWS), id="r")
        with pytest.raises(CollectorError, match="cannot be reached"):  # a certificate that it does not know
            Collector(server.url, token, attempts=1).design("c")
        with pytest.raises(CollectorError, match="cannot be reached"):  # plain HTTP to a port of TLS
            Collector(server.url.replace("https", "http"), token, attempts=1).design("c")
        with Collector(server.url, server.token, certificate=str(certificate)) as admin:
            assert admin.window("c") == OPERATOR.sketch(ROWS)


def status(server, forwarded, token="wrong"):
    """What a request with a forwarded address is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": forwarded, "X-Forwarded-Proto": "https"}
    connection.request("GET", "/v1/collections", headers=headers)
    found = connection.getresponse().status
    connection.close()
    return found


@pytest.mark.parametrize("believed", [True, False])
def test_forwarded_addresses_are_believed_of_named_proxies_alone(tmp_path, believed):
    """Wrong tokens are counted by address: the last one that a named proxy vouches for, or the connection's own."""
    with Server(tmp_path, options=["--proxies", "127.0.0.1"] if believed else []) as server:
        for n in range(FAILURES_PER_MINUTE):
            assert status(server, f"198.51.100.{n}, 203.0.113.5") == 401  # what clients add in front changes nothing
        assert status(server, "203.0.113.5") == 429
        others = status(server, "203.0.113.6"), status(server, "203.0.113.6", server.token)
        assert others == ((401, 200) if believed else (429, 200))  # a valid token is taken in any case


class Hook(BaseHTTPRequestHandler):
    """Takes an alarm, and has a bad day at first."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(500 if len(self.server.taken) == 1 else 204)
        self.end_headers()

    def log_message(self, *_arguments):
        pass


def test_an_alarm_is_sent_to_the_webhook_until_it_is_taken(tmp_path):
    hook = HTTPServer(("127.0.0.1", 0), Hook)
    hook.taken = []
    thread = threading.Thread(target=hook.serve_forever)
    thread.start()
    now = [1_800_000_000.0 // 86400 * 86400]
    operator = skl.design(bounds=([-6, -6], [6, 6]), n_components=2, features=skl.features.Fourier(n_frequencies=50))
    store = Store(open_database(tmp_path / "c.sqlite"), tmp_path, clock=lambda: now[0])
    rules = {"grace_seconds": 0, "webhook": f"http://127.0.0.1:{hook.server_port}/alarms"}
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
    own = {f"127.0.0.1:{hook.server_port}"}
    keeper, until = Housekeeper(store, Metrics(), 0.02, own), time.monotonic() + 60

    def delivered():
        with store.reading() as transaction:
            return transaction.all("SELECT attempts, delivered IS NOT NULL FROM alarms")

    while delivered() != [(2, 1)]:
        assert time.monotonic() < until, delivered()
        time.sleep(0.02)
    keeper.close()
    hook.shutdown()
    thread.join()
    hook.server_close()
    store.close()
    first, second = hook.taken
    assert first == second
    path, media, alarm = first
    assert (path, media) == ("/alarms", "application/json")
    assert set(alarm) == {"collection", "epoch", "kind", "sentence"}
    assert (alarm["collection"], alarm["kind"]) == ("c", "drift")
    assert "The records changed" in alarm["sentence"]


def test_a_body_that_trickles_in_is_cut_off(tmp_path):
    """A byte at a time: refused with 408 when its time is over, the connection ends; others are served meanwhile."""
    with Server(tmp_path, first=SHORT) as server:
        token = new_sender(server)
        body = OPERATOR.sketch(ROWS).to_bytes()
        head = f"POST /v1/collections/c/reports/r HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.1) as slow:
            slow.sendall((head + f"Content-Length: {len(body)}\r\n\r\n").encode())
            answer, sent, until = b"", 0, time.monotonic() + 60
            while b"\r\n\r\n" not in answer:
                assert time.monotonic() < until
                with contextlib.suppress(TimeoutError):
                    slow.sendall(body[sent : sent + 1])
                    sent += 1
                    answer += slow.recv(4096)
                if sent == 3:
                    with Collector(server.url, token) as other:
                        other.report("c", OPERATOR.sketch(ROWS[:30]), id="other")
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in answer.lower()
            assert sent < len(body)
        with Collector(server.url, token) as again, Collector(server.url, server.token) as admin:
            again.report("c", body, id="r")
            assert admin.window("c") == OPERATOR.sketch(np.concatenate([ROWS[:30], ROWS]))


def test_push_while_offline_is_resumed(tmp_path, monkeypatch):
    """The collector is away for two of four pushes; the last one sends what they left, each once."""
    server = Server(tmp_path / "c").start()
    monkeypatch.setenv("SKETCHLEARN_TOKEN", new_sender(server))
    files = [tmp_path / f"{i}.csv" for i in range(4)]
    for i, path in enumerate(files):
        np.savetxt(path, ROWS[20 * i : 20 * i + 20], delimiter=",", header="a,b", comments="")

    def push(*paths, code):
        where = ["--to", server.url, "--collection", "c", "--spool", tmp_path / "spool", "--attempts", "1", "--json"]
        found = CliRunner().invoke(app, ["push", *map(str, [*paths, *where])])
        assert found.exit_code == code, found.output
        return json.loads(found.stdout)

    assert push(files[0], code=0)["acknowledged"] == 1
    server.kill()
    assert push(files[1], code=1)["waiting"] == 1
    said = push(files[1], files[2], code=1)
    assert (said["waiting"], said["acknowledged"]) == (2, 0)
    assert "cannot be reached" in said["reason"]
    server.start()
    assert push(files[3], code=0)["acknowledged"] == 3
    with Collector(server.url, server.token) as admin:
        assert admin.window("c") == OPERATOR.sketch(ROWS[:80])
        assert sum(epoch["reports"] for epoch in admin.get("/v1/collections/c/epochs")["epochs"]) == 4
    server.stop()

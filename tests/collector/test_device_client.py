"""The device client: the same bits as `operator.pack`, with the standard library alone; nothing sent twice or lost."""

import ast
import http.server
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.collector.clients import device_client
from sketchlearn.collector.clients.device_client import Design, Sender, Spool, fused
from sketchlearn.collector.clients.device_designs import device_design

OPERATOR = skl.features.FourierFeatures(
    3, 60, law=skl.features.frequencies.AdaptedRadius(1.0), wave="square", center=[1.0, -2.0, 0.5], seed=5
).with_origin("declared")
DESIGN = Design(device_design(OPERATOR))
ROWS = np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 50.0, 1e-3]


def test_the_bits_are_those_of_the_operator():
    packed = OPERATOR.pack(ROWS)
    message = DESIGN.message(ROWS.tolist())
    assert message == packed.to_bytes()
    assert OPERATOR.sketch_packed(skl.features.PackedBits.from_bytes(message)) == OPERATOR.sketch(ROWS)


@pytest.mark.parametrize("wave", [skl.features.waves.Square(complex=False), skl.features.waves.Square()])
@pytest.mark.parametrize("n_features", [1, 7])
def test_the_bits_of_other_designs(wave, n_features):
    operator = skl.features.FourierFeatures(n_features, 33, law=skl.features.frequencies.Cauchy(0.1), wave=wave, seed=2)
    rows = np.random.default_rng(3).standard_cauchy(size=(30, n_features)) * 1e3
    assert Design(device_design(operator)).message(rows.tolist()) == operator.pack(rows).to_bytes()


@given(st.lists(st.floats(-1e15, 1e15) | st.floats(-1.0, 1.0), min_size=3, max_size=3))
def test_the_bits_of_any_reading(reading):
    assert DESIGN.message([reading]) == OPERATOR.pack([reading]).to_bytes()


SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)


@given(SINGLE, st.floats(-1024.0, 1024.0, width=32), SINGLE)
def test_products_and_sums_are_rounded_once(a, b, c):
    """Beside exact fractions."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = fused(a, b, c)
    spacing = np.spacing(np.float32(found))
    near = [np.float32(found), np.float32(found) + spacing, np.float32(found) - spacing]
    distances = [abs(Fraction(float(x)) - exact) for x in near]
    assert distances[0] == min(distances)
    if distances.count(distances[0]) > 1:  # half-way: the last bit is 0
        assert np.float32(found).view(np.int32) % 2 == 0


def test_a_half_that_float64_rounds_away_is_seen():
    """1 + 2^-24 + 2^-80 is above the half between two float32 numbers; float64 alone would drop the last part."""
    assert fused(2.0**-40, 2.0**-40, 1.0) == 1.0
    a = 1.0 + 2.0**-23  # a * b = 2^-24 + 2^-47, as far as float64 beside 1 would see 2^-24 + 2^-47 exactly
    assert fused(a, 2.0**-24, 1.0) == 1.0 + 2.0**-23
    assert fused(2.0**-24, 1.0, 1.0) == 1.0  # a half exactly: to even
    assert fused(1.0 + 2.0**-23, 2.0**-24 * (1 - 2.0**-23), 1.0) == 1.0  # a half less 2^-70: float64 sees a half
    assert fused(1.0 + 2.0**-23, 2.0**-24 * (1 - 2.0**-23), 1.0 + 2.0**-23) == 1.0 + 2.0**-23


def test_private_bits_are_those_that_the_package_reads(monkeypatch):
    design = Design(device_design(OPERATOR, epsilon=4.0))
    bits = skl.privacy.PrivateBits.from_bytes(design.message(ROWS.tolist()))
    assert bits.response == OPERATOR.pack(ROWS, epsilon=4.0).response
    assert len(bits) == len(ROWS)
    assert OPERATOR.sketch_packed(bits).ledger.epsilon == 4.0
    # with the truth always sent, the answers are the reading's bits from the position on
    monkeypatch.setattr(design_random := device_client.secrets, "randbits", lambda _n: 0)
    draws = iter([v for row in range(len(ROWS)) for v in ((17 * row) % OPERATOR.n_sums, 0)])
    monkeypatch.setattr(design_random, "randbelow", lambda _n: next(draws))
    found = skl.privacy.PrivateBits.from_bytes(design.message(ROWS.tolist()))
    signs, n_sent = OPERATOR.pack(ROWS).signs(), found.response.n_sent
    for row, (position, answer) in enumerate(zip(found.positions, found.answers, strict=True)):
        wanted = [signs[row, (position + i) % OPERATOR.n_sums] > 0 for i in range(n_sent)]
        assert [bool(answer >> np.uint64(i) & np.uint64(1)) for i in range(n_sent)] == wanted


def test_the_truth_is_sent_as_often_as_the_response_says():
    """Of one reading, many times: within 5 deviations of a binomial number, so wrong in fewer than 1 of 10^6 runs."""
    design, n = Design(device_design(OPERATOR, epsilon=2.0)), 20_000
    response = OPERATOR.pack(ROWS[:1], epsilon=2.0).response
    row = DESIGN.bits(ROWS[0].tolist())
    n_sent, factor = response.n_sent, response.factor
    doubled, mask = row | row << OPERATOR.n_sums, (1 << n_sent) - 1
    sent = [design._response(row, n_sent, factor) for _ in range(n)]
    agree = sum(answer == doubled >> position & mask for position, answer in sent)
    expected = float(response.truth + (1 - response.truth) / 2**n_sent)
    assert abs(agree - n * expected) < 5 * (n * expected * (1 - expected)) ** 0.5


def test_the_client_is_one_file_of_the_standard_library(tmp_path):
    """Copied away, it runs without this package: a reading that cannot be sent waits in the spool."""
    source = Path(device_client.__file__).read_text()
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)
    (tmp_path / "client.py").write_text(source)
    (tmp_path / "design.json").write_bytes(device_design(OPERATOR))
    (tmp_path / "token").write_text("t\n")
    options = ["--design", "design.json", "--to", "http://127.0.0.1:9", "--collection", "c", "--token-file", "token"]
    quick = "import client; client.Sender.__init__.__kwdefaults__['attempts'] = 1;"
    code = f"import sys; {quick} sys.exit(client.main({[*options, '--spool', 'spool']!r}))"
    lines = "\n".join(",".join(map(repr, map(float, row))) for row in ROWS) + "\nnot a reading\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=tmp_path, input=lines, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "line 41 is not a reading, and is skipped",
        "1 reports wait in spool: run this again to send them",
    ]
    (waiting,) = (tmp_path / "spool").glob("*.report")
    assert waiting.read_bytes() == OPERATOR.pack(ROWS).to_bytes()
    assert waiting.stat().st_mode & 0o077 == 0


class Collector(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses that the test lists, and notes what came."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, _, report_id = self.path.rpartition("/")
        self.server.came.append((report_id, self.headers["Authorization"], path, body))
        status = self.server.statuses.pop(0) if self.server.statuses else 201
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"reason")

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.came, server.statuses = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def sender(collector, tmp_path, monkeypatch):
    monkeypatch.setattr(device_client.time, "sleep", lambda _: None)
    url = f"http://127.0.0.1:{collector.server_port}/"
    return Sender(url, "a room/1", "secret", Spool(tmp_path / "spool"), attempts=4)


def test_a_report_is_sent_until_it_is_acknowledged(collector, sender, tmp_path):
    """Lost answers and busy servers: the same id and the same bytes again."""
    spool = Spool(tmp_path / "spool")
    name = spool.add(b"body")
    collector.statuses = [None, 503, 429]
    assert sender.send_all()
    assert {came[0] for came in collector.came} == {name}
    assert {came[3] for came in collector.came} == {b"body"}
    assert len(collector.came) == 4
    assert collector.came[0][1:3] == ("Bearer secret", "/v1/collections/a%20room%2F1/reports")
    assert not spool.waiting()


def test_what_cannot_be_sent_waits_in_order(collector, sender, tmp_path):
    spool = Spool(tmp_path / "spool")
    names = [spool.add(body) for body in (b"one", b"two")]
    collector.statuses = [503] * 4
    assert not sender.send_all()
    assert [path.stem for path in spool.waiting()] == names
    assert sender.send_all()
    assert [came[3] for came in collector.came[4:]] == [b"one", b"two"]


def test_refused_reports_are_put_aside_with_the_reason(collector, sender, tmp_path):
    spool = Spool(tmp_path / "spool")
    name = spool.add(b"one")
    collector.statuses = [422]
    assert sender.send_all()
    assert (tmp_path / "spool" / f"{name}.refused").read_bytes() == b"one"
    assert (tmp_path / "spool" / f"{name}.reason").read_text() == "reason\n"
    collector.statuses = [401]
    spool.add(b"two")
    with pytest.raises(PermissionError, match="does not accept the token: reason"):
        sender.send_all()
    assert len(spool.waiting()) == 1


def test_designs_that_a_device_cannot_compute():
    for operator in (
        skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0), seed=1),
        skl.features.FourierFeatures(
            8, 64, law=skl.features.frequencies.Gaussian(1.0), wave="square", structured=True, seed=1
        ),
        skl.features.SecondMoments(2, bound=1.0),
    ):
        with pytest.raises(ValueError, match="single bits of plain frequencies"):
            device_design(operator)
    with pytest.raises(ValueError, match="declared"):
        device_design(
            skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=1),
            epsilon=1.0,
        )
    for reading in ([1.0], [float("nan")] * 3, [float("inf")] * 3, [0.0, float("-inf"), 0.0]):
        with pytest.raises(ValueError, match="a reading has"):
            DESIGN.bits(reading)

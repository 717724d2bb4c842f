#!/usr/bin/env python3
"""Sends readings of a device to a collector as single bits: one file, Python's standard library alone.

    python3 device_client.py --design device.json --to https://collector.example --collection rooms \
        --token-file token --spool /var/spool/readings < readings.csv

Each line of the input is a reading: numbers, separated by commas. Every `--batch` readings, and those left at the end,
become one report. A report is written to the spool before it is sent, and removed when the collector has acknowledged
it. If anything fails in between, the next run sends it again, with the same id and the same bytes, and the collector
counts it once.

sketchlearn.collector.clients.device_designs writes the design for devices. The bits are exactly those of
`operator.pack`: float32 arithmetic as docs/reference/arithmetic.md says, done here in integers and float64.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import random
import secrets
import struct
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

KIND, VERSION = "sketchlearn device design", 1
BITS_HEADER = struct.Struct("<8sQQ")  # magic, rows, bits per row
PRIVATE_HEADER = struct.Struct("<8sQdQQQ")  # magic, rows, epsilon, bits of a reading, bits sent, factor
LARGEST_VALUE = 2.0**60  # Beyond, a phase has no digits left.
FARTHEST = LARGEST_VALUE * (1 - 2.0**-20)  # Values that are farther away are clipped to this.
ATTEMPTS, FIRST_WAIT, LONGEST_WAIT = 8, 0.5, 60.0  # seconds
RETRIED = (408, 425, 429, 500, 502, 503, 504)


def single(value: float) -> float:
    """The nearest float32."""
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _clipped(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def fused(a: float, b: float, c: float) -> float:
    """a * b + c of float32 numbers, rounded once to float32.

    The product is exact in float64. The sum is rounded to float64 towards an odd last bit where it is not exact, so
    that the second rounding, to float32, sees on which side of a half the exact sum lies.
    """
    product = a * b
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    if lost:
        bits = struct.unpack("<q", struct.pack("<d", total))[0]
        if bits % 2 == 0:
            total = math.nextafter(total, math.copysign(math.inf, lost))
    return single(total)


class Design:
    """A design for devices: the frequencies that turn readings into bits."""

    def __init__(self, data: bytes) -> None:
        form = json.loads(data)
        if form.get("kind") != KIND or form.get("version") != VERSION:
            raise ValueError("the design is not a device design that this client can read")
        self.n_features, n_frequencies, self.parts = (
            int(form[name]) for name in ("n_features", "n_frequencies", "parts")
        )
        self.center = _numbers(form["center"], self.n_features)
        flat = _numbers(form["frequencies"], self.n_features * n_frequencies)
        d = self.n_features
        self.frequencies = [flat[d * j : d * (j + 1)] for j in range(n_frequencies)]
        self.dither = _numbers(form["dither"], n_frequencies)
        self.response: dict[str, Any] | None = form["response"]

    @property
    def n_bits(self) -> int:
        return self.parts * len(self.frequencies)

    def bits(self, reading: Sequence[float]) -> int:
        """The bits of a reading, bit j of the number that of feature j: 1 for +1, 0 for -1."""
        if len(reading) != self.n_features:
            raise ValueError(f"a reading has {len(reading)} numbers, but the design takes {self.n_features}")
        if not all(-math.inf < x < math.inf for x in reading):
            raise ValueError("a reading has a value that is no finite number")
        largest = sys.float_info.max
        pairs = [(float(_clipped(x, -largest, largest)), c) for x, c in zip(reading, self.center, strict=True)]
        centred = [single(x - c) if abs(x - c) < 1e38 else math.inf for x, c in pairs]
        if not all(abs(y) <= LARGEST_VALUE for y in centred):  # clipped: a reading that is not sent would tell
            centred = [single(_clipped(x, c - FARTHEST, c + FARTHEST) - c) for x, c in pairs]
        found, n = 0, len(self.frequencies)
        for j, (frequency, shift) in enumerate(zip(self.frequencies, self.dither, strict=True)):
            phase = 0.0
            for y, w in zip(centred, frequency, strict=True):
                phase = fused(y, w, phase)
            quarter = math.floor(4 * single(phase + shift)) % 4
            found |= (quarter in (0, 3)) << j
            if self.parts == 2:
                found |= (quarter < 2) << (n + j)
        return found

    def message(self, readings: Iterable[Sequence[float]]) -> bytes:
        """The report of some readings: packed bits, or randomised responses, as sketchlearn reads them."""
        rows = [self.bits(reading) for reading in readings]
        if self.response is None:
            width = -(-self.n_bits // 8)
            return BITS_HEADER.pack(b"SKLBITS\x01", len(rows), self.n_bits) + b"".join(
                row.to_bytes(width, "little") for row in rows
            )
        epsilon, n_sent, factor = (self.response[name] for name in ("epsilon", "n_sent", "factor"))
        place, width = max(1, -(-(self.n_bits - 1).bit_length() // 8)), -(-n_sent // 8)
        header = PRIVATE_HEADER.pack(b"SKLRESP\x01", len(rows), epsilon, self.n_bits, n_sent, factor)
        sent = (self._response(row, n_sent, factor) for row in rows)
        return header + b"".join(p.to_bytes(place, "little") + b.to_bytes(width, "little") for p, b in sent)

    def _response(self, row: int, n_sent: int, factor: int) -> tuple[int, int]:
        """A position, and the bits from there on: true with probability n_bits / (n_sent factor), or fair coins."""
        position = secrets.randbelow(self.n_bits)
        twice = row | row << self.n_bits  # after the last bit comes the first
        true_bits, coins = twice >> position & ((1 << n_sent) - 1), secrets.randbits(n_sent)
        return position, true_bits if secrets.randbelow(n_sent * factor) < self.n_bits else coins


class Spool:
    """Reports that the collector has not acknowledged yet: a file each, in a folder that only its owner can read."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def add(self, body: bytes) -> str:
        """Writes a report, completely or not at all; returns its id."""
        name = f"{time.time_ns():020d}-{secrets.token_hex(8)}"
        part = self.folder / f".{name}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.folder / f"{name}.report")
        return name

    def waiting(self) -> list[Path]:
        """The files of the reports that wait, the oldest first."""
        return sorted(self.folder.glob("*.report"))

    def refuse(self, path: Path, reason: str) -> None:
        """Sets aside a report that the collector will never take, with the reason."""
        path.with_suffix(".reason").write_text(reason + "\n")
        path.rename(path.with_suffix(".refused"))


class Sender:
    """Sends the reports of a spool."""

    def __init__(self, url: str, collection: str, token: str, spool: Spool, *, attempts: int = ATTEMPTS) -> None:
        self._url = f"{url.rstrip('/')}/v1/collections/{urllib.parse.quote(collection, safe='')}/reports"
        self._token, self._spool, self._attempts = token, spool, attempts

    def send_all(self) -> bool:
        """Whether the spool is empty afterwards. Reports that could not be sent stay for the next time."""
        return all(self._send(path) for path in self._spool.waiting())

    def _send(self, path: Path) -> bool:
        """Whether a report has left the spool: acknowledged, or refused for good."""
        body, wait = path.read_bytes(), FIRST_WAIT
        for attempt in range(self._attempts):
            try:
                self._post(path.stem, body)
            except urllib.error.HTTPError as error:
                with error:
                    reason = error.read(2000).decode("utf-8", "replace")
                if error.code in (401, 403):
                    raise PermissionError(f"the collector does not accept the token: {reason}") from None
                if error.code not in RETRIED:
                    self._spool.refuse(path, reason)
                    return True
                asked = error.headers.get("Retry-After", "")
                wait = max(wait, float(asked) if asked.isdecimal() else 0.0)
            except OSError:  # no connection, or lost on the way
                pass
            else:
                path.unlink()
                return True
            if attempt + 1 < self._attempts:
                time.sleep(min(LONGEST_WAIT, wait) * random.uniform(0.5, 1.0))  # devices that woke together spread
                wait *= 2
        return False

    def _post(self, report_id: str, body: bytes) -> None:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
        }
        request = urllib.request.Request(f"{self._url}/{report_id}", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read(2000)


def readings_of(lines: Iterable[str], batch: int) -> Iterator[list[list[float]]]:
    """Readings in batches. Lines that are no readings are skipped with a message."""
    found: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append([float(cell) for cell in line.split(",")])
        except ValueError:
            print(f"line {number} is not a reading, and is skipped", file=sys.stderr)
        if len(found) == batch:
            yield found
            found = []
    if found:
        yield found


def _numbers(text: str, n: int) -> list[float]:
    data = base64.b64decode(text, validate=True)
    if len(data) != 4 * n:
        raise ValueError("the design for devices is damaged")
    return list(struct.unpack(f"<{n}f", data))


def main(arguments: Sequence[str] | None = None) -> int:
    """Spools the readings of the standard input, and sends all reports; 0 if none waits afterwards, else 1."""
    parser = argparse.ArgumentParser(description="Send readings to a collector as single bits.")
    parser.add_argument("--design", required=True, help="the design for devices, a JSON file")
    parser.add_argument("--to", required=True, metavar="URL", help="the collector")
    parser.add_argument("--collection", required=True)
    parser.add_argument("--token-file", required=True, help="a file with this device's token")
    parser.add_argument("--spool", required=True, help="a folder for reports that wait to be sent")
    parser.add_argument("--batch", type=int, default=100, help="readings per report (100)")
    given = parser.parse_args(arguments)
    design, spool = Design(Path(given.design).read_bytes()), Spool(given.spool)
    token = Path(given.token_file).read_text().strip()
    sender = Sender(given.to, given.collection, token, spool)
    emptied = sender.send_all()
    for readings in readings_of(sys.stdin, given.batch):
        spool.add(design.message(readings))
        emptied = sender.send_all() if emptied else False
    waiting = len(spool.waiting())
    if waiting:
        print(f"{waiting:,} reports wait in {given.spool}: run this again to send them", file=sys.stderr)
    return 1 if waiting else 0


if __name__ == "__main__":
    sys.exit(main())

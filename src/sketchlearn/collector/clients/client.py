"""`Collector`: a client of a collector, with the standard library's HTTP alone."""

from __future__ import annotations

import http.client
import json
import random
import secrets
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from sketchlearn.core.limits import FEW_RECORDS

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator
    from sketchlearn.sketch.sums import Sketch


SECONDS_TO_WAIT = 30.0
SECONDS_IDLE = 10.0  # collectors end connections that are idle for longer (serving.py), and a lost POST is an error
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds between attempts; each is up to twice as long as the one before
LARGEST_ANSWER = 256_000_000
WORTH_ANOTHER_ATTEMPT = (408, 429, 500, 502, 503, 504)

PART_MAGIC = b"SKLPART\x01"  # of secret shares (secret_shares.py), which have a route of their own


class CollectorError(OSError):
    """A collector refused a request, or could not be reached; `status` is 0 in the latter case."""

    def __init__(self, status: int, kind: str, sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.kind, self.retry_after = status, kind, retry_after

    @property
    def temporary(self) -> bool:
        """Whether the same request may be accepted later."""
        if self.kind == "limit":  # on records or reports of an epoch: waiting does not help
            return False
        return self.status == 0 or self.status in WORTH_ANOTHER_ATTEMPT


def report_file(sketch: Sketch, id: str) -> bytes:
    """The bytes of a report.

    Few records may equal those of another report by chance. If this process has read them, the id of the report is the
    id of their batch. Otherwise a collector detects the same rows as a duplicate, and counts them once.
    """
    few = sketch.ledger is None and 0 < sketch.count < FEW_RECORDS and sketch.batches.reads
    return (sketch.as_one_batch(f"report {id}") if few else sketch).to_bytes()


def path_of(collection: str) -> str:
    return f"/v1/collections/{quote(collection, safe='')}"


class Collector:
    """A client of a collector: sends sketches, and fetches their sums (`sketchlearn serve` runs a collector).

    Parameters
    ----------
    url : such as "https://collector.example.org:8765".
    token : from whoever runs the collector.
    attempts : how often a request is sent before it counts as failed. A report that is sent twice counts once.
    certificate : a file with a certificate to trust, if no authority has signed it.

    Examples
    --------
    ::

        collector = skl.Collector("https://collector.example.org", token)
        operator = collector.design("readings")
        collector.report("readings", operator.sketch(rows))
        week = collector.window("readings", "2026-01-05", "2026-01-12")
    """

    def __init__(self, url: str, token: str, *, attempts: int = 5, certificate: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("the URL of a collector must look like https://collector.example.org:8765")
        token = token.strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("a token is one word of letters, digits, _ and -")
        if attempts < 1:
            raise ValueError("attempts must be at least 1")
        self.url, self.attempts = url.rstrip("/"), attempts
        self._parts, self._token, self._certificate = parts, token, certificate
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0  # when the connection was used last
        self._sleep: Callable[[float], None] = time.sleep

    def __repr__(self) -> str:
        return f"Collector({self.url!r})"

    def report(
        self, collection: str, sketch: Sketch | bytes, *, id: str | None = None, time: float | str | None = None
    ) -> dict[str, Any]:
        """Sends a sketch, or the bytes of its file. The collector answers when the report is on its disk.

        Parameters
        ----------
        collection : its name.
        id : of the report. The same id with the same sketch counts once, however often it is sent. By default, an id is
            drawn at random, which is right if the whole call is not repeated. The same rows under another id are
            refused, too, unless they are fewer than 100 that this process has sketched. Those are identified by the id,
            which no other sender should use, such as "device-7.monday".
        time : when the rows were seen, as seconds since 1970 or as an ISO date; by default, now.
        """
        id = id or secrets.token_hex(16)
        data = sketch if isinstance(sketch, bytes) else report_file(sketch, id)
        kind = "parts" if data.startswith(PART_MAGIC) else "reports"
        path = f"{path_of(collection)}/{kind}/{quote(id, safe='')}"
        return dict(self._json("POST", path, {"time": time}, data, "application/octet-stream"))

    def design(self, collection: str) -> Operator:
        """The design of a collection: the operator to sketch with."""
        from sketchlearn.files.designs import design_from_bytes

        return design_from_bytes(self.design_file(collection))[0]

    def design_file(self, collection: str) -> bytes:
        """The bytes of the design file of a collection."""
        return self.ask("GET", f"{path_of(collection)}/design")

    def window(self, collection: str, start: float | str | None = None, finish: float | str | None = None) -> Sketch:
        """The sketch of all records of a window: the sum of its epochs, of all of them if no times are given."""
        from sketchlearn.files.sketches import from_bytes

        return from_bytes(self.window_file(collection, start, finish))

    def window_file(
        self, collection: str, start: float | str | None = None, finish: float | str | None = None
    ) -> bytes:
        """The bytes of the sketch file of a window."""
        return self.ask("GET", f"{path_of(collection)}/window/sketch", {"from": start, "to": finish})

    def get(self, path: str, **query: Any) -> Any:
        """The JSON answer of a route, such as `get("/v1/collections")`."""
        return self._json("GET", path, query)

    def post(self, path: str, form: Any) -> Any:
        """Sends JSON to a route; returns its answer."""
        return self._json("POST", path, {}, json.dumps(form).encode(), "application/json")

    def _json(self, *request: Any) -> Any:
        try:
            return json.loads(self.ask(*request))
        except ValueError:
            raise CollectorError(0, "answer", f"{self.url} did not answer like a collector: check the URL") from None

    def ask(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        data: bytes | None = None,
        media: str = "application/json",
    ) -> bytes:
        """The bytes of an answer. The pause grows after each attempt, and is at least what the collector asks for."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        path, pause = path + (f"?{urlencode(given)}" if given else ""), FIRST_PAUSE
        for attempt in range(1, self.attempts + 1):
            try:
                return self._ask_once(method, path, data, media)
            except CollectorError as error:
                # a report counts once; other changes are repeated only if the collector has done nothing
                repeatable = method == "GET" or "/reports/" in path or "/parts/" in path
                if attempt == self.attempts or not error.temporary or not (repeatable or error.status in (429, 503)):
                    raise
                asked = error.retry_after or 0.0
            self._sleep(min(LONGEST_PAUSE, max(asked, pause * random.uniform(0.5, 1.0))))
            pause = min(LONGEST_PAUSE, 2 * pause)
        raise AssertionError

    def _ask_once(self, method: str, path: str, data: bytes | None, media: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "*/*"}
        if data is not None:
            headers["Content-Type"] = media
        try:
            connection = self._connect()
            connection.request(method, self._parts.path.rstrip("/") + path, body=data, headers=headers)
            answer = connection.getresponse()
            body = answer.read(LARGEST_ANSWER)
            self._used = time.monotonic()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CollectorError(0, "unreachable", f"{self.url} cannot be reached: {reason}") from None
        if 200 <= answer.status < 300:
            return body
        try:
            found = json.loads(body)
            kind, sentence = str(found["kind"]), str(found["error"])
        except (ValueError, KeyError, TypeError):
            kind, sentence = "answer", f"{self.url} answered with status {answer.status}"
        wait = answer.getheader("Retry-After", "")
        raise CollectorError(answer.status, kind, sentence, float(wait) if wait.isdecimal() else None)

    def _connect(self) -> http.client.HTTPConnection:
        if time.monotonic() - self._used > SECONDS_IDLE:
            self.close()
        if self._connection is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context(cafile=self._certificate)
                self._connection = http.client.HTTPSConnection(host, port, timeout=SECONDS_TO_WAIT, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=SECONDS_TO_WAIT)
        return self._connection

    def close(self) -> None:
        """Ends the connection; the next request makes another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

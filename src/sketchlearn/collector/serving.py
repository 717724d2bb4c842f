"""`sketchlearn serve`: the application under uvicorn, with time limits on headers, and TLS."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sketchlearn.collector.application import create_app
from sketchlearn.collector.database import open_database
from sketchlearn.collector.demonstration import FastClock, SimulatedFleet
from sketchlearn.collector.epoch_times import start_of
from sketchlearn.collector.page.page_routes import Pages
from sketchlearn.collector.store import Store
from sketchlearn.core.owner_folder import make_folder, write_file
from sketchlearn.core.packages import required

SECONDS_FOR_HEADERS = 10.0
SECONDS_BETWEEN_REQUESTS = 15
MOST_CONNECTIONS = 2000
MOST_CONNECTIONS_EACH = MOST_CONNECTIONS // 4  # of one address, unless it is that of a proxy


@dataclass(frozen=True)
class Serving:
    """Where and how a collector is served.

    Attributes
    ----------
    folder : of the database (with SQLite), the budgets and the first token.
    database : a URL of PostgreSQL; None for a file in the folder.
    host, port : that it listens to.
    certificate, key : files for TLS; without them, only this machine or a proxy should reach it.
    proxies : addresses of proxies whose X-Forwarded-For header is trusted.
    webhook_hosts : hosts with ports that alarms may be sent to although their addresses are not public.
    """

    folder: Path
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    certificate: str | None = None
    key: str | None = None
    proxies: str = ""
    webhook_hosts: str = ""


def serve(serving: Serving) -> None:
    """Serves until a signal ends it (SIGINT or SIGTERM); reports under way are finished.

    If the folder is new, the first token is written into it.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    make_folder(serving.folder)
    store = Store(open_database(serving.database or serving.folder / "collector.sqlite"), serving.folder)
    if (token := store.first_token()) is not None:
        path = serving.folder / "admin.token"
        write_file(path, f"{token}\n".encode())
        print(f"sketchlearn: the first token, which has all rights, is in {path}", file=sys.stderr, flush=True)
    pages = Pages(store)
    try:
        hosts = frozenset(_listed(serving.webhook_hosts))
        _run(create_app(store, more_routes=pages.routes(), webhook_hosts=hosts), serving, pages.close)
    finally:
        store.close()


def serve_demonstration(host: str, port: int, seconds_per_hour: float) -> None:
    """Serves a simulated fleet in a temporary folder; whoever reaches the port sees its page."""
    with tempfile.TemporaryDirectory(prefix="sketchlearn-demo-") as name:
        serving = Serving(Path(name), host=host, port=port)
        clock = FastClock(start_of("day", time.time()), seconds_per_hour)
        store = Store(open_database(serving.folder / "collector.sqlite"), serving.folder, clock=clock)
        pages, fleet = Pages(store, everybody_reads=True), SimulatedFleet(store, clock)
        try:
            app = create_app(store, more_routes=pages.routes(), housekeeping_seconds=seconds_per_hour / 5)
            fleet.start()
            _run(app, serving, pages.close)
        finally:
            fleet.close()
            store.close()


def _run(app: Any, serving: Serving, end_streams: Callable[[], None]) -> None:
    """Runs uvicorn, which says where it listens, until a signal ends it."""
    uvicorn = required("uvicorn", "serve")
    scheme = "https" if serving.certificate else "http"

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for socket in [socket for server in self.servers for socket in server.sockets]:
                host, port = socket.getsockname()[:2]
                where = f"[{host}]" if ":" in host else host
                print(f"sketchlearn: collecting at {scheme}://{where}:{port}", file=sys.stderr, flush=True)

        async def shutdown(self, sockets: Any = None) -> None:
            end_streams()  # streams of events would keep it waiting
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        host=serving.host,
        port=serving.port,
        http=_protocol(_listed(serving.proxies)),
        loop="auto",  # uvloop, where it is installed
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=SECONDS_BETWEEN_REQUESTS,
        timeout_graceful_shutdown=20,
        limit_concurrency=MOST_CONNECTIONS,
        ssl_certfile=serving.certificate,
        ssl_keyfile=serving.key,
        proxy_headers=bool(serving.proxies),
        forwarded_allow_ips=serving.proxies or "",
        ws="none",
    )
    gc.collect()
    gc.freeze()  # what is loaded now stays: a search for garbage in it takes a tenth of a second each time
    sys.setswitchinterval(0.001)  # the event loop and the writer take turns of a millisecond, not of five
    server = Server(config)
    server.run()
    if not server.started:
        raise OSError(f"cannot listen to port {config.port}: is it in use?")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _protocol(proxies: Collection[str]) -> Any:
    """uvicorn's HTTP protocol. It ends connections whose headers are late, and those beyond the most of one address."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    connections: Counter[str] = Counter()  # by address

    class PunctualProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """The protocol with a time limit on headers, of the first request and of each further one."""

        _headers_due: asyncio.TimerHandle | None = None
        _address = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._address = str((transport.get_extra_info("peername") or ("?",))[0])
            connections[self._address] += 1
            if connections[self._address] > MOST_CONNECTIONS_EACH and self._address not in proxies:
                transport.close()  # so that other addresses have room left
                return
            self._expect_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._headers_due is None and not self._in_request():
                self._expect_headers()

        def connection_lost(self, error: Exception | None) -> None:
            if self._headers_due is not None:
                self._headers_due.cancel()
            connections[self._address] -= 1
            if not connections[self._address]:
                del connections[self._address]
            super().connection_lost(error)

        def _in_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _expect_headers(self) -> None:
            self._headers_due = self.loop.call_later(SECONDS_FOR_HEADERS, self._check_headers)

        def _check_headers(self) -> None:
            self._headers_due = None
            idle = self.cycle is not None and self.timeout_keep_alive_task is not None
            if not self._in_request() and not idle:
                self.transport.close()

    return PunctualProtocol

"""Limits on what a client may cost: bytes while they are read, time, rate, and memory for bodies under way."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from anyio.to_thread import run_sync
from starlette.requests import Request

from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.senders import Token
from sketchlearn.collector.store import Store

SECONDS_FOR_BODY = 30.0
MOST_BYTES_UNDER_WAY = 256_000_000  # of all bodies that are being read or written
MOST_BYTES_EACH = MOST_BYTES_UNDER_WAY // 4  # of them, of one sender: as much as the largest body has
MOST_BODIES_EACH = 100  # of one sender at a time
MOST_BUCKETS = 100_000  # senders and addresses whose rates are remembered
FAILURES_PER_MINUTE = 30  # tokens that are not valid, of one address


class BodiesUnderWay:
    """How many bytes of bodies are in memory, in total and of each sender. Only bytes that have come count."""

    def __init__(self) -> None:
        self.bytes: Counter[Hashable] = Counter()
        self.bodies: Counter[Hashable] = Counter()
        self.total = 0

    @contextmanager
    def body(self, who: Hashable) -> Iterator[Callable[[int], None]]:
        """A body of a sender, for as long as it is needed. The function that it gives counts bytes as they come."""
        own = 0

        def came(n_bytes: int) -> None:
            nonlocal own
            if self.bytes[who] + n_bytes > MOST_BYTES_EACH:
                raise RefusalError(
                    "too fast",
                    "this sender has too many bytes in unfinished requests: send less at once",
                    retry_after=2,
                )
            if self.total + n_bytes > MOST_BYTES_UNDER_WAY:
                raise RefusalError("busy", "the collector is busy: send it again in a moment", retry_after=2)
            own, self.total, self.bytes[who] = own + n_bytes, self.total + n_bytes, self.bytes[who] + n_bytes

        if self.bodies[who] >= MOST_BODIES_EACH:
            raise RefusalError(
                "too fast",
                f"a sender may have at most {MOST_BODIES_EACH} bodies under way at a time: wait for some to finish",
                retry_after=2,
            )
        self.bodies[who] += 1
        try:
            yield came
        finally:
            self.bodies[who] -= 1
            self.total, self.bytes[who] = self.total - own, self.bytes[who] - own
            if not self.bodies[who]:
                del self.bodies[who], self.bytes[who]


class Rates:
    """Token buckets, each of which fills at a rate per minute, and holds a minute's worth."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def take(self, who: object, per_minute: int, n: int = 1) -> float:
        """Takes one out of the bucket; seconds to wait if it is empty, else 0. With n = 0, it only looks."""
        now = time.monotonic()
        filled, since = self._buckets.get(who, (float(per_minute), now))
        filled = min(float(per_minute), filled + (now - since) * per_minute / 60)
        wait = max(0.0, (1 - filled) * 60 / per_minute)
        if n:
            self._buckets[who] = (filled if wait else filled - n, now)
            self._buckets.move_to_end(who)
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        return wait


async def whole_body(
    chunks: AsyncIterator[bytes], declared: str | None, most: int, came: Callable[[int], None]
) -> bytes:
    """The bytes of a request: no more than `most`, within SECONDS_FOR_BODY, and as many as it said."""
    too_large = RefusalError("too large", f"a body has at most {most:,} bytes here")
    if declared is not None and (not declared.isascii() or not declared.isdecimal() or int(declared[:20]) > most):
        raise too_large
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(SECONDS_FOR_BODY):
            size = 0
            async for chunk in chunks:
                size += len(chunk)
                if size > most:
                    raise too_large
                came(len(chunk))
                parts.append(chunk)
    except TimeoutError:
        sentence = f"the body did not arrive within {SECONDS_FOR_BODY:g} seconds: send it again"
        raise RefusalError("slow", sentence) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def address_of(request: Request) -> str:
    return request.client.host if request.client else "?"


class Identification:
    """Finds tokens. Many people share an address, so wrong tokens slow down only other wrong ones."""

    def __init__(self, store: Store) -> None:
        self._store, self._failures = store, Rates()
        self._one_by_one: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def token(self, text: str, address: str) -> Token:
        """The token of a text. Those of an address that sent many wrong ones are looked up one at a time."""
        try:
            if known := self._store.known_token(text):
                return known
            if not self._failures.take(address, FAILURES_PER_MINUTE, 0):
                return await run_sync(self._store.token, text)
            async with self._one_by_one.setdefault(address, asyncio.Lock()):
                return await run_sync(self._store.token, text)
        except RefusalError:
            if self._failures.take(address, FAILURES_PER_MINUTE):
                sentence = "too many tokens from this address were not valid: try again in a minute"
                raise RefusalError("too fast", sentence, retry_after=60) from None
            raise

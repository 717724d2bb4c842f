"""Limits on what a client may cost: bytes while they are read, time, rate, and memory for bodies under way."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from sketchlearn.collector.refusals import RefusalError

SECONDS_FOR_BODY = 30.0
MOST_BYTES_UNDER_WAY = 256_000_000  # of all bodies that are being read or written
MOST_BUCKETS = 100_000  # senders and addresses whose rates are remembered
FAILURES_PER_MINUTE = 30  # tokens that are not valid, of one address


class BytesUnderWay:
    """How many bytes of bodies are in memory; more than fit are refused as "busy"."""

    def __init__(self, most: int = MOST_BYTES_UNDER_WAY) -> None:
        self.most, self.now = most, 0

    @contextmanager
    def holding(self, n_bytes: int) -> Iterator[None]:
        """Counts so many bytes for as long as they are needed."""
        if self.now + n_bytes > self.most:
            raise RefusalError("busy", "the collector is busy: send it again in a moment", retry_after=2)
        self.now += n_bytes
        try:
            yield
        finally:
            self.now -= n_bytes


class Rates:
    """Buckets that fill at so many per minute, and hold a minute's worth."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def take(self, who: object, per_minute: int) -> float:
        """Takes one out of the bucket; seconds to wait if it is empty, else 0."""
        now = time.monotonic()
        filled, since = self._buckets.pop(who, (float(per_minute), now))
        filled = min(float(per_minute), filled + (now - since) * per_minute / 60)
        wait = 0.0 if filled >= 1 else (1 - filled) * 60 / per_minute
        self._buckets[who] = (filled - 1 if wait == 0 else filled, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait

    def is_empty(self, who: object, per_minute: int) -> bool:
        """Whether nothing can be taken out of the bucket now."""
        filled, since = self._buckets.get(who, (float(per_minute), time.monotonic()))
        return filled + (time.monotonic() - since) * per_minute / 60 < 1


async def whole_body(chunks: AsyncIterator[bytes], declared: str | None, most: int) -> bytes:
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
                parts.append(chunk)
    except TimeoutError:
        sentence = f"the body did not come within {SECONDS_FOR_BODY:g} seconds: send it again"
        raise RefusalError("slow", sentence) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)

"""Who asks: the token of a request, however many wrong ones came from the same address."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from anyio.to_thread import run_sync
from starlette.requests import Request

from sketchlearn.collector.limits import FAILURES_PER_MINUTE, Rates
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.tokens import Token


def address_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else "?"


class Identification:
    """Finds tokens. Many people share an address: wrong tokens slow down wrong tokens, and lock no valid one out."""

    def __init__(self, store: Store) -> None:
        self._store, self._failures = store, Rates()
        self._one_by_one: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def token(self, text: str, address: str) -> Token:
        """The token of a text; an address with many wrong ones has them looked up one after the other."""
        try:
            if known := self._store.known_token(text):
                return known
            if not self._failures.is_empty(address, FAILURES_PER_MINUTE):
                return await run_sync(lambda: self._store.token(text))
            async with self._one_by_one.setdefault(address, asyncio.Lock()):
                return await run_sync(lambda: self._store.token(text))
        except RefusalError:
            if self._failures.take(address, FAILURES_PER_MINUTE):
                sentence = "too many tokens that are not valid came from this address"
                raise RefusalError("too fast", sentence, retry_after=60) from None
            raise

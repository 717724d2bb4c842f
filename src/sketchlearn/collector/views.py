"""What a token may see and do. Each route names the view that it needs, and sees nothing else of the store.

A view is made for a token, which must allow it. A reader of a collection with private reading gets no `ExactView`, so
no route can show exact data to it because a check was forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from sketchlearn.collector import releases
from sketchlearn.collector.clients.secret_shares import public_key_of
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.reports import Incoming, answer_for, names_own_design
from sketchlearn.collector.secure_aggregation import SecondCollector, own_second, part_to_keep, private_key
from sketchlearn.collector.senders import ADMIN, FIRST, READ, SEND, Token
from sketchlearn.collector.store import Store

RELEASES_ALONE = "this collection gives private releases alone: see its releases"
T = TypeVar("T")


class View:
    """What everybody may know: that the collector is there."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def of(cls, store: Store, _token: Any, _name: str) -> Self:
        """The view of a request, whose path may name a collection; refused, if the token does not allow it."""
        return cls(store)

    def check_health(self) -> None:
        """Reads something of the database."""
        with self._store.reading() as transaction:
            transaction.one("SELECT 1")


class TokenView(View):
    """What the holder of any token may know and do: which collections it is for, and a new token in its place."""

    def __init__(self, store: Store, token: Token) -> None:
        super().__init__(store)
        self._token = token

    @classmethod
    def of(cls, store: Store, token: Token, _name: str) -> Self:
        return cls(store, token)

    def collections(self) -> list[dict[str, Any]]:
        visible = self._store.visible(self._token)
        return [found.to_json(administers=self._token.may(ADMIN, found.id)) for found in visible]

    def rotate(self, overlap: Any) -> dict[str, Any]:
        own = next((c for c in self._store.all_collections() if c.id == self._token.collection), None)
        return self._store.rotate_token(self._token.id, own, self._token.id, overlap)


class DesignView(View):
    """What every token of a collection shows: its name, design and rules."""

    scope: ClassVar[str | None] = None  # that the token must have; None for any

    def __init__(self, store: Store, collection: Collection) -> None:
        super().__init__(store)
        self.collection, self.administers = collection, False

    @classmethod
    def of(cls, store: Store, token: Token, name: str) -> Self:
        found = cls(store, store.collection(token, name, cls.scope or token.scope))
        found.administers = token.may(ADMIN, found.collection.id)
        return found

    def second_key(self) -> str:
        """The public key that seeds for this collector are encrypted for."""
        return public_key_of(private_key(self._store))


class SenderView(DesignView):
    """A sender's own: what it sends, and what it was answered."""

    scope = SEND
    sender: int

    @classmethod
    def of(cls, store: Store, token: Token, name: str) -> Self:
        found = super().of(store, token, name)
        if token.sender is None:
            raise RefusalError("forbidden", "reports must be sent with the token of a sender; this token has none")
        found.sender = token.sender
        return found

    def submit(self, number: str, body: bytes, time: float | None) -> asyncio.Future[dict[str, Any]]:
        """Queues a report; the answer comes when it is on disk."""
        report = (self._store, self.collection, self.sender, number, body, time)
        own_design = names_own_design(self.collection, body)
        return self._store.read_and_write(self.sender, lambda: Incoming.read(*report), own_design=own_design)

    def submit_part(self, number: str, body: bytes) -> asyncio.Future[dict[str, Any]]:
        part = (self._store, self.collection, self.sender, number, body)
        return self._store.read_and_write(self.sender, lambda: part_to_keep(*part))

    def report(self, number: str) -> dict[str, Any]:
        with self._store.reading() as transaction:
            row = transaction.one(
                "SELECT epoch, records, digest, received, late FROM reports WHERE collection = ? AND sender = ? "
                "AND id = ?",
                (self.collection.id, self.sender, number),
            )
        if row is None:
            raise RefusalError("not found", "this sender has sent no report of this id")
        epoch, records, digest, received, late = row
        return answer_for(number, epoch, records, bytes(digest), received, bool(late))


class ReleasedView(DesignView):
    """What was privately released of a collection: values that the mechanism made, and nothing that was exact."""

    scope = READ

    def releases(self) -> list[dict[str, Any]]:
        with self._store.reading() as transaction:
            return releases.releases(transaction, self.collection)

    def release_file(self, number: int) -> bytes:
        with self._store.reading() as transaction:
            return releases.release_file(transaction, self.collection, number)


class ExactView(ReleasedView):
    """What is known of exact records: sums, counts, drift, refusals, who sent when.

    With private reading, only tokens that administer the collection have this view.
    """

    @classmethod
    def of(cls, store: Store, token: Token, name: str) -> Self:
        found = super().of(store, token, name)
        if not reads_exactly(token, found.collection):
            raise RefusalError("forbidden", RELEASES_ALONE)
        return found

    def read(self, question: Callable[..., T], *more: Any) -> T:
        """What a function finds about the collection in the database."""
        with self._store.reading() as transaction:
            return question(transaction, self.collection, *more)

    def now(self) -> int:
        return self._store.now()

    def sealed(self) -> ExactView:
        """The same with closed epochs alone: what it shows does not change while somebody looks at it."""
        rules = replace(self.collection.rules, sealed_only=True)
        return ExactView(self._store, replace(self.collection, rules=rules))

    def newest_sealed(self) -> int:
        """The end of the newest closed epoch; now, if there is none."""
        query = "SELECT max(finish) FROM epochs WHERE collection = ? AND sealed IS NOT NULL"
        with self._store.reading() as transaction:
            newest = transaction.value(query, (self.collection.id,))
        return self.now() // 1000 if newest is None else int(newest)

    def totals(self) -> tuple[int, int, int, int, int | None]:
        """Reports so far, records that may be counted, reports in open epochs, senders, and when the last one sent."""
        sealed = int(self.collection.rules.sealed_only)
        with self._store.reading() as transaction:
            [counts] = transaction.all(
                "SELECT coalesce(sum(reports), 0), coalesce(sum(CASE WHEN sealed IS NULL AND ? = 1 THEN 0 ELSE records "
                "END), 0), coalesce(sum(CASE WHEN sealed IS NULL THEN reports ELSE 0 END), 0) FROM epochs "
                "WHERE collection = ?",
                (sealed, self.collection.id),
            )
            [(n_senders, latest)] = transaction.all(
                "SELECT count(*), max(latest) FROM senders WHERE collection = ? AND revoked IS NULL",
                (self.collection.id,),
            )
        reports, records, still_open = map(int, counts)
        return reports, records, still_open, n_senders, latest


class AdminView(ExactView):
    """All of a collection, to be changed, too."""

    scope = ADMIN
    store: Store
    actor: str

    @classmethod
    def of(cls, store: Store, token: Token, name: str) -> Self:
        found = super().of(store, token, name)
        found.store, found.actor = store, token.id
        return found


class FirstCollectorView(DesignView):
    """What the first of two collectors may ask of the second: to take seeds, and to tell totals, which deletes them."""

    scope = FIRST

    def second_collector(self) -> SecondCollector:
        return own_second(self._store, self.collection)


class ServerView(View):
    """What is counted over all collections; if one of them has private reading, for administrators alone."""

    @classmethod
    def of(cls, store: Store, token: Token, _name: str) -> Self:
        store.require(token, READ)
        if not all(reads_exactly(token, collection) for collection in store.all_collections()):
            raise RefusalError("forbidden", "a collection gives private releases alone: this needs the scope admin")
        return cls(store)

    def waiting(self) -> int:
        return self._store.writer.queue.qsize()


class ServerAdminView(View):
    """The whole collector, to be changed."""

    store: Store
    actor: str

    @classmethod
    def of(cls, store: Store, token: Token, _name: str) -> Self:
        store.require(token, ADMIN)
        found = cls(store)
        found.store, found.actor = store, token.id
        return found


def reads_exactly(token: Token | None, collection: Collection) -> bool:
    """Whether a token shows exact data of a collection that it may read; None stands for everybody."""
    return not collection.rules.private_reading or (token is not None and token.scope == ADMIN)

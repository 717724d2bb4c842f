"""Senders and tokens: who may send, read and administer, and how these rights end."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sketchlearn.collector.audit import Change
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import with_iso_times
from sketchlearn.collector.epochs import Epoch, epoch_at, sum_of_bodies, write_rest
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.reports import identities, own_identities

SEND, READ, ADMIN = "send", "read", "admin"
FIRST = "first"  # of two collectors: it forwards seeds to the second one, and asks for totals
SCOPES = (SEND, READ, ADMIN, FIRST)
LONGEST_NOTE = 200
DAY_MS = 86_400_000
_FORM = re.compile(r"skl_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Token:
    """A token as the database has it. Without a collection it is for all of them."""

    id: str
    digest: str
    scope: str
    collection: int | None
    sender: int | None
    note: str
    created: int
    expires: int | None
    revoked: int | None

    COLUMNS = "id, digest, scope, collection, sender, note, created, expires, revoked"

    def may(self, scope: str, collection: int | None) -> bool:
        """Whether it allows what needs this scope, in this collection or, with None, on the whole server."""
        inside = self.collection is None or (collection is not None and self.collection == collection)
        return inside and (self.scope == scope or self.scope == ADMIN)


def id_of(text: str) -> str | None:
    """The public id in a token's text; None if it is none."""
    found = _FORM.fullmatch(text)
    return found[1] if found else None


def check_secret(text: str, token: Token | None, now: int) -> Token:
    """The token, if the text is its own and it is valid now; the same sentence for all others."""
    found = _FORM.fullmatch(text)
    given = _digest(found[2]) if found else _NOBODY
    same = hmac.compare_digest(given, token.digest if token else _NOBODY)
    if token is None or not same or token.revoked is not None:
        raise RefusalError("unauthorised", "the token is not valid here: ask whoever runs this collector for one")
    if token.expires is not None and token.expires <= now:
        raise RefusalError("unauthorised", "the token has expired: ask whoever runs this collector for another one")
    return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def token_of_id(transaction: Transaction, token: str) -> Token | None:
    """The token of an id, if there is one."""
    row = transaction.one(f"SELECT {Token.COLUMNS} FROM tokens WHERE id = ?", (token,))
    return None if row is None else Token(*row)


def add_token(
    change: Change, collection: Collection | None, scope: Any, sender: int | None, note: Any, expires: int | None
) -> dict[str, Any]:
    """A new token; only this answer has its text."""
    if scope not in SCOPES:
        raise RefusalError("malformed", f"scope must be one of {', '.join(SCOPES)}")
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or not note.isprintable():
        raise RefusalError("malformed", f"a note must be text of at most {LONGEST_NOTE} printable characters")
    if (scope == SEND) != (sender is not None):
        raise RefusalError("malformed", "a token with the scope send, and no other, belongs to a sender")
    now = change.now
    if expires is not None and expires <= now:
        raise RefusalError("malformed", "the token would have expired already")
    number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    values = (number, _digest(secret), scope, collection.id if collection else None, sender, note, now, expires, None)
    change.insert("tokens", Token.COLUMNS, [values])
    change.note("add token", token=number, scope=scope, **({"collection": collection.name} if collection else {}))
    shown = {"id": number, "scope": scope, "note": note, "created": now, "expires": expires, "revoked": None}
    return {"token": f"skl_{number}_{secret}", **with_iso_times(shown, "created", "expires")}


def tokens(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    """The tokens of a collection, without their secrets, and the names of their senders."""
    found = transaction.records(
        "SELECT t.id, t.scope, t.note, t.created, t.expires, t.revoked, s.name AS sender FROM tokens t "
        "LEFT JOIN senders s ON s.id = t.sender WHERE t.collection = ? ORDER BY t.created, t.id",
        (collection.id,),
    )
    return [with_iso_times(token, "created", "expires", "revoked") for token in found]


def senders(transaction: Transaction, collection: Collection, now: int) -> list[dict[str, Any]]:
    """All senders of a collection, and how much each has sent."""
    found = transaction.records(
        "SELECT name, created, revoked, reports, records, latest FROM senders WHERE collection = ? ORDER BY name",
        (collection.id,),
    )
    limit = now - 1000 * collection.rules.silent_seconds
    for sender in found:
        seen = sender["created"] if sender["latest"] is None else sender["latest"]
        sender["silent"] = sender["revoked"] is None and seen < limit
    return [with_iso_times(sender, "created", "revoked", "latest") for sender in found]


def sender_number(transaction: Transaction, collection: Collection, name: str) -> int:
    """The number of a sender by its name."""
    number = transaction.value("SELECT id FROM senders WHERE collection = ? AND name = ?", (collection.id, name))
    if number is None:
        raise RefusalError("not found", "there is no such sender in the collection")
    return int(number)


def revoke_sender(
    change: Change, collection: Collection, sender: int, identity: str, *, subtract: bool
) -> dict[str, Any]:
    """Ends a sender and its tokens; with `subtract`, its reports are subtracted where their bodies are still kept."""
    change.execute("UPDATE senders SET revoked = ? WHERE id = ? AND revoked IS NULL", (change.now, sender))
    change.execute("UPDATE tokens SET revoked = ? WHERE sender = ? AND revoked IS NULL", (change.now, sender))
    subtracted, kept = _remove_parts(change, collection, sender, subtract=subtract)
    for epoch, reports in change.all(
        "SELECT epoch, count(*) FROM reports WHERE collection = ? AND sender = ? AND removed IS NULL GROUP BY epoch "
        "ORDER BY min(number)",
        (collection.id, sender),
    ):
        found = epoch_at(change, collection, epoch) if subtract else None
        if found is None or not found.bodies:
            kept += reports
            continue
        _subtract(change, collection, found, sender, identity)
        subtracted += reports
    facts = {"collection": collection.name, "sender": sender, "subtracted": subtracted, "kept": kept}
    change.note("revoke sender", **facts)
    return {"reports_subtracted": subtracted, "reports_kept": kept}


def _remove_parts(transaction: Transaction, collection: Collection, sender: int, *, subtract: bool) -> tuple[int, int]:
    """Takes out a sender's secret shares while the opening of their epoch has not begun; how many, and the rest.

    Their ids stay without a body. From the opening on, the total is over a set of reports that both collectors know.
    """
    rows = transaction.all(
        "SELECT p.id, o.opening FROM hidden_parts p LEFT JOIN hidden_openings o ON o.collection = p.collection "
        "AND o.epoch = p.epoch WHERE p.collection = ? AND p.sender = ? "
        "AND (p.body IS NOT NULL OR o.opened IS NOT NULL)",
        (collection.id, sender),
    )
    closed = [number for number, opening in rows if opening is None] if subtract else []
    transaction.many(
        "UPDATE hidden_parts SET body = NULL WHERE collection = ? AND sender = ? AND id = ?",
        [(collection.id, sender, number) for number in closed],
    )
    return len(closed), len(rows) - len(closed)


def _subtract(change: Change, collection: Collection, epoch: Epoch, sender: int, identity: str) -> None:
    """Takes the reports of a sender out of an epoch: exact sums by subtraction, others by adding the rest anew."""
    whose = (collection.id, epoch.start, epoch.finish, sender)
    rows = change.all(
        "SELECT r.number, r.records, r.digest, b.body FROM reports r JOIN bodies b ON b.number = r.number "
        "WHERE r.collection = ? AND r.epoch >= ? AND r.epoch < ? AND r.sender = ? AND r.removed IS NULL "
        "ORDER BY r.number",
        whose,
    )
    if not rows:
        return
    change.execute(
        "UPDATE reports SET removed = ? WHERE collection = ? AND epoch >= ? AND epoch < ? AND sender = ? "
        "AND removed IS NULL",
        (change.now, *whose),
    )
    change.many("DELETE FROM bodies WHERE number = ?", [(number,) for number, *_ in rows])
    total = epoch.sketch(collection)
    assert total is not None
    rest = None if len(rows) == epoch.reports else total
    exact = total.ledger is None and total.kept is None and total.unit is None
    free: list[tuple[int, bytes, int]] = []
    for _, _, digest, body in rows:
        sketch = collection.known.from_file(body)
        found = identities(body, sketch)
        known = {digest, *found, *own_identities(found, sender)}
        free += [(collection.id, one, sender) for one in known]
        if exact and rest is not None:
            rest = (rest - sketch).as_batches(total.batches)
    change.many(
        "DELETE FROM counted WHERE collection = ? AND batch = ? AND sender = ?", free
    )  # these rows may come again
    if rest is not None and not exact:
        rest = sum_of_bodies(change, collection, epoch, identity)
    write_rest(change, collection, epoch, rest, sender, len(rows), sum(records for _, records, *_ in rows))


def expiry(days: Any, now: int) -> int | None:
    """When a token expires that is valid for some days; None for never."""
    if days is None:
        return None
    if type(days) not in (int, float) or not math.isfinite(days) or not 0 < days <= 36600:
        raise RefusalError("malformed", "expires_days must be a number of days, or null for never")
    return now + int(days * DAY_MS)

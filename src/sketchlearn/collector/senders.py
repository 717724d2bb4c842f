"""Senders and tokens: who may send, read and administer, and how these rights end."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Change, Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import DAY_MS, Epoch, bodies_of, epoch_at, sum_of_bodies, write_rest
from sketchlearn.collector.refusals import RefusalError, checked_name
from sketchlearn.collector.reports import identities, own_identities

SEND, READ, ADMIN = "send", "read", "admin"
FIRST = "first"  # of two collectors: it forwards seeds to the second one, and asks for totals
SCOPES = (SEND, READ, ADMIN, FIRST)
LONGEST_NOTE = 200
MOST_NEW_SENDERS = 1000  # of one request
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
    row = transaction.one(f"SELECT {Token.COLUMNS} FROM tokens WHERE id = ?", (token,))
    return None if row is None else Token(*row)


def add_senders(change: Change, collection: Collection, names: Any, days: Any) -> list[dict[str, Any]]:
    """New senders, each with a token; none, if one of the names is taken."""
    given = names if isinstance(names, list) else []
    if not 1 <= len(given) <= MOST_NEW_SENDERS or len(set(map(str, given))) != len(given):
        raise RefusalError("malformed", f"names must be a list of 1 to {MOST_NEW_SENDERS:,} different names")
    answers, expires = [], expiry(days, change.now)
    for number, name in enumerate([checked_name("sender", name) for name in given], change.next_number("senders")):
        if change.one("SELECT id FROM senders WHERE collection = ? AND name = ?", (collection.id, name)):
            raise RefusalError("conflict", f"there is a sender {name} already: give another name, or add a token")
        row = (number, collection.id, name, change.now, 0, 0)
        change.insert("senders", "id, collection, name, created, reports, records", [row])
        answers.append({"name": name, **add_token(change, collection, SEND, number, name, expires)})
    return answers


def add_named_token(
    change: Change, collection: Collection | None, scope: Any, sender: Any, note: Any, days: Any
) -> dict[str, Any]:
    """A new token that is valid for some days: for the sender of a name (scope send), or to read or administer."""
    expires, number = expiry(days, change.now), None
    if sender is not None and collection is not None:
        number = sender_number(change, collection, checked_name("sender", sender))
        if change.value("SELECT revoked FROM senders WHERE id = ?", (number,)) is not None:
            raise RefusalError("conflict", "the sender was revoked")
    return add_token(change, collection, scope, number, note, expires)


def add_token(
    change: Change,
    collection: Collection | None,
    scope: Any,
    sender: int | None = None,
    note: Any = "",
    expires: int | None = None,
) -> dict[str, Any]:
    """A new token; only this answer has its text."""
    if scope not in SCOPES:
        raise RefusalError("malformed", f"scope must be one of {', '.join(SCOPES)}")
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or not note.isprintable():
        raise RefusalError("malformed", f"a note must be text of at most {LONGEST_NOTE} printable characters")
    if (scope == SEND) != (sender is not None):
        raise RefusalError("malformed", "a token with the scope send needs a sender; other tokens must not name one")
    now = change.now
    if expires is not None and expires <= now:
        raise RefusalError("malformed", "expires_days is so small that the token would already have expired")
    number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    values = (number, _digest(secret), scope, collection.id if collection else None, sender, note, now, expires, None)
    change.insert("tokens", Token.COLUMNS, [values])
    change.note("add token", token=number, scope=scope, **({"collection": collection.name} if collection else {}))
    ends = None if expires is None else in_iso(expires / 1000)
    shown = {"id": number, "scope": scope, "note": note, "created": in_iso(now / 1000), "expires": ends}
    return {"token": f"skl_{number}_{secret}", **shown, "revoked": None}


def expiry(days: Any, now: int) -> int | None:
    """When a token expires that is valid for some days; None for never."""
    if days is None:
        return None
    if type(days) not in (int, float) or not math.isfinite(days) or not 0 < days <= 36600:
        raise RefusalError("malformed", "expires_days must be a number of days, or null for never")
    return now + int(days * DAY_MS)


def _own_token(transaction: Transaction, collection: Collection | None, number: str) -> Token:
    found = token_of_id(transaction, number)
    if found is None or found.collection != (collection.id if collection else None):
        raise RefusalError("not found", "there is no such token in the collection")
    return found


def revoke_token(change: Change, collection: Collection | None, number: str) -> None:
    token = _own_token(change, collection, number)
    change.execute("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (change.now, token.id))
    change.note("revoke token", token=token.id)


def rotate_token(change: Change, collection: Collection | None, number: str, overlap: Any) -> dict[str, Any]:
    """A new token of the same scope and sender; the old one still works for `overlap` seconds."""
    if type(overlap) is not int or not 0 <= overlap <= 30 * 86400:
        raise RefusalError("malformed", "overlap_seconds must be a whole number of seconds, at most 30 days")
    old, now, ends = _own_token(change, collection, number), change.now, change.now + 1000 * overlap
    if old.revoked is not None:
        raise RefusalError("conflict", "the token was revoked: make a new one")
    expires = None if old.expires is None else now + old.expires - old.created
    new = add_token(change, collection, old.scope, old.sender, old.note, expires)
    ends = ends if old.expires is None else min(old.expires, ends)
    change.execute("UPDATE tokens SET expires = ? WHERE id = ?", (ends, old.id))
    change.note("rotate token", token=old.id, new=new["id"])
    return new


def tokens(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    """The tokens of a collection, without their secrets, and the names of their senders."""
    return transaction.records(
        "SELECT t.id, t.scope, t.note, t.created, t.expires, t.revoked, s.name AS sender FROM tokens t "
        "LEFT JOIN senders s ON s.id = t.sender WHERE t.collection = ? ORDER BY t.created, t.id",
        (collection.id,),
    )


def senders(transaction: Transaction, collection: Collection, now: int) -> list[dict[str, Any]]:
    """All senders of a collection, and how much each has sent."""
    found = transaction.records(
        "SELECT name, created, revoked, reports, records, latest, "
        "revoked IS NULL AND coalesce(latest, created) < ? AS silent FROM senders WHERE collection = ? ORDER BY name",
        (now - 1000 * collection.rules.silent_seconds, collection.id),
    )
    return [{**sender, "silent": bool(sender["silent"])} for sender in found]


def refusals(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    return transaction.records(
        "SELECT s.name AS sender, r.kind, r.times, r.latest, r.sentence FROM refusals r LEFT JOIN senders s "
        "ON s.id = r.sender WHERE r.collection = ? ORDER BY r.latest DESC LIMIT 1000",
        (collection.id,),
    )


def sender_number(transaction: Transaction, collection: Collection, name: str) -> int:
    number = transaction.value("SELECT id FROM senders WHERE collection = ? AND name = ?", (collection.id, name))
    if number is None:
        raise RefusalError("not found", "there is no such sender in the collection")
    return int(number)


def revoke_sender(
    change: Change, collection: Collection, sender: int, identity: str, *, subtract: bool
) -> dict[str, Any]:
    """Revokes a sender and its tokens; with `subtract`, also subtracts its reports whose bodies are still kept."""
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
    change.note("revoke sender", collection=collection.name, sender=sender, subtracted=subtracted, kept=kept)
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
    rows = list(bodies_of(change, collection, epoch, "AND r.sender = ?", sender))
    if not rows:
        return
    change.execute(
        "UPDATE reports SET removed = ? WHERE collection = ? AND epoch >= ? AND epoch < ? AND sender = ? "
        "AND removed IS NULL",
        (change.now, collection.id, epoch.start, epoch.finish, sender),
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
        free += [(collection.id, one, sender) for one in {digest, *found, *own_identities(found, sender)}]
        if exact and rest is not None:
            rest = (rest - sketch).as_batches(total.batches)
    # these rows may come again
    change.many("DELETE FROM counted WHERE collection = ? AND batch = ? AND sender = ?", free)
    if rest is not None and not exact:
        rest = sum_of_bodies(change, collection, epoch, identity)
    write_rest(change, collection, epoch, rest, sender, len(rows), sum(records for _, records, *_ in rows))

"""Senders and tokens: who may send, read and administer, and how that ends."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sketchlearn.collector import audit
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch, digest_of, epoch_at, sum_of_bodies, write_sum_without
from sketchlearn.collector.refusals import RefusalError, checked_name
from sketchlearn.collector.reports import identities, own_identities

SEND, READ, ADMIN = "send", "read", "admin"
FIRST = "first"  # of two collectors: it passes seeds on to the second one, and asks for totals
SCOPES = (SEND, READ, ADMIN, FIRST)
_FORM = re.compile(r"skl_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Token:
    """What the database knows of a token. Those without a collection are for all of them."""

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


def new_token() -> tuple[str, str, str]:
    """The id, the text that its holder gets, and the digest that is kept."""
    number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    return number, f"skl_{number}_{secret}", _digest(secret)


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


LONGEST_NOTE = 200


def token_of_id(transaction: Transaction, token: str) -> Token | None:
    """What the database knows of a token."""
    row = transaction.one(f"SELECT {Token.COLUMNS} FROM tokens WHERE id = ?", (token,))
    return None if row is None else Token(*row)


def add_token(
    transaction: Transaction,
    now: int,
    actor: str,
    *,
    scope: str,
    collection: Collection | None,
    sender: int | None = None,
    note: str = "",
    expires: int | None = None,
) -> dict[str, Any]:
    """A new token; this answer alone has its text."""
    if scope not in SCOPES:
        raise RefusalError("malformed", f"a scope is one of {', '.join(SCOPES)}")
    if (scope == SEND) != (sender is not None):
        raise RefusalError("malformed", "a token with the scope send, and no other, belongs to a sender")
    if expires is not None and expires <= now:
        raise RefusalError("malformed", "the token would have expired already")
    number, text, digest = new_token()
    values = (number, digest, scope, collection.id if collection else None, sender, note, now, expires, None)
    transaction.execute(f"INSERT INTO tokens ({Token.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    where = {"collection": collection.name} if collection else {}
    audit.note(transaction, now, actor, "add token", token=number, scope=scope, **where)
    return {"token": text, **token_to_json(Token(*values))}


def token_to_json(token: Token) -> dict[str, Any]:
    """What administrators may know of a token."""
    return {
        "id": token.id,
        "scope": token.scope,
        "note": token.note,
        "created": in_iso(token.created / 1000),
        "expires": None if token.expires is None else in_iso(token.expires / 1000),
        "revoked": None if token.revoked is None else in_iso(token.revoked / 1000),
    }


def tokens(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    """The tokens of a collection, with the names of their senders."""
    columns = ", ".join(f"t.{name.strip()}" for name in Token.COLUMNS.split(","))
    rows = transaction.all(
        f"SELECT {columns}, s.name FROM tokens t LEFT JOIN senders s ON s.id = t.sender WHERE t.collection = ? "
        "ORDER BY t.created, t.id",
        (collection.id,),
    )
    return [{**token_to_json(Token(*row[:-1])), "sender": row[-1]} for row in rows]


def revoke_token(transaction: Transaction, now: int, actor: str, token: Token) -> None:
    """Ends a token now."""
    transaction.execute("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, token.id))
    audit.note(transaction, now, actor, "revoke token", token=token.id)


def rotate_token(
    transaction: Transaction, now: int, actor: str, token: Token, collection: Collection | None, overlap: int
) -> dict[str, Any]:
    """A token of the same scope and sender; the old one ends after `overlap` milliseconds."""
    if token.revoked is not None:
        raise RefusalError("conflict", "the token was revoked: make a new one")
    same: dict[str, Any] = {"scope": token.scope, "collection": collection, "sender": token.sender, "note": token.note}
    lifetime = None if token.expires is None else now + token.expires - token.created
    new = add_token(transaction, now, actor, **same, expires=lifetime)
    ends = now + overlap if token.expires is None else min(token.expires, now + overlap)
    transaction.execute("UPDATE tokens SET expires = ? WHERE id = ?", (ends, token.id))
    audit.note(transaction, now, actor, "rotate token", token=token.id, new=new["id"])
    return new


def add_senders(
    transaction: Transaction, now: int, actor: str, collection: Collection, names: list[str], expires: int | None
) -> list[dict[str, Any]]:
    """New senders, each with a token; none, if one of the names is taken."""
    number, answers = transaction.next_number("senders"), []
    for name in [checked_name("sender", name) for name in names]:
        if transaction.one("SELECT id FROM senders WHERE collection = ? AND name = ?", (collection.id, name)):
            raise RefusalError("conflict", f"there is a sender {name} already: give another name, or add a token")
        transaction.execute(
            "INSERT INTO senders (id, collection, name, created, reports, records) VALUES (?, ?, ?, ?, 0, 0)",
            (number, collection.id, name, now),
        )
        made: dict[str, Any] = {
            "scope": SEND,
            "collection": collection,
            "sender": number,
            "note": name,
            "expires": expires,
        }
        answers.append({"name": name, **add_token(transaction, now, actor, **made)})
        number += 1
    return answers


def senders(transaction: Transaction, collection: Collection, now: int) -> list[dict[str, Any]]:
    """All senders of a collection, and how much each has sent."""
    rows = transaction.all(
        "SELECT name, created, revoked, reports, records, latest FROM senders WHERE collection = ? ORDER BY name",
        (collection.id,),
    )
    limit = now - 1000 * collection.rules.silent_seconds
    return [
        {
            "name": name,
            "created": in_iso(created / 1000),
            "revoked": None if revoked is None else in_iso(revoked / 1000),
            "reports": reports,
            "records": records,
            "latest": None if latest is None else in_iso(latest / 1000),
            "silent": revoked is None and (created if latest is None else latest) < limit,
        }
        for name, created, revoked, reports, records, latest in rows
    ]


def sender_number(transaction: Transaction, collection: Collection, name: str) -> int:
    """The number of a sender by its name."""
    row = transaction.one("SELECT id FROM senders WHERE collection = ? AND name = ?", (collection.id, name))
    if row is None:
        raise RefusalError("not found", "there is no such sender in the collection")
    return int(row[0])


def sender_name(transaction: Transaction, number: int) -> str | None:
    """The name of a sender that was not revoked."""
    row = transaction.one("SELECT name FROM senders WHERE id = ? AND revoked IS NULL", (number,))
    return None if row is None else str(row[0])


def revoke_sender(
    transaction: Transaction,
    now: int,
    actor: str,
    collection: Collection,
    sender: int,
    *,
    subtract: bool,
    identity: str,
) -> dict[str, Any]:
    """Ends a sender and its tokens; with `subtract`, takes out what it sent wherever the bodies are still there."""
    transaction.execute("UPDATE senders SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, sender))
    transaction.execute("UPDATE tokens SET revoked = ? WHERE sender = ? AND revoked IS NULL", (now, sender))
    subtracted, kept = 0, 0
    for epoch, numbers in _reports_by_epoch(transaction, collection, sender).items():
        found = epoch_at(transaction, collection, epoch) if subtract else None
        if found is None or not found.bodies:
            kept += len(numbers)
            continue
        _subtract(transaction, now, actor, collection, found, sender, identity)
        subtracted += len(numbers)
    removed, opened = _remove_hidden(transaction, collection, sender, subtract=subtract)
    subtracted, kept = subtracted + removed, kept + opened
    facts = {"collection": collection.name, "sender": sender, "subtracted": subtracted, "kept": kept}
    audit.note(transaction, now, actor, "revoke sender", **facts)
    return {"reports_subtracted": subtracted, "reports_kept": kept}


def _remove_hidden(transaction: Transaction, collection: Collection, sender: int, *, subtract: bool) -> tuple[int, int]:
    """Takes out the hidden parts of a sender, as long as their epoch's opening has not begun; how many, and the rest.

    Their ids stay without a body. From the opening on, the total is over a set of parts that both collectors know.
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


def _reports_by_epoch(transaction: Transaction, collection: Collection, sender: int) -> dict[int, list[int]]:
    rows = transaction.all(
        "SELECT epoch, number FROM reports WHERE collection = ? AND sender = ? AND removed IS NULL ORDER BY number",
        (collection.id, sender),
    )
    found: dict[int, list[int]] = {}
    for epoch, number in rows:
        found.setdefault(epoch, []).append(number)
    return found


def _subtract(
    transaction: Transaction, now: int, actor: str, collection: Collection, epoch: Epoch, sender: int, identity: str
) -> None:
    """Takes the reports of a sender out of an epoch: exact sums by subtraction, others by adding the rest anew."""
    whose = (collection.id, epoch.start, epoch.finish, sender)
    rows = transaction.all(
        "SELECT r.number, r.records, r.digest, b.body FROM reports r JOIN bodies b ON b.number = r.number "
        "WHERE r.collection = ? AND r.epoch >= ? AND r.epoch < ? AND r.sender = ? AND r.removed IS NULL "
        "ORDER BY r.number",
        whose,
    )
    if not rows:
        return
    transaction.execute(
        "UPDATE reports SET removed = ? WHERE collection = ? AND epoch >= ? AND epoch < ? AND sender = ? "
        "AND removed IS NULL",
        (now, *whose),
    )
    transaction.many("DELETE FROM bodies WHERE number = ?", [(number,) for number, *_ in rows])
    total = epoch.sketch(collection)
    assert total is not None
    rest = None if len(rows) == epoch.reports else total
    exact = total.ledger is None and total.kept is None and total.unit is None
    free: list[tuple[int, bytes, int]] = []
    for _, _, digest, body in rows:
        sketch = collection.known.from_file(bytes(body))
        found = identities(bytes(body), sketch)
        known = {bytes(digest), *found, *own_identities(found, sender)}
        free += [(collection.id, one, sender) for one in known]
        if exact and rest is not None:
            rest = (rest - sketch).as_batches(total.batches)
    transaction.many(
        "DELETE FROM counted WHERE collection = ? AND batch = ? AND sender = ?", free
    )  # these rows may come again
    if rest is not None and not exact:
        rest = sum_of_bodies(transaction, collection, epoch, identity)
    kept = write_sum_without(transaction, collection, epoch, rest, len(rows), sum(records for _, records, *_ in rows))
    if epoch.sealed is not None:
        facts = {"collection": collection.name, "epoch": in_iso(epoch.start), "start": epoch.start}
        audit.note(transaction, now, actor, "subtract", **facts, digest=digest_of(kept), sender=sender)


def checked_note(note: Any) -> str:
    """A note on a token: short text that can be printed."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or not note.isprintable():
        raise RefusalError("malformed", f"a note must be text of at most {LONGEST_NOTE} printable characters")
    return note


def checked_days(days: Any) -> float | None:
    """A number of days until a token expires; None for never."""
    if days is None:
        return None
    if type(days) not in (int, float) or not math.isfinite(days) or not 0 < days <= 36600:
        raise RefusalError("malformed", "expires_days must be a number of days, or null for never")
    return float(days)

"""Tokens: who may do what. The database has digests of them alone.

A token is `skl_` + its public id + `_` + 256 random bits; nothing but the SHA-256 of those is kept, which is enough for
a secret that nobody can guess. Digests are compared in constant time, and for ids that do not exist, too.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from sketchlearn.collector.refusals import RefusalError

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

"""Why a request is refused: a status, a kind to count by, and one sentence."""

from __future__ import annotations

# The HTTP status of each kind of refusal.
STATUS = {
    "malformed": 400,
    "damaged": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "not found": 404,
    "method": 405,
    "slow": 408,
    "conflict": 409,
    "repeated": 409,
    "closed": 410,
    "too large": 413,
    "media type": 415,
    "other design": 422,
    "not addable": 422,
    "not private": 422,
    "wrong clock": 422,
    "too few": 409,
    "limit": 429,
    "too fast": 429,
    "busy": 503,
}


class RefusalError(Exception):
    """A request that is refused; the sentence is for whoever sent it."""

    def __init__(self, kind: str, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.kind, self.sentence, self.retry_after = kind, sentence, retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.kind]

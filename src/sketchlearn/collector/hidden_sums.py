"""Sums of reports in two halves: what each of two collectors adds up, and the total that both open together.

The first collector keeps the rests, the second the seeds. When an epoch is sealed, the first asks for the second's
total over the reports that it has itself; the second answers, once for each epoch, over those of them that it has, too.
Both refuse epochs of fewer reports than their own minimum, whatever the other says.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.ledger import Ledger
from sketchlearn.plain_digits import counted
from sketchlearn.reporting.hidden_parts import HiddenPart, PartHeader, Words, added
from sketchlearn.sketch import Release, Sketch
from sketchlearn.sketch_limits import LARGEST_INTEGER
from sketchlearn.values import whole

NOISE_ROOM = 64  # Deviations of noise that must fit beside the sums: discrete Laplace noise exceeds them once in 10^39.


class RefusedError(ValueError):
    """A collector does not take a report, or does not open an epoch."""


@dataclass(frozen=True)
class HiddenTerms:
    """What holds for all reports of a collection whose sums hide their parts; both collectors have it.

    Parameters
    ----------
    collection, design : its name, and the digest of its design.
    integers : how many a report has: the operator's sums, and the count.
    minimum : an epoch of fewer reports, or of fewer senders where they are known, is never opened.
    most_records : how many records a report may have.
    ledger : where each report has a share of noise, what each claims; None if reports are exact.
    """

    collection: str
    design: str
    integers: int
    minimum: int
    most_records: int
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        whole("minimum", self.minimum, 2)
        whole("most_records", self.most_records, 1, LARGEST_INTEGER)

    def check(self, header: PartHeader) -> None:
        """Refuses a report that is for something else."""
        if header.collection != self.collection:
            raise RefusedError(f"this report is for the collection {header.collection}, not for {self.collection}")
        if (header.design, header.integers) != (self.design, self.integers):
            raise RefusedError("this report is of another design: fetch the collection's design and sketch again")
        if header.ledger != self.ledger:
            wanted = "exact" if self.ledger is None else f"{self.ledger}"
            raise RefusedError(f"all reports of this collection must claim the same: {wanted}")

    def require_minimum(self, found: int, what: str) -> None:
        """Refuses an epoch with fewer reports or senders than the minimum, or than make its noise private."""
        shares = 0 if self.ledger is None or self.ledger.parties is None else self.ledger.parties
        if found < (least := max(self.minimum, shares)):
            noise = " for its shares of noise to be private" if shares == least else ""
            raise RefusedError(
                f"the epoch has {counted(found, what)} of which both collectors have their half, and needs "
                f"{least:,}{noise}"
            )

    def require_room(self, ceiling: int, n_reports: int) -> None:
        """Refuses a total that could leave 64 bits, and would then be wrong without a sign of it."""
        noise = 0.0 if self.ledger is None else NOISE_ROOM * (n_reports * self.ledger.sum_variance) ** 0.5
        if n_reports * self.most_records * ceiling + int(noise) > LARGEST_INTEGER:
            raise RefusedError(
                f"{n_reports:,} reports of up to {self.most_records:,} records could overflow: allow fewer records per "
                "report, or seal epochs sooner"
            )

    def to_json(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in ("collection", "design", "integers", "minimum", "most_records")}
        return {**form, "ledger": None if self.ledger is None else self.ledger.to_json()}

    @classmethod
    def from_json(cls, form: Any) -> HiddenTerms:
        ledger = None if form["ledger"] is None else Ledger.from_json(form["ledger"])
        return cls(**{**form, "ledger": ledger})


@dataclass(frozen=True)
class Question:
    """What the first collector asks the second one at the end of an epoch: the total of these reports' shares.

    `opening` is a random number of this opening: after a loss on the way, the same question gets the same answer.
    `reports` are the fingerprints of their sealed seeds.
    """

    collection: str
    epoch: str
    opening: str
    reports: frozenset[str]

    @property
    def digest(self) -> str:
        """Of all that is asked."""
        text = json.dumps([self.collection, self.epoch, self.opening, sorted(self.reports)])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        about = {"collection": self.collection, "epoch": self.epoch, "opening": self.opening}
        return {**about, "reports": sorted(self.reports)}

    @classmethod
    def from_json(cls, form: Any) -> Question:
        names = ("collection", "epoch", "opening")
        if not isinstance(form, dict) or form.keys() != {*names, "reports"} or not isinstance(form["reports"], list):
            raise ValueError("a question for a total must name the collection, the epoch, the opening and the reports")
        if not all(isinstance(text, str) for text in [*map(form.get, names), *form["reports"]]):
            raise ValueError("a question for a total must be made of texts")
        return cls(form["collection"], form["epoch"], form["opening"], frozenset(form["reports"]))


@dataclass(frozen=True, eq=False)
class Answer:
    """The second collector's total over the asked reports but the missing ones, which it does not have."""

    question: str
    missing: frozenset[str]
    total: Words

    def to_json(self) -> dict[str, Any]:
        total = base64.b64encode(self.total.astype("<u8").tobytes()).decode()
        return {"question": self.question, "missing": sorted(self.missing), "total": total}

    @classmethod
    def from_json(cls, form: Any) -> Answer:
        if not isinstance(form, dict) or form.keys() != {"question", "missing", "total"}:
            raise ValueError("an answer must have the digest of its question, the missing reports and a total")
        try:
            total = np.frombuffer(base64.b64decode(form["total"], validate=True), "<u8").astype(np.uint64)
        except (TypeError, ValueError, binascii.Error):
            raise ValueError("the total of an answer is not in base 64") from None
        return cls(form["question"], frozenset(form["missing"]), total)


def open_total(
    terms: HiddenTerms, operator: Any, question: Question, answer: Answer, parts: Iterable[HiddenPart]
) -> Sketch:
    """The epoch's sketch: the rests of the asked reports but the missing ones, and the second collector's total.

    Of exact reports, it is exact and not private; of shares of noise, its ledger has the guarantee of one release.
    """
    if answer.question != question.digest:
        raise RefusedError("the second collector has answered another question")
    if not answer.missing <= question.reports:
        raise RefusedError("the second collector misses reports that it was not asked about")
    included = question.reports - answer.missing
    terms.require_minimum(len(included), "report")
    terms.require_room(operator.ceiling, len(included))
    n_added = 0

    def rests() -> Iterable[Words]:
        nonlocal n_added
        for part in parts:
            if part.sealed_seed.fingerprint in included:
                terms.check(part.header)
                n_added += 1
                yield part.rest

    total = added(rests())
    if n_added != len(included) or len(answer.total) != len(total):
        raise RefusedError("the reports of the epoch, the question and the answer do not fit together")
    integers = np.add(total, answer.total).view(np.int64)
    sums, count = integers[:-1], int(integers[-1])
    if terms.ledger is not None:
        return Release(operator, sums, max(1, count), terms.ledger.of_shares(n_added))
    try:
        if not 0 <= count <= n_added * terms.most_records:
            raise ValueError(f"a count of {count:,} is impossible")
        return Sketch(operator, sums, count)
    except (ValueError, OverflowError) as error:
        raise RefusedError(
            f"the opened total is of no records ({error}): a sender or a collector has spoiled it, and who it was "
            "cannot be told"
        ) from None

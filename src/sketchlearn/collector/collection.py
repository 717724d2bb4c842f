"""The rules of a collection: a value, checked, with a JSON form."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sketchlearn.collector.database import Row, Transaction
from sketchlearn.collector.epoch_times import HOUR, SPANS, in_iso
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.values import shortened
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.files.sketches import KnownOperator
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.privacy_unit import ProtectedUnit
from sketchlearn.sketch.sums import Sketch

REFUSE, NEXT = "refuse", "next"
FIRST, SECOND = "first", "second"
LARGEST_BODY = 64_000_000
YEAR = 366 * 86400
MOST = 2**53


@dataclass(frozen=True)
class Rules:
    """What a collection accepts, keeps and shows.

    Attributes
    ----------
    epoch : "hour" or "day", of UTC; it cannot be changed later.
    grace_seconds : how long after its end an epoch still takes reports; then it is sealed.
    late : what becomes of reports for a sealed epoch: "refuse" them, or count them in the "next" open one.
    skew_seconds : how far ahead a sender's clock may be; up to there, a time in the future counts as now.
    private_reports : take private sketches alone (with a ledger that needs no more shares).
    private_reading : tokens with the scope "read" get private releases alone, and reports must be such that releases
        can be made of them: without fractional weights, weights above 1, skipped files and batches that count twice.
    disjoint : no record (or protected unit) is in two reports: then the largest epsilon holds for a sum, not their sum.
    unit, rows_per_unit : reports are sketches of rows of such units (`operator.sketch(rows, unit="patient_id",
        rows_per_unit=5)`), of at most so many rows each; releases then protect units.
    min_records, min_reports : no sum is shown that has fewer records, or fewer reports, or differs by fewer from what
        was shown before. Private releases are not concerned: they have all records.
    sealed_only : no sum is shown of an epoch before it is sealed; without it, two looks at an epoch that is still open
        show what came between them.
    largest_body : bytes of a report.
    records_per_report : the most records of one report.
    reports_per_epoch, records_per_epoch : the most of one sender in one epoch.
    reports_per_minute : of one sender, resent ones included; a burst of a minute's worth may come at once.
    body_days : how many days after sealing the bodies of reports are kept; until then a sender can be subtracted.
    hours_kept_days, days_kept_days : when hours are added up to days, and days to months.
    forget_days : when sums are removed altogether; None keeps them.
    silent_seconds : after how long without a report a sender counts as silent.
    alarm_level : the part of the epochs that may raise a false alarm.
    webhook : a URL that alarms are sent to.
    hidden : "first" or "second" of two collectors whose sums hide their parts (docs/hidden_sums.md); None otherwise. It
        cannot be changed later. `min_reports` is then the minimum, and `records_per_report` must be given.
    noise_epsilon, noise_parties : of hidden sums, the shares of noise that each report has; None if they are exact.
    epsilon, delta : the most that private releases may spend together; None keeps count without a limit.
    """

    epoch: str = HOUR
    grace_seconds: int = 900
    late: str = REFUSE
    skew_seconds: int = 300
    private_reports: bool = False
    private_reading: bool = False
    disjoint: bool = False
    unit: str | None = None
    rows_per_unit: int | None = None
    min_records: int = FEW_RECORDS
    min_reports: int = 1
    sealed_only: bool = True
    largest_body: int = 1_000_000
    records_per_report: int | None = None
    reports_per_epoch: int | None = None
    records_per_epoch: int | None = None
    reports_per_minute: int = 600
    body_days: float = 7.0
    hours_kept_days: float = 30.0
    days_kept_days: float = 400.0
    forget_days: float | None = None
    silent_seconds: int = 2 * 86400
    alarm_level: float = 0.001
    webhook: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    hidden: str | None = None
    noise_epsilon: float | None = None
    noise_parties: int | None = None

    def __post_init__(self) -> None:
        _one_of("epoch", self.epoch, SPANS)
        _one_of("late", self.late, (REFUSE, NEXT))
        for name in ("private_reports", "private_reading", "disjoint", "sealed_only"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false")
        for name, least, most in (
            ("grace_seconds", 0, YEAR),
            ("skew_seconds", 0, 86400),
            ("min_records", 0, MOST),
            ("min_reports", 0, MOST),
            ("largest_body", 1000, LARGEST_BODY),
            ("reports_per_minute", 1, 1_000_000),
            ("silent_seconds", 1, 10 * YEAR),
        ):
            _whole(name, getattr(self, name), least, most)
        for name in ("records_per_report", "reports_per_epoch", "records_per_epoch"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1, MOST)
        for name, fewest in (("body_days", 0.0), ("hours_kept_days", 1.0), ("days_kept_days", 1.0)):
            _number(name, getattr(self, name), fewest, 36600.0)
        if self.forget_days is not None:
            _number("forget_days", self.forget_days, 1.0, 36600.0)
        _number("alarm_level", self.alarm_level, 1e-12, 0.5)
        if self.epsilon is not None:
            _number("epsilon", self.epsilon, 1e-9, 1e9)
        if self.delta is not None:
            _number("delta", self.delta, 0.0, 0.5)
        if self.hidden is not None:
            _one_of("hidden", self.hidden, (FIRST, SECOND))
            if self.min_reports < 2 or self.records_per_report is None:
                raise ValueError("sums that hide their parts need min_reports of at least 2, and records_per_report")
        if (self.unit is None) != (self.rows_per_unit is None):
            raise ValueError("unit and rows_per_unit belong together")
        if self.unit is not None:
            ProtectedUnit(self.unit, self.rows_per_unit)  # type: ignore[arg-type]
        if (self.noise_epsilon is None) != (self.noise_parties is None):
            raise ValueError("noise_epsilon and noise_parties belong together")
        if self.noise_epsilon is not None:
            _number("noise_epsilon", self.noise_epsilon, 1e-9, 20.0)
            _whole("noise_parties", self.noise_parties, 1, MOST)
        if self.webhook is not None and not _is_url(self.webhook):
            raise ValueError("webhook must be a URL that begins with http:// or https://, or null")

    def to_json(self) -> dict[str, Any]:
        """As JSON objects say it."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Any) -> Rules:
        """The rules of a JSON object; what it does not name is as by default."""
        return cls()._with(form)

    def changed(self, form: Any) -> Rules:
        """These rules with some changed."""
        new = self._with(form)
        if new.epoch != self.epoch:
            raise ValueError("the epochs of a collection cannot be changed: make another collection")
        terms = ("hidden", "min_reports", "records_per_report", "noise_epsilon", "noise_parties")
        if self.hidden is not None and any(getattr(new, name) != getattr(self, name) for name in terms):
            raise ValueError("the terms of sums that hide their parts cannot be changed: make another collection")
        return new

    def _with(self, form: Any) -> Rules:
        names = [field.name for field in fields(self)]
        if not isinstance(form, dict):
            raise ValueError("rules must be a JSON object")
        for name in form:
            if name not in names:
                raise ValueError(f"there is no rule {shortened(name)}; rules are {', '.join(names)}")
        return replace(self, **form)

    @classmethod
    def from_text(cls, text: str) -> Rules:
        """The rules that the database has."""
        return cls.from_json(json.loads(text))

    def to_text(self) -> str:
        """As the database has them."""
        return json.dumps(self.to_json(), sort_keys=True)


def _one_of(name: str, given: Any, known: tuple[str, ...]) -> None:
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {shortened(given)}")


def _whole(name: str, given: Any, least: int, most: int) -> None:
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"{name} must be a whole number from {least:,} to {most:,}, not {shortened(given)}")


def _number(name: str, given: Any, least: float, most: float) -> None:
    if type(given) not in (int, float) or not math.isfinite(given) or not least <= given <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, not {shortened(given)}")


def _is_url(text: Any) -> bool:
    plain = isinstance(text, str) and len(text) <= 2000 and text.isascii() and text.isprintable() and " " not in text
    return plain and text.startswith(("http://", "https://")) and len(text) > 10


@dataclass(frozen=True)
class Collection:
    """What is collected, and by which rules."""

    id: int
    name: str
    title: str
    created: int
    design: bytes
    rules: Rules
    known: KnownOperator

    COLUMNS = "id, name, title, created, design, rules"

    @classmethod
    def of_row(cls, row: Row) -> Collection:
        """The collection of a row of the database."""
        number, name, title, created, design, rules = row
        known = KnownOperator(design_from_bytes(bytes(design))[0])
        return cls(number, name, title, created, bytes(design), Rules.from_text(rules), known)

    def with_rules(self, rules: Rules) -> Collection:
        """The same with other rules."""
        return replace(self, rules=rules)

    def added(self, a: Sketch, b: Sketch) -> Sketch:
        """The sum of two sketches, with what the rules say about records that may be in both."""
        return a.merged(b, overlapping=False if self.rules.disjoint else None)

    def to_json(self, *, administers: bool = False) -> dict[str, Any]:
        """What its readers and senders may know; the webhook, whose URL may be a secret, is for administrators."""
        operator, rules = self.known.operator, self.rules.to_json()
        if not administers:
            rules.pop("webhook")
        return {
            "name": self.name,
            "title": self.title,
            "created": in_iso(self.created / 1000),
            "rules": rules,
            "operator": operator.in_words,
            "columns": list(operator.column_names),
            "sums": operator.n_sums,
        }


def collections(transaction: Transaction) -> list[Collection]:
    """All collections, by their names."""
    rows = transaction.all(f"SELECT {Collection.COLUMNS} FROM collections ORDER BY name")
    return [Collection.of_row(row) for row in rows]


def one_batch(number: int) -> Batches:
    """Batches of a sum that is known as one: reports are told apart by their ids, not by the numbers in files."""
    return Batches({number: 1})

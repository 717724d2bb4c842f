"""Collections and their rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sketchlearn.collector.database import Row, Transaction
from sketchlearn.collector.epoch_times import HOUR, SPANS, in_iso
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.values import shortened
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.files.sketches import KnownOperator
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Sketch

REFUSE, NEXT = "refuse", "next"
FIRST, SECOND = "first", "second"
LARGEST_BODY = 64_000_000
YEAR = 366 * 86400
MOST = 2**53


def _rule(default: Any, must_be: str, allows: Callable[[Any], bool]) -> Any:
    """A field of rules; None is allowed only as a default."""
    return field(default=default, metadata={"must be": must_be, "allows": allows})


def _boolean(default: bool) -> Any:
    return _rule(default, "true or false", lambda given: isinstance(given, bool))


def _one_of(default: str | None, *known: str) -> Any:
    return _rule(default, f"one of {', '.join(known)}", lambda given: isinstance(given, str) and given in known)


def _whole(default: int | None, least: int, most: int) -> Any:
    words = f"a whole number from {least:,} to {most:,}"
    return _rule(default, words, lambda given: type(given) is int and least <= given <= most)


def _number(default: float | None, least: float, most: float) -> Any:
    words = f"a number from {least:g} to {most:g}"
    return _rule(default, words, lambda given: type(given) in (int, float) and least <= given <= most)


def _is_url(given: Any) -> bool:
    return isinstance(given, str) and re.fullmatch("(?=.{11,2000}$)https?://[!-~]+", given) is not None


@dataclass(frozen=True)
class Rules:
    """What a collection accepts, keeps and shows.

    Attributes
    ----------
    epoch : "hour" or "day", of UTC; it cannot be changed later.
    grace_seconds : how long after its end an epoch still takes reports; then it is closed.
    late : what happens to reports for a closed epoch: "refuse" them, or count them in the "next" open one.
    skew_seconds : how far ahead a sender's clock may be; up to there, a time in the future counts as now.
    private_reports : take private sketches alone (with a ledger that needs no more shares).
    private_reading : tokens with the scope "read" get private releases alone, and reports must be such that releases
        can be made of them: without fractional weights, weights above 1, skipped files and batches that count twice.
    disjoint : no record (or privacy unit) is in two reports: then the largest epsilon holds for a sum, not their sum.
    unit, rows_per_unit : the privacy unit: reports are sketches of rows of such units (`operator.sketch(rows,
        unit="patient_id", rows_per_unit=5)`), with at most `rows_per_unit` rows each; releases then protect units.
    min_records, min_reports : no sum is shown that has fewer records, or fewer reports, or differs by fewer from what
        was shown before. Private releases are not concerned: they have all records.
    sealed_only : no sum is shown of an epoch before it is closed; without it, two looks at an open epoch show what
        came between them.
    largest_body : bytes of a report.
    records_per_report : the most records of one report.
    reports_per_epoch, records_per_epoch : the most of one sender in one epoch.
    reports_per_minute : of one sender, resent ones included; a burst of a minute's worth may come at once.
    body_days : how many days the bodies of reports are kept after their epoch was closed; until then a sender can be
        subtracted.
    hours_kept_days, days_kept_days : when hours are added up to days, and days to months.
    forget_days : when sums are removed altogether; None keeps them.
    silent_seconds : after how long without a report a sender counts as silent.
    alarm_level : the proportion of epochs that may raise a false alarm.
    webhook : a URL that alarms are sent to.
    hidden : "first" or "second" of two collectors with secure aggregation (the page "Sums that hide their parts"); None
        otherwise. It cannot be changed later. `min_reports` is then the minimum, and `records_per_report` must be
        given.
    noise_epsilon, noise_parties : distributed noise generation: each report has a share of the noise; None if reports
        are exact.
    epsilon, delta : the budget of all private releases together; None keeps count without a limit.
    """

    epoch: str = _one_of(HOUR, *SPANS)
    grace_seconds: int = _whole(900, 0, YEAR)
    late: str = _one_of(REFUSE, REFUSE, NEXT)
    skew_seconds: int = _whole(300, 0, 86400)
    private_reports: bool = _boolean(False)
    private_reading: bool = _boolean(False)
    disjoint: bool = _boolean(False)
    unit: str | None = None
    rows_per_unit: int | None = None
    min_records: int = _whole(FEW_RECORDS, 0, MOST)
    min_reports: int = _whole(1, 0, MOST)
    sealed_only: bool = _boolean(True)
    largest_body: int = _whole(1_000_000, 1000, LARGEST_BODY)
    records_per_report: int | None = _whole(None, 1, MOST)
    reports_per_epoch: int | None = _whole(None, 1, MOST)
    records_per_epoch: int | None = _whole(None, 1, MOST)
    reports_per_minute: int = _whole(600, 1, 1_000_000)
    body_days: float = _number(7.0, 0.0, 36600.0)
    hours_kept_days: float = _number(30.0, 1.0, 36600.0)
    days_kept_days: float = _number(400.0, 1.0, 36600.0)
    forget_days: float | None = _number(None, 1.0, 36600.0)
    silent_seconds: int = _whole(2 * 86400, 1, 10 * YEAR)
    alarm_level: float = _number(0.001, 1e-12, 0.5)
    webhook: str | None = _rule(None, "a URL that begins with http:// or https://, or null", _is_url)
    epsilon: float | None = _number(None, 1e-9, 1e9)
    delta: float | None = _number(None, 0.0, 0.5)
    hidden: str | None = _one_of(None, FIRST, SECOND)
    noise_epsilon: float | None = _number(None, 1e-9, 20.0)
    noise_parties: int | None = _whole(None, 1, MOST)

    def __post_init__(self) -> None:
        for rule in fields(self):
            given = getattr(self, rule.name)
            unset = given is None and rule.default is None
            if rule.metadata and not unset and not rule.metadata["allows"](given):
                raise ValueError(f"{rule.name} must be {rule.metadata['must be']}, not {shortened(given)}")
        if self.hidden is not None and (self.min_reports < 2 or self.records_per_report is None):
            raise ValueError("secure aggregation needs min_reports of at least 2, and records_per_report")
        for one, other in (("unit", "rows_per_unit"), ("noise_epsilon", "noise_parties")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"{one} and {other} belong together")
        if self.unit is not None:
            PrivacyUnit(self.unit, self.rows_per_unit)  # type: ignore[arg-type]

    def changed(self, form: Any) -> Rules:
        """These rules with some changed, of a collection that has reports."""
        new = self.with_changes(form)
        if new.epoch != self.epoch:
            raise ValueError("the epochs of a collection cannot be changed: make another collection")
        terms = ("hidden", "min_reports", "records_per_report", "noise_epsilon", "noise_parties")
        if self.hidden is not None and any(getattr(new, name) != getattr(self, name) for name in terms):
            raise ValueError("the terms of secure aggregation cannot be changed: make another collection")
        return new

    def with_changes(self, form: Any) -> Rules:
        """These rules with those of a JSON object."""
        names = [rule.name for rule in fields(self)]
        if not isinstance(form, dict):
            raise ValueError("rules must be a JSON object")
        for name in form:
            if name not in names:
                raise ValueError(f"there is no rule {shortened(name)}; rules are {', '.join(names)}")
        return replace(self, **form)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


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
        number, name, title, created, design, rules = row
        known = KnownOperator(design_from_bytes(bytes(design))[0])
        return cls(number, name, title, created, bytes(design), Rules().with_changes(json.loads(rules)), known)

    def added(self, a: Sketch, b: Sketch) -> Sketch:
        """The sum of two sketches, with what the rules say about records that may be in both."""
        return a.merged(b, overlapping=False if self.rules.disjoint else None)

    def to_json(self, *, administers: bool = False) -> dict[str, Any]:
        """What its readers and senders may know; only administrators see the webhook, whose URL may be a secret."""
        operator, rules = self.known.operator, asdict(self.rules)
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
    rows = transaction.all(f"SELECT {Collection.COLUMNS} FROM collections ORDER BY name")
    return [Collection.of_row(row) for row in rows]

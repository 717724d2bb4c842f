"""Collections and their rules."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sketchlearn.collector.database import Row, Transaction
from sketchlearn.collector.epoch_times import HOUR, SPANS, in_iso
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.values import shortened
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.files.sketches import KnownOperator
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Sketch

REFUSE, NEXT = "refuse", "next"
FIRST, SECOND = "first", "second"
LARGEST_BODY = 64_000_000
YEAR = 366 * 86400
MOST = 2**53


Check = Callable[[str, Any], None]


def _boolean(name: str, given: Any) -> None:
    if not isinstance(given, bool):
        raise ValueError(f"{name} must be true or false")


def _one_of(*known: str) -> Check:
    def check(name: str, given: Any) -> None:
        if not isinstance(given, str) or given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {shortened(given)}")

    return check


def _whole(least: int, most: int) -> Check:
    def check(name: str, given: Any) -> None:
        if type(given) is not int or not least <= given <= most:
            raise ValueError(f"{name} must be a whole number from {least:,} to {most:,}, not {shortened(given)}")

    return check


def _number(least: float, most: float) -> Check:
    def check(name: str, given: Any) -> None:
        if type(given) not in (int, float) or not math.isfinite(given) or not least <= given <= most:
            raise ValueError(f"{name} must be a number from {least:g} to {most:g}, not {shortened(given)}")

    return check


def _url(name: str, given: Any) -> None:
    if not isinstance(given, str) or not 10 < len(given) <= 2000 or not re.fullmatch("https?://[!-~]+", given):
        raise ValueError(f"{name} must be a URL that begins with http:// or https://, or null")


def _rule(default: Any, check: Check) -> Any:
    """A field of rules; None is allowed only as a default."""
    return field(default=default, metadata={"check": check})


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

    epoch: str = _rule(HOUR, _one_of(*SPANS))
    grace_seconds: int = _rule(900, _whole(0, YEAR))
    late: str = _rule(REFUSE, _one_of(REFUSE, NEXT))
    skew_seconds: int = _rule(300, _whole(0, 86400))
    private_reports: bool = _rule(False, _boolean)
    private_reading: bool = _rule(False, _boolean)
    disjoint: bool = _rule(False, _boolean)
    unit: str | None = None
    rows_per_unit: int | None = None
    min_records: int = _rule(FEW_RECORDS, _whole(0, MOST))
    min_reports: int = _rule(1, _whole(0, MOST))
    sealed_only: bool = _rule(True, _boolean)
    largest_body: int = _rule(1_000_000, _whole(1000, LARGEST_BODY))
    records_per_report: int | None = _rule(None, _whole(1, MOST))
    reports_per_epoch: int | None = _rule(None, _whole(1, MOST))
    records_per_epoch: int | None = _rule(None, _whole(1, MOST))
    reports_per_minute: int = _rule(600, _whole(1, 1_000_000))
    body_days: float = _rule(7.0, _number(0.0, 36600.0))
    hours_kept_days: float = _rule(30.0, _number(1.0, 36600.0))
    days_kept_days: float = _rule(400.0, _number(1.0, 36600.0))
    forget_days: float | None = _rule(None, _number(1.0, 36600.0))
    silent_seconds: int = _rule(2 * 86400, _whole(1, 10 * YEAR))
    alarm_level: float = _rule(0.001, _number(1e-12, 0.5))
    webhook: str | None = _rule(None, _url)
    epsilon: float | None = _rule(None, _number(1e-9, 1e9))
    delta: float | None = _rule(None, _number(0.0, 0.5))
    hidden: str | None = _rule(None, _one_of(FIRST, SECOND))
    noise_epsilon: float | None = _rule(None, _number(1e-9, 20.0))
    noise_parties: int | None = _rule(None, _whole(1, MOST))

    def __post_init__(self) -> None:
        for rule in fields(self):
            given = getattr(self, rule.name)
            if "check" in rule.metadata and (given is not None or rule.default is not None):
                rule.metadata["check"](rule.name, given)
        if self.hidden is not None and (self.min_reports < 2 or self.records_per_report is None):
            raise ValueError("secure aggregation needs min_reports of at least 2, and records_per_report")
        for one, other in (("unit", "rows_per_unit"), ("noise_epsilon", "noise_parties")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"{one} and {other} belong together")
        if self.unit is not None:
            PrivacyUnit(self.unit, self.rows_per_unit)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The rules as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Any) -> Rules:
        """The rules of a JSON object; those that it does not name have their defaults."""
        return cls()._with(form)

    def changed(self, form: Any) -> Rules:
        """These rules with some changed."""
        new = self._with(form)
        if new.epoch != self.epoch:
            raise ValueError("the epochs of a collection cannot be changed: make another collection")
        terms = ("hidden", "min_reports", "records_per_report", "noise_epsilon", "noise_parties")
        if self.hidden is not None and any(getattr(new, name) != getattr(self, name) for name in terms):
            raise ValueError("the terms of secure aggregation cannot be changed: make another collection")
        return new

    def _with(self, form: Any) -> Rules:
        names = [rule.name for rule in fields(self)]
        if not isinstance(form, dict):
            raise ValueError("rules must be a JSON object")
        for name in form:
            if name not in names:
                raise ValueError(f"there is no rule {shortened(name)}; rules are {', '.join(names)}")
        return replace(self, **form)

    def to_text(self) -> str:
        """As the database has them."""
        return json.dumps(self.to_json(), sort_keys=True)


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
        return cls(number, name, title, created, bytes(design), Rules.from_json(json.loads(rules)), known)

    def with_rules(self, rules: Rules) -> Collection:
        """The same with other rules."""
        return replace(self, rules=rules)

    def added(self, a: Sketch, b: Sketch) -> Sketch:
        """The sum of two sketches, with what the rules say about records that may be in both."""
        return a.merged(b, overlapping=False if self.rules.disjoint else None)

    def added_up(self, sketches: Iterable[Sketch]) -> Sketch | None:
        """The sum of several sketches; None if there are none."""
        total: Sketch | None = None
        for sketch in sketches:
            total = sketch if total is None else self.added(total, sketch)
        return total

    def to_json(self, *, administers: bool = False) -> dict[str, Any]:
        """What its readers and senders may know; only administrators see the webhook, whose URL may be a secret."""
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
    """The batches of a sum that is one batch: reports are told apart by their ids, not by the batch ids in files."""
    return Batches({number: 1})

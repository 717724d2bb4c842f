"""Private releases of windows, kept for ever: each is booked in the collection's budget before its noise is drawn.

A release covers all reports of its window. Whether it is made, its amount of noise and its ledger depend only on the
window, the rules, the design and the clock, not on the records.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Change, Transaction
from sketchlearn.collector.epoch_times import DAY, MONTH, SECONDS, finish_of, in_iso, start_of
from sketchlearn.collector.epochs import DAY_MS, epochs_between
from sketchlearn.collector.refusals import RefusalError, refused_as
from sketchlearn.core.owner_folder import make_folder
from sketchlearn.privacy.budget import Budget, BudgetError
from sketchlearn.privacy.release import privatize
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Release, Sketch

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store


def release(
    store: Store, actor: str, collection: Collection, start: int, finish: int, **options: Any
) -> dict[str, Any]:
    """Makes a private release of a window that is over."""
    require_over(collection, start, finish, store.now())
    with store.releasing:
        store.close_epochs(collection)  # those that maintenance has not closed yet
        with store.reading() as transaction:
            sketch = window_to_release(transaction, collection, start, finish)
            earlier = spent_before(transaction, collection, start, finish)
            known = transaction.one("SELECT releases, digest FROM budgets WHERE collection = ?", (collection.id,))
        with refused_as("conflict", "no release was made: ", (ValueError, TypeError)):
            budget = CollectionBudget(store, collection, known)
            own = privatize(sketch, **options, budget=budget)
            assert own.ledger is not None
            ledger = own.ledger if earlier is None else own.ledger.after(earlier)
            made = Release(own.operator, own.sums, own.units, ledger, made_of=(own,))
        answer = store.write(actor, insert_release, collection, (start, finish), made, own.ledger)
    store.changed(collection.name, "release", id=answer["id"])
    return answer


def require_over(collection: Collection, start: int, finish: int, now: int) -> None:
    """Refuses a window that still takes reports, or that is not of whole epochs. It looks at the clock only."""
    rules = collection.rules
    if not start < finish:
        raise RefusalError("malformed", "a window must end after it starts")
    over = finish + rules.grace_seconds
    if 1000 * over > now:
        raise RefusalError("conflict", f"the window is not closed yet: release it from {in_iso(over)} on")
    for moment in (start, finish):
        span = rules.epoch
        for coarse, days in ((DAY, rules.hours_kept_days), (MONTH, rules.days_kept_days)):
            if finish_of(coarse, start_of(coarse, moment)) * 1000 <= now - int(days * DAY_MS):
                span = coarse
        if start_of(span, moment) != moment:
            begins = in_iso(start_of(span, moment))
            raise RefusalError(
                "malformed",
                f"a release covers whole epochs, but {in_iso(moment)} is within the {span} that begins {begins}",
            )


def window_to_release(transaction: Transaction, collection: Collection, start: int, finish: int) -> Sketch:
    """The sum of all closed epochs of a window, even of few records; an empty sketch, if there are none."""
    rules, operator = collection.rules, collection.known.operator.without_keeping()
    if rules.private_reports or rules.noise_epsilon is not None:
        raise RefusalError("conflict", "the reports are private already: read the window's sketch")
    total = Sketch(operator)
    for epoch in epochs_between(transaction, collection, start, finish):
        sketch = epoch.sketch(collection)
        if sketch is None or epoch.closed is None or epoch.start < start or epoch.finish > finish:
            continue
        if sketch.ledger is not None:
            raise RefusalError("conflict", "the reports are private already: read the window's sketch")
        with refused_as("not addable", "the epochs of the window cannot be added: "):
            total = collection.added(total, sketch.without_rows())
    # the design is the collection's, whatever reports say of where theirs came from; and the release is a batch of its
    # own, since what was spent before follows from windows, not from which epochs have reports
    return Sketch(
        operator,
        total.sums,
        total.units,
        total.bits,
        total.skipped,
        heaviest=total.heaviest,
        batches=Batches({secrets.randbits(64): 1}, most=total.batches.largest),
        unit=_privacy_unit(transaction, collection, start, finish, total.unit),
    )


def _privacy_unit(
    transaction: Transaction, collection: Collection, start: int, finish: int, found: PrivacyUnit | None
) -> PrivacyUnit | None:
    """The privacy unit of a release: a window may have the rows that the rules allow in every possible report of it."""
    rules = collection.rules
    if rules.unit is None or rules.rows_per_unit is None:
        if found is not None:
            raise RefusalError(
                "conflict", f"no release was made: reports are by {found.name}; set the rules unit and rows_per_unit"
            )
        return None
    reports = 1
    if not rules.disjoint:
        if rules.reports_per_epoch is None:
            raise RefusalError(
                "conflict",
                f"no release was made: a {rules.unit} may be in every report of a window: limit those by the rule "
                "reports_per_epoch, or set disjoint, if none is in two reports",
            )
        senders = transaction.value("SELECT count(*) FROM senders WHERE collection = ?", (collection.id,))
        first = max(start, start_of(rules.epoch, collection.created / 1000 - rules.grace_seconds))
        epochs = max(1, -(-(finish - first) // SECONDS[rules.epoch]))
        reports = max(1, senders) * rules.reports_per_epoch * epochs
    unit = PrivacyUnit(rules.unit, rules.rows_per_unit * reports)
    if found is not None and (found.name != unit.name or found.rows_per_unit > unit.rows_per_unit):
        raise RefusalError("conflict", f"no release was made: reports of the window have {found}, against the rules")
    return unit


class CollectionBudget(Budget):
    """The budget of a collection. The database has the length of its log, and its last digest.

    They are `known` when a release begins, and are written before any noise is drawn.
    """

    def __init__(self, store: Store, collection: Collection, known: tuple[int, str] | None) -> None:
        path = store.folder / "budgets" / f"{collection.name}.sqlite"
        if known is not None and not path.exists():
            raise BudgetError(f"{path.name} is gone, and had {known[0]:,} releases: put it back")
        make_folder(path.parent)
        super().__init__(path, collection.rules.epsilon, collection.rules.delta)
        self._store, self._collection, self._known = store, collection, known

    def reserve(self, ledger: Ledger, batches: Batches | None = None) -> None:
        """Books a release in the file and then in the database, or refuses it."""
        known, head = self._known, self.head
        if known is not None and (head[0] < known[0] or (head[0] == known[0] and head != known)):
            raise BudgetError(
                f"{self.path.name} has {head[0]:,} releases, and had {known[0]:,}: put the newest copy of it back"
            )
        super().reserve(ledger, batches)
        self._store.writer.do(lambda transaction: note_budget(transaction, self._collection, self.head))


def note_budget(transaction: Transaction, collection: Collection, head: tuple[int, str]) -> None:
    transaction.execute(
        "INSERT INTO budgets (collection, releases, digest) VALUES (?, ?, ?) ON CONFLICT (collection) DO UPDATE SET "
        "releases = excluded.releases, digest = excluded.digest",
        (collection.id, *head),
    )


def spent_before(transaction: Transaction, collection: Collection, start: int, finish: int) -> Ledger | None:
    """The privacy loss of earlier releases on records of a window: a record is in one epoch, a unit may be in all."""
    rows = transaction.all(
        "SELECT own_ledger FROM releases WHERE collection = ? AND start < ? AND finish > ? ORDER BY id",
        (collection.id, finish, start) if collection.rules.unit is None else (collection.id, 2**62, -(2**62)),
    )
    found: Ledger | None = None
    for (text,) in rows:
        own = Ledger.from_json(json.loads(text))
        found = own if found is None else found.merged(own, overlapping=True)
    return found


def insert_release(
    change: Change, collection: Collection, bounds: tuple[int, int], made: Release, own: Ledger
) -> dict[str, Any]:
    """Writes a release, whose ledger includes earlier ones, with its own ledger; its description."""
    number = change.next_number("releases")
    assert made.ledger is not None
    ledger = json.dumps(made.ledger.to_json())
    row = (number, collection.id, *bounds, change.now, ledger, made.to_bytes(), json.dumps(own.to_json()))
    change.insert("releases", "id, collection, start, finish, created, ledger, sketch, own_ledger", [row])
    change.note("release", collection=collection.name, release=number, epsilon=own.epsilon, delta=own.delta)
    return releases(change, collection)[-1]


def releases(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    found = transaction.records(
        "SELECT id, start, finish, created, ledger FROM releases WHERE collection = ? ORDER BY id", (collection.id,)
    )
    return [{**row, "ledger": json.loads(row["ledger"])} for row in found]


def release_file(transaction: Transaction, collection: Collection, number: int) -> bytes:
    body = transaction.value("SELECT sketch FROM releases WHERE collection = ? AND id = ?", (collection.id, number))
    if body is None:
        raise RefusalError("not found", "there is no such release in the collection")
    return bytes(body)

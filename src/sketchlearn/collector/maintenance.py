"""What happens by itself: epochs are sealed and compared, retention is kept, alarms wait to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sketchlearn.collector import drift, epochs
from sketchlearn.collector import forwarding as passing_on
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import in_iso

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store


def keep_house(store: Store) -> list[str]:
    """Seals epochs that are over, compares them, keeps retention; sentences about what could not be done."""
    store.flush_refusals()
    problems: list[str] = []
    named = _named_for_parent(store)
    for collection in store.all_collections():
        with store.reading() as transaction:
            over = epochs.to_seal(transaction, collection, store.now())
        for start in over:
            store.seal(epochs.COLLECTOR, collection, start)
        try:
            _compare(store, collection)
        except OverflowError as error:
            problems.append(f"{collection.name}: its epochs cannot be compared: {error}")
        if collection.name in named:
            passing_on.queue(store, collection)  # before retention makes epochs coarser
        problems += store.writer.do(
            lambda t, c=collection: epochs.keep_within_retention(t, c, store.now(), store.identity)  # type: ignore[misc]
        )
    return problems


def _named_for_parent(store: Store) -> dict[str, str]:
    """The collections whose sealed epochs a parent is told."""
    try:
        parent = passing_on.parent_of(store.folder)
    except passing_on.ParentError:
        return {}  # which `pass_on` says
    return {} if parent is None else parent.tokens


def _compare(store: Store, collection: Collection) -> None:
    """Compares sealed epochs with those before. The writer is not kept waiting for the tests."""
    while True:
        with store.reading() as transaction:
            epoch = drift.next_epoch(transaction, collection)
            earlier = [] if epoch is None else drift.history(transaction, collection, epoch.start)
        if epoch is None:
            return
        row = drift.compared(collection, epoch, earlier)
        store.writer.do(lambda t, row=row: drift.note(t, collection, row, store.now()))  # type: ignore[misc]
        store.changed(collection.name, "alarm" if row["alarm"] else "compared", sentence=row["sentence"])


def undelivered_alarms(store: Store) -> list[tuple[int, str, dict[str, Any]]]:
    """Alarms to be sent: their numbers, the URL, and what is sent."""
    hooks = {c.id: c for c in store.all_collections() if c.rules.webhook is not None}
    with store.reading() as transaction:
        rows = transaction.all(
            "SELECT id, collection, epoch, kind, sentence FROM alarms WHERE delivered IS NULL AND attempts < 10 "
            "ORDER BY id LIMIT 100"
        )
    return [
        (
            number,
            str(hooks[collection].rules.webhook),
            {
                "collection": hooks[collection].name,
                "epoch": in_iso(epoch),
                "kind": kind,
                "sentence": sentence,
            },
        )
        for number, collection, epoch, kind, sentence in rows
        if collection in hooks
    ]


def note_delivery(store: Store, alarm: int, *, delivered: bool) -> None:
    """Notes that an alarm was sent, or that it was tried."""
    when = store.now() if delivered else None
    store.writer.do(
        lambda t: t.execute("UPDATE alarms SET attempts = attempts + 1, delivered = ? WHERE id = ?", (when, alarm))
        and None
    )

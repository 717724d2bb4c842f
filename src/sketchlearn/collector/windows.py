"""Windows: any run of epochs is a sum away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch, epochs_between
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.sketch import Sketch


@dataclass(frozen=True)
class Window:
    """The sum of the epochs that lie within [start, finish), and which of them it leaves out, with the reason."""

    start: int
    finish: int
    epochs: list[Epoch]
    left_out: list[tuple[Epoch, str]]
    sketch: Sketch | None

    def to_json(self, collection: Collection) -> dict[str, Any]:
        """What the routes say of it."""
        ledger = None if self.sketch is None else self.sketch.ledger
        return {
            "start": in_iso(self.start),
            "finish": in_iso(self.finish),
            "reports": sum(epoch.reports for epoch in self.epochs),
            "records": sum(epoch.records for epoch in self.epochs),
            "epochs": [epoch.to_json(collection) for epoch in self.epochs],
            "left_out": [{"start": in_iso(epoch.start), "reason": reason} for epoch, reason in self.left_out],
            "ledger": None if ledger is None else ledger.to_json(),
        }


def window(transaction: Transaction, collection: Collection, start: int, finish: int) -> Window:
    """The sum of a run of epochs. Epochs that may not be shown are left out, so that no difference shows them."""
    if not start < finish:
        raise RefusalError("malformed", "a window must end after it starts")
    shown: list[Epoch] = []
    left_out: list[tuple[Epoch, str]] = []
    total: Sketch | None = None
    for epoch in epochs_between(transaction, collection, start, finish):
        reason = epoch.why_hidden(collection)
        if epoch.start < start or epoch.finish > finish:
            reason = "only a part of it lies in the window"
        if reason is None:
            sketch = epoch.sketch(collection)
            assert sketch is not None
            try:
                total = sketch if total is None else collection.added(total, sketch)
            except (ValueError, OverflowError) as error:
                raise RefusalError("not addable", f"the epochs of the window cannot be added: {error}") from None
            shown.append(epoch)
        else:
            left_out.append((epoch, reason))
    return Window(start, finish, shown, left_out, total)


def required_sketch(found: Window) -> Sketch:
    """The sum of a window that has one."""
    if found.sketch is None:
        reasons = sorted({reason for _, reason in found.left_out})
        why = f": of its epochs, {'; '.join(reasons)}" if reasons else ": nothing was reported then"
        raise RefusalError("too few" if reasons else "not found", f"the window has nothing to show{why}")
    return found.sketch

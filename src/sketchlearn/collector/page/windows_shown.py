"""Which window a page shows, and the window before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import SECONDS, from_text, in_iso
from sketchlearn.collector.views import ExactView
from sketchlearn.storage.design_files import design_from_bytes

HOURS = {"6 hours": 6, "day": 24, "week": 7 * 24, "30 days": 30 * 24}
DEFAULT_CLUSTERS, MOST_CLUSTERS = 4, 30


@dataclass(frozen=True)
class Choice:
    """What a reader chose: a span that ends with the newest sealed epoch, or two times; and how many clusters."""

    span: str
    start: int
    finish: int
    clusters: int

    @property
    def before(self) -> tuple[int, int]:
        """The window of the same length before."""
        return 2 * self.start - self.finish, self.start

    def query(self, **changes: Any) -> str:
        """As the query of a link."""
        times = {} if self.span else {"from": in_iso(self.start), "to": in_iso(self.finish)}
        form = {"window": self.span, **times, "clusters": self.clusters, **changes}
        return urlencode({name: value for name, value in form.items() if value})


def chosen(view: ExactView, asked: dict[str, str]) -> Choice:
    """The choice of a query; what cannot be read is as by default."""
    clusters, epoch = chosen_clusters(view.collection, asked), view.collection.rules.epoch
    try:
        start, finish = (int(from_text(asked[name])) for name in ("from", "to"))
        if start < finish:
            return Choice("", start, finish, clusters)
    except (KeyError, ValueError):
        pass
    span = asked.get("window", "")
    if span not in HOURS:
        span = "6 hours" if epoch == "hour" else "week"
    finish = view.newest_sealed()
    length = max(3600 * HOURS[span], SECONDS[epoch])
    return Choice(span, finish - length, finish, clusters)


def chosen_clusters(collection: Collection, asked: dict[str, str]) -> int:
    """How many clusters a query asks for; by default, as many as the design is for."""
    text = asked.get("clusters", "")
    if text.isascii() and text.isdecimal() and 1 <= int(text[:3]) <= MOST_CLUSTERS:
        return int(text[:3])
    made = design_from_bytes(collection.design)[1].get("n_components")
    return made if type(made) is int and 1 <= made <= MOST_CLUSTERS else DEFAULT_CLUSTERS

"""Reports to a collection whose sums hide their parts, made from what its first collector says of it.

The second collector's public key and this sender's token there come from whoever sends, never from the first collector.
"""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from sketchlearn.privacy.release import privatize
from sketchlearn.reporting.client import Collector
from sketchlearn.reporting.hidden_parts import design_digest, hide
from sketchlearn.sketch import Sketch

SECONDS = {"hour": 3600, "day": 86400}


def hidden_report(
    collector: Collector,
    collection: str,
    sketch: Sketch,
    *,
    id: str,
    second_key: str,
    second_token: str = "",
    time: float | str | None = None,
) -> bytes:
    """The message for `collector.report(collection, message, id=id)`: split once, and sent as often as needed.

    If the collection asks for shares of noise, the sketch gets its share here.
    """
    rules = collector.get(f"/v1/collections/{quote(collection, safe='')}")["rules"]
    if rules.get("hidden") != "first":
        raise ValueError(f"the sums of the collection {collection} do not hide their parts: send sketches as they are")
    sketch = sketch.without_rows()
    if sketch.units > rules["records_per_report"]:
        most = rules["records_per_report"]
        raise ValueError(f"a report has at most {most:,} records here, and this one {sketch.units:,}: send several")
    operator: Any = sketch.operator
    if rules["noise_epsilon"] is not None:
        sketch = privatize(sketch, epsilon=rules["noise_epsilon"], parties=rules["noise_parties"])
    return hide(
        sketch,
        id,
        collection=collection,
        epoch=epoch_of(rules["epoch"], clock.time() if time is None else time),
        design=design_digest(operator),
        public_key=second_key,
        credential=second_token.strip(),
    ).to_bytes()


def epoch_of(span: str, moment: float | str) -> str:
    """The name of the epoch of a moment: when it starts.

    >>> epoch_of("hour", "2026-01-05T12:34:56"), epoch_of("day", 86_400.5)
    ('2026-01-05T12:00:00Z', '1970-01-02T00:00:00Z')
    """
    if isinstance(moment, str):
        found = datetime.fromisoformat(moment)
        moment = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    start = int(moment // SECONDS[span]) * SECONDS[span]
    return datetime.fromtimestamp(start, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

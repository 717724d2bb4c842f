"""A spool: reports stay on disk until a collector has acknowledged them, whatever fails in between.

A report is one file, `<id>.report`: a line of JSON (collection, id, time) and the bytes of the sketch. It is written
completely before it is sent, and removed after it is acknowledged. So it may be sent twice, but counts once.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.clients.client import Collector, CollectorError, report_file
from sketchlearn.core.owner_folder import make_folder, read_file, write_file

if TYPE_CHECKING:
    from sketchlearn.sketch.sums import Sketch


ENDING, REFUSED = ".report", ".refused"


@dataclass
class Sent:
    """The outcome of sending the reports of a spool."""

    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # the reason for each id; their files end in .refused
    waiting: int = 0
    reason: str | None = None  # why others wait


class Spool:
    """A folder of reports that wait for a collector.

    Parameters
    ----------
    folder : of the reports, which only its owner can read; it is created if it does not exist.

    Examples
    --------
    >>> import sketchlearn as skl, tempfile
    >>> operator = skl.SecondMoments(2, bound=9.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spool = Spool(folder)
    ...     name = spool.add("readings", operator.sketch([[1.0, 2.0]]), id="device-7.monday")
    ...     spool.waiting() == [name]
    True
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        make_folder(self.folder)

    def add(
        self, collection: str, sketch: Sketch | bytes, *, id: str | None = None, time: float | str | None = None
    ) -> str:
        """Adds a report to the spool; returns its id."""
        name = id or secrets.token_hex(16)
        if not name or "/" in name or name.startswith(".") or len(name) > 128 or not name.isascii():
            raise ValueError("the id of a report has at most 128 letters, digits and . _ : ~ -")
        data = sketch if isinstance(sketch, bytes) else report_file(sketch, name)
        head = json.dumps({"collection": collection, "id": name, "time": time}).encode()
        write_file(self.folder / (name + ENDING), head + b"\n" + data)
        return name

    def waiting(self) -> list[str]:
        """The ids of the reports that wait, the oldest first."""
        paths = [(path.stat().st_mtime_ns, path.name) for path in self.folder.glob(f"*{ENDING}")]
        return [name.removesuffix(ENDING) for _, name in sorted(paths)]

    def send(self, collector: Collector) -> Sent:
        """Sends the reports that wait. Refused ones are set aside; if the collector is unreachable, the others stay."""
        sent, names = Sent(), self.waiting()
        for n, name in enumerate(names):
            path = self.folder / (name + ENDING)
            head, _, data = read_file(path).partition(b"\n")
            facts = json.loads(head)
            try:
                answer = collector.report(facts["collection"], data, id=facts["id"], time=facts["time"])
            except CollectorError as error:
                if error.temporary or error.status in (401, 403, 404):
                    sent.waiting, sent.reason = len(names) - n, str(error)
                    return sent
                os.replace(path, path.with_suffix(REFUSED))
                sent.refused[name] = str(error)
                continue
            path.unlink()
            sent.acknowledged.append(answer)
        return sent

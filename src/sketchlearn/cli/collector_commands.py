"""`sketchlearn serve`, `verify`, `push` and `pull`: a collector of sketches, and its clients."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sketchlearn as skl
from sketchlearn.cli import files, options
from sketchlearn.cli.errors import FAILED, misused, refuse, say
from sketchlearn.core.errors import Words, worded
from sketchlearn.core.messages import counted
from sketchlearn.core.packages import required

if TYPE_CHECKING:
    from sketchlearn.collector.clients.spool import Spool
    from sketchlearn.files.checkpoints import Reading


FOLDER = typer.Argument(metavar="FOLDER", help="The collector's folder; it is made if there is none.")
DatabaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="postgresql://...; without it, a SQLite file in the folder.")
]


def serve(
    folder: Annotated[str | None, FOLDER] = None,
    database: DatabaseUrl = None,
    host: Annotated[str, typer.Option(help="The address to listen to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen to; 0 takes a free one.")] = 8765,
    certificate: Annotated[str | None, typer.Option(metavar="FILE", help="The certificate for TLS, as PEM.")] = None,
    certificate_key: Annotated[str | None, typer.Option(metavar="FILE", help="The certificate's key, as PEM.")] = None,
    proxies: Annotated[
        str, typer.Option(metavar="LIST", help="Addresses of proxies whose X-Forwarded-For is believed.")
    ] = "",
    webhook_hosts: Annotated[
        str,
        typer.Option(metavar="LIST", help="Private hosts, with ports, that alarms may be sent to: 10.0.0.5:8080,..."),
    ] = "",
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated fleet instead, until it is ended.")] = False,
    hour: Annotated[float, typer.Option(min=0.5, help="With --demo, the seconds that an hour takes.")] = 5.0,
) -> None:
    """Collect sketches from many senders: each counts once, and none is lost.

    Needs starlette and uvicorn. The first start writes a token that may do everything into FOLDER/admin.token.

    \b
    Example:
      sketchlearn serve collector/ --port 8765
      sketchlearn serve --demo
    """

    mistakes = {
        "give the FOLDER of a collector or --demo, and not both": (folder is None) != demo,
        "give --certificate and --certificate-key together": (certificate is None) != (certificate_key is None),
    }
    refuse(mistakes)
    for package in ("starlette", "uvicorn", "prometheus_client"):
        required(package, "serve")
    from sketchlearn.collector.serving import Serving, serve_demonstration
    from sketchlearn.collector.serving import serve as serve_until_ended

    with worded(Words()):  # senders may not use the command line
        if folder is None:
            serve_demonstration(host, port, hour)
            return
        where = (Path(folder), database, host, port, certificate, certificate_key, proxies, webhook_hosts)
        serve_until_ended(Serving(*where))


def verify(folder: Annotated[str, FOLDER], database: DatabaseUrl = None, json: options.Json = False) -> None:
    """Check that every sum of a collector is the sum of the reports that it keeps.

    It may run while the collector does. Exit code 1 if anything is wrong.

    \b
    Example:
      sketchlearn verify collector/
    """
    from sketchlearn.collector.database import open_database
    from sketchlearn.collector.verification import verify as verified

    url = database or str(Path(folder) / "collector.sqlite")
    found = verified(open_database(url, writable=False))
    figures = {
        "epochs": found.epochs,
        "epochs_from_bodies": found.from_bodies,
        "reports": found.reports,
        "audit_entries": found.entries,
        "problems": found.problems,
    }
    checked = f"{found.epochs:,} epochs of {found.reports:,} reports, {found.from_bodies:,} of them added up anew"
    lines = [f"{checked}; {found.entries:,} entries of the audit log", *found.problems]
    files.tell(json, figures, *lines, "nothing is wrong" if not found.problems else f"{len(found.problems):,} problems")
    if found.problems:
        raise typer.Exit(1)


Name = Annotated[str, typer.Option(metavar="NAME", help="The collection's name.")]


@dataclass(frozen=True)
class Access:
    """How a collector is reached."""

    token: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with the token; otherwise SKETCHLEARN_TOKEN has it.")
    ] = None
    certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="A certificate to be trusted, where no authority has signed it.")
    ] = None
    attempts: Annotated[
        int, typer.Option(min=1, help="How often a request is tried, with longer and longer pauses.")
    ] = 5

    def collector(self, url: str) -> skl.Collector:
        """The client of the collector at an address."""
        token = self.token
        text = os.environ.get("SKETCHLEARN_TOKEN") if token is None else Path(token).read_text(encoding="utf-8")
        if not text:
            raise misused("give --token FILE, or set the environment variable SKETCHLEARN_TOKEN")
        return skl.Collector(url, text, attempts=self.attempts, certificate=self.certificate)


@options.grouped
def push(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Tables, or sketch files, to be sent.")],
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The collector's address.")],
    collection: Name,
    access: Access,
    tables: options.ReadingOptions,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the rows were seen: an ISO date; otherwise now.")
    ] = None,
    spool: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where reports wait until they are acknowledged.")
    ] = ".sketchlearn-spool",
    second_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Hide the sums: the public key of the second collector.")
    ] = None,
    second_token: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --second-key: this sender's token there.")
    ] = None,
    jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Sketch tables with a collection's design, and send the sketches.

    Each file is one report, identified by its content: pushed again, it counts once. Reports are kept in the spool
    until the collector has them on its disk; what is left there is sent first, the next time. Exit code 1 if some wait.

    \b
    Example:
      sketchlearn push data/*.parquet --to https://collector.example.org --collection readings --token device.token
    """
    from sketchlearn.collector.clients.client import CollectorError
    from sketchlearn.collector.clients.secret_shares import hidden_report
    from sketchlearn.collector.clients.spool import Spool
    from sketchlearn.files.checkpoints import Reading, Work, sketch_files

    collector, kept = access.collector(to), Spool(spool)
    paths = files.files_from(data) if not all(_is_sketch(path) for path in data) else data
    if paths == [files.STANDARD]:
        raise misused("push needs files: save standard input to one first")
    reading = Reading(n_jobs=jobs, arguments=tables.arguments())
    operator = None
    for path in paths:
        name = _report_id(path, collection, reading)
        if name in kept.waiting():
            continue
        report: Any = Path(path).read_bytes()
        if not _is_sketch(path) or second_key is not None:
            operator = operator or _design(collector, kept, collection)
            work = Work([path])
            work.note = files.remarks_said_once()
            report = (
                files.read_sketch(path) if _is_sketch(path) else sketch_files(operator, [path], reading, work).sketch
            )
        if second_key is not None:
            credential = "" if second_token is None else Path(second_token).read_text(encoding="utf-8")
            at_second = {"second_key": second_key, "second_token": credential}
            report = hidden_report(collector, collection, report, id=name, time=time, **at_second)
        kept.add(collection, report, id=name, time=time)
    try:
        sent = kept.send(collector)
    except CollectorError as error:
        raise OSError(str(error)) from None
    figures = {
        "acknowledged": len(sent.acknowledged),
        "refused": sent.refused,
        "waiting": sent.waiting,
        "reason": sent.reason,
        "answers": sent.acknowledged,
    }
    lines = [f"{len(sent.acknowledged):,} reports acknowledged"]
    lines += [f"refused: {name}: {reason}" for name, reason in sent.refused.items()]
    lines += [f"{sent.waiting:,} wait in {spool}: {sent.reason}"] if sent.waiting else []
    files.tell(json, figures, *lines)
    if sent.refused or sent.waiting:
        raise typer.Exit(FAILED)


@options.grouped
def pull(
    output: options.Output,
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The collector's address.")],
    collection: Name,
    access: Access,
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="Start of the window.")] = None,
    finish: Annotated[str | None, typer.Option("--finish", metavar="TIME", help="Its end, not included.")] = None,
    design: Annotated[bool, typer.Option("--design", help="Get the collection's design instead.")] = False,
    json: options.Json = False,
) -> None:
    """Get the sketch of all records of a window, or the design, from a collector.

    \b
    Example:
      sketchlearn pull --from https://collector.example.org --collection readings --start 2026-01-05 -o week.sketch
    """

    files.check_paths([], [output], json=json)
    collector = access.collector(source)
    if design:
        files.write(output, collector.design_file(collection))
        files.tell(json, {"output": output}, f"the design of {collection}", output=output)
        return
    data = collector.window_file(collection, start, finish)
    sketch = skl.from_bytes(data)
    files.write(output, data, owner_only=sketch.ledger is None)
    files.tell(json, {"output": output, "records": sketch.count}, counted(sketch.count, "record"), output=output)


def _is_sketch(path: str) -> bool:
    from sketchlearn.files.sketches import kind_of

    try:
        return path.endswith(".sketch") and kind_of(Path(path).read_bytes()) == "sketch"
    except OSError:
        return False


def _report_id(path: str, collection: str, reading: Reading) -> str:
    """An id that follows from what a file has in it, and how it is read."""
    total = hashlib.sha256(repr([collection, reading.facts]).encode())
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()[:40]


def _design(collector: skl.Collector, kept: Spool, collection: str) -> skl.extend.Operator:
    """The design of a collection; without network, the one that was got last."""
    from sketchlearn.collector.clients.client import CollectorError
    from sketchlearn.core.owner_folder import read_file, write_file
    from sketchlearn.files.designs import design_from_bytes

    path = kept.folder / f"{hashlib.sha256(f'{collector.url} {collection}'.encode()).hexdigest()[:16]}.design"
    try:
        data = collector.design_file(collection)
    except CollectorError as error:
        if not error.temporary or not path.exists():
            raise
        say(f"{error}; using the design that was got before")
        return design_from_bytes(read_file(path))[0]
    write_file(path, data)
    return design_from_bytes(data)[0]

"""`sketchlearn serve` and `verify`: a collector of sketches, and whether its sums are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import report
from sketchlearn.cli.options import Json

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The collector's folder; it is made if there is none.")]
DatabaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="postgresql://...; without it, a SQLite file in the folder.")
]


def serve(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="The collector's folder; it is made if there is none.")
    ] = None,
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
    """Collect sketches from many senders: count none twice, lose none.

    Needs starlette and uvicorn. The first start writes a token that may do everything into FOLDER/admin.token.

    \b
    Example:
      sketchlearn serve collector/ --port 8765
      sketchlearn serve --demo
    """
    from sketchlearn.core.packages import required

    if (folder is None) != demo:
        raise misused("give the FOLDER of a collector or --demo, and not both")
    if (certificate is None) != (certificate_key is None):
        raise misused("--certificate and --certificate-key belong together")
    for package in ("starlette", "uvicorn", "prometheus_client"):
        required(package, "serve")
    from sketchlearn.collector.serving import Serving, serve_demonstration
    from sketchlearn.collector.serving import serve as serve_until_ended

    if folder is None:
        serve_demonstration(host, port, hour)
        return
    where = (Path(folder), database, host, port, certificate, certificate_key, proxies, webhook_hosts)
    serve_until_ended(Serving(*where))


def verify(folder: Folder, database: DatabaseUrl = None, json: Json = False) -> None:
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
    report(json, figures, *lines, "nothing is wrong" if not found.problems else f"{len(found.problems):,} problems")
    if found.problems:
        raise typer.Exit(1)

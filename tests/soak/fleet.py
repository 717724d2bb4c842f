"""A fleet against a collector that is killed: the sum must be bit-identical to sketching all rows at once.

Simulated devices send reports over loopback to a real server; some are sent twice, some damaged first, senders are
killed between writing a report to their spool and its acknowledgment, and the server is killed with -9 at random.

python tests/soak/fleet.py --devices 1000 --reports 20000 --kills 20 [--postgresql]
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from served import POSTGRESQL, Cluster, Server

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.clients.spool import Spool
from sketchlearn.collector.database import open_database
from sketchlearn.collector.verification import verify
from sketchlearn.files.designs import design_to_bytes

ROWS_PER_REPORT = 5
TWICE, DAMAGED = 0.1, 0.1  # of the reports
SENDER_KILLED = 0.001  # chance that a worker is killed, at each of three places of a report
COLUMNS = 3
SECONDS_TO_RECOVER = 60  # of a server that was killed


def rows_of(report, seed):
    """The rows of a report."""
    rng = np.random.default_rng([seed, report])
    return rng.standard_normal((ROWS_PER_REPORT, COLUMNS)) + 5 * rng.integers(0, 3, (ROWS_PER_REPORT, 1))


def send_some(url, tokens, reports, folder, seed, incarnation):
    """A process that plays some devices; it may be killed anywhere, and is then started again.

    Rows are handed over when their report is in the spool, and that is written down, before anything is sent.
    """
    rng = random.Random(f"{seed} {reports[0]} {incarnation}")
    journal, collectors, operator = Path(folder) / "handed-over", {}, None
    handed = set(map(int, journal.read_text().split())) if journal.exists() else set()
    # whatever is in a spool was handed over, even if the process was killed before it could write that down
    handed |= {int(path.stem.removeprefix("report-")) for path in Path(folder).glob("*/*.report")}
    journal.write_text("".join(f"{report}\n" for report in sorted(handed)))
    for report in reports:
        device = report % len(tokens)
        spool, name = Spool(Path(folder) / str(device)), f"report-{report}"
        if report in handed and not spool.waiting():
            continue
        collector = collectors.setdefault(device, Collector(url, tokens[device], attempts=1))
        while operator is None:
            try:
                operator = collector.design("fleet")
            except CollectorError:
                time.sleep(0.2)
        if report not in handed:
            if name not in spool.waiting():
                spool.add("fleet", operator.sketch(rows_of(report, seed), n_jobs=1), id=name)
            maybe_die(rng)
            with journal.open("a") as file:
                file.write(f"{report}\n")
        data = (spool.folder / f"{name}.report").read_bytes().partition(b"\n")[2] if name in spool.waiting() else None
        maybe_die(rng)
        if data is not None and rng.random() < DAMAGED:
            refuse_damaged(collector, data, name, rng)
        until = time.monotonic() + SECONDS_TO_RECOVER
        while (sent := spool.send(collector)).waiting:
            assert time.monotonic() < until, sent.reason
            time.sleep(0.05 + 0.1 * rng.random())
        assert not sent.refused, sent.refused
        maybe_die(rng)
        if data is not None and rng.random() < TWICE:
            repeat(collector, data, name, sent.acknowledged[-1])


def maybe_die(rng):
    """Ends the process as a kill would."""
    if rng.random() < SENDER_KILLED:
        os._exit(9)


def refuse_damaged(collector, data, name, rng):
    """Sends a report with a flipped bit, or cut off; it must be refused, and leave no trace."""
    at = rng.randrange(len(data))
    broken = data[:at] if rng.random() < 0.5 else data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    try:
        answer = collector.report("fleet", broken, id=name)
    except CollectorError as error:
        if not error.temporary and error.status not in (400, 422):
            raise
    else:
        raise AssertionError(f"a damaged report was accepted: {answer}")


def repeat(collector, data, name, answer):
    """Sends a report again; the answer must be the same."""
    for _ in range(200):
        try:
            assert collector.report("fleet", data, id=name) == answer
            return
        except CollectorError as error:
            if not error.temporary:
                raise
            time.sleep(0.1)


def run(server, n_devices, n_reports, n_kills, n_workers, seed=0):
    """Lets the fleet send all reports, kills the server meanwhile; figures, after everything was compared."""
    rng = random.Random(seed)
    sample = np.concatenate([rows_of(report, seed) for report in range(200)])
    operator = skl.design(sample, n_components=3, features=skl.features.Fourier(n_frequencies=60), seed=seed)
    server.start()
    admin = Collector(server.url, server.token)
    rules = {"reports_per_minute": 1_000_000, "min_records": 0, "epoch": "day", "grace_seconds": 86400}
    rules["sealed_only"] = False
    admin.post("/v1/collections", {"name": "fleet", "design": json.loads(design_to_bytes(operator)), "rules": rules})
    tokens = []
    for first in range(0, n_devices, 1000):
        names = [f"device-{i}" for i in range(first, min(first + 1000, n_devices))]
        tokens += [one["token"] for one in admin.post("/v1/collections/fleet/senders", {"names": names})["senders"]]
    began, kills, sender_kills = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        shares = [range(n_reports)[i::n_workers] for i in range(n_workers)]
        places = [Path(folder) / str(i) for i in range(n_workers)]
        for place in places:
            place.mkdir()

        def start(i, incarnation):
            arguments = (server.url, tokens, shares[i], places[i], seed, incarnation)
            process = multiprocessing.get_context("spawn").Process(target=send_some, args=arguments)
            process.start()
            return process

        workers, incarnations = {i: start(i, 0) for i in range(n_workers)}, dict.fromkeys(range(n_workers), 0)
        while workers:
            assert server.process.poll() is None, "".join(server.said)
            for i, worker in list(workers.items()):
                if worker.exitcode is None:
                    continue
                if worker.exitcode == 0:
                    del workers[i]
                    continue
                assert worker.exitcode == 9, f"a sender failed (exit code {worker.exitcode})"
                sender_kills += 1
                incarnations[i] += 1
                workers[i] = start(i, incarnations[i])
            done = sum(len(p.read_text().split()) for place in places for p in place.glob("handed-over"))
            # kills are spread over the whole run
            if kills < n_kills and done >= n_reports * (kills + 0.5) / (n_kills + 1):
                time.sleep(rng.uniform(0, 0.2))
                server.kill()
                kills += 1
                time.sleep(rng.uniform(0, 0.2))
                server.start()
            time.sleep(0.05)
    seconds = time.monotonic() - began
    found = Collector(server.url, server.token).window("fleet")
    server.stop()
    database = open_database(server.database or server.folder / "collector.sqlite", writable=False)
    checked = verify(database)
    database.close()
    whole = operator.sketch(np.concatenate([rows_of(report, seed) for report in range(n_reports)]))
    assert not checked.problems, checked.problems
    assert checked.reports == n_reports, f"{checked.reports} reports, not {n_reports}"
    assert found == whole, "the sum is not the sketch of all rows"
    assert found.sums.tobytes() == whole.sums.tobytes()
    return {"reports": n_reports, "server kills": kills, "sender kills": sender_kills, "seconds": round(seconds, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4, help="processes that play the devices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    if options.postgresql and not POSTGRESQL:
        print("PostgreSQL is not installed: nothing is run on it")
        return
    sizes = (options.devices, options.reports, options.kills, options.workers, options.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        if options.postgresql:
            with Cluster() as cluster:
                print("PostgreSQL:", run(Server(folder, cluster.url), *sizes))
        else:
            print("SQLite:", run(Server(folder), *sizes))
    print("the sum is bit-identical to the sketch of all rows, and verify finds nothing wrong", file=sys.stdout)


if __name__ == "__main__":
    main()

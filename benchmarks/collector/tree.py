"""A tree of collectors: a million simulated devices, each with a token, report once to one of many leaves.

Leaves are collectors in this process, one after the other, each with a database of its own; they seal their epoch and
report it over HTTP to a parent, which is a server of its own. Its sum is compared with one sketch of all rows.

python benchmarks/collector/tree.py --devices 1000000 --leaves 100
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sketchlearn as skl

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from served import Server

from sketchlearn.collector import senders
from sketchlearn.collector.clients.client import Collector
from sketchlearn.collector.database import open_database
from sketchlearn.collector.forwarding import forward
from sketchlearn.collector.senders import MOST_NEW_SENDERS
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_to_bytes
from sketchlearn.sketch.bits import HEADER, MAGIC

OPERATOR = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=0)
ROWS_EACH = 2
AT_ONCE = 2000  # reports that wait for a leaf's disk together
HOUR = 3600


def rows_of(leaf, n_devices):
    """The rows of a leaf's devices, of shape (devices, rows, columns)."""
    return np.random.default_rng([1, leaf]).standard_normal((n_devices, ROWS_EACH, 2))


def messages(rows):
    """What the devices send: their readings as single bits."""
    bits = OPERATOR.pack(rows.reshape(-1, 2))
    data, head = bits.to_bytes()[HEADER.size :], HEADER.pack(MAGIC, ROWS_EACH, bits.n_bits)
    size = len(data) // len(rows)
    return [head + data[first : first + size] for first in range(0, len(data), size)]


def collect(folder, rows, parent):
    """A leaf: its devices get tokens and report, its epoch is sealed and passed on; seconds for each of the three."""
    hour, marks = time.time() // HOUR * HOUR - 3 * HOUR, [time.perf_counter()]
    clock = [hour + 60.0]
    folder.mkdir()
    (folder / "parent-collector.json").write_text(json.dumps(parent))
    store = Store(open_database(folder / "collector.sqlite"), folder, clock=lambda: clock[0])
    rules = {"min_records": 1, "body_days": 0, "grace_seconds": 60}
    collection = store.create_collection("simulation", "c", "C", design_to_bytes(OPERATOR), rules)
    for first in range(0, len(rows), MOST_NEW_SENDERS):
        names = [f"device-{i}" for i in range(first, min(first + MOST_NEW_SENDERS, len(rows)))]
        store.write("simulation", senders.add_senders, collection, names, None)
    marks.append(time.perf_counter())
    sent = list(enumerate(messages(rows), 1))
    for first in range(0, len(sent), AT_ONCE):
        some = sent[first : first + AT_ONCE]
        answers = [store.submit_report(collection, device, "r", body, clock[0]) for device, body in some]
        for answer in answers:
            answer.result()
    marks.append(time.perf_counter())
    clock[0] = hour + 2 * HOUR
    problems = [*store.maintain(), *forward(store)]
    assert not problems, problems
    store.close()
    marks.append(time.perf_counter())
    size = sum(path.stat().st_size for path in folder.iterdir())
    shutil.rmtree(folder)
    return np.array([*np.diff(marks), size])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--leaves", type=int, default=100)
    options = parser.parse_args()
    began, each = time.perf_counter(), -(-options.devices // options.leaves)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, Server(Path(place) / "parent") as server:
        admin = Collector(server.url, server.token)
        rules = {"epoch": "day", "grace_seconds": 5 * 86400, "sealed_only": False}
        admin.post("/v1/collections", {"name": "c", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules})
        tokens = []
        for first in range(0, options.leaves, MOST_NEW_SENDERS):
            names = [f"leaf-{i}" for i in range(first, min(first + MOST_NEW_SENDERS, options.leaves))]
            tokens += [one["token"] for one in admin.post("/v1/collections/c/senders", {"names": names})["senders"]]
        whole, figures, devices, before = None, np.zeros(4), 0, server.cpu_seconds()
        for leaf, token in enumerate(tokens):
            rows = rows_of(leaf, min(each, options.devices - devices))
            devices += len(rows)
            figures += collect(Path(place) / f"leaf-{leaf}", rows, {"url": server.url, "tokens": {"c": token}})
            part = OPERATOR.sketch(rows.reshape(-1, 2))
            whole = part if whole is None else whole + part
            if sys.stderr.isatty():
                print(f"\r{devices:,} devices", end="", file=sys.stderr)
        found, epochs = admin.window("c"), admin.get("/v1/collections/c/epochs")["epochs"]
        assert found.sums.tobytes() == whole.sums.tobytes()
        assert found.count == whole.count == ROWS_EACH * options.devices
        assert sum(epoch["reports"] for epoch in epochs) == options.leaves
        joining, reporting, sealing, size = figures
        cpu, memory = server.cpu_seconds() - before, server.memory()
        admin.close()
    print(f"load average {os.getloadavg()[0]:.1f}; {time.perf_counter() - began:.0f} s in all")
    print(f"{devices:,} devices, {options.leaves:,} leaves: the parent's sum is the sketch of all rows, to the bit")
    print(
        f"a leaf gives {devices / joining:,.0f} tokens a second, and takes {devices / reporting:,.0f} reports without"
    )
    print(f"HTTP; it seals and passes on in {1000 * sealing / options.leaves:.0f} ms")
    print(f"and keeps {size / devices:,.0f} bytes for each device")
    print(f"the parent took {options.leaves:,} reports in {cpu:.1f} s of processor time, and has {memory:.0f} MB")


if __name__ == "__main__":
    main()

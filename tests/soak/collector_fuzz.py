"""Requests at random against a collector: by its OpenAPI document, and with changed bodies.

No answer may have the status 500 or a stack trace, the sum must stay what it is, and memory must not grow.

python tests/soak/collector_fuzz.py --requests 100000 [--seed 0]
"""

import argparse
import http.client
import json
import random
import string
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from served import Server

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector
from sketchlearn.core.containers import with_digest
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 30, law=skl.features.frequencies.Gaussian(1.0), seed=0)
ODD = [
    "",
    "0",
    "-1",
    "1e308",
    "NaN",
    "null",
    "[]",
    "{}",
    "\x00",
    "é",
    "%00",
    "../..",
    "'--",
    "<b>",
    "9" * 50,
    "c",
    "a",
    "1",
]


def changed(data, rng):
    """A file with a change: flipped bits, a cut, a repetition, another number in its description, signed anew."""
    data = bytearray(data)
    kind = rng.randrange(5)
    at = rng.randrange(len(data))
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at : at + rng.randrange(1, 64)]
    elif kind == 2:
        data[at:at] = rng.randbytes(rng.randrange(1, 64))
    else:
        length = int.from_bytes(data[:8], "little")
        at = 8 + rng.randrange(length)
        data[at] = rng.choice(b'0123456789-"{}[],:.eEntf\\')
        head = data.find(b'digest\\":\\"')
        if head > 0:
            data[head + 11 : head + 75] = b"0" * 64
            return with_digest(bytes(data))
    return bytes(data)


def odd_value(rng, depth=0):
    """Some JSON value."""
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [odd_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {rng.choice(["names", "scope", "rules", "from", "x"]): odd_value(rng, depth + 1) for _ in range(3)}
    text = "".join(rng.choices(string.printable, k=rng.randrange(20)))
    return rng.choice([None, True, rng.randrange(-(10**20), 10**20), rng.random() * 1e300, text])


def request(document, rng, body):
    """A request for one of the document's routes: path, method, headers and body at random."""
    path, methods = rng.choice(list(document["paths"].items()))
    method, facts = rng.choice(list(methods.items()))
    for parameter in facts["parameters"]:
        value = rng.choice([*ODD, "c", "c", "c"])
        quoted = "".join(
            f"%{b:02x}" if rng.random() < 0.2 or not 32 < b < 127 or chr(b) in "?#" else chr(b) for b in value.encode()
        )
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quoted)
        elif rng.random() < 0.5:
            path += ("&" if "?" in path else "?") + f"{parameter['name']}={quoted}"
    data = None
    if method in ("post", "patch"):
        schema = facts.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema and rng.random() < 0.9:
            data = json.dumps({name: odd_value(rng) for name in schema["properties"] if rng.random() < 0.7}).encode()
        else:
            data = changed(body, rng)
    return method.upper(), path.replace(" ", "%20"), data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, Server(folder) as server:
        admin = Collector(server.url, server.token)
        rules = {"min_records": 1, "sealed_only": False, "reports_per_minute": 1_000_000}
        for name in ("c", "kept"):
            form = {"name": name, "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules}
            admin.post("/v1/collections", form)
        made = admin.post("/v1/collections/kept/senders", {"names": ["a"]})["senders"][0]["token"]
        whole = OPERATOR.sketch(np.random.default_rng(0).standard_normal((100, 2)))
        body = whole.to_bytes()
        Collector(server.url, made).report("kept", body, id="first")
        document = admin.get("/v1/openapi.json")
        statuses, before = {}, None
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for n in range(options.requests):
            if rng.random() < 0.5:
                method, path, data = "POST", f"/v1/collections/kept/reports/x{n}", changed(body, rng)
                token = made
            else:
                (method, path, data), token = request(document, rng, body), rng.choice([server.token, made])
            if "/token" in path and ("rotate" in path or "revoke" in path):
                continue
            try:
                connection.request(method, path, body=data, headers={"Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                text = answer.read()
            except (http.client.HTTPException, ConnectionError):
                connection.close()
                assert server.process.poll() is None, "".join(server.said)
                statuses["closed"] = statuses.get("closed", 0) + 1
                continue
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            assert answer.status < 500, (method, path, data, text, "".join(server.said)[-3000:])
            assert b"Traceback" not in text
            if before is None and n >= options.requests // 5:  # that very request may have been left out
                before = server.memory()
        connection.close()
        found = admin.window("kept")
        accepted = admin.get("/v1/collections/kept/epochs")["epochs"]
        print(f"{options.requests:,} requests; by status: {dict(sorted(statuses.items(), key=str))}")
        print(f"memory: {before:.0f} MB after a fifth, {server.memory():.0f} MB at the end")
        print(f"reports that were accepted: {sum(one['reports'] for one in accepted):,}; {found}")


if __name__ == "__main__":
    main()

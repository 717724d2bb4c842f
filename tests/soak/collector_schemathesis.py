"""Schemathesis against a collector: requests made from its OpenAPI document, right and wrong ones.

Whatever is asked, the answer has a status and a body that the document names, and none is a 500.

python tests/soak/collector_schemathesis.py --examples 100 [--seed 0]
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from served import Server

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0), seed=0)
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
MANY_TOKENS = "from sketchlearn.collector import limits; limits.FAILURES_PER_MINUTE = 10**9"
ENDS_TOKENS = "/(rotate|revoke)$"  # requests are sent with one token, which must not end half-way


def requests_of(admin):
    """How many requests the collector has answered, by status."""
    text = admin.ask("GET", "/metrics").decode()
    return {status: int(float(n)) for status, n in re.findall(r'requests_total{status="(\d+)"} (\S+)', text)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100, help="requests for each route, at most, in each phase")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, Server(folder, first=MANY_TOKENS) as server:
        admin = Collector(server.url, server.token)
        rules = {"min_records": 1, "sealed_only": False}
        form = {"name": "kept", "design": json.loads(design_to_bytes(OPERATOR)), "rules": rules}
        admin.post("/v1/collections", form)
        sender = admin.post("/v1/collections/kept/senders", {"names": ["a"]})["senders"][0]["token"]
        whole = OPERATOR.sketch(np.random.default_rng(0).standard_normal((100, 2)))
        Collector(server.url, sender).report("kept", whole, id="first")
        before, memory = requests_of(admin), server.memory()
        for token, collection in ((server.token, "kept"), (sender, "kept"), (server.token, None)):
            named = "" if collection is None else f'[parameters]\n"path.collection" = "{collection}"\n'
            Path(folder, "schemathesis.toml").write_text(named)
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/v1/openapi.json"]
            command += ["--header", f"Authorization: Bearer {token}", "--checks", CHECKS, "--no-color"]
            command += ["--exclude-path-regex", ENDS_TOKENS, "--max-examples", str(options.examples)]
            command += ["--seed", str(options.seed), "--generation-database", "none", "--continue-on-failure"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}\n{''.join(server.said)[-3000:]}"
        counted = {status: n - before.get(status, 0) for status, n in requests_of(admin).items()}
        assert not [status for status in counted if status.startswith("5") and status != "503"], counted
        assert admin.window("kept") == whole
        print(f"{sum(counted.values()):,} requests; by status: {counted}")
        print(f"memory: {memory:.0f} MB before, {server.memory():.0f} MB after")


if __name__ == "__main__":
    main()

"""Two collectors in the process of a test, with clocks that are set by hand, and what senders send to them."""

import warnings

import numpy as np

import sketchlearn as skl

with warnings.catch_warnings():  # that another client for requests is to come
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from sketchlearn.collector import senders
from sketchlearn.collector.application import create_app
from sketchlearn.collector.clients.secret_shares import design_digest, hide
from sketchlearn.collector.database import open_database
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_to_bytes

HOUR = 1_700_000_000 // 3600 * 3600
OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=1).with_origin(
    "declared"
)
ROWS = np.random.default_rng(0).normal(size=(300, 2))
RULES = {"min_reports": 10, "records_per_report": 1000, "grace_seconds": 60, "min_records": 20}
NAMES = [f"phone-{i}" for i in range(15)]


class Server:
    def __init__(self, folder, rules, operator=OPERATOR):
        folder.mkdir()
        self.now = HOUR + 600.0
        self.store = Store(open_database(folder / "c.sqlite"), folder, clock=lambda: self.now)
        self.client = TestClient(create_app(self.store, housekeeping_seconds=None))
        self.admin = self.store.first_token()
        self.collection = self.store.create_collection("test", "phones", "Phones", design_to_bytes(operator), rules)
        made = self.store.write("test", senders.add_senders, self.collection, NAMES, None)
        self.tokens = {one["name"]: one["token"] for one in made}
        self.reader, self.first = (
            self.store.write("test", senders.add_token, self.collection, scope)["token"] for scope in ("read", "first")
        )

    def ask(self, method, path, token, **body):
        headers = {"Authorization": f"Bearer {token}"}
        return self.client.request(method, f"/v1/collections/phones{path}", headers=headers, **body)


def parts(b, sketches, credentials=None):
    """The messages of senders, by name; B's key and its credentials come from B."""
    name = next(iter(sketches))
    key = b.ask("GET", "/second-key", b.tokens[name]).json()["key"]
    terms = {"collection": "phones", "epoch": in_iso(HOUR), "design": design_digest(OPERATOR), "public_key": key}
    given = credentials or b.tokens
    return {name: hide(one, f"{name}-1", credential=given[name], **terms).to_bytes() for name, one in sketches.items()}


def send(a, name, body):
    return a.ask("POST", f"/parts/{name}-1", a.tokens[name], content=body)

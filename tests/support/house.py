"""A collector in the process of a test, with a clock that is set by hand."""

import json
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions would rather have httpx2
    from starlette.testclient import TestClient

import sketchlearn as skl
from sketchlearn.collector.application import create_app
from sketchlearn.collector.database import open_database
from sketchlearn.collector.page.page_routes import COOKIE, Pages
from sketchlearn.collector.store import Store
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0).with_origin(
    "declared"
)
ROWS = np.random.default_rng(0).standard_normal((400, 2))
NOON = 1_800_000_000 - 1_800_000_000 % 86400 + 12 * 3600
HOUR = 3600
RULES = {"min_records": 1, "sealed_only": False}  # sums are looked at while their epoch is open


class House:
    """A collector in this process, with a clock that stands still until it is moved."""

    def __init__(self, folder, url=None):
        self.folder, self.url, self.now = folder, url or folder / "c.sqlite", float(NOON)
        self.open()
        self.admin = self.store.first_token()

    def open(self):
        self.store = Store(open_database(self.url), self.folder, clock=lambda: self.now)
        self.pages = Pages(self.store)
        app = create_app(self.store, more_routes=self.pages.routes(), housekeeping_seconds=None)
        self.client = TestClient(app, raise_server_exceptions=False)

    def close(self):
        self.pages.close()
        self.store.close()

    def ask(self, method, path, token=None, status=None, **more):
        headers = {"Authorization": f"Bearer {token or self.admin}", **more.pop("headers", {})}
        answer = self.client.request(method, f"/v1{path}", headers=headers, **more)
        assert status is None or answer.status_code == status, answer.text
        return answer

    def page(self, path, token):
        return self.client.get(path, headers={"cookie": f"{COOKIE}={token}"}, follow_redirects=False)

    def collection(self, name="c", operator=OPERATOR, **rules):
        form = {"name": name, "design": json.loads(design_to_bytes(operator)), "rules": {**RULES, **rules}}
        return self.ask("POST", "/collections", json=form, status=201).json()

    def sender(self, name="a", collection="c", **more):
        made = self.ask("POST", f"/collections/{collection}/senders", json={"names": [name], **more}, status=201)
        return made.json()["senders"][0]["token"]

    def token(self, scope, collection="c"):
        made = self.ask("POST", f"/collections/{collection}/tokens", json={"scope": scope}, status=201)
        return made.json()["token"]

    def send(self, token, sketch, number="r", collection="c", time=None):
        data = sketch if isinstance(sketch, bytes) else sketch.to_bytes()
        query = {} if time is None else {"time": str(time)}
        return self.ask("POST", f"/collections/{collection}/reports/{number}", token, content=data, params=query)

    def sum(self, collection="c", **query):
        answer = self.ask("GET", f"/collections/{collection}/window/sketch", params=query, status=200)
        return skl.from_bytes(answer.content)

    def refused(self, answer, status, words):
        assert answer.status_code == status, answer.text
        found = answer.json()
        assert set(found) == {"error", "kind"}
        assert words in found["error"], found
        assert "Traceback" not in answer.text
        assert "\n" not in found["error"]

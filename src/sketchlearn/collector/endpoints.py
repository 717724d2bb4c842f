"""The table of routes: what each takes and answers. The application and its OpenAPI document follow from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from starlette.requests import Request

from sketchlearn.collector.epoch_times import from_text
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.refusals import STATUS, RefusalError, checked_name
from sketchlearn.collector.views import View
from sketchlearn.core.packages import __version__

ROOT = "/v1"
COLLECTION = f"{ROOT}/collections/{{collection}}"
SKETCH, JSON, TEXT = "application/octet-stream", "application/json", "text/plain"
LATEST_TIME = 4_000_000_000  # seconds since 1970: the year 2096
LARGEST_JSON = 1_000_000  # bytes
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
T = TypeVar("T")
V = TypeVar("V", bound=View)


@dataclass(frozen=True)
class Answer:
    """A response: a JSON value, or bytes of any media type. It is an ASGI application, which sends itself."""

    body: Any
    status: int = 200
    media: str = JSON
    headers: dict[str, str] = field(default_factory=dict)

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        body = self.body
        if not isinstance(body, bytes):
            body = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        headers = {
            **SECURITY_HEADERS, **self.headers, "content-length": str(len(body)), "content-type": self.media
        }  # fmt: skip
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


class Call:
    """One request: its path, query and body, each checked when a handler asks for it. It does not know the store."""

    def __init__(self, request: Request, endpoint: Endpoint, metrics: Metrics) -> None:
        self.request, self.endpoint, self.metrics = request, endpoint, metrics
        self.path: dict[str, str] = request.path_params
        self.body = b""

    def form(self) -> dict[str, Any]:
        """The JSON object of the body, without names that the route does not take."""
        schema = self.endpoint.takes
        found = {} if not self.body and not schema["required"] else json_object(self.body)
        if not found.keys() <= schema["properties"].keys():
            known = ", ".join(schema["properties"])
            raise RefusalError("malformed", f"the body has a name that is not known here; known: {known}")
        return found

    def name(self, kind: str) -> str:
        """The name of a sender or a report in the path."""
        return checked_name(kind, self.path[kind])

    def whole(self, name: str, least: int, most: int, default: int) -> int:
        """A whole number of the query."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
            raise RefusalError("malformed", f"{name} must be a whole number from {least:,} to {most:,}")
        return int(text)

    def time(self, name: str, default: T) -> float | T:
        """A time of the query."""
        text = self.request.query_params.get(name)
        return default if text is None else time_of(text)

    def bounds(self) -> tuple[int, int]:
        """The start and end of a window, `from` and `to`; by default, all times."""
        start, finish = self.time("from", 0), self.time("to", LATEST_TIME)
        if not start < finish:
            raise RefusalError("malformed", "a window must end after it starts")
        return int(start), int(finish)


Handler = Callable[[Call, V], object]


@dataclass(frozen=True)
class Endpoint:
    """One route.

    Attributes
    ----------
    view : the class of views.py that its handler gets, and through which alone it sees the collector.
    handler : gives the body of the answer; it runs in a thread. A report's handler gives a future instead.
    largest : bytes that its body may have; None for reports, where the rules of the collection say it.
    takes : the JSON schema of its body.
    asks : parameters of the query, and what they mean.
    answers, status : media type and status of its answer.
    """

    method: str
    path: str
    view: Any
    handler: Handler[Any]
    largest: int | None = LARGEST_JSON
    takes: dict[str, Any] = field(default_factory=dict)
    asks: dict[str, str] = field(default_factory=dict)
    answers: str = JSON
    status: int = 200

    @property
    def takes_report(self) -> bool:
        return self.largest is None

    @property
    def needs_token(self) -> bool:
        return self.view is not View


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, view: type[V], **facts: Any) -> Callable[[Handler[V]], Handler[V]]:
    """Adds a function to the table. The first line of its docstring is the summary of the route."""

    def added(handler: Handler[V]) -> Handler[V]:
        ENDPOINTS.append(Endpoint(method, path, view, handler, **facts))
        return handler

    return added


def object_of(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a JSON object with these properties and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusalError("malformed", "the body must be a JSON object")
    return found


def time_of(text: Any) -> float:
    """Seconds since 1970."""
    try:
        if not isinstance(text, str | int | float) or isinstance(text, bool) or len(str(text)) > 60:
            raise ValueError("a time must be seconds since 1970, or a date such as 2026-01-31T12:00:00Z")
        return from_text(str(text))
    except ValueError as error:
        raise RefusalError("malformed", str(error)) from None


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    refusal = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "kind": {"type": "string"}},
        "required": ["error", "kind"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "sketchlearn collector", "version": __version__, "license": {"name": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": {"Refusal": refusal},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    text, takes = {"type": "string"}, endpoint.takes
    summary = (endpoint.handler.__doc__ or "").strip().splitlines()[0]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    in_query = [
        {"name": name, "in": "query", "required": False, "description": words, "schema": text}
        for name, words in endpoint.asks.items()
    ]
    answer = {"type": "object"} if endpoint.answers == JSON else text
    refused = {
        "description": "refused, with one sentence",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": summary,
        "parameters": in_path + in_query,
        "responses": {
            str(endpoint.status): {"description": summary, "content": {endpoint.answers: {"schema": answer}}},
            **{str(status): refused for status in sorted(set(STATUS.values()))},
        },
        "security": [{"token": []}] if endpoint.needs_token else [],
    }
    if takes:
        media = SKETCH if endpoint.takes_report else JSON
        required = endpoint.takes_report or bool(takes["required"])
        operation["requestBody"] = {"required": required, "content": {media: {"schema": takes}}}
    return operation

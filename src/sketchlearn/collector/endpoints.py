"""The table of routes: what each needs, takes and answers. The application and its OpenAPI document follow from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sketchlearn.collector.epoch_times import from_text
from sketchlearn.collector.refusals import STATUS, RefusalError
from sketchlearn.collector.views import View
from sketchlearn.core.packages import __version__

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


ROOT = "/v1"
SKETCH, DESIGN, JSON, TEXT = "application/octet-stream", "application/json", "application/json", "text/plain"
FOR_EVER = 4_000_000_000  # seconds since 1970: the year 2096
LARGEST_JSON = 1_000_000
LARGEST_DESIGN = 8_000_000


@dataclass(frozen=True)
class Answer:
    """What a route answers: a JSON value, or bytes of another media type."""

    body: Any
    status: int = 200
    media: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


V = TypeVar("V", bound=View)
Handler = Callable[["Call", V], Awaitable[Answer]]


@dataclass(frozen=True)
class Endpoint:
    """One route. `view` is all that its function sees of the collector; `largest` bounds the body, if it takes one."""

    method: str
    path: str
    view: Any  # a class of views.py
    handler: Handler[Any]
    summary: str
    largest: int = 0
    takes: dict[str, Any] | None = None  # the schema of its body
    takes_media: str = JSON
    asks: dict[str, str] = field(default_factory=dict)  # parameters of the query, in words
    answers: str = JSON
    status: int = 200


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, view: type[V], **facts: Any) -> Callable[[Handler[V]], Handler[V]]:
    """Puts a function into the table; the first line of its docstring is the route's summary."""

    def added(handler: Handler[V]) -> Handler[V]:
        summary = (handler.__doc__ or "").strip().splitlines()[0]
        ENDPOINTS.append(Endpoint(method, path, view, handler, summary, **facts))
        return handler

    return added


def object_of(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT_SCHEMA: dict[str, Any] = {"type": "string", "maxLength": 2000}
DAYS_SCHEMA: dict[str, Any] = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 36600}
TIMES = {"from": "start of the window: seconds since 1970, or an ISO date", "to": "its end, not included"}


def of_collection(method: str, path: str, view: type[V], **facts: Any) -> Callable[[Handler[V]], Handler[V]]:
    return endpoint(method, f"{ROOT}/collections/{{collection}}{path}", view, **facts)


def time_of(text: Any) -> float:
    try:
        if not isinstance(text, str | int | float) or isinstance(text, bool) or len(str(text)) > 60:
            raise ValueError("a time must be seconds since 1970, or a date such as 2026-01-31T12:00:00Z")
        return from_text(str(text))
    except ValueError as error:
        raise RefusalError("malformed", str(error)) from None


_REFUSAL = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "kind": {"type": "string"}},
    "required": ["error", "kind"],
}


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sketchlearn collector", "version": __version__, "license": {"name": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": {"Refusal": _REFUSAL},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", endpoint.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [
        {"name": name, "in": "query", "required": False, "description": words, "schema": {"type": "string"}}
        for name, words in endpoint.asks.items()
    ]
    content = {"type": "object"} if endpoint.answers == "application/json" else {"type": "string"}
    responses: dict[str, Any] = {
        str(endpoint.status): {
            "description": endpoint.summary,
            "content": {endpoint.answers: {"schema": content}},
        }
    }
    for status in sorted(set(STATUS.values())):
        responses[str(status)] = {
            "description": "refused, with one sentence",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
        }
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": responses,
        "security": [] if endpoint.view.scope is None else [{"token": []}],
    }
    if endpoint.takes is not None:
        required = bool(endpoint.takes.get("required")) or endpoint.takes["type"] == "string"
        operation["requestBody"] = {
            "required": required,
            "content": {endpoint.takes_media: {"schema": endpoint.takes}},
        }
    return operation

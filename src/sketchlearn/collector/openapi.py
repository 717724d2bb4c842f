"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.refusals import STATUS
from sketchlearn.version import __version__

if TYPE_CHECKING:
    from sketchlearn.collector.endpoint_table import Endpoint

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

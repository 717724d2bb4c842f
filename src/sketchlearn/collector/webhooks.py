"""Alarms to webhooks: to addresses of the internet alone, or to hosts that whoever runs the server has named.

A webhook is a rule, which whoever administers a collection sets; the machines beside the server are not theirs to call.
So the host is looked up when an alarm is sent, each address that it has is checked, and the connection goes to the very
address that was checked. Redirections are not followed, and proxies of the environment are not asked.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import socket
import ssl
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

SECONDS_FOR_WEBHOOK = 10.0
PORTS = {"http": 80, "https": 443}
TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # IPv4 addresses as networks of IPv6 write them (RFC 6052)
_LOG = logging.getLogger("sketchlearn.collector")


class WebhookError(OSError):
    """A webhook may not be called."""


def send(url: str, facts: dict[str, Any], allowed: Collection[str] = ()) -> bool:
    """Whether a webhook took an alarm. `allowed` are hosts with ports, such as "10.0.0.5:8080", of any address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        addresses = _addresses(host, port)
        if f"{host}:{port}" not in allowed:
            for address in addresses:
                _require_global(host, address)
        connection = _connection(parts.scheme, host, port, addresses[0])
        try:
            connection.request("POST", target, json.dumps(facts).encode(), {"Content-Type": "application/json"})
            return 200 <= connection.getresponse().status < 300
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        _LOG.warning("an alarm could not be sent, and is tried again: %s", error)
        return False


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _require_global(host: str, address: str) -> None:
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "sixtofour", None)
    if found in TRANSLATED:
        inner = ipaddress.IPv4Address(int(found) % 2**32)
    if not found.is_global or found.is_multicast or (inner is not None and not inner.is_global):
        raise WebhookError(
            f"the webhook {host} has the address {address}, which is not one of the internet: name it with "
            "serve --webhook-hosts, if alarms may go there"
        )


def _connection(scheme: str, host: str, port: int, address: str) -> http.client.HTTPConnection:
    """A connection to an address that was looked up and checked before, by the host's name."""
    joined = socket.create_connection((address, port), SECONDS_FOR_WEBHOOK)
    if scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS_FOR_WEBHOOK)
    else:
        try:
            joined = ssl.create_default_context().wrap_socket(joined, server_hostname=host)
        except OSError:
            joined.close()
            raise
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS_FOR_WEBHOOK)
    connection.sock = joined
    return connection

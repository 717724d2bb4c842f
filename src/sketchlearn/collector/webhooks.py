"""Alarms to webhooks: only to public addresses, or to hosts that whoever runs the server has named.

A webhook is a rule, which whoever administers a collection sets. The other machines of the server's network must not be
called that way. So all addresses of the host are checked when an alarm is sent, and the connection goes to an address
that was checked. Redirections are not followed, and proxies of the environment are not used.
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
CONNECTIONS: dict[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}
TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # IPv4 addresses as networks of IPv6 write them (RFC 6052)
_LOG = logging.getLogger("sketchlearn.collector")


def send(url: str, facts: dict[str, Any], allowed: Collection[str] = ()) -> bool:
    """Whether a webhook took an alarm. `allowed` are hosts with ports, such as "10.0.0.5:8080", of any address."""
    try:
        parts = urlsplit(url)
        kind, host = CONNECTIONS[parts.scheme], parts.hostname or ""
        port = parts.port or kind.default_port
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        addresses = [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        if f"{host}:{port}" not in allowed:
            for address in addresses:
                _require_public(host, address)
        connection = kind(host, port, timeout=SECONDS_FOR_WEBHOOK)
        joined = socket.create_connection((addresses[0], port), SECONDS_FOR_WEBHOOK)
        if parts.scheme == "https":
            joined = ssl.create_default_context().wrap_socket(joined, server_hostname=host)
        connection.sock = joined
        try:
            connection.request("POST", target, json.dumps(facts).encode(), {"Content-Type": "application/json"})
            return 200 <= connection.getresponse().status < 300
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        _LOG.warning("an alarm could not be sent, and is tried again: %s", error)
        return False


def _require_public(host: str, address: str) -> None:
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "sixtofour", None)
    if found in TRANSLATED:
        inner = ipaddress.IPv4Address(int(found) % 2**32)
    if not found.is_global or found.is_multicast or (inner is not None and not inner.is_global):
        raise OSError(
            f"the webhook {host} has the address {address}, which is not public: to allow it, list its host and "
            "port in serve --webhook-hosts"
        )

"""Clients of a collector: they send sketches, keep them while there is no network, and fetch sums."""

from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.clients.spool import Spool

__all__ = ["Collector", "CollectorError", "Spool"]

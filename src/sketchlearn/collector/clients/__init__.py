"""Clients of a collector: what sends sketches, keeps them while there is no network, and gets sums back."""

from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.clients.spool import Spool

__all__ = ["Collector", "CollectorError", "Spool"]

"""One BLAS thread while decoding."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_pools = cache(ThreadpoolController)  # Made once, as it takes 4 ms to find which libraries are loaded.


def one_blas_thread() -> AbstractContextManager[Any]:
    """Holds BLAS to one thread: two pools of several wait for each other, 11 ms instead of 1.6 for one step."""
    limited: AbstractContextManager[Any] = _pools().limit(limits=1)
    return limited

"""How much work a file may cause when it is loaded: a small file could ask for any amount.

Sketches, designs and models of any origin are checked here, before any of their random numbers is drawn. To load a file
that you trust, raise the two limits:

>>> from sketchlearn.storage import loading_limit
>>> loading_limit.MOST_SECONDS, loading_limit.MOST_MEGABYTES
(2.5, 300.0)
"""

from __future__ import annotations

from sketchlearn.cost import Cost

# On a slow core. A design of a mixture of 10 components of 784 columns takes 2.2 s and 295 MB, one for 10 clusters half
# of that, those of tables of up to 50 columns less than a tenth of the limits (test_designs_of_ordinary_use_have_room).
MOST_SECONDS = 2.5
MOST_MEGABYTES = 300.0


def check_cost(what: str, cost: Cost) -> None:
    """Refuses what would take too long, or too much memory."""
    limits = {
        "MOST_SECONDS": (cost.seconds, MOST_SECONDS),
        "MOST_MEGABYTES": (cost.megabytes, MOST_MEGABYTES),
    }
    exceeded = " and ".join(name for name, (needed, most) in limits.items() if needed > most)
    if exceeded:
        needs = f"{what} would take about {_shown(cost.seconds)} seconds and {_shown(cost.megabytes)} MB"
        allowed = f"{_shown(MOST_SECONDS)} s and {_shown(MOST_MEGABYTES)} MB are allowed"
        raise ValueError(f"{needs}, but {allowed}: if you trust the file, raise {exceeded} of {__name__}")


def _shown(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"

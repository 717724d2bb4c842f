"""How much work a file may cause when it is loaded: a small file could ask for any amount.

Sketches, designs and models of any origin are checked here, before any of their random numbers is drawn. The
environment variable SKETCHLEARN_TRUST_FILES=1 lifts the limits, for files that you trust.
"""

from __future__ import annotations

import os

from sketchlearn.cost import Cost

# On a slow core. A design of a mixture of 10 components of 784 columns takes 2.2 s and 295 MB, one for 10 clusters half
# of that, those of tables of up to 50 columns less than a tenth of the limits (test_designs_of_ordinary_use_have_room).
MOST_SECONDS = 2.5
MOST_MEGABYTES = 300.0


def check_cost(what: str, cost: Cost) -> None:
    """Refuses what would take too long, or too much memory."""
    if (cost.seconds > MOST_SECONDS or cost.megabytes > MOST_MEGABYTES) and not _trusting():
        needs = f"{what} would take about {_shown(cost.seconds)} seconds and {_shown(cost.megabytes)} MB"
        allowed = f"{_shown(MOST_SECONDS)} s and {_shown(MOST_MEGABYTES)} MB are allowed"
        remedy = "if you trust the file, set the environment variable SKETCHLEARN_TRUST_FILES=1"
        raise ValueError(f"{needs}, but {allowed}: {remedy}")


def _trusting() -> bool:
    return os.environ.get("SKETCHLEARN_TRUST_FILES") == "1"


def _shown(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"

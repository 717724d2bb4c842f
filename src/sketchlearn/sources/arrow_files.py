"""What the files that pyarrow reads share: they are streamed, and their errors name them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow import Arrow


class ArrowFile(Arrow):
    """A file that gives record batches."""

    def __init__(self, path: Path, schema: Any, n_rows: int | None = None) -> None:
        super().__init__(schema, self._named, n_rows=n_rows)
        self.path, self.place, self.n_bytes = path, str(path), path.stat().st_size

    def _named(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path):
            yield from self._batches(names, n_rows)

    @abstractmethod
    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        """The file's batches, of at least these columns."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of a library that reads a file, as one sentence that names the file."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise type(error)(f"{path} cannot be opened: {error.strerror or 'no such file'}") from None
    except (OSError, EOFError) as error:
        raise OSError(_sentence(path, error)) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        raise ValueError(_sentence(path, error)) from None


def _sentence(path: Path, error: Exception, most: int = 200) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"{path} cannot be read, it may be damaged or cut short: {reason[:most]}"

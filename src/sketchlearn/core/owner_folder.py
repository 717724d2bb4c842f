"""Private folders: only the owner can read their files, and links are not followed.

Another user of the folder could replace a file that a run is about to read or write by a link.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from sketchlearn.core import containers as container
from sketchlearn.core.limits import read_at_most


class LinkError(OSError):
    """A file of the folder is a link, or not a regular file."""


def make_folder(folder: Path) -> None:
    """Makes a folder for its owner alone; an existing one keeps its permissions."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def read_file(path: Path) -> bytes:
    """The bytes of a file of the folder; an `OSError` if it does not exist, a `LinkError` if it is a link."""
    try:
        # without O_NONBLOCK, opening a pipe would wait
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _refused(path) from None
        raise
    with os.fdopen(number, "rb") as file:
        if path.is_symlink() or not stat.S_ISREG(os.fstat(number).st_mode):
            raise _refused(path)
        return read_at_most(file)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file of the folder as a whole; a `LinkError` if the name is a link."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise _refused(path)
    container.write(path, data, owner_only=True, through_links=False)


def _refused(path: Path) -> LinkError:
    what = "a link" if path.is_symlink() else "not a regular file"
    return LinkError(f"{path} is {what}, and not a file of this program: remove it, or give another folder")

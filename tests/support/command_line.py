"""The command line as tests run it, as a program or in their own process, and two days of rows in CSV."""

import contextlib
import io
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pytest
from plain_words import python_in

from sketchlearn.cli import main

CENTERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def run(*arguments, cwd=None, **more):
    """The real program."""
    command = [sys.executable, "-m", "sketchlearn", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd, **more)
    assert not python_in(result.stderr), result.stderr
    return result


def called(*arguments, cwd=None, input=b"", text=True):
    """The same in this process: importing scikit-learn anew takes seconds."""
    streams = [io.TextIOWrapper(io.BytesIO(data), write_through=True) for data in (input, b"", b"")]
    with contextlib.ExitStack() as stack:
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(contextlib.chdir(cwd or "."))
        stack.enter_context(warnings.catch_warnings())
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
    told = [stream.buffer.getvalue() for stream in streams[1:]]
    told = [data.decode() for data in told] if text else told
    messages = told[1] if text else told[1].decode()
    assert not python_in(messages), messages
    return subprocess.CompletedProcess(arguments, left.value.code, *told)


def done(*arguments, **more):
    """The result of a command that must succeed."""
    result = called(*arguments, **more)
    assert result.returncode == 0, result.stderr
    return result


def write_days(folder):
    rng = np.random.default_rng(0)
    for name, n in (("day1", 3000), ("day2", 2000)):
        rows = rng.standard_normal((n, 2)) + CENTERS[rng.integers(0, 3, n)]
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="a,b", comments="", fmt="%.6f")
    return folder

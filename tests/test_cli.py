"""The command line, run as a user runs it."""

import subprocess
import sys

import sketchlearn as skl


def run(*arguments):
    command = [sys.executable, "-m", "sketchlearn", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_demo():
    result = run("demo", "--rows", "250000")
    assert result.returncode == 0, result.stderr
    assert "The two files are byte-identical." in result.stdout
    assert "The sketch equals the one that never had them." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "250,000 rows" in result.stderr


def test_help_and_version():
    assert "demo" in run("--help").stdout
    assert run("--version").stdout.strip() == f"sketchlearn {skl.__version__}"
    assert run("nonsense").returncode == 2

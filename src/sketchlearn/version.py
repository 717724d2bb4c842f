"""The version of the software."""

from importlib.metadata import version

__version__ = version("sketchlearn")

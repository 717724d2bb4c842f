"""Pages that lay in one folder until version 0.1: their old addresses lead to the new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

#: pages that had the same name beside index.html, by the folder in which they are now
MOVED = {
    "tutorials": "trust",
    "how-to": "choosing-k collector columns command-line engines generators gpu ica images kernels queries sensors "
    "sources stable subsampling subspaces tables tasks wide",
    "concepts": "decoders glossary",
    "reference": "api arithmetic benchmarks changes command-reference deprecations file-format privacy what-there-is",
    "internals": "contributing history releasing",
}
RENAMED = {
    "collector_page": "how-to/collector-page",
    "hidden_sums": "how-to/hidden-sums",
    "privacy/boundary": "reference/boundary",
    **{folder: f"{folder}/index" for folder in ("how-to", "concepts", "reference")},
}
PAGE = """<!doctype html><meta charset="utf-8"><title>Moved</title>
<script>location.replace("{0}" + location.hash)</script><a href="{0}">This page has moved.</a>
"""


def write(app: Sphinx, failed: Exception | None) -> None:
    """A small page at each old address, which keeps the part after #."""
    if failed is not None or app.builder.name != "html":
        return
    moved = {name: f"{folder}/{name}" for folder, names in MOVED.items() for name in names.split()} | RENAMED
    generated = [name for name in app.env.found_docs if name.startswith("reference/generated/")]
    moved |= {name.removeprefix("reference/"): name for name in generated}
    for old, new in moved.items():
        path = Path(app.outdir, f"{old}.html")
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGE.format("../" * old.count("/") + f"{new}.html"), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

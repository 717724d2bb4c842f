"""Docstrings as they are written: plain text, in which a name between backticks becomes a link if it is documented."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

NAME = re.compile(r"(?:skl\.)?([A-Za-z]\w*(?:\.[A-Za-z]\w*)*)(?:\(.*\))?")


class NameOrCode(SphinxRole):
    """`SketchKMeans`, `skl.design`, `Sketch.update(X)` become links if they are public names; `n - 1` never does."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        literal = nodes.literal(self.rawtext, self.text, classes=["code"])
        found = NAME.fullmatch(self.text)
        if found is None:
            return [literal], []
        target = found[1].removeprefix("sketchlearn.")
        link = pending_xref(
            self.rawtext,
            literal,
            refdomain="py",
            reftype="obj",
            reftarget=f"sketchlearn.{target}",
            refwarn=False,
            refdoc=self.env.docname,
        )
        link["py:module"] = None
        link["py:class"] = None
        return [link], []


def leave_out_others(_app: Sphinx, what: str, _name: str, obj: Any, skip: bool, _options: Any) -> bool | None:
    """Members that come from scikit-learn or Python have their own manuals."""
    home = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", None)
    if what == "class" and isinstance(home, str) and not home.startswith("sketchlearn"):
        return True
    return skip or None


MARKUP = re.compile(r"(`[^`]*`)|([|*])|(?<=\w)_(?!\w)")
DOCTEST = re.compile(r"\s*(>>>|\.\.\. ?)")


def as_plain_text(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: |x|, 3 * y and means_ are what they look like. Examples and `code` stay."""
    in_example = False
    for i, line in enumerate(lines):
        in_example = bool(DOCTEST.match(line)) or (in_example and bool(line.strip()))
        if not in_example:
            lines[i] = MARKUP.sub(lambda found: found[1] or "\\" + found[0], line)


def keep_quiet(_app: Sphinx, _env: Any, node: pending_xref, _content: Any) -> nodes.Node | None:
    """A name between backticks that is documented nowhere stays code, without a warning."""
    if node.get("reftype") == "obj" and not node.get("refwarn"):
        return nodes.literal(node.astext(), node.astext(), classes=["code"])
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("name_or_code", NameOrCode())
    app.connect("autodoc-skip-member", leave_out_others)
    app.connect("autodoc-process-docstring", as_plain_text, priority=100)
    app.connect("missing-reference", keep_quiet, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

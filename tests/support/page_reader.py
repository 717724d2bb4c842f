"""A page of HTML as a test reads it: its elements with their text, and whether they are closed in order."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Part:
    """An element: its tag, attributes, children and text, and what it is in."""

    tag: str
    attributes: dict
    parent: "Part | None" = None
    children: list = field(default_factory=list)

    def all(self, tag=None, **attributes):
        """Elements in it, with a tag and attributes, in the order of the page."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        for child in self.children:
            if isinstance(child, str):
                continue
            own = child.attributes
            if tag in (None, child.tag) and all(n in own and v in (..., own[n]) for n, v in wanted.items()):
                yield child
            yield from child.all(tag, **attributes)

    def one(self, tag=None, **attributes):
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def value(self):
        """The number that it carries, or the first one in it."""
        carrier = self if "data-value" in self.attributes else next(self.all(data_value=...))
        return float(carrier.attributes["data-value"])

    @property
    def values(self):
        return [part.value for part in self.all(data_value=...)]

    def rows(self, caption):
        """The rows of a table, each a list of cells."""
        table = next(part for part in self.all("table") if part.one("caption").text.startswith(caption))
        return [[cell for cell in row.children if not isinstance(cell, str)] for row in table.one("tbody").all("tr")]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.now = Part("", {})

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of <{tag}> is repeated"
        part = Part(tag, dict(attrs), self.now)
        self.now.children.append(part)
        if tag not in VOID:
            self.now = part

    def handle_endtag(self, tag):
        assert tag == self.now.tag, f"</{tag}> closes <{self.now.tag}>"
        self.now = self.now.parent

    def handle_data(self, data):
        self.now.children.append(data)


def read_page(text):
    """The element that holds the whole page."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.now is reader.root, f"<{reader.now.tag}> is not closed"
    return reader.root

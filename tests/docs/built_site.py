"""Looks at the site that `make docs` built: every internal link and anchor, and some pages in a browser.

python tests/docs/built_site.py build/site [--pictures build/site-pictures]

The browser (playwright and Chromium) opens pages from files, at two widths, keeps pictures of them, and searches.
Where there is none, links alone are looked at, and a sentence says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PAGES = (
    *("index", "tutorials/customers", "tutorials/trust", "how-to/gpu", "concepts/index", "reference/api"),
    *("reference/command-reference", "gallery/index", "decisions/index"),
)
WIDTHS = (390, 1280)
WORD, FOUND_ON = "embeddings", "how-to/wide.html"
UNFETCHED = "Failed to fetch"  # the lines around a word that was found, of pages that are files


class Page(HTMLParser):
    """The anchors of a page, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links = set[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        self.links |= {link for link in (given.get("href"), given.get("src")) if link and tag != "link"}


def broken_links(site: Path) -> list[str]:
    """Links to files or anchors that are not there."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    broken = []
    for path, page in sorted(pages.items()):
        for link in sorted(page.links):
            where = urlsplit(link)
            if where.scheme or where.netloc or link.startswith("//"):
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(where.fragment)
            there = target.exists() and (not anchor or target not in pages or anchor in pages[target].anchors)
            if not there:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    print(f"{len(pages):,} pages, {sum(len(page.links) for page in pages.values()):,} links, {len(broken)} broken")
    return broken


def seen_in_browser(site: Path, pictures: Path) -> list[str]:
    """What is wrong with pages in a browser: errors, pages wider than the window, a search that finds nothing."""
    executable = shutil.which("chromium")
    if importlib.util.find_spec("playwright") is None or executable is None:
        print("no browser looked at the pages: playwright or Chromium is not installed")
        return []
    from playwright.sync_api import sync_playwright

    pictures.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}") if str(error) != UNFETCHED else None)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for name in PAGES:
                page.goto((site / f"{name}.html").resolve().as_uri())
                page.screenshot(path=pictures / f"{name.replace('/', '-')}-{width}.png")
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    wrong.append(f"{name} is wider than {width} pixels")
        wrong += _searched(page, site)
        browser.close()
    print(f"{len(PAGES)} pages at {len(WIDTHS)} widths, and a search: {len(wrong)} complaints; pictures in {pictures}")
    return wrong


def _searched(page: Any, site: Path) -> list[str]:
    from playwright.sync_api import Error as PlaywrightError

    page.goto(f"{(site / 'search.html').resolve().as_uri()}?q={WORD}")
    try:
        page.wait_for_selector(f"#search-results a[href*='{FOUND_ON}']", timeout=20_000)
    except PlaywrightError:
        return [f"a search for {WORD!r} does not find {FOUND_ON}"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, default=Path("build/site-pictures"))
    given = parser.parse_args()
    wrong = broken_links(given.site) + seen_in_browser(given.site, given.pictures)
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks the links of docs/, and of the site in target/book if it is built. An argument names another folder with docs/ and target/book.

Fails if a link or anchor has no target, if a page is not in SUMMARY.md, or if the site loads a file from another host.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK = re.compile(r"\]\(([^)\s]*)\)")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values.get("id"), values.get("name")} - {None}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("script", "img", "iframe", "source", "link"):
            self.loads += [values[key] for key in ("src", "href") if values.get(key)]


def prose(text):
    return "".join(text.split("```")[::2])


def anchors(text):
    """Returns the anchors that GitHub gives the headings of a page; a repeated one has a number."""
    headings = (re.sub(r"\]\([^)]*\)", "", heading) for heading in re.findall(r"^#+ +(.*)", prose(text), re.MULTILINE))
    names = [re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings]
    return [f"{name}-{earlier}" if (earlier := names[:at].count(name)) else name for at, name in enumerate(names)]


def check_sources(docs):
    pages = {page.resolve(): page.read_text() for page in docs.rglob("*.md")}
    summary = docs / "SUMMARY.md"
    listed = [(docs / link).resolve() for link in LINK.findall(summary.read_text())]
    yield from (f"{page}: {listed.count(page)} times in SUMMARY.md" for page in pages if listed.count(page) != 1 and page.name != summary.name)
    for page, text in pages.items():
        for link in (link for link in LINK.findall(re.sub(r"`[^`\n]*`", "``", prose(text))) if "://" not in link):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if not link or not target.exists():
                yield f"{page}: no such file: {link}"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                yield f"{page}: no such anchor: {link}"


def check_site(book):
    # 404.html is shown for any folder, so its relative links have no fixed base.
    pages = {page.resolve(): Page(page.read_text()) for page in book.rglob("*.html") if page.name != "404.html"}
    for page, content in pages.items():
        yield from (f"{page}: loads {load}" for load in content.loads if urlsplit(load).netloc)
        for link in (link for link in content.links + content.loads if not urlsplit(link).scheme):
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_relative_to(book.resolve()) or not target.is_file():
                yield f"{page}: no such file: {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{page}: no such anchor: {link}"


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    errors = [*check_sources(root / "docs"), *check_site(root / "target/book")]
    sys.exit("\n".join(f"links.py: {error}" for error in errors) or 0)

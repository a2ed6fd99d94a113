#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the documentation site in target/book from docs/, CONTRIBUTING.md, SECURITY.md and CHANGELOG.md with mdBook; --serve PORT serves it instead.

mdBook reads one folder, so the pages are copied to target/site. Links to other files of the repository lead to copies of these files
in the site, which works without a network. Needs mdbook in PATH: scripts/site.sh runs this script with it.
"""

import functools
import html
import http.server
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS, STAGE, BOOK = ROOT / "docs", ROOT / "target/site", ROOT / "target/book"
SOURCE = STAGE / "src"
# Pages outside of docs/, and their names in the site.
PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
# Files and folders that tools write.
SKIPPED = ["__pycache__", "target", "out", "riser-rtl"]


def place(target):
    """Returns the path in the site of a file or folder of the repository, and copies it there if it is not a page."""
    path = target.relative_to(ROOT).as_posix()
    if path in PAGES:
        return PAGES[path]
    if target.is_relative_to(DOCS) and target.is_file():
        return target.relative_to(DOCS).as_posix()
    if target.suffix in [".png", ".svg"]:
        copy = path
    elif target.is_file():
        # Browsers show files named .txt, and download most others. mdBook would change .md in a link.
        copy = f"files/{path.removesuffix('.md')}.txt"
    else:
        copy = f"files/{path}/index.html"
    (SOURCE / copy).parent.mkdir(parents=True, exist_ok=True)
    if target.is_file():
        shutil.copyfile(target, SOURCE / copy)
    else:
        (SOURCE / copy).write_text(listing(target, path, "../" * copy.count("/")))
    return copy


def listing(folder, path, up):
    """Returns a page with links to all files and folders of `folder`."""
    entries = sorted(entry for entry in folder.iterdir() if entry.name not in SKIPPED and not entry.name.startswith("."))
    rows = "".join(f'<li><a href="{html.escape(up + place(entry))}">{html.escape(entry.name)}</a></li>' for entry in entries)
    view = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f"<!DOCTYPE html>{view}<title>{path}</title><h1>{path}</h1><ul>{rows}</ul>\n"


def stage(page, name):
    """Copies a page to `name` in the site, with its links changed to those of the site. Code is copied as it is."""

    def link(match):
        file, mark, anchor = match[1].partition("#")
        target = (page.parent / file).resolve()
        if not file or "://" in file or not target.exists():
            return match[0]
        up = "../" * name.count("/")
        there = place(target)
        return f"]({up}{there}{mark + anchor if there.endswith('.md') else ''})"

    pieces = page.read_text().split("```")
    pieces[::2] = [re.sub(r"\]\(([^)\s]+)\)", link, text) for text in pieces[::2]]
    (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / name).write_text("```".join(pieces))


def build():
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE, ignore=shutil.ignore_patterns("*.md", "*.toml", "*.css", "requirements.txt", "*-run.ipynb", *SKIPPED))
    for file in ["book.toml", "site.css"]:
        shutil.copyfile(DOCS / file, STAGE / file)
    for page in DOCS.rglob("*.md"):
        stage(page, page.relative_to(DOCS).as_posix())
    for page, name in PAGES.items():
        stage(ROOT / page, name)
    subprocess.run(["mdbook", "build", STAGE], check=True, env=os.environ | {"MDBOOK_LOG": "warn"})


def serve(port):
    handler = http.server.SimpleHTTPRequestHandler
    handler.extensions_map[".txt"] = "text/plain; charset=utf-8"
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(handler, directory=BOOK)) as server:
        print(f"build-site.py: serving http://127.0.0.1:{server.server_port}/ until Ctrl-C", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
    else:
        build()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Draws a picture of the documentation as SVG on standard output: `draw.py FILE.toml`, or `draw.py layers PAGE.md`.

A TOML file has the title and the size of the picture, [[box]] with `at`, `size`, `text` and `kind`, and [[arrow]] with `path` and `text`.
`layers` draws the table of layers of docs/architecture.md. Lengths are in pixels. The first line of a box is its name.
"""

import sys
import tomllib
from html import escape
from pathlib import Path

# Fill, border and text of each kind of box. Frames hold other boxes, so their text is at the top.
KINDS = {
    "frame": ("#FFFFFF", "#8A94A6", "#3B4354"),
    "outside": ("#F1F3F6", "#8A94A6", "#3B4354"),
    "riser": ("#DCE9FB", "#2F6FC4", "#143A6B"),
    "yours": ("#FDEBD3", "#C9791B", "#6B3D08"),
}
INK, LINE_HEIGHT = "#3B4354", 17
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" font-family="sans-serif" font-size="13">
<title>{2}</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{3}"/></marker></defs>
<rect width="{0}" height="{1}" rx="6" fill="#FFFFFF"/>"""


def label(x, y, text, color, anchor="middle", bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(text)}</text>'


def box(at, size, text, kind):
    """Returns a box; its text is centred, or at the top of a frame."""
    (x, y), (width, height), (fill, border, color) = at, size, KINDS[kind]
    dashed = ' stroke-dasharray="5 4"' if kind == "outside" else ""
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{border}"{dashed}/>'
    top = y + 19 if kind == "frame" else y + (height - LINE_HEIGHT * len(text)) / 2 + 13
    for number, line in enumerate(text):
        yield label(x + width / 2, top + number * LINE_HEIGHT, line, color, bold=number == 0)


def arrow(path, text, both=False, label_at=None):
    """Returns an arrow along the points of `path`, with its text above the middle of the first part."""
    points = " ".join(f"{x},{y}" for x, y in path)
    start = ' marker-start="url(#head)"' if both else ""
    yield f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="1.5" marker-end="url(#head)"{start}/>'
    x, y = label_at or [(path[0][0] + path[1][0]) / 2, (path[0][1] + path[1][1]) / 2 - 6 - LINE_HEIGHT * (len(text) - 1)]
    yield from (label(x, y + number * LINE_HEIGHT, line, INK) for number, line in enumerate(text))


def picture(title, size, parts):
    return "\n".join([HEAD.format(*size, escape(title), INK), *parts, "</svg>"])


def from_file(path):
    source = tomllib.loads(path.read_text())
    parts = [part for given in source["box"] for part in box(**given)]
    parts += [part for given in source.get("arrow", []) for part in arrow(**given)]
    return picture(source["title"], source["size"], parts)


def levels(page):
    """Returns the levels of the table and their crates, from top to bottom. Rows without a level belong to the level above."""
    table = page.split("\n| level | crate |")[1].split("\n\n")[0].splitlines()[2:]
    found = []
    for level, crates in ([cell.strip() for cell in row.split("|")[1:3]] for row in table):
        if level:
            found.append((level, []))
        found[-1][1].extend(crate.strip("` ") for crate in crates.split(","))
    return [(level, crates) for level, crates in found if level != "tests"]


def layers(path):
    rows = levels(path.read_text())
    row_height, left, width = 36, 140, 620
    parts = []
    for number, (level, crates) in enumerate(rows):
        y = 16 + number * row_height
        parts.append(label(left - 14, y + 19, level, INK, "end"))
        gap = 8
        each = (width - left - 16 - gap * (len(crates) - 1)) // len(crates)
        parts += [part for at, crate in enumerate(crates) for part in box([left + at * (each + gap), y], [each, 28], [crate], "riser")]
    bottom = 16 + len(rows) * row_height
    parts += arrow([(width + 24, 20), (width + 24, bottom - 12)], [])
    side = f'<text transform="translate({width + 42} {bottom / 2:g}) rotate(90)" text-anchor="middle" fill="{INK}">depends only on crates below</text>'
    return picture("The layers of riser: a crate depends only on crates below it", [width + 60, bottom + 8], [*parts, side])


if __name__ == "__main__":
    what, *pages = sys.argv[1:]
    print(layers(Path(pages[0])) if what == "layers" else from_file(Path(what)))

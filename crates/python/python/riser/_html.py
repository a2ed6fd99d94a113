# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Markup of results in a notebook, without scripts except for the trace page in its own frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac")
PARTS = (
    "queue",
    "credit_wait",
    "serialization",
    "wire",
    "replay",
    "root_complex",
    "memory",
    "switch",
    "completer",
)
"""The parts of a latency, in order."""


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as a table of these columns."""

    def cell(value: Any) -> str:
        text = (
            ""
            if value is None
            else f"{value:,.3f}"
            if isinstance(value, float)
            else f"{value:,}"
            if isinstance(value, int)
            else str(value)
        )
        return f"<td>{escape(text)}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(cell(row.get(name)) for name in columns)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def page(text: str, note: str = "") -> str:
    """Return a page in a frame, which can run its own scripts but cannot access the notebook."""
    below = f"<p>{escape(note)}</p>" if note else ""
    return f'<iframe sandbox="allow-scripts" style="width:100%;height:600px;border:1px solid #ccc" srcdoc="{escape(text)}"></iframe>{below}'


def bars(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return mean latencies as stacked bars in SVG."""
    longest = max((row["latency_ns_mean"] for row in rows), default=0.0) or 1.0
    drawn = []
    for at, row in enumerate(rows):
        y, x = 22 * at, 180.0
        drawn.append(f'<text x="0" y="{y + 14}">{escape(row["slot"])} {escape(row["kind"])}</text>')
        for part, color in zip(PARTS, _COLORS):
            width = 420 * row[f"{part}_ns"] / longest
            what = f"{part.replace('_', ' ')} {row[f'{part}_ns']:.1f} ns"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="16" fill="{color}"><title>{what}</title></rect>'
            )
            x += width
        drawn.append(f'<text x="{x + 4:.1f}" y="{y + 14}">{row["latency_ns_mean"]:.1f} ns</text>')
    legend = "".join(
        f'<rect x="{76 * at}" y="{22 * len(rows) + 8}" width="10" height="10" fill="{color}"/>'
        f'<text x="{76 * at + 13}" y="{22 * len(rows) + 17}" font-size="10">{part.replace("_", " ")}</text>'
        for at, (part, color) in enumerate(zip(PARTS, _COLORS))
    )
    return f'<svg width="700" height="{22 * len(rows) + 24}" font-size="12" font-family="sans-serif">{"".join(drawn)}{legend}</svg>'


def run(result: Any) -> str:
    """The links and latencies of a run."""
    columns = (
        "slot",
        "direction",
        "tlps",
        "payload_bytes",
        "wire_bytes",
        "utilization",
        "payload_gbps",
        "active_gbps",
        "credit_stalls",
        "replays",
    )
    head = f"<p><b>{escape(result.outcome)}</b> after {result.simulated_ns / 1000:,.3f} us</p>"
    return head + table(result.links.to_dicts(), columns) + bars(result.latencies.to_dicts())


def bench(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bandwidths and latencies by size, with a bar for each bandwidth and a mark for the exact form."""
    columns = (
        "test",
        "size_bytes",
        "bandwidth_gbps",
        "model_exact_gbps",
        "latency_ns_median",
        "latency_ns_p99",
    )
    most = max((row["bandwidth_gbps"] for row in rows if row.get("bandwidth_gbps")), default=0.0)
    if not most:
        return table(rows, columns)
    drawn = []
    for at, row in enumerate(row for row in rows if row.get("bandwidth_gbps")):
        y, width = 18 * at, 400 * row["bandwidth_gbps"] / most
        mark = 130 + 400 * row["model_exact_gbps"] / most
        drawn.append(
            f'<text x="0" y="{y + 12}">{escape(row["test"])} {row["size_bytes"]} B</text>'
            f'<rect x="130" y="{y + 1}" width="{width:.1f}" height="14" fill="{_COLORS[0]}"><title>{row["bandwidth_gbps"]:.3f} Gb/s</title></rect>'
            f'<rect x="{mark:.1f}" y="{y}" width="2" height="16" fill="{_COLORS[1]}"><title>model {row["model_exact_gbps"]:.3f} Gb/s</title></rect>'
            f'<text x="{max(mark, 130 + width) + 6:.1f}" y="{y + 12}">{row["bandwidth_gbps"]:.1f} Gb/s</text>'
        )
    svg = f'<svg width="640" height="{18 * len(drawn) + 4}" font-size="11" font-family="sans-serif">{"".join(drawn)}</svg>'
    return svg + table(rows, columns)


def topology(drawing: str) -> str:
    """Return a lab's drawing by `riser check` as SVG: a box for each line, connected to its parent."""
    nodes: list[tuple[int, str]] = []
    for line in drawing.splitlines():
        text = line.lstrip(" │├└─|`-")
        if text:
            nodes.append((len(line) - len(text), text))
    drawn, open_at = [], list[tuple[int, int]]()
    for at, (indent, text) in enumerate(nodes):
        while open_at and open_at[-1][0] >= indent:
            open_at.pop()
        x, y = 24 * len(open_at), 30 * at
        if open_at:
            above = 30 * open_at[-1][1] + 24
            drawn.append(f'<path d="M{x - 12} {above}V{y + 12}H{x}" fill="none" stroke="#888"/>')
        drawn.append(
            f'<rect x="{x}" y="{y}" width="{12 + 7.4 * len(text):.0f}" height="24" rx="4" fill="#eef3fa" stroke="{_COLORS[0]}"/>'
            f'<text x="{x + 6}" y="{y + 16}">{escape(text)}</text>'
        )
        open_at.append((indent, at))
    width = max((round(204 + 7.4 * len(text)) for _, text in nodes), default=0)
    return f'<svg width="{width}" height="{30 * len(nodes) + 2}" font-size="12" font-family="monospace">{"".join(drawn)}</svg>'

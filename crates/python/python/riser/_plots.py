# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures of plotly, which only this module imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

try:
    import plotly.graph_objects as go
except ImportError as error:
    raise ImportError("figures need plotly: pip install 'riser[notebook]'") from error

from riser._html import PARTS

if TYPE_CHECKING:
    from riser._capture import Series
    from riser._lab import RunResult


def _figure(traces: Sequence[Any], title: str, x: str, y: str, **layout: Any) -> go.Figure:
    figure = go.Figure(traces)
    figure.update_layout(title=title, xaxis_title=x, yaxis_title=y, template="plotly_white", **layout)
    return figure


def _lines(
    rows: Sequence[Mapping[str, Any]], of: Sequence[str], x: str, y: str, step: bool = False
) -> list[Any]:
    """Return a line for each value of the columns `of`."""
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in rows:
        if row[y] is not None:
            xs, ys = lines.setdefault(
                " ".join(str(row[name]) for name in of if row[name] is not None), ([], [])
            )
            xs.append(row[x])
            ys.append(row[y])
    shape = {"shape": "hv"} if step else {}
    return [
        go.Scatter(x=xs, y=ys, name=name, mode="lines+markers", line=shape)
        for name, (xs, ys) in lines.items()
    ]


def latencies(result: RunResult) -> go.Figure:
    rows = result.latencies.to_dicts()
    names = [f"{row['slot']} {row['kind']}" for row in rows]
    bars = [
        go.Bar(x=names, y=[row[f"{part}_ns"] for row in rows], name=part.replace("_", " ")) for part in PARTS
    ]
    return _figure(bars, "Mean latency by its parts", "", "ns", barmode="stack")


def series(series: Series) -> go.Figure:
    rows = [row | {"us": row["start_ps"] / 1e6} for row in series.links.to_dicts()]
    return _figure(_lines(rows, ("link", "direction"), "us", "wire_gbps", True), "On the wire", "us", "Gb/s")


def credits(series: Series) -> go.Figure:
    rows = [row | {"us": row["start_ps"] / 1e6} for row in series.credits.to_dicts()]
    of = ("link", "direction", "class", "vc")
    lines = [
        line.update(name=f"{line.name} {what}")
        for what in ("header", "data")
        for line in _lines(rows, of, "us", f"{what}_min", True)
    ]
    return _figure(lines, "Fewest credits left after a TLP", "us", "credits (data: 16 B each)")


def bench(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    figure, title, unit = ("bandwidth_gbps", "Bandwidth", "Gb/s")
    if not any(row.get(figure) is not None for row in rows):
        figure, title, unit = ("latency_ns_median", "Median latency", "ns")
    shown = [row | {figure: row.get(figure)} for row in map(dict, rows)]
    swept = [
        name
        for name in ("mps_bytes", "mrrs_bytes", "outstanding")
        if len({row[name] for row in shown if row[figure] is not None}) > 1
    ]
    lines = _lines(shown, ("test", *swept), "size_bytes", figure)
    if figure == "bandwidth_gbps":
        exact = _lines(
            [row | {"of": f"{row['test']} model"} for row in shown if row[figure] is not None],
            ("of", *swept),
            "size_bytes",
            "model_exact_gbps",
        )
        lines += [line.update(line_dash="dot", mode="lines") for line in exact]
    return _figure(lines, title, "bytes", unit, xaxis_type="log")


def model(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    if rows and "throughput_gbps" in rows[0]:
        lines = _lines(rows, ("name",), "size_bytes", "throughput_gbps")
    else:
        kinds = ("write_gbps", "read_gbps", "read_write_gbps")
        lines = [
            line.update(name=kind.removesuffix("_gbps"))
            for kind in kinds
            for line in _lines(rows, ("form",), "size_bytes", kind)
        ]
    return _figure(lines, "Modelled bandwidth", "bytes", "Gb/s")

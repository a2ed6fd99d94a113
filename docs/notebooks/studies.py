# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Helpers of the study notebooks: their short form, tables, figures, and two measures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

SHORT = os.environ.get("RISER_STUDY") == "short"
"""Runs only a few points, as in CI."""
WORKERS = int(os.environ.get("RISER_STUDY_WORKERS", "1"))
"""Processes of a sweep; any number gives the same rows."""


def pick(full: Sequence[Any], short: Sequence[Any]) -> list[Any]:
    """Return the values of the study, or those of its short form."""
    return list(short if SHORT else full)


def table(rows: Iterable[dict[str, Any]], keys: Sequence[str] = ()) -> None:
    """Print rows as text, with these columns, or all by default."""
    rows = list(rows)
    keys = keys or list(rows[0])
    lines = [list(keys)] + [[_text(row.get(key)) for key in keys] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(keys))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return "-" if value is None else str(value)


def figure(rows: Iterable[dict[str, Any]], x: str, y: str, by: str | None = None, **layout: Any) -> None:
    """Show y over x if plotly is installed, with one line per value of `by`. The tables have the same data."""
    try:
        import plotly.graph_objects as plotly
    except ImportError:
        return
    rows, shown = list(rows), plotly.Figure()
    for value in dict.fromkeys(row[by] if by else y for row in rows):
        own = [row for row in rows if by is None or row[by] == value]
        shown.add_scatter(x=[row[x] for row in own], y=[row[y] for row in own], name=str(value), mode="lines+markers")
    shown.update_layout(xaxis_title=x, yaxis_title=y, legend_title=by, **layout)
    shown.show()


def checked(result: Any) -> list[dict[str, Any]]:
    """Return the rows of a sweep. Raises `RuntimeError` if a point has not run."""
    rows: list[dict[str, Any]] = result.table.to_dicts()
    for row in rows:
        if row["outcome"] not in ("finished", "time-limit"):
            raise RuntimeError(f"point {row['point']}: {row['outcome']}: {row['error']}")
    return rows


def jain(shares: Iterable[float]) -> float:
    """Return Jain's fairness index: 1 for equal shares, 1/n if one of n has all."""
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def explained(rows: Sequence[dict[str, Any]], keys: Sequence[str], metric: str) -> dict[str, float]:
    """Return the part of the variance of `metric` that each setting explains alone, over a full grid (first-order index)."""

    def variance(values: list[float]) -> float:
        mean = sum(values) / len(values)
        return sum((value - mean) ** 2 for value in values) / len(values)

    whole, parts = variance([row[metric] for row in rows]), {}
    for key in keys:
        own = [[row[metric] for row in rows if row[key] == value] for value in dict.fromkeys(row[key] for row in rows)]
        parts[key] = variance([sum(values) / len(values) for values in own]) / whole if whole else 0.0
    return parts

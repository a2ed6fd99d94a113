# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Captures as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from riser import _riser
from riser._riser import Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PAGE_RECORDS = 20_000
"""Maximum number of records on the page in a notebook cell."""
_DETECT: dict[str, Any] = {"read_as": None, "byte_order": None, "flit": False, "columns": None, "dlt": []}
"""Options of the reader for automatic detection."""


class Series(NamedTuple):
    """A capture over time, in intervals, as in `riser trace --stats --interval`.

    `start_ps` of each table is the start of an interval, in picoseconds since `Capture.epoch_ps`.
    """

    interval_ps: int
    """Length of an interval in picoseconds."""
    links: Table
    """For each interval and direction of a link: TLPs and bytes by class, Gb/s and utilization (0 to 1) of the wire."""
    outstanding: Table
    """For each interval and requester: maximum and mean of outstanding requests."""
    credits: Table
    """For each interval, direction and class: the fewest credits left after a TLP; empty if DLLPs were not captured."""

    def plot(self) -> Figure:
        """Plot Gb/s on the wire over time, with a line for each direction of each link, as a plotly figure.

        Raises:
            ImportError: plotly is not installed: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.series(self)

    def plot_credits(self) -> Figure:
        """Plot the fewest credits left over time, with a line for each pool of credits, as a plotly figure.

        Raises:
            ImportError: plotly is not installed: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.credits(self)


class Capture:
    """A capture with an optional filter; `read_capture` makes one.

    Its tables read the file batch by batch on each use, so a capture may be larger than memory. Columns have the names and values of
    `riser trace --json` (docs/reference/trace.md); values that a row lacks are missing. Only the time differs: `time_ps` counts from
    `epoch_ps`, so that it fits 64 bits.
    """

    def __init__(self, inner: _riser.Capture, path: str, filter: str | None, keep: object = None) -> None:
        self._inner = inner
        self._keep = keep
        self.path = path
        """The file."""
        self.filter = filter
        """The filter; None for all."""

    @property
    def frames(self) -> int:
        """Number of frames in the file, including those without a TLP, regardless of the filter."""
        return self._inner.frames

    @property
    def read_as(self) -> str:
        """Format of the file: `pcap`, `pcapng`, or the format of a text with TLPs (docs/formats.md)."""
        return self._inner.read_as

    @property
    def epoch_ps(self) -> int:
        """Origin of `time_ps`: 0 for virtual time, as in captures of riser; otherwise the time of the first frame in ps since 1970."""
        return self._inner.epoch_ps

    @property
    def tlps(self) -> Table:
        """A row for each TLP."""
        return self._inner.tlps()

    @property
    def transactions(self) -> Table:
        """A row for each request with its completions, in order of completion, as in `riser trace --transactions --json`.

        `errors` is a text of comma-separated names.
        """
        return self._inner.transactions()

    @property
    def credits(self) -> Table:
        """A row for each TLP with the credits before and after it, as in `riser trace --credits --json`.

        `class` is missing if the capture does not contain it. Counts are missing if they are infinite; `header_infinite` or
        `data_infinite` is then true.
        """
        return self._inner.credits()

    @property
    def errors(self) -> Table:
        """A row for each unreadable frame or part of the file: layer, kind, reason; `offset` in bytes for parts of the file."""
        return self._inner.errors()

    @property
    def stats(self) -> dict[str, Any]:
        """Statistics of the capture: the object of `riser trace --stats --json`."""
        stats: dict[str, Any] = json.loads(self._inner.stats())
        return stats

    def check(
        self, *, rcb: int | None = None, mps: int | None = None, mrrs: int | None = None, tags: int | None = None
    ) -> dict[str, Any]:
        """Check TLPs against the rules of the specification; return `violations`, a list, and `summary`.

        Their fields are those of `riser trace --check --json`. All TLPs are checked, regardless of the filter.

        Args:
            rcb: Read Completion Boundary of root complexes in bytes, 64 or 128.
            mps: Max_Payload_Size in bytes; None: as configured in the capture.
            mrrs: Max_Read_Request_Size in bytes; None: as configured in the capture.
            tags: number of tags of a requester, 32, 256 or 1024; None: as configured in the capture.

        Raises:
            ArgumentError: an invalid value.
        """
        given = [("rcb", rcb), ("mps", mps), ("mrrs", mrrs), ("tags", tags)]
        checked: dict[str, Any] = json.loads(self._inner.check([(name, value) for name, value in given if value is not None]))
        return checked

    def series(self, window_us: float | None = None, *, speed_gbps: float | None = None) -> Series:
        """Return the capture over time.

        Args:
            window_us: length of an interval in microseconds, with picosecond resolution; None: about 20 intervals.
            speed_gbps: data rate of links whose speed the capture does not contain, for utilization.

        Raises:
            ArgumentError: a length or rate that is not above 0.
            CaptureError: the interval is so short that there would be more than 100,000.
        """
        interval_ps = None if window_us is None else _above_zero("window_us", window_us, 1e6)
        speed_bps = None if speed_gbps is None else _above_zero("speed_gbps", speed_gbps, 1e9)
        return Series(*self._inner.series(interval_ps, speed_bps))

    def page(self, records: int = _PAGE_RECORDS) -> str:
        """Return the page of `riser trace --html` as text, with the first `records` records that pass the filter."""
        return self._inner.page(records)[0]

    def plot_credits(self, window_us: float | None = None) -> Figure:
        """Plot the fewest credits left over time: `series(window_us).plot_credits()`."""
        return self.series(window_us).plot_credits()

    def _repr_html_(self) -> str:
        from riser import _html

        page, left_out = self._inner.page(_PAGE_RECORDS)
        return _html.page(
            page,
            f"{left_out} records more are not shown: filter them, or use riser trace --html"
            if left_out
            else "",
        )

    def __repr__(self) -> str:
        kept = "" if self.filter is None else f", where {self.filter}"
        return f"<riser.Capture {self.path}: {self.frames} frames{kept}>"


def _above_zero(name: str, value: float, factor: float) -> int:
    scaled = round(value * factor) if 0 < value < 2**64 / factor else 0
    if scaled < 1:
        raise _riser.ArgumentError(f"{name} {value}: expected 1/{factor:g} to {2**64 / factor:g}")
    return scaled


def read_capture(
    path: str | PathLike[str],
    filter: str | None = None,
    *,
    errors: Literal["raise", "skip"] = "raise",
    vc_of_tc: Sequence[int] | None = None,
    read_as: str | None = None,
    byte_order: Literal["big", "little"] | None = None,
    flit: bool = False,
    columns: Mapping[str, int | str] | None = None,
    dlt: Sequence[int] = (),
) -> Capture:
    """Open a capture: pcap or pcapng with TLPs, of riser or of NetTLP, or a text with TLPs such as a kernel log (docs/formats.md).

    The file is scanned once, frame by frame. TLPs are decoded when a table is read.

    Args:
        path: the file.
        filter: keep only TLPs and transactions for which this holds, such as `"type=MRd and time>1us"`, in the language of
            `riser trace --filter` (docs/reference/trace.md).
        errors: `raise` an exception for unreadable parts of the file, such as a truncated last record, or `skip` them as
            `riser trace` does. Skipped parts are listed in `Capture.errors`, and so are frames that cannot be decoded.
        vc_of_tc: the virtual channel of each traffic class, eight numbers; captures do not contain it.
        read_as: format of the file: `pcap`, `pcapng`, `hex`, `log`, `pcileech`, `mmiotrace` or `csv`. None: riser detects it.
        byte_order: byte order of hexadecimal dwords. None: the order in which more headers are valid.
        flit: True if hexadecimal TLPs are headers of flit mode.
        columns: columns of a CSV file, by number from 1 or by name in the first row, such as `{"time_ns": 1, "tlp": "data"}`.
        dlt: numbers of the user link types of a pcap, 0 to 15, that contain TLPs.

    Raises:
        OSError: the file cannot be opened.
        ArgumentError: `errors`, `vc_of_tc` or an option of the format is invalid.
        CaptureError: it is not a capture, or a part of it cannot be read; with the place in bytes.
        FilterError: the filter is invalid; with the place, and what was expected.
    """
    reading: dict[str, Any] = {
        "read_as": read_as,
        "byte_order": byte_order,
        "flit": flit,
        "columns": None if columns is None else ",".join(f"{name}={column}" for name, column in columns.items()),
        "dlt": list(dlt),
    }
    return _open(path, filter, errors, vc_of_tc, reading)


def _open(
    path: str | PathLike[str],
    filter: str | None = None,
    errors: str = "raise",
    vc_of_tc: Sequence[int] | None = None,
    reading: dict[str, Any] = _DETECT,
    keep: object = None,
) -> Capture:
    if errors not in ("raise", "skip"):
        raise _riser.ArgumentError(f"errors {errors!r}: expected 'raise' or 'skip'")
    if vc_of_tc is not None and not (
        len(vc_of_tc) == 8 and vc_of_tc[0] == 0 and all(0 <= vc < 8 for vc in vc_of_tc)
    ):
        raise _riser.ArgumentError(
            f"vc_of_tc {list(vc_of_tc)}: expected 8 numbers from 0 to 7, the first of them 0"
        )
    inner = _riser.Capture(
        fspath(path), filter, errors == "raise", None if vc_of_tc is None else list(vc_of_tc), reading
    )
    return Capture(inner, fspath(path), filter, keep)

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
"""Records of the page in a cell."""
_DETECT: dict[str, Any] = {"read_as": None, "byte_order": None, "flit": False, "columns": None, "dlt": []}
"""Options of the reader that leave all to the file."""


class Series(NamedTuple):
    """A capture over time, in intervals: what `riser trace --stats --interval` shows.

    `start_ps` of each table is the start of an interval, in picoseconds from `Capture.epoch_ps` on.
    """

    interval_ps: int
    """Length of an interval, picoseconds."""
    links: Table
    """For each interval and direction of a link: TLPs and bytes by class, Gb/s and utilization (0 to 1) of the wire."""
    outstanding: Table
    """For each interval and requester: requests outstanding, at most and in the mean."""
    credits: Table
    """For each interval, direction and class: the fewest credits left behind a TLP; none where DLLPs were not captured."""

    def plot(self) -> Figure:
        """Gb/s on the wire over time, a line for each direction of each link: a plotly figure.

        Raises:
            ImportError: plotly is not there: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.series(self)

    def plot_credits(self) -> Figure:
        """The fewest credits left over time, a line for each ledger: a plotly figure.

        Raises:
            ImportError: plotly is not there: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.credits(self)


class Capture:
    """A capture, and what a filter keeps of it; `read_capture` makes one.

    Its tables are read from the file when they are read, batch by batch: a capture may be larger than memory. Columns have the names and
    values of `riser trace --json` (docs/reference/trace.md); what a row has not is missing. Only the time is another: `time_ps` counts
    from `epoch_ps` on, so that it fits 64 bits.
    """

    def __init__(self, inner: _riser.Capture, path: str, filter: str | None, keep: object = None) -> None:
        self._inner = inner
        self._keep = keep
        self.path = path
        """The file."""
        self.filter = filter
        """The filter; None keeps all."""

    @property
    def frames(self) -> int:
        """Frames of the file, those of no TLP included, whatever the filter."""
        return self._inner.frames

    @property
    def read_as(self) -> str:
        """Format of the file: `pcap`, `pcapng`, or the format of a text and its TLPs (docs/formats.md)."""
        return self._inner.read_as

    @property
    def epoch_ps(self) -> int:
        """When `time_ps` begins: 0 where times are virtual, as in captures of riser; else when the first frame was seen, in ps since 1970."""
        return self._inner.epoch_ps

    @property
    def tlps(self) -> Table:
        """A row for each TLP."""
        return self._inner.tlps()

    @property
    def transactions(self) -> Table:
        """A row for each request with its completions, in the order in which they end, as `riser trace --transactions --json`.

        `errors` is a text, of names with commas between.
        """
        return self._inner.transactions()

    @property
    def credits(self) -> Table:
        """A row for each TLP: the credits before and behind it, as `riser trace --credits --json`.

        `class` is missing where the capture does not tell; counts are missing where they are infinite, and then `header_infinite` or
        `data_infinite` says so.
        """
        return self._inner.credits()

    @property
    def errors(self) -> Table:
        """A row for each frame, or part of the file, that cannot be read: layer, kind, reason; `offset` in bytes, of the file itself."""
        return self._inner.errors()

    @property
    def stats(self) -> dict[str, Any]:
        """What the capture holds, counted: the object of `riser trace --stats --json`."""
        stats: dict[str, Any] = json.loads(self._inner.stats())
        return stats

    def check(
        self, *, rcb: int | None = None, mps: int | None = None, mrrs: int | None = None, tags: int | None = None
    ) -> dict[str, Any]:
        """The rules of the specification that TLPs break: `violations`, a list, and `summary`.

        Their fields are those of `riser trace --check --json`. All TLPs are judged, whatever the filter keeps.

        Args:
            rcb: Read Completion Boundary of root complexes in bytes, 64 or 128.
            mps: Max_Payload_Size in bytes; None: what the capture configures.
            mrrs: Max_Read_Request_Size in bytes; None: what the capture configures.
            tags: number of tags of a requester, 32, 256 or 1024; None: what the capture configures.

        Raises:
            ArgumentError: an illegal value.
        """
        given = [("rcb", rcb), ("mps", mps), ("mrrs", mrrs), ("tags", tags)]
        checked: dict[str, Any] = json.loads(self._inner.check([(name, value) for name, value in given if value is not None]))
        return checked

    def series(self, window_us: float | None = None, *, speed_gbps: float | None = None) -> Series:
        """The capture over time.

        Args:
            window_us: length of an interval in microseconds, to a picosecond; None: one that gives about 20.
            speed_gbps: data rate of links whose speed the capture does not tell, for utilization.

        Raises:
            ArgumentError: a length or rate that is not above 0.
            CaptureError: so short an interval that there were more than 100,000.
        """
        interval_ps = None if window_us is None else _above_zero("window_us", window_us, 1e6)
        speed_bps = None if speed_gbps is None else _above_zero("speed_gbps", speed_gbps, 1e9)
        return Series(*self._inner.series(interval_ps, speed_bps))

    def page(self, records: int = _PAGE_RECORDS) -> str:
        """The page of `riser trace --html` as text, of the first `records` records that the filter keeps."""
        return self._inner.page(records)[0]

    def plot_credits(self, window_us: float | None = None) -> Figure:
        """The fewest credits left over time: `series(window_us).plot_credits()`."""
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
        raise _riser.ArgumentError(f"{name} {value}: legal are 1/{factor:g} to {2**64 / factor:g}")
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

    The file is looked through once, frame by frame; what it holds is decoded when a table is read.

    Args:
        path: the file.
        filter: keep only TLPs and transactions for which this holds, such as `"type=MRd and time>1us"`; the language of
            `riser trace --filter` (docs/reference/trace.md).
        errors: what becomes of parts of the file that cannot be read, such as a last record that was cut short: an exception, or
            they are skipped as by `riser trace`, and stand in `Capture.errors`. Frames that cannot be decoded always stand there.
        vc_of_tc: the virtual channel of each traffic class, eight numbers; captures do not tell.
        read_as: format of the file: `pcap`, `pcapng`, `hex`, `log`, `pcileech`, `mmiotrace` or `csv`. None: riser detects it.
        byte_order: byte order of hexadecimal dwords. None: the order in which more headers are legal.
        flit: True if hexadecimal TLPs are headers of flit mode.
        columns: columns of a CSV file, by number from 1 or by name in the first row, such as `{"time_ns": 1, "tlp": "data"}`.
        dlt: numbers of the user link types of a pcap, 0 to 15, that hold TLPs.

    Raises:
        OSError: the file cannot be opened.
        ArgumentError: `errors`, `vc_of_tc` or an option of the format is not legal.
        CaptureError: it is no capture, or a part of it cannot be read; with the place, in bytes.
        FilterError: the filter means nothing; with the place, and what is legal.
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
        raise _riser.ArgumentError(f"errors {errors!r}: legal are 'raise' and 'skip'")
    if vc_of_tc is not None and not (
        len(vc_of_tc) == 8 and vc_of_tc[0] == 0 and all(0 <= vc < 8 for vc in vc_of_tc)
    ):
        raise _riser.ArgumentError(
            f"vc_of_tc {list(vc_of_tc)}: legal are 8 numbers from 0 to 7, the first of them 0"
        )
    inner = _riser.Capture(
        fspath(path), filter, errors == "raise", None if vc_of_tc is None else list(vc_of_tc), reading
    )
    return Capture(inner, fspath(path), filter, keep)

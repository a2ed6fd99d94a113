# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The commands that do not run a lab: bench, compare, fit, and closed forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riser import _progress, _riser
from riser._riser import Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_Path = str | PathLike[str]
_Sizes = int | Sequence[int]
_Bits = Literal[32, 64]
_Form = Literal["exact", "published"]


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a JSON object to a row: nested objects become columns, lists are left out."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}_")
        elif not isinstance(value, list):
            flat[prefix + name] = value
    return flat


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    return _riser.table([_flat(row) for row in rows])


class BenchResult:
    """Results of `bench`: a row for each test, size and combination of list arguments."""

    def __init__(self, report: dict[str, Any], csv: str) -> None:
        self.report = {"warnings": [], "interrupted": None, "basis": None} | report
        """The object of `riser bench --json`, with empty fields."""
        self._csv = csv

    @property
    def rows(self) -> Table:
        """A row for each measurement: its settings, and `latency_ns_*` or `bandwidth_gbps` (payload of one direction, 10^9 bit/s).
        It also has the values of the closed forms, and `upstream_*` and `downstream_*` of the link during the measurement."""
        return _table(self.report["tests"])

    @property
    def transactions(self) -> Table:
        """A row for each kind of transaction of each measurement: latencies, and the mean of each part, in ns."""
        head = ("test", "size_bytes", "mps_bytes", "mrrs_bytes", "outstanding")
        rows = self.report["tests"]
        return _table(
            [{name: row[name] for name in head} | kind for row in rows for kind in row["transactions"]]
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings about profile figures that are extrapolated on the link."""
        return list(self.report["warnings"])

    def save(self, folder: _Path) -> None:
        """Write results.csv and results.json to a folder, as `riser bench -o` does; `compare` and `fit` can read it.

        Raises:
            FileExistsError: they exist.
        """
        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("results.csv", self._csv),
            ("results.json", json.dumps(self.report, indent=2) + "\n"),
        ):
            with (into / name).open("x") as file:
                file.write(text)

    def plot(self) -> Figure:
        """Plot bandwidths over size, or latencies if there are no bandwidths, as a plotly figure.

        Raises:
            ImportError: plotly is not installed: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.bench(self.report["tests"])

    def _repr_html_(self) -> str:
        from riser import _html

        return _html.bench(self.report["tests"])

    def __repr__(self) -> str:
        return f"<riser.BenchResult of {len(self.report['tests'])} rows>"


def bench(
    suite: str | Sequence[str] = "full",
    *,
    size: _Sizes | None = None,
    model: str | None = None,
    host: _Path | None = None,
    device: _Path | None = None,
    gen: int | None = None,
    lanes: int | None = None,
    mps: _Sizes | None = None,
    mrrs: _Sizes | None = None,
    credits: str | Sequence[str] | None = None,
    rcb: int | None = None,
    addr: _Bits | None = None,
    window: int | None = None,
    offset: int | None = None,
    pattern: Literal["sequential", "random"] | None = None,
    iommu: Literal["off", "4k", "2m", "1g"] = "off",
    buffer_pages: Literal["4KiB", "2MiB", "1GiB"] = "1GiB",
    cache: Literal["cold", "host-warm", "device-warm", "device-thrash"] | None = None,
    transfers: int | None = None,
    warm_up: int | None = None,
    outstanding: _Sizes | None = None,
    seed: int = 1,
    progress: bool | None = None,
) -> BenchResult:
    """Measure latency and bandwidth with the method of pcie-bench (SIGCOMM'18, section 4), as `riser bench` does.

    For None, the profiles decide. `mps`, `mrrs`, `credits` and `outstanding` accept lists: every row is measured with each
    combination.

    Args:
        suite: tests (LAT_RD, LAT_WRRD, BW_RD, BW_WR, BW_RDWR; of a NIC LAT_LOOP, BW_LOOP), or the suites `full` and `short`.
        size: transfer sizes in bytes, 1 to 4096.
        model: the measured model; None: the card of the paper.
        host: host profile: a shipped one (`profiles`), or a file; None: ideal.
        device: device profile, likewise.
        gen: generation of the link, 1 to 5.
        lanes: 1, 2, 4, 8, 12, 16 or 32.
        mps: Max_Payload_Size in bytes.
        mrrs: Max_Read_Request_Size in bytes.
        credits: of the root port, `default`, `PH:PD` or `PH:PD:NPH:NPD`, data in units of 16 B; 0 is infinite.
        rcb: Read Completion Boundary in bytes, 64 or 128.
        addr: address width of requests in bits.
        window: size in bytes of the host memory that transfers access.
        offset: offset of each transfer from a cache line in bytes, 0 to 63.
        pattern: order of the units in the window.
        iommu: the host's IOMMU and its pages, if the host profile has one.
        buffer_pages: pages of the host's buffers, which limit the pages of the IOMMU.
        cache: state of the host's caches at the start; None: the model's.
        transfers: counted transfers of each row.
        warm_up: transfers before them, which do not count.
        outstanding: outstanding transfers in bandwidth tests.
        seed: seed of the addresses.
        progress: show the progress; None: if it takes over two seconds in a terminal or a notebook.

    Raises:
        ArgumentError: an argument is invalid; the text says what was expected.
        LabError: a profile cannot be read.
        RunFailed: a row failed; `result` has the rows before it, or is None.
        Interrupted: Ctrl-C; `result` has the measured rows.

    >>> result = bench("BW_WR", size=256, transfers=2000, gen=3, lanes=8)
    >>> [row["test"] for row in result.rows.to_dicts()]
    ['BW_WR']
    """
    arguments = {
        "suite": suite, "size": size, "model": model, "host": _text(host), "device": _text(device), "gen": gen, "lanes": lanes,
        "mps": mps, "mrrs": mrrs, "credits": credits, "rcb": rcb, "addr": addr, "window": window, "offset": offset,
        "pattern": pattern, "iommu": iommu, "buffer_pages": buffer_pages, "cache": cache, "transfers": transfers, "warm_up": warm_up, "outstanding": outstanding, "seed": seed,
    }  # fmt: skip
    with _progress.shown(progress) as show:
        report, csv, ended = _riser.bench(arguments, show)
    result = BenchResult(json.loads(report), csv)
    _raise_where_ended(ended, result)
    return result


def _text(path: _Path | None) -> str | None:
    return None if path is None else fspath(path)


def _raise_where_ended(ended: tuple[str, str, Any], result: object) -> None:
    how, why, raised = ended
    error: Any
    if isinstance(raised, KeyboardInterrupt) or (raised is None and how == "interrupted"):
        error = _riser.Interrupted(why or "interrupted")
    elif raised is not None:
        raise raised
    elif how == "failed":
        error = _riser.RunFailed(why)
    else:
        return
    error.result = result
    raise error


class Comparison:
    """Comparison of two sets of results."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        """The object of `riser compare --json`."""

    @property
    def experiments(self) -> Table:
        """A row for each experiment: rows, errors in percent of the reference, the worst row."""
        return _table(self.report["experiments"])

    @property
    def families(self) -> Table:
        """A row for each family of experiments."""
        return _table(self.report["families"])

    @property
    def score(self) -> Table:
        """A row for each group: the agreement of the other set with the reference, in percent."""
        return _table(self.report["score"])

    def __repr__(self) -> str:
        scored = self.report["scored"]
        return f"<riser.Comparison of {scored['rows']} rows in {len(self.report['experiments'])} experiments>"


def compare(reference: _Path, other: _Path, *, skip: _Path | None = None, whole: bool = False) -> Comparison:
    """Compare two sets of results row by row, as `riser compare` does: folders in pcie-bench's public form, or of `BenchResult.save`.

    Args:
        reference: the reference folder. Errors are relative to its values.
        other: the folder to compare with it.
        skip: leave experiments in this folder out of the score.
        whole: score all rows of the reference; a missing row counts as an error of 100 %.

    Raises:
        LabError: a folder cannot be read, with the place; or there is no common row.
    """
    return Comparison(json.loads(_riser.compare(fspath(reference), fspath(other), _text(skip), whole)))


class FitResult:
    """A host profile fitted to measurements."""

    def __init__(self, report: dict[str, Any], profile: str) -> None:
        self.report = report
        """The object of `riser fit --json`."""
        self.profile = profile
        """The text of the profile, TOML."""

    @property
    def figures(self) -> Table:
        """A row for each figure: its value in ps, the number of fitted rows, its last step in ns."""
        return _table(self.report["figures"])

    @property
    def residuals(self) -> Table:
        """A row for each experiment: the error of the profile; empty without `residuals`."""
        return _table((self.report.get("residuals") or {"experiments": []})["experiments"])

    def __repr__(self) -> str:
        return f"<riser.FitResult of {len(self.report['figures'])} figures>"


def fit(
    data: _Path | Sequence[_Path],
    output: _Path | None = None,
    *,
    like: str | None = None,
    server: str | None = None,
    device: str | None = None,
    iommu: Literal["off", "4k", "2m", "1g"] = "off",
    sockets: Sequence[int] = (0, 0, 0),
    mps: int = 256,
    mrrs: int = 512,
    jobs: int = 2,
    residuals: bool = True,
    progress: bool | None = None,
) -> FitResult:
    """Fit a host profile to results of a server, as `riser fit` does.

    Args:
        data: folders of results of one server.
        output: write the profile to this file, which must not exist.
        like: the shipped host profile to start from.
        server: description of the server, for the profile.
        device: device profile of the measuring card.
        iommu: mode of the IOMMU, for unknown configurations whose results do not give it.
        sockets: sockets of device, memory and program, for such configurations.
        mps: Max_Payload_Size in bytes, for such configurations.
        mrrs: Max_Read_Request_Size in bytes, for such configurations.
        jobs: rows simulated in parallel for the residuals, 1 to 256.
        residuals: compare every row with the fitted profile, which takes most of the time.
        progress: as in `bench`.

    Raises:
        ArgumentError: an argument is invalid.        LabError: results cannot be read, or show no figure.
        Interrupted: Ctrl-C; `result` has the figures fitted so far.
        FileExistsError: the output exists.
    """
    paths = [data] if isinstance(data, str | PathLike) else list(data)
    arguments = {
        "data": [fspath(path) for path in paths], "like": like, "server": server, "device": device, "iommu": iommu,
        "sockets": list(sockets), "mps": mps, "mrrs": mrrs, "jobs": jobs, "residuals": residuals,
    }  # fmt: skip
    import tempfile

    if output is not None and Path(output).exists():
        raise FileExistsError(f"{fspath(output)}: it exists")
    with tempfile.TemporaryDirectory() as folder, _progress.shown(progress) as show:
        name = "" if output is None else fspath(output)
        text, report, ended = _riser.fit(arguments, name, str(Path(folder, "profile.toml")), show)
    result = FitResult(json.loads(report), text)
    _raise_where_ended(ended, result)
    if output is not None:
        with Path(output).open("x") as file:
            file.write(text)
    return result


class ModelResult:
    """Results of a closed form by size."""

    def __init__(self, report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        self.report = report
        """The object of `riser model ... --json`."""
        self._rows = rows

    @property
    def rows(self) -> Table:
        """A row for each size; for `model_nic`, for each size and curve."""
        return _table(self._rows)

    def plot(self) -> Figure:
        """Plot Gb/s over size as a plotly figure.

        Raises:
            ImportError: plotly is not installed: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.model(self._rows)

    def __repr__(self) -> str:
        return f"<riser.ModelResult of {len(self._rows)} rows>"


def model_bandwidth(
    size: _Sizes,
    *,
    form: _Form = "exact",
    gen: int = 3,
    lanes: int = 8,
    mps: int = 256,
    mrrs: int = 512,
    rcb: int = 64,
    addr: _Bits = 64,
    ecrc: bool = False,
    offset: int = 0,
    dllps: Mapping[Literal["write", "read", "read_write"], tuple[float, float]] | None = None,
) -> ModelResult:
    """Calculate the payload bandwidth of reads and writes by transfer size with a formula, as `riser model bw` does.

    Args:
        size: transfer sizes in bytes.
        form: `exact` counts the bytes of each direction of the wire; `published` is the form of pcie-bench (SIGCOMM'18, section 3).
        gen: generation of the link, 1 to 5; in the exact form also 6 and 7.
        lanes: 1, 2, 4, 8, 12, 16 or 32.
        mps: Max_Payload_Size in bytes.
        mrrs: Max_Read_Request_Size in bytes.
        rcb: Read Completion Boundary in bytes, 64 or 128.
        addr: address width of requests in bits.
        ecrc: TLPs carry an ECRC.
        offset: start of each transfer after a 4 KiB boundary, in bytes.
        dllps: counted DLLPs per transfer instead of the model's rule, device to host and host to device.

    Raises:
        ArgumentError: an argument is invalid; the text says what was expected.

    >>> model_bandwidth(256, form="published").rows.to_dicts()[0]["write_gbps"] > 52.9
    True
    """
    arguments = {
        "size": size, "form": form, "gen": gen, "lanes": lanes, "mps": mps, "mrrs": mrrs, "rcb": rcb, "addr": addr,
        "ecrc": ecrc, "offset": offset, "dllps": None if dllps is None else dict(dllps),
    }  # fmt: skip
    rows = json.loads(_riser.model_bandwidth(arguments))
    return ModelResult({"rows": rows}, rows)


def model_nic(
    device: _Path | Sequence[_Path] | None = None,
    *,
    size: _Sizes | None = None,
    traffic: Literal["both", "tx", "rx"] = "both",
    ethernet: float = 40.0,
    form: _Form = "exact",
    gen: int = 3,
    lanes: int = 8,
    mps: int = 256,
    mrrs: int = 512,
    rcb: int = 64,
    addr: _Bits = 64,
    ecrc: bool = False,
) -> ModelResult:
    """Calculate the throughput of NICs with their drivers by packet size, as `riser model nic` does: Figure 1 of pcie-bench.

    Args:
        device: names of shipped devices, or files that describe others; None: all shipped ones.
        size: packet sizes in bytes, FCS included; None: eleven from 64 to 1500.
        traffic: direction of the packets.
        ethernet: rate to compare with in Gb/s, 0.001 to 100000.
        form: as in `model_bandwidth`, and so are the arguments of the link.

    Raises:
        ArgumentError: an argument is invalid; the text says what was expected.
        LabError: a file cannot be read, with the place.
    """
    given = [] if device is None else [device] if isinstance(device, str | PathLike) else list(device)
    arguments = {
        "device": [fspath(path) for path in given], "size": size, "traffic": traffic, "ethernet": ethernet, "form": form,
        "gen": gen, "lanes": lanes, "mps": mps, "mrrs": mrrs, "rcb": rcb, "addr": addr, "ecrc": ecrc,
    }  # fmt: skip
    report = json.loads(_riser.model_nic(arguments))
    rows = [
        {"name": curve["name"], "kind": curve["kind"]} | point
        for curve in report["series"]
        for point in curve["points"]
    ]
    return ModelResult(report, rows)


def profiles() -> Table:
    """Return the shipped profiles: name, kind (host, device), description, and effects that they do not predict."""
    return _table(json.loads(_riser.profiles()))


def profile(name: str) -> dict[str, Any]:
    """Return a shipped profile: each figure with its value and its source.

    Raises:
        ArgumentError: the name is unknown; the text lists the known names.

    >>> profile("ideal")["kind"]
    'host'
    """
    found: dict[str, Any] = json.loads(_riser.profile(name))
    return found

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Labs and the results of their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from riser import _capture, _functions, _progress, _riser, _watchdog
from riser._capture import Capture, Series
from riser._device import Device
from riser._riser import LabError, Table

if TYPE_CHECKING:
    import tempfile

    from plotly.graph_objects import Figure

_Settings = Mapping[str, Any]

_MAX_CHARACTERS = 16 << 20
"""Size limit of a lab file, which may be an endless device."""


class Enumerated(NamedTuple):
    """Result of the enumeration by a lab's host."""

    report: dict[str, Any]
    """The object of `riser lspci --json`."""
    spaces: dict[str, bytes]
    """The configuration space of each function, by `bus:device.function` in hexadecimal: 4096 bytes, or 256 without PCI Express capability."""

    @property
    def functions(self) -> Table:
        """A row for each function: IDs, place in the lab, class, link, interrupts. Lists, such as BARs, are only in `report`."""
        return _functions._table(self.report["functions"])

    def _repr_html_(self) -> str:
        from riser import _html

        return _html.table(self.report["functions"], ("bdf", "path", "slot", "model", "class_name", "vendor_id", "device_id"))


class RunResult:
    """Result of a run.

    `print(result)` prints the report of `riser run`; `report` is the one of `riser run --json`. polars, pandas, pyarrow and DuckDB
    read its tables by the Arrow PyCapsule interface.
    """

    def __init__(self, inner: _riser.RunResult, lab: Lab, capture: str | None = None, keep: object = None) -> None:
        self._inner = inner
        self._lab = lab
        self._capture_path, self._keep = capture, keep
        self._capture: Capture | None = None
        self._registers: Enumerated | None = None
        self.report: dict[str, Any] = inner.report()
        """The report, as the object of `riser run --json`."""

    @property
    def outcome(self) -> str:
        """`finished`, `time-limit`, `failed`, `no-progress` or `interrupted`."""
        return str(self.report["outcome"])

    @property
    def simulated_ns(self) -> float:
        """Virtual time at the end, in nanoseconds."""
        return float(self.report["simulated_ns"])

    @property
    def links(self) -> Table:
        """A row for each direction of each link: TLPs, bytes by kind, Gb/s, stalls, errors."""
        return self._inner.links()

    @property
    def latencies(self) -> Table:
        """A row for each kind of transaction on each link: latencies in ns, and the mean of each part."""
        return self._inner.latencies()

    @property
    def transactions(self) -> Table:
        """A row for each transaction, in order of completion. Its parts in ps add up to `latency_ps`.

        Raises:
            LabError: they were not requested with `Lab.run(transactions=True)`.
        """
        table = self._inner.transactions()
        if table is None:
            raise LabError("transactions were not requested: use Lab.run(transactions=True)")
        return table

    @property
    def capture(self) -> Capture:
        """The capture of the run. The file of `Lab.run(capture=True)` is deleted with the last of its objects.

        Raises:
            LabError: it was not requested with `Lab.run(capture=True)` or a path.
        """
        if self._capture_path is None:
            raise LabError("a capture was not requested: use Lab.run(capture=True)")
        if self._capture is None:
            self._capture = _capture._open(self._capture_path, keep=self._keep)
        return self._capture

    def series(self, window_us: float | None = None) -> Series:
        """Return the run over time: `Capture.series` of its capture."""
        return self.capture.series(window_us)

    @property
    def credits(self) -> Table:
        """A row for each TLP with the credits before and after it: `Capture.credits`; needs `Lab.run(capture=True, dllps=True)`."""
        return self.capture.credits

    @property
    def registers(self) -> Enumerated:
        """The result of `Lab.enumerate`, which runs on first use."""
        if self._registers is None:
            self._registers = self._lab.enumerate()
        return self._registers

    def plot_latencies(self) -> Figure:
        """Plot mean latencies by their parts, with a stacked bar for each kind of transaction, as a plotly figure.

        Raises:
            ImportError: plotly is not installed: `pip install 'riser[notebook]'`.
        """
        from riser import _plots

        return _plots.latencies(self)

    def _repr_html_(self) -> str:
        from riser import _html

        return _html.run(self)

    def device(self, slot: str) -> dict[str, Any]:
        """Return the counters of the device in this slot.

        Raises:
            KeyError: the slot is unknown; the text lists the known slots.
        """
        counters = {device["slot"]: device["counters"] for device in self.report["devices"]}
        if slot not in counters:
            raise KeyError(f"no slot `{slot}`; known slots: {', '.join(counters)}")
        return dict(counters[slot])

    def __str__(self) -> str:
        return self._inner.text()

    def __repr__(self) -> str:
        return f"<riser.RunResult {self.outcome} after {self.simulated_ns / 1000:.3f} us>"


class Lab:
    """A lab: hosts, links, switches and slots.

    Keyword arguments of this class, and of the methods that add to a lab, are the keys of a lab file (docs/reference/lab.md).
    Tables are dicts:

        >>> lab = Lab(link={"gen": 4, "lanes": 8}, host={"profile": "xeon-e5-2637v3"})
        >>> lab.slot("nic", "simple-nic")
        >>> lab.run().outcome
        'finished'
    """

    def __init__(self, **keys: Any) -> None:
        self._keys: dict[str, Any] = {"version": 1, **keys}
        self._text: str | None = None
        self._name = "lab"
        self._settings: dict[str, Any] = {}
        self._objects: list[Device] = []

    @classmethod
    def from_toml(cls, path: str | PathLike[str], *, set: _Settings | None = None) -> Lab:
        """Read the lab file at `path`; `set` overrides keys, such as `{"slot.nic.link.gen": 4}`.

        Raises:
            OSError: the file cannot be read.
            LabError: the file is too large.
        """
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
        if len(text) > _MAX_CHARACTERS:
            raise LabError(f"{fspath(path)}: longer than {_MAX_CHARACTERS >> 20} MiB: not a lab file")
        return cls.from_text(text, name=fspath(path), set=set)

    @classmethod
    def from_text(cls, text: str, *, name: str = "lab", set: _Settings | None = None) -> Lab:
        """Return a lab from the text of a lab file. Relative paths in it start from the folder of `name`; errors show `name`."""
        lab = cls()
        lab._text, lab._name = text, name
        return lab.with_settings(set) if set else lab

    def with_settings(self, settings: _Settings) -> Lab:
        """Return this lab with other values for keys: dotted keys of a lab file, with list elements by name or index."""
        lab = Lab()
        lab._keys, lab._text, lab._name = self._keys, self._text, self._name
        lab._objects = self._objects
        lab._settings = {**self._settings, **settings}
        return lab

    def slot(self, name: str, device: str | Device, **keys: Any) -> None:
        """Add a slot with this device: the name of a model, or an object.

        A dict under the name of the model has its settings: `traffic={"flow": [...]}`. For an object, `virtual_functions` is the
        number that the host enables, by default all. For a slot with a Verilog design (`device="rtl"`), `driver` is the name of a
        model, or an object whose `driver` drives the design.
        """
        if isinstance(device, Device):
            count = keys.pop("virtual_functions", device.virtual_functions)
            keys["python"] = {"object": self._number_of(device), "virtual_functions": count}
            device = "python"
        elif isinstance(driver := keys.get("driver"), Device):
            keys |= {"driver": "python", "python": {"object": self._number_of(driver)}}
        self._add("slot", {"name": name, "device": device, **keys})

    def _number_of(self, device: Device) -> int:
        self._objects.append(device)
        return len(self._objects) - 1

    def switch(self, name: str, **keys: Any) -> None:
        """Add a switch. Slots and switches below it name it in `parent`."""
        self._add("switch", {"name": name, **keys})

    def fault(self, **keys: Any) -> None:
        """Add a fault."""
        self._add("fault", keys)

    def _add(self, table: str, keys: dict[str, Any]) -> None:
        if self._text is not None:
            raise LabError("a lab from a file cannot be extended: use with_settings()")
        self._keys.setdefault(table, []).append(keys)

    def to_toml(self) -> str:
        """Return the lab as the text of a lab file, without the settings over it."""
        return self._text if self._text is not None else _riser.to_toml(self._keys)

    def _inner(self) -> _riser.Lab:
        given = [f"{key}={_riser.to_toml_value(value)}" for key, value in self._settings.items()]
        return _riser.Lab(self.to_toml(), self._name, given, self._objects)

    def _whole(self) -> tuple[str, str]:
        """Its text, without the settings over it, and its name, for other processes."""
        if self._objects:
            raise LabError(
                "a lab with objects cannot be run in other processes: name the class of the device, as "
                '`lab.slot("nic", "python", python={"class": "nic.py:Nic"})`'
            )
        return self.to_toml(), self._name

    def check(self) -> str:
        """Check the lab and return its drawing.

        Raises:
            LabError: faults, with their places and the expected values.
        """
        return self._inner().check()

    def enumerate(self) -> Enumerated:
        """Run only the enumeration by the lab's host, and read every configuration space, as `riser lspci` does.

        Raises:
            LabError: the lab is invalid.
            RunFailed: enumeration fails.
        """
        text, spaces = self._inner().enumerate()
        report: dict[str, Any] = json.loads(text)
        bdfs = [function["bdf"] for function in report["functions"]]
        return Enumerated(report, dict(zip(bdfs, spaces, strict=True)))

    def run(
        self,
        *,
        seed: int | None = None,
        capture: str | PathLike[str] | bool | None = None,
        force: bool = False,
        tap: Literal["device", "root"] = "device",
        dllps: bool = False,
        transactions: bool = False,
        allow_native: bool = False,
        progress: bool | None = None,
    ) -> RunResult:
        """Run the lab to its end, its `limit_us` or Ctrl-C.

        Args:
            seed: seed of all random numbers, instead of the lab's.
            capture: write every TLP to this pcapng file; True: to one that is deleted with the result.
            force: replace the file of `capture` if it exists.
            tap: the end of each link at which the capture is taken.
            dllps: write DLLPs too.
            transactions: keep every transaction, for `RunResult.transactions`.
            allow_native: allow native code that the lab names.
            progress: show the progress; None: if it takes over two seconds in a terminal or a notebook.

        Raises:
            LabError: the lab is invalid.
            RunFailed: it failed or made no progress; `result` has the results so far.
            Interrupted: Ctrl-C; `result` has the results so far.
            FileExistsError: the file of `capture` exists, and `force` is not given.
            OSError: the capture cannot be written.
        """
        polls = _riser.Polls()
        folder = _temporary() if capture is True else None
        path = _capture_path(capture, folder)
        with _progress.shown(progress) as show, _watchdog.watching(polls, bool(self._objects)):
            try:
                inner = self._inner().run(
                    seed=seed,
                    capture=path,
                    force=force,
                    tap=tap,
                    dllps=dllps,
                    transactions=transactions,
                    allow_native=allow_native,
                    progress=show,
                    polls=polls,
                )
            except (_riser.RunFailed, _riser.Interrupted) as error:
                error.result = RunResult(error.result, self, path, folder)
                raise
        return RunResult(inner, self, path, folder)

    def _repr_html_(self) -> str:
        from riser import _html

        return _html.topology(self.check())

    def __repr__(self) -> str:
        return f"<riser.Lab {self._name}>"


def _temporary() -> tempfile.TemporaryDirectory[str]:
    # This module is imported only when needed, because it takes a tenth of the import time of riser.
    import tempfile

    return tempfile.TemporaryDirectory(prefix="riser-")


def _capture_path(capture: str | PathLike[str] | bool | None, folder: tempfile.TemporaryDirectory[str] | None) -> str | None:
    if folder is not None:
        return str(Path(folder.name, "capture.pcapng"))
    return None if capture is None or isinstance(capture, bool) else fspath(capture)



# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of devices and drivers, with pytest.

The fixture `slot` is available if riser is installed (or with `pytest -p riser.testing`):

    def test_an_aborted_read_is_survived(slot):
        slot.fault(action="set-status", status="completer-abort", direction="downstream", frames="completion", nth=1)

        async def driver(cpu, function):
            await cpu.write_u32(function.address(0, GO), 1)
            read = await cpu.within(cpu.tlp("type=MRd and dir=up"), us=10)
            assert read["length_dw"] == 16
            ...

        slot.run(Nic(), driver)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from os import PathLike
from pathlib import Path
from typing import Any

import pytest

from riser._device import Device
from riser._lab import Lab, RunResult
from riser._riser import Cpu, Function

Driver = Callable[[Cpu, Function], Coroutine[Any, Any, None]]


class Slot:
    """One slot of a host, for a test. Its time is virtual, and it disappears when the test ends.

    Args:
        lab: keys of the lab: `link={"gen": 4}`, `host={...}`, `limit_us=1000`, `seed=1`.
    """

    def __init__(self, **lab: Any) -> None:
        self._keys = lab
        self._faults: list[dict[str, Any]] = []

    def configure(self, **lab: Any) -> None:
        """Set further keys of the lab."""
        self._keys.update(lab)

    def fault(self, **keys: Any) -> None:
        """Add a fault on the link of the slot, by the keys of `[[fault]]` (docs/reference/lab-faults.md)."""
        self._faults.append({"slot": "dut", **keys})

    def run(
        self,
        device: Device | str,
        driver: Driver | None = None,
        *,
        slot: dict[str, Any] | None = None,
        **run: Any,
    ) -> RunResult:
        """Plug the device in, and run the driver to its end. A failed assertion in it fails the test.

        Args:
            device: an object, or the name of a model.
            driver: a coroutine function of `cpu` and `function`, instead of the device's own.
            slot: further keys of the slot, such as the settings of a model.
            run: arguments of `Lab.run`. The file of `capture` is replaced if riser wrote it, as in an earlier test run.

        Raises:
            Exceptions of the driver or the device, unchanged.
            RunFailed: the run failed otherwise.
        """
        lab = Lab(**self._keys)
        keys = dict(slot or {})
        if isinstance(device, Device):
            device = _driven(device, driver)
        elif driver is not None:
            keys["driver"] = _driven(Device(), driver)
        lab.slot("dut", device, **keys)
        for fault in self._faults:
            lab.fault(**fault)
        if "force" not in run:
            run["force"] = _is_own(run.get("capture"))
        from riser._riser import RunFailed

        try:
            return lab.run(**run)
        except RunFailed as failed:
            if failed.__cause__ is not None:
                failed.__cause__.add_note(str(failed).partition("\n")[0])
                raise failed.__cause__ from None
            raise


def _is_own(path: object) -> bool:
    """Whether riser wrote the capture at this path, according to its first block."""
    if not isinstance(path, str | PathLike) or not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        block = file.read(256)
    return block.startswith(b"\n\r\r\n") and b"riser" in block


def _driven(device: Device, driver: Driver | None) -> Device:
    if driver is not None:
        device.driver = driver
    return device


@pytest.fixture
def slot() -> Slot:
    """One slot of a host: see `Slot`."""
    return Slot()

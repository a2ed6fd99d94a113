# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Common functions for tests of devices."""

from collections.abc import Callable, Coroutine
from typing import Any

import riser

Call = tuple[str, list[Any], dict[str, Any]]
Program = Callable[[Any, Any], Coroutine[Any, Any, None]]


def run(driver: Program, device: riser.Device | None = None) -> riser.RunResult:
    device = device or riser.Device()
    device.driver = driver
    lab = riser.Lab()
    lab.slot("dut", device)
    return lab.run()


async def nap(cpu: Any) -> int:
    await cpu.sleep(ns=3)
    return 3


async def attempt(handle: Any, target: Any, function: Any, some: list[Call]) -> None:
    """Makes these calls of `target`, and awaits the awaitable results with `handle`."""
    for name, arguments, keywords in some:
        if name.startswith("config"):
            arguments = [function, *arguments]
        try:
            made = getattr(target, name)(*arguments, **keywords)
            if isinstance(made, riser.Operation | riser.Task):
                await handle.within(made, us=2)
        # Only errors are caught, not the exception of a panic.
        except Exception:
            pass

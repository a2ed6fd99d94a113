# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A PCI Express slot in software.

    >>> import riser
    >>> lab = riser.Lab(link={"gen": 4, "lanes": 8})
    >>> lab.slot("card", "pcie-bench", **{"pcie-bench": {"test": "BW_RD", "transfers": 1000}})
    >>> lab.run().device("card")["transfers"]
    1000

A `Lab` is a lab file, read or built in code; `Lab.run` gives a `RunResult`, whose tables any library that speaks Arrow reads.
Time is in integer picoseconds where a name ends with `_ps`, in nanoseconds with `_ns`; bandwidth in Gb/s of 10^9; sizes in bytes.
"""

from riser._device import Bar, Device, Msix, Register
from riser._lab import Lab, RunResult
from riser._riser import (
    AtomicRequest,
    ConfigRead,
    ConfigWrite,
    Cpu,
    DmaError,
    Function,
    HostError,
    Interrupted,
    Io,
    LabError,
    Memory,
    Message,
    Operation,
    ReadRequest,
    RiserError,
    RunFailed,
    Stuck,
    Table,
    Task,
    TimedOut,
    WriteRequest,
    __version__,
)
from riser._sweep import SweepResult, sweep

__all__ = [
    "AtomicRequest",
    "Bar",
    "ConfigRead",
    "ConfigWrite",
    "Cpu",
    "Device",
    "DmaError",
    "Function",
    "HostError",
    "Interrupted",
    "Io",
    "Lab",
    "LabError",
    "Memory",
    "Message",
    "Msix",
    "Operation",
    "ReadRequest",
    "Register",
    "RiserError",
    "RunFailed",
    "RunResult",
    "Stuck",
    "SweepResult",
    "Table",
    "Task",
    "TimedOut",
    "WriteRequest",
    "__version__",
    "sweep",
]

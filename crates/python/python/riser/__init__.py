# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A PCI Express slot in software.

    >>> import riser
    >>> lab = riser.Lab(link={"gen": 4, "lanes": 8})
    >>> lab.slot("card", "pcie-bench", **{"pcie-bench": {"test": "BW_RD", "transfers": 1000}})
    >>> lab.run().device("card")["transfers"]
    1000

A `Lab` is a lab file, read or built in code. `Lab.run` returns a `RunResult`, whose tables any library with Arrow support can read.
Time is in integer picoseconds if a name ends with `_ps`, in nanoseconds with `_ns`; bandwidth is in Gb/s of 10^9, sizes in bytes.
"""

from riser._capture import Capture, Series, read_capture
from riser._device import Bar, Device, Msix, Register
from riser._functions import (
    BenchResult,
    Comparison,
    FitResult,
    ModelResult,
    bench,
    compare,
    fit,
    model_bandwidth,
    model_nic,
    profile,
    profiles,
)
from riser._lab import Enumerated, Lab, RunResult
from riser._riser import (
    ArgumentError,
    AtomicRequest,
    CaptureError,
    ConfigRead,
    ConfigWrite,
    Cpu,
    DmaError,
    FilterError,
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
    parse_tlp,
    refuse_others,
    tlp_text,
)
from riser._sweep import SweepResult, sweep

refuse_others()

__all__ = [
    "ArgumentError",
    "AtomicRequest",
    "Bar",
    "BenchResult",
    "Capture",
    "CaptureError",
    "Comparison",
    "ConfigRead",
    "ConfigWrite",
    "Cpu",
    "Device",
    "DmaError",
    "Enumerated",
    "FilterError",
    "FitResult",
    "Function",
    "HostError",
    "Interrupted",
    "Io",
    "Lab",
    "LabError",
    "Memory",
    "Message",
    "ModelResult",
    "Msix",
    "Operation",
    "ReadRequest",
    "Register",
    "RiserError",
    "RunFailed",
    "RunResult",
    "Series",
    "Stuck",
    "SweepResult",
    "Table",
    "Task",
    "TimedOut",
    "WriteRequest",
    "__version__",
    "bench",
    "compare",
    "fit",
    "model_bandwidth",
    "model_nic",
    "parse_tlp",
    "profile",
    "profiles",
    "read_capture",
    "sweep",
    "tlp_text",
]

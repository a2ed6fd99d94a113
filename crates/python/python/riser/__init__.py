# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A PCI Express slot in software.

    >>> import riser
    >>> lab = riser.Lab(gen=4, lanes=8)
    >>> lab.slot("disk", "traffic", transfers=1000)  # doctest: +SKIP
    >>> result = lab.run()  # doctest: +SKIP

A `Lab` is a lab file, read or built in code; `Lab.run` gives a `RunResult`, whose tables any library that speaks Arrow reads.
Time is in integer picoseconds where a name ends with `_ps`, in nanoseconds with `_ns`; bandwidth in Gb/s of 10^9; sizes in bytes.
"""

from riser._capture import Capture, Series, read_capture
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
from riser._riser import ArgumentError, CaptureError, FilterError, Interrupted, LabError, RiserError, RunFailed, Table, __version__

__all__ = [
    "ArgumentError",
    "BenchResult",
    "Capture",
    "CaptureError",
    "Comparison",
    "Enumerated",
    "FilterError",
    "FitResult",
    "Interrupted",
    "Lab",
    "LabError",
    "ModelResult",
    "RiserError",
    "RunFailed",
    "RunResult",
    "Series",
    "Table",
    "__version__",
    "bench",
    "compare",
    "fit",
    "model_bandwidth",
    "model_nic",
    "profile",
    "profiles",
    "read_capture",
]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DMA operations per CPU second of a device in Python, compared with cocotbext-pcie.

    pip install . -r crates/python/bench/requirements.txt
    python crates/python/bench/dma.py

Both read 256 B of host memory and write 256 B, one after the other, from one coroutine, and check the last write. CPU seconds, user
and system, are those of the processes (getrusage) minus those of the same processes with no operations: start, enumeration and, for
cocotb, the build. Rounds alternate; medians are printed.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def cpu_seconds(command: list[str]) -> float:
    """CPU seconds of a command and its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rate(operations: int, script: str, *args: str) -> float:
    """Operations per CPU second of a script whose argument is their number."""

    def run(n: int) -> float:
        return cpu_seconds([sys.executable, os.fspath(HERE / script), str(n), *args])

    return operations / (run(operations) - run(0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--riser", type=int, default=400_000, metavar="OPERATIONS")
    parser.add_argument("--cocotbext", type=int, default=4_000, metavar="OPERATIONS")
    asked = parser.parse_args()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as build:
        for n in range(asked.rounds):
            ours.append(rate(asked.riser, "riser_dma.py"))
            theirs.append(rate(asked.cocotbext, "cocotbext_run.py", build))
            print(f"round {n + 1}: riser {ours[-1]:,.0f}, cocotbext-pcie {theirs[-1]:,.0f}", flush=True)
    riser, cocotbext = statistics.median(ours), statistics.median(theirs)
    print(f"operations per CPU-second: riser {riser:,.0f}, cocotbext-pcie {cocotbext:,.0f}: {riser / cocotbext:,.0f} times")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Overhead of a sweep: ten thousand points of a small lab, with processes and on Ray.

    python crates/python/bench/sweep.py [POINTS [TRANSFERS]]

Each point is TRANSFERS reads of 256 B; the default of 12,000 takes about 9 ms of simulation. Busy is the CPU time of all processes
divided by wall time and cores, on an otherwise idle machine; simulation is the simulation's share of that.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import riser

LAB = Path(__file__).parents[3] / "labs/sweeps/read.toml"
METRICS: dict[str, Any] = {"gbps": "links.card.downstream.payload_gbps", "hops": "tlp_hops"}


def over(points: int, transfers: int) -> dict[str, Any]:
    """Two rates, five widths, up to 250 windows, and as many seeds as necessary."""
    seeds = -(-points // 2500)
    return {
        "link.gen": [3, 4],
        "link.lanes": [1, 2, 4, 8, 16],
        "slot.card.pcie-bench.outstanding": {"from": 1, "to": max(2, points // (10 * seeds)), "step": 1},
        "slot.card.pcie-bench.transfers": [transfers],
        "seed": list(range(1, seeds + 1)),
    }


def cpu_seconds() -> float:
    """CPU seconds of the whole machine, since workers of Ray are not children of this process."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    ticks = [int(field) for field in fields]
    return (ticks[0] + ticks[1] + ticks[2]) / os.sysconf("SC_CLK_TCK")


def measure(name: str, points: int, transfers: int, **how: Any) -> None:
    """Run the sweep and print a line."""
    with tempfile.TemporaryDirectory() as folder:
        begun, before = time.monotonic(), cpu_seconds()
        result = riser.sweep(LAB, over(points, transfers), METRICS, output=folder, **how)
        wall, cpu = time.monotonic() - begun, cpu_seconds() - before
        workers, simulation = how["workers"], result.costs["simulation_cpu_seconds"]
        print(
            f"{name:12} {len(result):6} points {wall:7.1f} s  {len(result) / wall:7.0f} points/s"
            f"  busy {100 * cpu / wall / workers:5.1f} % of {workers}"
            f"  simulation {100 * simulation / cpu:5.1f} % of CPU, {1e3 * simulation / len(result):.2f} ms a point  {result.costs}",
            flush=True,
        )


def main() -> None:
    """Measure processes and Ray."""
    points, transfers = (int(n) for n in (sys.argv[1:] + ["10000", "12000"][len(sys.argv) - 1 :]))
    for workers in (1, 2):
        measure("processes", points, transfers, workers=workers)
    try:
        import ray
    except ImportError:
        return
    for workers in (1, 2):
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        # Ray starts its processes at the first task.
        riser.sweep(LAB, over(500, transfers), METRICS, on="ray", workers=workers)
        measure("Ray", points, transfers, on="ray", workers=workers)
        ray.shutdown()


if __name__ == "__main__":
    main()

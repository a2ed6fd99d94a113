# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Latency and bandwidth of DMA through pcie_iommu: off, on with hits, and on with a miss in each burst. Writes build/figures/iommu_port.csv.

The master sends what the root complex sends for TLPs of 256 bytes on a bus of 128 bits. The memory answers after a fixed time, in order, and page table walks
share its read channel."""

import sys

import figure_csv
from iommu import PAGE, IommuBench
from model import RTL

VIRTUAL, PHYSICAL = 0x1234_5000, 0x9000_0000
BYTES, BURSTS, LATENCIES = 256, 64, (10, 50)


def address(iommu, n):
    """Address of burst n: all on one page, or with misses each on another page."""
    return VIRTUAL + (n * PAGE if iommu == "misses" else n % 16 * BYTES)


def bench_for(iommu, latency):
    bench = IommuBench("plain", latency=latency)
    for n in range(BURSTS + 1):
        bench.tables.map(VIRTUAL + n * PAGE, PHYSICAL + n * PAGE)
    bench.enable(int(iommu in ("hits", "misses")))
    if iommu == "hits":
        bench.read_burst(VIRTUAL)
    return bench


def latency_of_a_read(iommu, latency):
    """Cycles from the address to the first data at the port of the root complex."""
    bench = bench_for(iommu, latency)
    bench.start_read(VIRTUAL + (PAGE * BURSTS if iommu == "misses" else 0), BYTES // bench.width)
    bench.step()
    began, before = bench.cycle, len(bench.read[0])
    bench.run(lambda: len(bench.read[0]) > before)
    cycles = bench.cycle - began
    bench.close()
    return cycles


def bandwidth(iommu, latency, write):
    """Bytes per cycle of BURSTS bursts."""
    bench = bench_for(iommu, latency)
    beats = BYTES // bench.width
    done = bench.written[1] if write else bench.read[1]
    for n in range(BURSTS):
        if write:
            bench.start_write(address(iommu, n), bytes(BYTES), 1)
        else:
            bench.start_read(address(iommu, n), beats, 1)
    began = bench.cycle
    bench.run(lambda: len(done) == (BURSTS if write else BURSTS * beats), 100_000)
    cycles = bench.cycle - began
    bench.close()
    return round(BURSTS * BYTES / cycles, 2)


def rows():
    """One row for each latency of the memory and state of the module."""
    for latency in LATENCIES:
        for iommu in ("off", "hits", "misses"):
            yield {
                "memory_latency_cycles": latency, "iommu": iommu, "read_latency_cycles": latency_of_a_read(iommu, latency),
                "read_bytes_per_cycle": bandwidth(iommu, latency, False), "write_bytes_per_cycle": bandwidth(iommu, latency, True),
            }


if __name__ == "__main__":
    path = figure_csv.write("iommu_port", list(rows()))
    print(path.read_text(), end="")
    print(f"figures: {path.relative_to(RTL)}", file=sys.stderr)

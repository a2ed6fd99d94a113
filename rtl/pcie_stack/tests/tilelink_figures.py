# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads and writes of 16 KiB through pcie_tilelink_client to a TileLink memory, with more and fewer requests in flight: writes build/figures/tilelink.csv.

The AXI4 master sends what the root complex sends for DMA of devices: bursts of 512 bytes on a bus of 256 bits. Messages are 64 bytes. The memory answers
each message after `latency` cycles, in order."""

import sys

import figure_csv
from model import RTL
from tilelink import CLIENTS, ClientBench

BURST, BURSTS, LATENCIES = 512, 32, (10, 50)


def measure(name, latency):
    """Cycles for all bytes: (reads, writes)."""
    cycles = []
    for write in (False, True):
        bench = ClientBench(name, fifo=True)
        bench.manager.latency = latency
        for n in range(BURSTS):
            if write:
                bench.start_write(BURST * n, 5, bytes(n + at & 0xFF for at in range(BURST)))
            else:
                bench.start_read(BURST * n, 5, BURST // bench.width)
        began = bench.cycle
        bench.run(lambda bench=bench, write=write: len(bench.written[0] if write else bench.read[0]) == (BURSTS if write else BURSTS * BURST // bench.width), 100000)
        cycles.append(bench.cycle - began)
        assert not bench.events
        bench.close()
    return cycles


def rows():
    """One row for each number of slots, order of writes and latency."""
    for slots in (2, 8):
        for ordered in (1, 0):
            name = f"figure_{slots}_{ordered}"
            CLIENTS[name] = {"DATA_WIDTH": 256, "SLOTS": slots, "ORDERED": ordered}
            for latency in LATENCIES:
                reads, writes = measure(name, latency)
                total = BURST * BURSTS
                yield {
                    "slots": slots, "ordered": ordered, "memory_latency_cycles": latency, "read_cycles": reads, "write_cycles": writes,
                    "read_bytes_per_cycle": round(total / reads, 2), "write_bytes_per_cycle": round(total / writes, 2),
                }


if __name__ == "__main__":
    table = list(rows())
    path = figure_csv.write("tilelink", table)
    print(path.read_text(), end="")
    print(f"figures: {path.relative_to(RTL)}", file=sys.stderr)

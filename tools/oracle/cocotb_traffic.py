#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the TLPs of a cocotbext-pcie hierarchy. A root complex enumerates a switch and three endpoints, which then
read and write.

Run with cocotbext-pcie 0.2.16, cocotb 1.9.2 and Verilator 5.006, in an empty folder:

    python3 tools/oracle/cocotb_traffic.py

It writes `traffic.txt` with a line for each TLP on a link: link, direction, and its header in
hexadecimal. Data is left out; it is zero except in configuration requests.
"""

import random
import sys
from pathlib import Path

TIMES = 6


def record(path):
    """Records the TLPs that each port of cocotbext-pcie sends."""
    from cocotbext.pcie.core.port import SimPort
    from cocotbext.pcie.core.tlp import Tlp

    out, links = open(path, "w"), {}
    connect, transmit = SimPort._connect, SimPort._transmit

    def with_number(self, other):
        connect(self, other)
        number = len(links) // 2
        for port in (self, other):
            kind = type(port.parent).__name__
            links[id(port)] = number, "down" if kind in ("RootPort", "SwitchDownstreamPort") else "up"

    async def with_record(self, packet):
        if isinstance(packet, Tlp):
            data = bytes(packet.pack())
            is_config = data[0] & 0x1E == 0x04 or len(data) == 16
            shown = data if is_config else data[: 16 if data[0] >> 5 & 1 else 12]
            out.write("{} {} {}\n".format(*links[id(self)], shown.hex()))
        await transmit(self, packet)

    SimPort._connect, SimPort._transmit = with_number, with_record
    return out


async def host(dice, rc, endpoint):
    device = rc.find_device(endpoint.pcie_id)
    await device.enable_device()
    await device.set_master()
    for _ in range(TIMES):
        size, at = dice.choice([1, 2, 3, 4, 7, 64, 100, 300, 1000]), dice.randrange(4096)
        for bar in device.bar_window[:2]:
            await bar.write(at, bytes(size))
            await bar.read(at, size)
    await device.bar_window[3].write(0, bytes(4))
    await device.bar_window[3].read(1, 3)


async def dma(dice, endpoint, base):
    for _ in range(TIMES):
        size, at = dice.choice([1, 2, 3, 4, 7, 64, 100, 300, 1000, 2000]), dice.randrange(1 << 15)
        await endpoint.mem_write(base + at, bytes(size))
        await endpoint.mem_read(base + at, size)


async def traffic(_):
    import cocotb
    from cocotb.triggers import Timer
    from cocotbext.pcie.core import Device, MemoryEndpoint, RootComplex, Switch

    out, dice, endpoints = record("traffic.txt"), random.Random(7), []

    def device():
        endpoint = MemoryEndpoint()
        endpoint.add_mem_region(1 << 16)
        endpoint.add_prefetchable_mem_region(1 << 16)
        endpoint.add_io_region(256)
        endpoints.append(endpoint)
        return Device(endpoint)

    rc = RootComplex()
    rc.max_payload_size, rc.max_read_request_size = 1, 2
    rc.make_port().connect(device())
    switch = Switch()
    rc.make_port().connect(switch)
    switch.make_port().connect(device())
    switch.make_port().connect(device())
    await rc.enumerate(timeout=1_000_000)
    base = rc.mem_pool.alloc_region(1 << 16).get_absolute_address(0)
    for tasks in ([host(dice, rc, e) for e in endpoints], [dma(dice, e, base) for e in endpoints for _ in range(3)]):
        for task in [cocotb.start_soon(task) for task in tasks]:
            await task
    await Timer(10, "us")
    out.close()


if __name__ == "__main__":
    from cocotb.runner import get_runner

    Path("top.v").write_text("module top(input wire clk); endmodule\n")
    sys.path.insert(0, str(Path(__file__).parent))
    runner = get_runner("verilator")
    runner.build(verilog_sources=["top.v"], hdl_toplevel="top", build_dir="build", build_args=["--timing"], always=True)
    runner.test(hdl_toplevel="top", test_module="cocotb_traffic", build_dir="build", test_dir=".")
elif "cocotb" in sys.modules:
    import cocotb

    cocotb_traffic = cocotb.test()(traffic)

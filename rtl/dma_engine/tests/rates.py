# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the duration of transfers, and prints it in nanoseconds. The block accepts a beat in each cycle. The host answers each read
after 600 ns, in completions of 256 B; payloads are 256 B. Checks only that all bytes arrive.
"""

import random

import cocotb
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.xilinx.us.interface import UsPcieFrame
from functions import Host, Rings
from host import integers

ANSWER_NS = 600
CLOCK_NS = 4


class SwiftHost(Host):
    read_credits = None

    async def _answers(self):
        while True:
            await Timer(CLOCK_NS, "ns")
            for read in self.waiting:
                if len(read) == 4:
                    read.append(get_sim_time("ns") + ANSWER_NS)
            while self.waiting and self.waiting[0][4] <= get_sim_time("ns"):
                address, count, tag, target, _ = self.waiting.pop(0)
                self.open.discard(tag)
                while count:
                    part = min(count, 256 - address % 256)
                    offset = address & 3
                    dwords = (offset + part + 3) // 4
                    data = self.read(address & ~3, 4 * dwords)
                    frame = UsPcieFrame()
                    frame.data = [address & 0xFFF | count << 16 | (part == count) << 30, dwords | target << 16, tag]
                    frame.data += [int.from_bytes(data[n : n + 4], "little") for n in range(0, 4 * dwords, 4)]
                    frame.byte_en = [0] * 3 + [15] * dwords
                    frame.update_parity()
                    await self.rc.send(frame)
                    address, count = address + part, count - part


async def measure(dut, engines, size, count=1, offset=0):
    host = SwiftHost(dut, random.Random(1))
    await host.start()
    ring = Rings(host, 0)
    await ring.enable()
    base = ring.base + 0x100000 + offset
    host.write(base, integers(0, 0, size * count))
    began = get_sim_time("ns")
    for engine in engines:
        await ring.post(engine, [(base + 0x1000000 * engine + size * n, size, 0) for n in range(count)])
    for engine in engines:
        assert await ring.done(engine, count, limit=20000, step=CLOCK_NS) == 0
    took = get_sim_time("ns") - began
    if 1 in engines:
        assert host.read(base + 0x1000000, size * count) == integers(0, 0, size * count)
    ways = {(0,): "H2D", (1,): "D2H"}.get(tuple(engines), "both")
    print(f"rate: {ways:4} {count:2} x {size:6} B at {offset:2}: {took:6.0f} ns, {size * count / took:.2f} B/ns each way")


@cocotb.test()
async def to_the_host(dut):
    await measure(dut, [1], 1 << 17)


@cocotb.test()
async def to_the_device(dut):
    await measure(dut, [0], 1 << 17)


@cocotb.test()
async def both_ways(dut):
    await measure(dut, [0, 1], 1 << 17)


@cocotb.test()
async def pages_to_the_host(dut):
    await measure(dut, [1], 4096, 16)


@cocotb.test()
async def pages_to_the_device(dut):
    await measure(dut, [0], 4096, 16)


@cocotb.test()
async def pages_both_ways(dut):
    await measure(dut, [0, 1], 4096, 16)


@cocotb.test()
async def beside_the_boundary(dut):
    await measure(dut, [0, 1], 1 << 16, offset=8)


@cocotb.test()
async def small_to_the_host(dut):
    await measure(dut, [1], 64, 16)


@cocotb.test()
async def small_to_the_device(dut):
    await measure(dut, [0], 64, 16)


@cocotb.test()
async def small_both_ways(dut):
    await measure(dut, [0, 1], 64, 16)


@cocotb.test()
async def one_to_the_host(dut):
    await measure(dut, [1], 64)


@cocotb.test()
async def one_to_the_device(dut):
    await measure(dut, [0], 64)

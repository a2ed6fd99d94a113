# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures writes to the host while reads lack credits, with the model of the UltraScale block. The root port has four credits for
non-posted headers, and returns each one when it answers the read, 5 us after its arrival. The block does not accept a write after a read
that has no credit: "Avoiding Head-of-Line Blocking for Posted Requests" in PG156. With HOLD_READS the writes keep their rate.
"""

import cocotb
from cocotb.triggers import Timer
from cocotb.utils import get_sim_time
from cocotbext.pcie.core.tlp import TlpType
from host import *

READ_CREDITS = 4
ANSWER_US = 5
SIZE = 1 << 15


async def start(dut):
    """Returns a bench whose host answers late, and holds the credit of a read until then."""
    bench = Bench(dut, read_credits=READ_CREDITS)
    await bench.start()
    arrives = bench.rc.downstream_recv

    async def answer(tlp):
        await Timer(ANSWER_US, "us")
        await arrives(tlp)

    async def receive(tlp):
        if tlp.fmt_type in (TlpType.MEM_READ, TlpType.MEM_READ_64):
            cocotb.start_soon(answer(tlp))
        else:
            await arrives(tlp)

    bench.rc.upstream_bridge.upstream_tx_handler = receive
    return bench


async def writes(bench, reads, host_ring=False):
    """Returns the rate of SIZE bytes of writes in Gb/s, and whether as many bytes of reads take longer."""
    up, down = Engine(bench, 0, logic=PLAIN), Engine(bench, 1, host_ring=host_ring)
    source, sink = bench.memory.alloc_region(SIZE), bench.memory.alloc_region(SIZE)
    await up.enable()
    await down.enable()
    if reads:
        await up.post([(source.get_absolute_address(0), SIZE, 0)])
        # Until the reads have used all credits.
        await Timer(2, "us")
    began = get_sim_time("ns")
    page = SIZE // 16
    await down.post([(sink.get_absolute_address(page * n), page, INTERRUPT) for n in range(16)])
    assert await down.done(16, 400) == 0
    took = get_sim_time("ns") - began
    assert bytes(sink[0:SIZE]) == integers(0, 0, SIZE)
    still_reads = up.written_back()[0] == 0
    rate = 8 * SIZE / took
    ring = "host memory" if host_ring else "the device"
    print(f"credits: HOLD_READS {HOLD_READS}, ring in {ring}, {'with' if reads else 'without'} reads: {took:.0f} ns, {rate:.1f} Gb/s of writes")
    if reads:
        assert await up.done(1, 400) == 0
    for engine in (up, down):
        await engine.set("CONTROL", 0)
    return rate, still_reads


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def writes_without_credits_for_reads(dut):
    """Tests that the engine keeps the rate of writes if and only if it holds reads back, and that reads complete."""
    bench = await start(dut)
    alone, _ = await writes(bench, False)
    shared, still_reads = await writes(bench, True)
    if HOLD_READS:
        assert shared > 0.9 * alone and still_reads, (shared, alone)
        # Fetches of descriptors need credits too.
        with_fetches, _ = await writes(bench, True, host_ring=True)
        assert with_fetches < shared, (with_fetches, shared)
    else:
        assert shared < 0.5 * alone, (shared, alone)

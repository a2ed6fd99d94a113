# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests what the block's model cannot do: virtual functions, and completions with tags in any
order, split at any Read Completion Boundary. The stream ends are from cocotbext-pcie; the
descriptors are built here, as in PG156.
"""

import os
import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.xilinx.us.interface import CcSink, CqSource, RcSource, RqSink
from cocotbext.pcie.xilinx.us.interface import UsPcieFrame
from host import HOLD_READS, INTEGERS, INTERRUPT, OK, R, integers, request_type

FIRST_VF = 64
VFS = 8
LAG = 2  # of pcie_tfc_nph_av after a request, in cycles (PG156)


class Host:
    """Memory, and a root complex that answers reads in random order."""

    read_credits = 4  # of a block whose counter the design obeys; None: enough

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        bus = lambda name: AxiStreamBus.from_prefix(dut, name)
        clock, reset = dut.user_clk, dut.user_reset
        self.rq, self.cc = RqSink(bus("s_axis_rq"), clock, reset), CcSink(bus("s_axis_cc"), clock, reset)
        self.rc, self.cq = RcSource(bus("m_axis_rc"), clock, reset), CqSource(bus("m_axis_cq"), clock, reset)
        self.memory, self.interrupts, self.open, self.waiting = {}, [], set(), []
        self.withheld, self.most_open, self.writers = set(), 0, set()
        # Without HOLD_READS the design ignores this input.
        dut.pcie_tfc_nph_av.setimmediatevalue(3 if HOLD_READS else 0)
        self.busy = dict.fromkeys(("cfg_vf_status", "cfg_interrupt_msix_enable", "cfg_interrupt_msix_mask", "cfg_interrupt_msix_vf_enable",
                                   "cfg_interrupt_msix_vf_mask", "cfg_flr_in_process", "cfg_vf_flr_in_process", "pcie_rq_seq_num0", "pcie_rq_seq_num1",
                                   "pcie_rq_seq_num_vld0", "pcie_rq_seq_num_vld1"), 0)
        for name in self.busy:
            getattr(dut, name).setimmediatevalue(0)
        dut.user_reset.setimmediatevalue(1)
        dut.cfg_max_payload.setimmediatevalue(1)
        dut.cfg_max_read_req.setimmediatevalue(2)
        dut.cfg_function_status.setimmediatevalue(7)

    async def start(self):
        cocotb.start_soon(Clock(self.dut.user_clk, 4, "ns").start())
        await Timer(40, "ns")
        self.dut.user_reset.value = 0
        cocotb.start_soon(self._requests())
        cocotb.start_soon(self._answers())
        if HOLD_READS and self.read_credits is not None:
            cocotb.start_soon(self._credits())
        await Timer(2, "us")
        self.dut.cfg_vf_status.value = (1 << 2 * VFS) - 1
        self.dut.cfg_interrupt_msix_enable.value = 1
        self.dut.cfg_interrupt_msix_vf_enable.value = (1 << VFS) - 1

    async def _credits(self):
        """Returns credits for reads at random times, and checks that no read comes without one. The counter lags."""
        dut, left, begins = self.dut, self.read_credits, True
        shown = deque([left] * (LAG + 1), maxlen=LAG + 1)
        while True:
            await RisingEdge(dut.user_clk)
            if int(dut.s_axis_rq_tvalid.value) and int(dut.s_axis_rq_tready.value):
                if begins and request_type(dut.s_axis_rq_tdata) == 0:
                    left -= 1
                    assert left >= 0, "a read without credit"
                begins = int(dut.s_axis_rq_tlast.value)
            left += left < self.read_credits and self.rng.random() < 0.05
            shown.append(left)
            dut.pcie_tfc_nph_av.value = min(3, shown[0])

    def read(self, at, count):
        return bytes(self.memory.get(at + n, 0) for n in range(count))

    def write(self, at, data):
        for n, byte in enumerate(data):
            self.memory[at + n] = byte

    async def _requests(self):
        while True:
            frame = await self.rq.recv()
            address = (frame.data[1] << 32 | frame.data[0]) & ~3
            dwords, kind, target, tag = frame.data[2] & 0x7FF, frame.data[2] >> 11 & 15, frame.data[2] >> 16 & 0xFF, frame.data[3] & 0xFF
            assert (address & 0xFFF) + 4 * dwords <= 4096, "across 4 KiB"
            enables = [frame.first_be] + [15] * (dwords - 2) + ([frame.last_be] if dwords > 1 else [])
            mask = [byte for be in enables for byte in (be & 1, be & 2, be & 4, be & 8)]
            self.dut.pcie_rq_seq_num0.value = frame.seq_num
            self.dut.pcie_rq_seq_num_vld0.value = 1
            await RisingEdge(self.dut.user_clk)
            self.dut.pcie_rq_seq_num_vld0.value = 0
            if kind == 1:
                assert dwords <= 64, "exceeds Max_Payload_Size"
                self.writers.add(target)
                data = b"".join(word.to_bytes(4, "little") for word in frame.data[4:])
                if address >> 32 == 0xFEE:
                    self.interrupts.append((target, data))
                for n, byte in enumerate(data):
                    if mask[n]:
                        self.memory[address + n] = byte
                continue
            assert kind == 0 and dwords <= 128 and tag < 64 and tag not in self.open, "the tag is in use"
            self.open.add(tag)
            self.most_open = max(self.most_open, len(self.open))
            first = next(n for n, m in enumerate(mask) if m)
            count = sum(map(bool, mask))
            self.waiting.append([address + first, count, tag, target])

    async def _answers(self):
        """Sends one completion of a random read at a time; withheld reads wait."""
        while True:
            await Timer(self.rng.choice([4, 4, 8, 20, 60]), "ns")
            ready = [read for read in self.waiting if read[3] not in self.withheld]
            if len(ready) < self.rng.randint(1, 12) and self.rng.random() < 0.8:
                continue
            if not ready:
                continue
            await self.complete(self.rng.choice(ready))

    async def complete(self, read, error=0):
        address, count, tag, target = read
        bad = address >> 40 == 0xDEAD >> 8 or error
        boundary = self.rng.choice([64, 128, 256])
        part = count if bad else min(count, boundary - address % boundary)
        last = part == count
        frame = UsPcieFrame()
        offset = address & 3
        dwords = 0 if bad else (offset + part + 3) // 4
        code = (error or 2) if bad else 0
        status = 1 if bad and not error else 0
        frame.data = [address & 0xFFF | code << 12 | count << 16 | (last and not error) << 30, dwords | status << 11 | target << 16, tag]
        if not bad:
            data = self.read(address & ~3, 4 * dwords)
            frame.data += [int.from_bytes(data[n : n + 4], "little") for n in range(0, 4 * dwords, 4)]
        frame.byte_en = [0] * 3 + [15] * dwords
        frame.update_parity()
        read[0], read[1] = address + part, count - part
        if last:
            self.waiting.remove(read)
            # The tag is free from now on: the design cannot use it again before it has received this completion.
            self.open.discard(tag)
        await self.rc.send(frame)

    async def access(self, function, at, value=None):
        """Writes or reads a double-word of a function's BAR."""
        frame = UsPcieFrame()
        target = 0 if function == 0 else FIRST_VF + function - 1
        frame.data = [0x8000_0000 | at, 0, 1 | (value is not None) << 11, 0x5A | target << 8 | 16 << 19]
        frame.first_be, frame.last_be = 15, 0
        frame.byte_en = [0] * 4
        if value is not None:
            frame.data.append(value)
            frame.byte_en.append(15)
        frame.update_parity()
        await self.cq.send(frame)
        if value is None:
            answer = await self.cc.recv()
            assert answer.data[1] & 0x3800 == 0, "refused"
            return answer.data[3]
        return None


class Rings:
    """Both engines of one function, with rings in host memory."""

    def __init__(self, host, function):
        self.host, self.function, self.base = host, function, (function + 1) << 33

    async def enable(self, logic=INTEGERS):
        write = lambda at, value: self.host.access(self.function, at, value)
        for n in (0, 1):
            at = R["R_ENGINE"] + n * R["R_ENGINE_STRIDE"]
            ring = self.base + n * 0x10000
            self.host.write(ring + 0x8000, bytes(8))
            await write(at + R["R_ENGINE_RING"], ring & 0xFFFFFFFF)
            await write(at + R["R_ENGINE_RING"] + 4, ring >> 32)
            await write(at + R["R_ENGINE_ENTRIES"], 16)
            await write(at + R["R_ENGINE_WRITE_BACK"], ring + 0x8000 & 0xFFFFFFFF)
            await write(at + R["R_ENGINE_WRITE_BACK"] + 4, ring + 0x8000 >> 32)
            await write(at + R["R_ENGINE_SEED"] + 4, self.function)
            table = R["R_MSIX_TABLE"] + 16 * n
            await write(table, 0x1000 * self.function + 16 * n)
            await write(table + 4, 0xFEE)
            await write(table + 8, self.function << 8 | n)
            await write(table + 12, 0)
            await write(at + R["R_ENGINE_CONTROL"], 0xB | logic << 8)

    async def post(self, n, pieces, first=0):
        for index, (address, size, flags) in enumerate(pieces, first):
            at = self.base + n * 0x10000 + 32 * (index % 16)
            self.host.write(at, address.to_bytes(8, "little") + size.to_bytes(8, "little") + flags.to_bytes(4, "little") + bytes(12))
        await self.host.access(self.function, R["R_ENGINE"] + n * R["R_ENGINE_STRIDE"] + R["R_ENGINE_POSTED"], first + len(pieces))

    def back(self, n):
        data = self.host.read(self.base + n * 0x10000 + 0x8000, 8)
        return int.from_bytes(data[:4], "little"), int.from_bytes(data[4:], "little")

    def status(self, n, index):
        data = self.host.read(self.base + n * 0x10000 + 32 * index + 0x14, 12)
        return int.from_bytes(data[:4], "little"), int.from_bytes(data[4:], "little")

    async def done(self, n, count, limit=400, step=200):
        """Waits until the write-back reports `count` finished descriptors, looking every `step` ns, and returns the number of failures."""
        for _ in range(limit):
            if self.back(n)[0] == count:
                return self.back(n)[1]
            await Timer(step, "ns")
        raise AssertionError(f"function {self.function}, engine {n}: {self.back(n)} of {count}")


async def begin(dut, functions):
    host = Host(dut, random.Random(int(os.environ.get("BENCH_SEED", "1"))))
    await host.start()
    rings = [Rings(host, f) for f in range(functions)]
    for ring in rings:
        await ring.enable()
    return host, rings


def transfers(host, ring, count):
    rng, at, posts, offset = host.rng, ring.base + 0x100000, [[], []], 0
    seed = ring.function << 32
    for _ in range(count):
        size = rng.choice([rng.randint(1, 100), rng.randint(1, 5000), 512, 4096])
        at += rng.randint(0, 5000)
        host.write(at, integers(seed, offset, size))
        posts[0].append((at, size, INTERRUPT))
        posts[1].append((at + 0x1000000, size, INTERRUPT))
        offset += size
        at += size
    return posts


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def functions_move_side_by_side(dut):
    """Tests that every byte of every function arrives, with its own ID and vector, in any order of completions."""
    host, rings = await begin(dut, 2)
    posts = [transfers(host, ring, 12) for ring in rings]
    for ring, (up, down) in zip(rings, posts):
        assert await host.access(ring.function, R["R_FUNCTION"]) == 2 << 16 | ring.function
        await ring.post(0, up)
        await ring.post(1, down)
    for ring, (up, down) in zip(rings, posts):
        assert await ring.done(0, 12) == 0 and await ring.done(1, 12) == 0
        offset = 0
        for index, (at, size, _) in enumerate(down):
            assert host.read(at, size) == integers(ring.function << 32, offset, size)
            assert ring.status(1, index) == (OK, size) and ring.status(0, index) == (OK, size)
            offset += size
        target = 0 if ring.function == 0 else FIRST_VF + ring.function - 1
        for n in (0, 1):
            assert (target, (ring.function << 8 | n).to_bytes(4, "little")) in host.interrupts
    assert host.most_open > 8 and host.writers == {0, FIRST_VF}


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def a_reset_of_one_function_leaves_the_other_alone(dut):
    host, rings = await begin(dut, 2)
    physical, virtual = rings
    up, down = transfers(host, physical, 12)
    await virtual.post(0, [(virtual.base + 0x100000, 30000, 0)])
    await virtual.post(1, [(virtual.base + 0x200000, 30000, 0)])
    await physical.post(0, up)
    await physical.post(1, down)
    await Timer(1500, "ns")
    dut.cfg_vf_flr_in_process.value = 1
    for _ in range(4000):
        await RisingEdge(dut.user_clk)
        if int(dut.cfg_vf_flr_done.value) == 1:
            break
    else:
        raise AssertionError("the reset does not end")
    dut.cfg_vf_flr_in_process.value = 0
    host.writers.clear()
    assert await host.access(1, R["R_ENGINE"] + R["R_ENGINE_ENTRIES"]) == 0
    assert await physical.done(0, 12) == 0 and await physical.done(1, 12) == 0
    assert host.writers == {0}, "a function in reset has written"
    # It restarts.
    await virtual.enable()
    up, down = transfers(host, virtual, 6)
    await virtual.post(0, up)
    await virtual.post(1, down)
    assert await virtual.done(0, 6) == 0 and await virtual.done(1, 6) == 0


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def errors_are_of_one_function(dut):
    """Tests that a completion timeout reported by the block fails a descriptor, and that a function without Bus Master Enable stops while the other works."""
    host, rings = await begin(dut, 2)
    physical, virtual = rings
    host.withheld.add(FIRST_VF)
    dut.cfg_vf_status.value = 0xFFFF
    await virtual.post(0, [(virtual.base + 0x100000, 4000, 0)])
    await Timer(1, "us")
    # The descriptor fetch is withheld, and ends by a timeout.
    for read in [read for read in host.waiting if read[3] == FIRST_VF]:
        await host.complete(read, error=9)
    host.withheld.clear()
    assert await virtual.done(0, 1) == 1
    assert await host.access(1, R["R_ENGINE"] + R["R_ENGINE_STATUS"]) == 9 << 8
    dut.cfg_vf_status.value = 1
    up, down = transfers(host, physical, 6)
    await virtual.post(1, [(virtual.base + 0x100000, 4000, 0)])
    await physical.post(0, up)
    await physical.post(1, down)
    host.writers.clear()
    assert await physical.done(0, 6) == 0 and await physical.done(1, 6) == 0
    assert host.writers == {0}
    assert await host.access(1, R["R_ENGINE"] + R["R_ENGINE_STRIDE"] + R["R_ENGINE_STATUS"]) >> 8 == 9

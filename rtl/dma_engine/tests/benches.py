# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests the engine with the block's model: registers, both directions, errors, interrupts, resets. Every byte is compared."""

import os
import random

import cocotb
from cocotb.triggers import RisingEdge, Timer
from host import *

PLUS = os.environ.get("BLOCK", "us") == "usp"
SEED = int(os.environ.get("BENCH_SEED", "1"))


async def start(dut, payload=256):
    # A design that holds reads back gets few credits for them.
    bench = Bench(dut, PLUS, 6 if HOLD_READS else None)
    await bench.start(payload)
    return bench


def pieces(rng, most, count):
    """Returns `count` sizes: small ones, near boundaries, and up to `most`."""
    near = lambda n: max(1, n + rng.randint(-9, 9))
    return [rng.choice([rng.randint(1, 70), near(128), near(256), near(512), near(4096), rng.randint(1, most)]) for _ in range(count)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def registers(dut):
    bench = await start(dut)
    assert await bench.r32(R["R_ID"]) == R["R_ID_VALUE"]
    assert await bench.r32(R["R_VERSION"]) == R["R_VERSION_VALUE"]
    assert await bench.r32(R["R_ENGINES"]) == DEVICE_ENTRIES << 16 | 0x0101
    limits = await bench.r32(R["R_LIMITS"])
    assert limits & 0xFFFF == 256 and limits >> 16 == 512, hex(limits)
    assert await bench.r32(R["R_FUNCTION"]) == FUNCTIONS << 16
    for n in (0, 1):
        engine = Engine(bench, n)
        assert await engine.get("KIND") == n << 16 | n
        await engine.set("SEED", 0x1122334455667788, 64)
        assert await bench.bar.read_qword(engine.at + R["R_ENGINE_SEED"]) == 0x1122334455667788
        await bench.bar.write_byte(engine.at + R["R_ENGINE_SEED"] + 2, 0xAB)
        assert await engine.get("SEED") == 0x55AB7788
        # Bits outside of fields are not writable.
        await engine.set("DONE", 0xFFFFFFFF, 64)
        assert await engine.get("DONE") == 0 and await engine.get("FAILED") == 0
        # Reads of many double-words, across a boundary of 64 bytes.
        whole = await bench.bar.read(engine.at, 0x40)
        assert whole[0x30:0x38] == (0x1122334455AB7788).to_bytes(8, "little")
        odd = await bench.bar.read(engine.at + 0x31, 0x13)
        assert odd[:7] == whole[0x31:0x38] and not any(odd[15:])
    block = bytes(random.Random(5).randbytes(0x100))
    await bench.bar.write(R["R_DESCRIPTOR"], block)
    back = bytearray(await bench.bar.read(R["R_DESCRIPTOR"], 0x100))
    for at in range(0, 0x100, 32):
        expected = bytearray(block[at : at + 32])
        expected[16:20] = bytes([expected[16] & 3, 0, 0, 0])
        expected[20:24] = bytes([expected[20], 0, 0, 0])
        assert back[at : at + 32] == expected, at


async def move_up(bench, engine, rng, sizes, offset):
    """Tests reads from the host: their data, and their position in the stream."""
    total = sum(sizes)
    arena = bench.memory.alloc_region(total + 8192 * (len(sizes) + 1))
    at, posts = 0, []
    for size in sizes:
        at += rng.randint(0, 4096)
        arena[at : at + size] = integers(engine.seed, offset, size)
        posts.append((arena.get_absolute_address(at), size, INTERRUPT))
        offset += size
        at += size
    return posts, offset


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def both_directions(dut):
    bench = await start(dut)
    rng = random.Random(SEED)
    for host_ring in (True, False):
        up = Engine(bench, 0, host_ring=host_ring, seed=0x1000)
        down = Engine(bench, 1, host_ring=host_ring, seed=0xFFFFFFFF)
        await up.enable()
        await down.enable()
        up_offset = down_offset = done = 0
        for _ in range(3):
            count = rng.randint(5, 12)
            posts, up_offset = await move_up(bench, up, rng, pieces(rng, 9000, count), up_offset)
            sizes = pieces(rng, 9000, count)
            arena = bench.memory.alloc_region(sum(sizes) + 5000 * count)
            at, places, downs = 0, [], []
            for size in sizes:
                at += rng.randint(1, 4096)
                places.append(at)
                downs.append((arena.get_absolute_address(at), size, 0))
                at += size
            arena[0 : at + 1] = b"\xaa" * (at + 1)
            await down.post(downs)
            await up.post(posts)
            done += count
            assert await up.done(done) == 0
            assert await down.done(done) == 0
            seen = bytearray(b"\xaa" * (at + 1))
            for place, size in zip(places, sizes):
                seen[place : place + size] = integers(down.seed, down_offset, size)
                down_offset += size
            assert bytes(arena[0 : at + 1]) == bytes(seen)
            for n in range(count):
                assert await up.status(done - count + n) == (OK, posts[n][1])
                assert await down.status(done - count + n) == (OK, sizes[n])
        assert await bench.bar.read_qword(up.at + R["R_ENGINE_BYTES"]) == up_offset
        assert await bench.bar.read_qword(down.at + R["R_ENGINE_BYTES"]) == down_offset
        assert await up.get("STATUS") == 0 and await up.get("DONE") == done
        await up.set("CONTROL", 0)
        await down.set("CONTROL", 0)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def interrupts(dut):
    """Tests interrupts: each has its own vector, and follows its data; COALESCING holds them back; they are pending while masked."""
    bench = await start(dut)
    down = Engine(bench, 1, entries=8, seed=3)
    region = bench.memory.alloc_region(4096)
    await down.enable()
    event = bench.function.msi_vectors[1].event
    for n in range(4):
        event.clear()
        region[0:64] = bytes(64)
        await down.post([(region.get_absolute_address(0), 64, INTERRUPT)])
        await event.wait()
        assert bytes(region[0:64]) == integers(3, 64 * n, 64) and down.written_back() == (n + 1, 0)
    # Three of them cause one interrupt; the last two wait for the timer.
    await down.set("CONTROL", 0)
    down.coalescing = 5 << 16 | 3
    await down.enable()
    event.clear()
    began = cocotb.utils.get_sim_time("ns")
    await down.post([(region.get_absolute_address(0), 8, INTERRUPT)] * 2)
    await event.wait()
    assert cocotb.utils.get_sim_time("ns") - began > 5000
    event.clear()
    began = cocotb.utils.get_sim_time("ns")
    await down.post([(region.get_absolute_address(0), 8, INTERRUPT)] * 3)
    await event.wait()
    assert cocotb.utils.get_sim_time("ns") - began < 5000
    # If the vector is masked, the interrupt is pending, and is sent when the vector is unmasked.
    control = R["R_MSIX_TABLE"] + 16 + 12
    await bench.w32(control, 1)
    event.clear()
    await down.post([(region.get_absolute_address(0), 8, INTERRUPT)] * 3)
    await down.done(8)
    await Timer(6, "us")
    assert not event.is_set() and await bench.r32(R["R_MSIX_PENDING"]) == 2
    await bench.w32(control, 0)
    await event.wait()
    assert await bench.r32(R["R_MSIX_PENDING"]) == 0


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def errors(dut):
    """Tests that each error is reported in its descriptor, that a chain ends with its first error, and that later transfers are correct."""
    bench = await start(dut)
    for host_ring in (True, False):
        region = bench.memory.alloc_region(8192)
        base = region.get_absolute_address(0)
        up = Engine(bench, 0, host_ring=host_ring)
        await up.enable()
        stream = integers(0, 0, 16384)
        region[0:700] = stream[0:700]
        nowhere = 0xDEAD_0000_0000
        # A descriptor that fails after its start consumes its bytes of the stream.
        offset = 700 + 64 + 4096 + 512 + 512
        region[2048:2048 + 512] = stream[offset : offset + 512]
        posts = [
            (base, 700, 0), (base, 0, 0), (base, (1 << 40) + 1, 0), ((1 << 64) - 8, 16, 0), (nowhere, 64, 0), (nowhere, 4096, MORE), (base, 512, MORE),
            (base + 512, 512, 0), (base + 2048, 512, INTERRUPT),
        ]
        await up.post(posts)
        assert await up.done(9) == 7
        seen = [await up.status(n) for n in range(9)]
        assert seen == [(OK, 700), (SIZE, 0), (SIZE, 0), (RANGE, 0), (READ, 0), (READ, 0), (ABORTED, 0), (ABORTED, 0), (OK, 512)], seen
        assert await up.get("STATUS") == ABORTED << 8
        # Wrong integers fail only their descriptor.
        region[0:256] = stream[offset + 512 : offset + 768]
        region[200] = region[200] ^ 1
        region[256:512] = stream[offset + 768 : offset + 1024]
        await up.post([(base, 256, 0), (base + 256, 256, 0)])
        assert await up.done(11) == 8
        assert await up.status(9) == (DATA, 256) and await up.status(10) == (OK, 256)
        # Without Bus Master Enable.
        down = Engine(bench, 1, host_ring=False)
        await down.enable()
        await bench.function.clear_master()
        await Timer(1, "us")
        await down.post([(base, 64, 0)])
        await Timer(5, "us")
        assert await down.status(0) == (WRITE, 0) and await down.get("STATUS") == WRITE << 8
        await bench.function.set_master()
        await Timer(1, "us")
        await down.post([(base, 64, 0)])
        await down.done(2)
        assert bytes(region[0:64]) == stream[64:128]
        # More descriptors than the ring has: the engine stops until it is enabled again.
        await up.post([(base, 64, 0)] * 17)
        await Timer(5, "us")
        assert await up.get("STATUS") == RING << 8 and await up.get("DONE") == 11
        for engine in (up, down):
            await engine.set("CONTROL", 0)
        # A reserved flag, and an unreadable ring.
        if host_ring:
            await up.enable()
            await up.post([(base, 64, 8), (base, 64, 0)])
            region[0:64] = stream[0:64]
            assert await up.done(2) == 1 and await up.status(0) == (FLAGS, 0) and await up.status(1) == (OK, 64)
            await up.set("CONTROL", 0)
            await up.set("RING", nowhere, 64)
            up.back[0:8] = bytes(8)
            await up.set("CONTROL", 3)
            await up.set("POSTED", 3)
            assert await up.done(3) == 3
            assert await up.get("STATUS") == FETCH << 8
            await up.set("CONTROL", 0)


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def aborts_and_resets(dut):
    bench = await start(dut)
    rng = random.Random(SEED)
    region = bench.memory.alloc_region(1 << 16)
    base = region.get_absolute_address(0)
    for number in (0, 1, 0, 1, 0):
        engine = Engine(bench, number, logic=PLAIN)
        await engine.enable()
        await engine.post([(base, 40000, 0)] * 5)
        await Timer(rng.randint(500, 4000), "ns")
        await engine.set("CONTROL", 0xF | PLAIN << 8)
        await engine.done(5)
        codes = [await engine.status(n) for n in range(5)]
        cut = [n for n, (code, _) in enumerate(codes) if code != OK]
        assert cut and all(code == ABORTED for code, _ in codes[cut[0] :]) and all(moved == 0 for _, moved in codes[cut[0] + 1 :]), codes
        # It continues.
        await engine.post([(base, 100, INTERRUPT)])
        await engine.done(6)
        assert await engine.status(5) == (OK, 100)
        await engine.set("CONTROL", 0)
    # The function is reset during a transfer. Then everything starts again.
    for flr in (True, False):
        up, down = Engine(bench, 0), Engine(bench, 1)
        await up.enable()
        await down.enable()
        region[0:40000] = integers(0, 0, 40000)
        await up.post([(base, 40000, 0)])
        await down.post([(base + 40000, 20000, 0)])
        await Timer(2, "us")
        if flr:
            await bench.flr()
        else:
            await bench.w32(R["R_CONTROL"], 1)
        assert await up.get("ENTRIES") == 0 and await down.get("DONE") == 0
        await Timer(5, "us")
        if flr:
            await bench.function.alloc_irq_vectors(2, 2)
        await down.enable()
        await up.enable()
        await up.post([(base, 40000, 0)])
        await down.post([(base + 40000, 20000, 0)])
        assert await up.done(1) == 0 and await down.done(1) == 0
        assert bytes(region[40000:60000]) == integers(0, 0, 20000)
        await bench.w32(R["R_CONTROL"], 1)


@cocotb.test(timeout_time=8, timeout_unit="ms")
async def loop_back(dut):
    """Tests that D2H returns the data of H2D, however it is split, and that a full loop-back stalls only its own engine."""
    bench = await start(dut)
    rng = random.Random(SEED)
    up, down = Engine(bench, 0, logic=LOOP_BACK), Engine(bench, 1, logic=LOOP_BACK)
    await down.enable()
    await up.enable()
    total = 20000
    source, sink = bench.memory.alloc_region(1 << 16), bench.memory.alloc_region(1 << 16)
    data = rng.randbytes(total)
    cuts = lambda count: sorted(rng.sample(range(1, total), count - 1))
    for region, engine, count in ((source, up, 7), (sink, down, 9)):
        edges = [0, *cuts(count), total]
        at, posts = 0, []
        for a, b in zip(edges, edges[1:]):
            at += rng.randint(0, 500)
            if engine is up:
                region[at : at + b - a] = data[a:b]
            posts.append((region.get_absolute_address(at), b - a, 0))
            engine.places = [*getattr(engine, "places", []), (at, a, b)]
            at += b - a
        engine.posts = posts
    await up.post(up.posts)
    await Timer(10, "us")
    assert up.written_back()[0] < 7
    await down.post(down.posts)
    assert await up.done(7, 30) == 0
    assert await down.done(9, 30) == 0
    for at, a, b in down.places:
        assert bytes(sink[at : at + b - a]) == data[a:b]

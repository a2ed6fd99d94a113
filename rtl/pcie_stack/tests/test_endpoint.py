# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directed tests of the endpoint: each rule and each kind of bad input with its answer and its counter."""

import pytest
from endpoint import AER, BAR, BARS, BUILDS, COMMAND, COUNTERS, DEVICE, EVENTS, EXPRESS, MSI, MSIX, WINDOWS, Bench
from lspci import check_decoded, dump
from model import refusal
from root_complex import DECERR, OKAY, SLVERR
from tlps import CA, SC, UR, completion, configuration, header_0, memory_read, memory_write, message

ONES = 0xFFFF_FFFF
RAM = 0x8000_0000
VECTOR = 0xFEE0_0000
BASE = WINDOWS[0]


@pytest.fixture
def make():
    made = []

    def build(name="plain", **options):
        made.append(Bench(name, **options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.fixture
def plain(make):
    return make()


def settle(bench, cycles=60):
    bench.run(bench.quiet)
    bench.step(cycles)


def bus(bench, address):
    """An address of BAR 0 on the bus of the peripheral."""
    return BARS[bench.name][0][1] + address


# ---- configuration space ----

# Offset: (value after reset, bits that software can write). Written from chapter 7 of PCIe 6.0, not from the RTL.
SPACE = {
    0x00: (0x4550_1234, 0), 0x04: (0x0010_0000, 0x0146), 0x08: (0xFF00_0000, 0), 0x0C: (0, 0xFF), 0x10: (0, 0xFFFF_0000), 0x14: (0, 0), 0x18: (0xC, 0xFFF0_0000),
    0x1C: (0, ONES), 0x20: (0, 0), 0x24: (0, 0xFFFF_F000), 0x28: (0, 0), 0x2C: (0x4550_1234, 0), 0x30: (0, 0), 0x34: (0x40, 0), 0x38: (0, 0), 0x3C: (0, 0xFF),
    0x40: (0x0003_5001, 0), 0x50: (0x0186_7005, 0x0071_0000), 0x54: (0, 0xFFFF_FFFC), 0x58: (0, ONES), 0x5C: (0, 0xFFFF), 0x60: (0, 0xFF), 0x64: (0, 0),
    0x70: (0x0002_B010, 0), 0x74: (0x1000_8021, 0), 0x78: (0x2810, 0x79FF), 0x7C: (0x0040_0083, 0), 0x80: (0x0083_0000, 0xC8), 0x84: (0, 0), 0x94: (0x10, 0),
    0x98: (0, 0x10), 0x9C: (0x0E, 0), 0xA0: (0x03, 0x0F), 0xA4: (0, 0), 0xB0: (0x0004_0011, 0xC000_0000), 0xB4: (5, 0), 0xB8: (0x805, 0), 0xBC: (0, 0),
    0x100: (0x1502_0001, 0), 0x104: (0, 0), 0x108: (0, 0x0017_F010), 0x10C: (0x0006_2010, 0x0017_F010), 0x110: (0, 0), 0x114: (0x2000, 0x31C1), 0x118: (0, 0),
    0x11C: (0, 0), 0x128: (0, 0), 0x12C: (0, 0), 0x150: (0x0001_000B, 0), 0x154: (0x0680_4550, 0), 0x1B8: (0, 0), 0xFFC: (0, 0),
}


def test_configuration_space_has_its_reset_values_and_writable_bits(make):
    bench = make(setup=False)
    host = bench.host
    for offset, (value, mask) in SPACE.items():
        assert host.config(offset) == value, hex(offset)
        # Initiate Function Level Reset is tested by itself.
        host.config(offset, ONES & ~0x8000 if offset == EXPRESS + 8 else ONES)
        assert host.config(offset) == value | mask, hex(offset)
        host.config(offset, 0)
        assert host.config(offset) == value & ~mask, hex(offset)
    host.config(0x44, 3)
    assert host.config(0x44) == 0xB
    host.config(0x44, 1)
    assert host.config(0x44) == 0xB, "D1 is not supported, so the write is ignored"


def test_configuration_space_takes_writes_of_bytes(make):
    host = make(setup=False).host
    host.config(BAR + 8 + 4, 0x1234_5678)
    host.config(BAR + 13, 0xAB, 1)
    host.config(BAR + 14, 0xCDEF, 2)
    assert host.config(BAR + 12) == 0xCDEF_AB78


def test_configuration_requests_of_other_functions_get_ur(plain):
    host = plain.host
    for fields in ({"target": DEVICE + 1}, {"target": DEVICE, "type1": True}):
        assert host.config_request(0, **fields).status == UR
    assert host.counter("read_ur") == 2
    assert host.config_request(0, target=0x4F8).status == SC, "any device number"


def test_function_takes_its_number_from_configuration_writes(plain):
    host = plain.host
    assert host.config_request(COMMAND, (0x0106).to_bytes(4, "little"), 3, target=0x7A8).completer == 0x7A8
    assert host.config_request(0, target=0x0508).completer == 0x7A8, "a read does not change it"


@pytest.mark.parametrize("name", BUILDS)
def test_bars_have_their_sizes(make, name):
    host = make(name, setup=False).host
    bars = BARS[name]
    for n in range(6):
        low = host.config(BAR + 4 * n)
        host.config(BAR + 4 * n, ONES)
        size = -(host.config(BAR + 4 * n) & ~15) & ONES
        expected = bars[n][0] if n in bars else bars[n - 1][0] >> 32 if n - 1 in bars and low & 4 else 0
        if n in bars:
            assert size == expected and low & 7 == (4 if name == "plain" and n == 2 else 0)
        elif name != "plain" or n != 3:
            assert size == 0


# ---- requests of the host to registers ----


def test_each_set_of_byte_enables_reads_and_writes_exactly_its_bytes(plain):
    host, memory = plain.host, plain.memory
    for enables in range(1, 16):
        for offset in (0x100, 0x104):
            data = bytes(16 * enables + n & 255 for n in range(4))
            before = memory.read(bus(plain, offset), 4)
            del memory.log[:]
            host.write(BASE + offset, data, enables=(enables, 0))
            _, (part,) = host.read_request(BASE + offset, 4, enables=(enables, 0))
            expected = bytes(data[n] if enables >> n & 1 else before[n] for n in range(4))
            assert memory.read(bus(plain, offset), 4) == expected
            assert all(part.data[n] == (data[n] if enables >> n & 1 else 0) for n in range(4)), "bytes that were not read are zero"
            first, last = (enables & -enables).bit_length() - 1, enables.bit_length() - 1
            assert part.lower == offset % 128 + first and part.byte_count == last - first + 1
            touched = {address - bus(plain, offset) + n for kind, address, count in memory.log if kind == "read" for n in range(count)}
            assert touched == {n for n in range(4) if enables >> n & 1}


def test_wide_register_is_read_and_written_in_one_access(plain):
    host, memory = plain.host, plain.memory
    host.write(BASE + 0x208, bytes(range(8)))
    assert host.read(BASE + 0x208, 8) == bytes(range(8))
    host.write(BASE + 0x20C, b"abcd")
    assert host.read(BASE + 0x20C, 4) == b"abcd"
    at = bus(plain, 0x208)
    assert memory.log == [("write", at, 0xFF), ("read", at, 8), ("write", at + 4, 0xF0), ("read", at + 4, 4)]


def test_enables_with_gaps_in_two_double_words(plain):
    """§2.2.5 allows them at a multiple of 8 bytes."""
    host, at = plain.host, bus(plain, 0x300)
    before = plain.memory.read(at, 8)
    host.write(BASE + 0x300, bytes(range(0x10, 0x18)), enables=(0b0101, 0b1010))
    settle(plain)
    assert plain.memory.read(at, 8) == bytes(0x10 + n if n in (0, 2, 5, 7) else before[n] for n in range(8))
    _, (part,) = host.read_request(BASE + 0x300, 8, enables=(0b1010, 0b0101))
    assert part.byte_count == 6 and part.lower == 1
    assert [part.data[n] for n in (1, 3, 4, 6)] == [plain.memory.read(at + n, 1)[0] for n in (1, 3, 4, 6)]


@pytest.mark.parametrize("name, stalls", [("plain", 0.0), ("plain", 0.4), ("small", 0.2), ("large", 0.2)])
def test_requests_of_each_alignment_and_length(make, name, stalls):
    bench = make(name, stalls=stalls)
    host, memory = bench.host, bench.memory
    most = bench.parameters["MAX_PAYLOAD"]
    for payload in (128, most):
        host.set_limits(payload, 128)
        for n, (start, count) in enumerate([(0, 1), (3, 2), (5, 3), (6, 9), (1, 62), (0, 64), (4, 100), (2, 126), (0, 128), (61, most // 2), (124, most // 4)]):
            address = 0x400 + start
            if (start % 4 + count + 3) // 4 * 4 <= payload:
                data = bytes(n * 31 + k * 7 & 255 for k in range(count))
                host.write(BASE + address, data)
                assert host.read(BASE + address, count) == data == memory.read(bus(bench, address), count)
            assert host.read(BASE + address, count) == memory.read(bus(bench, address), count)
        assert host.read(BASE, 4096) == memory.read(bus(bench, 0), 4096)
        assert host.read(BASE + 0x7B, 3001) == memory.read(bus(bench, 0x7B), 3001)


def test_register_read_takes_twelve_cycles_and_those_of_the_bus(plain):
    plain.push("np", memory_read(BASE, 4, 200, requester=0))
    plain.run(lambda: plain.values["rx_np_valid"])
    start = plain.cycle
    plain.run(lambda: plain.out["tx_valid"])
    assert plain.cycle - start == 13, "the bus answers in the next cycle"


def test_longest_write_keeps_the_bus_busy(plain):
    plain.host.set_limits(256, 128)
    for n in range(8):
        plain.host.write(BASE + 256 * n, bytes(256))
    plain.run(lambda: plain.registers.handshakes["w"] == 1)
    start = plain.cycle
    plain.run(lambda: plain.registers.handshakes["w"] == 8 * 32)
    assert plain.cycle - start <= 8 * (64 + 4), "a double-word per cycle, and four cycles per TLP"


def test_64_bit_bar_and_its_place_on_the_bus(plain):
    host = plain.host
    host.write(WINDOWS[2] + 0xF_FFF0, b"0123456789abcdef")
    assert host.read(WINDOWS[2] + 0xF_FFF8, 8) == b"89abcdef"
    assert plain.memory.read(0x8_001F_FFF0, 16) == b"0123456789abcdef"


def test_addresses_outside_the_bars_get_ur(plain):
    host = plain.host
    for address in (BASE - 4, BASE + 0x1_0000, WINDOWS[2] & 0xFFFF_FFFF, WINDOWS[2] + 0x10_0000, WINDOWS[2] + (1 << 40)):
        assert host.read_request(address, 4)[1][0].status == UR
        host.write(address, b"abcd")
    settle(plain)
    assert host.counter("read_ur") == 5 and host.counter("posted_ur") == 5 and not plain.memory.log
    assert host.config(AER + 4) == 1 << 20
    # The header of the first one is logged: a read would be advisory, so it is the write.
    assert host.config(AER + 0x1C) == 0x4000_0001
    host.config(COMMAND, 0x0104, 2)
    assert host.read_request(BASE, 4)[1][0].status == UR, "Memory Space Enable is clear"


def test_zero_length_requests_reach_no_register(plain):
    host = plain.host
    _, (part,) = host.read_request(BASE + 0x40, 4, enables=(0, 0))
    assert (part.status, part.byte_count, part.lower, part.length) == (SC, 1, 0x40, 1)
    host.write(BASE + 0x40, bytes(4), enables=(0, 0))
    settle(plain)
    assert not plain.memory.log


def test_zero_length_read_follows_the_writes_before_it(plain):
    host = plain.host
    plain.memory.silent = True
    host.write(BASE, b"abcd")
    plain.push("np", memory_read(BASE, 4, 200, requester=0, enables=(0, 0)))
    plain.step(100)
    assert not host.completions[200]
    plain.memory.silent = False
    assert host.wait(200)[0].status == SC


def test_read_follows_the_writes_before_it(plain):
    host = plain.host
    plain.memory.delay = 60
    for n in range(20):
        host.write(BASE + 0x80 + 4 * n, bytes([n] * 4))
        assert host.read(BASE + 0x80 + 4 * n, 4) == bytes([n] * 4)


def test_requests_that_an_endpoint_does_not_take_get_ur(plain):
    host = plain.host
    for fmt, kind, data, answer in ((0b000, 2, 0, 10), (0b010, 2, 4, 10), (0b000, 1, 0, 11), (0b010, 12, 4, 10), (0b010, 14, 8, 10), (0b011, 13, 8, 10)):
        tag = host.next_tag()
        words = bytes(4) if fmt & 1 else b""
        plain.push("np", header_0(fmt, kind, max(data // 4, 1)) + bytes([0, 0, tag, 15]) + words + BASE.to_bytes(4, "big") + bytes(data))
        (part,) = host.wait(tag)
        assert (part.status, part.kind, part.has_data) == (UR, answer, False)
    assert host.counter("read_ur") == 6 and not plain.memory.log


def test_malformed_requests_are_dropped(plain):
    host = plain.host
    reads = [
        memory_read(BASE + 0xFFC, 8, 1, requester=0), memory_read(BASE, 4, 2, requester=0, enables=(15, 1)), memory_read(BASE, 8, 3, requester=0, enables=(0, 15)),
        memory_read(BASE, 8, 4, requester=0, enables=(15, 0)),
    ]
    writes = [
        memory_write(BASE + 0xFFC, bytes(8)), memory_write(BASE, bytes(4), enables=(15, 1)), memory_write(BASE, bytes(8), enables=(0, 15)),
        memory_write(BASE, bytes(8), enables=(15, 0)),
    ]
    for tlp in reads:
        plain.push("np", tlp)
    for tlp in writes:
        plain.push("p", tlp)
    settle(plain, 200)
    assert host.counter("malformed") == 8 and not plain.memory.log and not any(host.completions.values())
    assert host.config(AER + 4) == 1 << 18
    assert set(host.messages) == {0x33}, "ERR_FATAL, by SERR# Enable"


def test_poisoned_writes_have_no_effect(plain):
    host = plain.host
    host.write(BASE, bytes(4), poisoned=1)
    settle(plain)
    assert host.counter("posted_poisoned") == 1 and not plain.memory.log
    assert host.config(AER + 4) == 1 << 12
    status = host.config(COMMAND) >> 16
    assert status & 0xC000 == 0xC000, "Detected Parity Error, Signaled System Error"
    assert host.messages == [0x31]
    host.config(COMMAND, 0xF900_0106)
    assert host.config(COMMAND) >> 16 == 0x10
    # A poisoned configuration write gets UR (§2.7.2.2).
    tag = host.next_tag()
    plain.push("np", configuration(DEVICE, 0x3C, tag, 0x55, type1=False, enables=1, requester=0, poisoned=1))
    assert host.wait(tag)[0].status == UR and host.config(0x3C) == 0


# ---- errors of the bus ----


@pytest.mark.parametrize("response, status, bit", [(SLVERR, CA, 15), (DECERR, UR, 20)])
def test_error_of_the_bus_becomes_the_completion_status(plain, response, status, bit):
    host = plain.host
    plain.memory.errors.append((bus(plain, 0x88), bus(plain, 0x90), response))
    for address, count in ((0x88, 4), (0x8E, 1), (0x80, 64)):
        tlp, (part,) = host.read_request(BASE + address, count)
        assert (part.status, part.has_data, part.byte_count) == (status, False, count) and part.tag == tlp.tag
    assert host.counter("read_error") == 3
    assert host.config(AER + 4) == 0, "advisory errors are masked after reset"
    assert host.config(COMMAND) >> 27 & 1 == (status == CA), "Signaled Target Abort"
    host.config(AER + 0x14, 0)
    host.read_request(BASE + 0x88, 4)
    assert host.config(AER + 4) == 1 << bit and host.config(AER + 0x10) == 0x2000
    assert host.config(AER + 0x1C) == 1, "the header of the read"
    host.config(AER + 4, ONES)
    host.write(BASE + 0x8C, b"abcd")
    settle(plain)
    assert host.counter("write_error") == 1 and host.config(AER + 4) == 1 << bit and host.messages == [0x31]
    assert host.read(BASE + 0x90, 4) == plain.memory.read(bus(plain, 0x90), 4)


def test_error_in_a_later_block_ends_the_request(plain):
    host = plain.host
    plain.memory.errors.append((bus(plain, 0x180), bus(plain, 0x184), SLVERR))
    _, parts = host.read_request(BASE + 0x80, 512)
    assert [(part.status, part.byte_count) for part in parts] == [(SC, 512), (SC, 384), (CA, 256)]
    assert sum(4 * part.length for part in parts if part.has_data) == 256
    settle(plain, 200)
    assert not host.completions[parts[0].tag]


@pytest.mark.parametrize("frozen", [False, True])
def test_peripheral_that_never_answers_a_read(plain, frozen):
    """`frozen`: it does not even take the address."""
    host, memory = plain.host, plain.memory
    memory.silent, memory.frozen = not frozen, frozen
    start = plain.cycle
    assert host.read_request(BASE, 64)[1][0].status == CA
    assert 600 <= plain.cycle - start < 700
    assert host.read_request(BASE, 4)[1][0].status == CA and plain.cycle - start < 800, "the bus is given up"
    assert host.counter("stall") == 1 and host.counter("stall_abort") == 2
    assert host.config(0) == 0x4550_1234, "configuration requests are answered"
    memory.silent = memory.frozen = False
    plain.step(50)
    assert host.read(BASE, 64) == memory.read(bus(plain, 0), 64), "it works again"


@pytest.mark.parametrize("frozen", [False, True])
def test_peripheral_that_never_answers_a_write(plain, frozen):
    host, memory = plain.host, plain.memory
    memory.silent, memory.frozen = not frozen, frozen
    plain.registers.broken = True
    host.write(BASE + 0x44, bytes(range(1, 100)))
    plain.step(750)
    assert plain.events["stall"] == 1
    for _ in range(30):
        host.write(BASE + 0x800, b"abcd")
    assert host.read_request(BASE, 4)[1][0].status == CA
    assert host.counter("stall_drop") >= 30
    memory.silent = memory.frozen = False
    settle(plain, 100)
    before = memory.read(bus(plain, 0x800), 4)
    assert before != b"abcd"
    host.write(BASE + 0x800, b"efgh")
    assert host.read(BASE + 0x800, 4) == b"efgh"


@pytest.mark.parametrize("cycles", [1, 5, 100])
def test_reset_of_the_bus_with_requests_outstanding(plain, cycles):
    host, memory = plain.host, plain.memory
    memory.silent = True
    host.write(BASE, bytes(64))
    plain.step(60)
    tag = host.next_tag()
    plain.push("np", memory_read(BASE, 4, tag, requester=0))
    host.silent = True
    plain.start_read(RAM, 3, 4, 1)
    plain.start_write(RAM + 0x100, 3, plain.beats_of(RAM + 0x100, 3, bytes(64)), 2)
    plain.to_cpu["w"].pop()  # the last beat never comes
    plain.step(100)
    plain.reset_bus(cycles)
    memory.silent = False
    # The read waited for the write, whose burst the reset ended. It reaches the bus after the reset, or gets CA.
    assert host.wait(tag)[0].status in (SC, CA)
    assert plain.events["bus_reset"] >= 1
    host.silent = False
    plain.step(900)  # the completion timeout of the DMA read
    assert not plain.written[2] and not plain.read_beats[1], "answers to requests from before the reset"
    data, responses = plain.read_burst(RAM + 0x40, 3, 4, 1)
    assert responses == [OKAY] * 4 and data == bytes(host.byte(RAM + 0x40 + n) for n in range(32))
    assert plain.write_burst(RAM + 0x300, 3, b"01234567") == OKAY
    host.write(BASE + 8, b"abcdefgh")
    assert host.read(BASE + 8, 8) == b"abcdefgh"
    settle(plain)


def test_read_on_the_bus_ends_with_its_reset(plain):
    host = plain.host
    plain.memory.silent = True
    tag = host.next_tag()
    plain.push("np", memory_read(BASE, 64, tag, requester=0))
    plain.step(40)
    plain.reset_bus()
    plain.memory.silent = False
    assert host.wait(tag)[0].status == CA and host.counter("bus_reset") == 1
    plain.values["bus_rst"] = 1
    assert host.read_request(BASE, 4)[1][0].status == CA
    host.write(BASE, bytes(4))
    settle(plain)
    assert host.counter("bus_reset") == 3 and host.config(0) == 0x4550_1234
    plain.values["bus_rst"] = 0
    plain.step()
    assert host.read(BASE, 4) == plain.memory.read(bus(plain, 0), 4)


# ---- DMA ----


@pytest.mark.parametrize("name, stalls", [("plain", 0.0), ("plain", 0.4), ("small", 0.2), ("large", 0.2)])
def test_dma_of_each_alignment_and_length(make, name, stalls):
    bench = make(name, stalls=stalls)
    host, most = bench.host, bench.cpu_bytes.bit_length() - 1
    for payload, read in ((128, 128), (256, 512), (512, 256)):
        host.set_limits(payload, read)
        for n, (start, size, beats) in enumerate([(0, 0, 1), (3, 0, 7), (2, 1, 9), (1, 2, 5), (0, most, 16), (5, most, 16), (4, 2, 60), (0xF00, 3 if most > 2 else 2, 32)]):
            address = RAM + 0x1_0000 * n + start
            count = beats * (1 << size) - start % (1 << size)
            data = bytes(payload + n * 31 + k * 7 & 255 for k in range(count))
            assert bench.write_burst(address, size, data) == OKAY
            settle(bench, 100)
            assert bytes(host.byte(address + k) for k in range(count)) == data
            assert bench.read_burst(address, size, beats) == (data, [OKAY] * beats)


def test_dma_keeps_the_limits_of_device_control(plain):
    host = plain.host
    host.set_limits(256, 128)
    assert plain.write_burst(RAM, 3, bytes(1024)) == OKAY
    plain.read_burst(RAM, 3, 128)
    settle(plain, 100)
    assert [4 * tlp.length for tlp in host.requests] == [256] * 4 + [128] * 8
    del host.requests[:]
    # An unaligned burst keeps the blocks.
    plain.write_burst(RAM + 0x13, 3, bytes(509))
    settle(plain, 100)
    assert all(tlp.address >> 8 == tlp.address + 4 * tlp.length - 1 >> 8 for tlp in host.requests)


@pytest.mark.parametrize("name", BUILDS)
def test_reads_of_several_ids_are_in_flight_and_return_in_order(make, name):
    bench = make(name)
    host, slots = bench.host, bench.parameters["READ_SLOTS"]
    host.held = []
    for n in range(slots + 2):
        bench.start_read(RAM + 0x100 * n, 3, 2, n % 3)
    bench.step(400)
    assert len(host.held) == slots, "requests in flight"
    assert len({tlp.tag for tlp in host.requests}) == slots
    assert host.config(EXPRESS + 8) >> 21 & 1 == 1, "Transactions Pending"
    while host.held or len(host.requests) < slots + 2:
        parts, host.held = host.held, []
        for part in reversed(parts):
            bench.push("cpl", part)
        bench.step(200)
    settle(bench)
    for ident in range(3):
        expected = b"".join(bytes(host.byte(RAM + 0x100 * n + k) for k in range(16)) for n in range(slots + 2) if n % 3 == ident)
        beats = bench.read_beats[ident]
        got = b"".join(data[8 * (n % 2) % bench.cpu_bytes:][:8] for n, (data, _, _) in enumerate(beats))
        assert got == expected and {response for _, response, _ in beats} == {OKAY}
    assert host.config(EXPRESS + 8) >> 21 & 1 == 0


def test_interrupt_follows_the_dma_writes_before_it(plain):
    host = plain.host
    enable_msi(host)
    plain.tx_open = False
    assert plain.write_burst(RAM, 3, bytes(range(64))) == OKAY
    plain.values["interrupts"] = 1
    plain.step(50)
    plain.tx_open = True
    plain.run(lambda: host.interrupts())
    assert bytes(host.byte(RAM + n) for n in range(64)) == bytes(range(64))


def test_completion_follows_the_dma_writes_before_it(plain):
    """The peripheral writes memory and then a status register; the host reads the register and must see the data."""
    host = plain.host
    plain.tx_open = False
    tag = host.next_tag()
    assert plain.write_burst(RAM, 3, bytes(range(200, 232))) == OKAY
    plain.push("np", memory_read(BASE, 4, tag, requester=0))
    plain.step(100)
    plain.tx_open = True
    host.wait(tag)
    assert host.requests and bytes(host.byte(RAM + n) for n in range(32)) == bytes(range(200, 232))


def test_dma_without_bus_master_enable_gets_decerr(plain):
    host = plain.host
    host.config(COMMAND, 0x0102, 2)
    assert plain.read_burst(RAM, 3, 4)[1] == [DECERR] * 4
    assert plain.write_burst(RAM, 3, bytes(32)) == DECERR
    assert host.counter("decode") == 2 and not host.requests


def test_dma_that_axi_does_not_allow_gets_slverr(plain):
    for burst in (0, 2, 3):
        assert plain.read_burst(RAM, 3, 4, burst=burst)[1] == [SLVERR] * 4
        plain.start_write(RAM, 3, [(bytes(8), 255)] * 4, burst=burst)
        plain.run(lambda: len(plain.written[0]) == 1)
        assert plain.written.pop(0) == [SLVERR]
    assert plain.read_burst(RAM, 4, 2)[1] == [SLVERR] * 2, "wider than the port"
    assert plain.read_burst(RAM + 0xFF8, 3, 2)[1] == [SLVERR] * 2, "crosses 4 KiB"
    assert plain.host.counter("burst") == 8 and not plain.host.requests


@pytest.mark.parametrize("status, response, event, bit", [(UR, DECERR, "cpl_ur", 13), (CA, SLVERR, "cpl_ca", 12)])
def test_failed_dma_read(plain, status, response, event, bit):
    host = plain.host
    host.status = status
    data, responses = plain.read_burst(RAM, 3, 4)
    assert responses == [response] * 4 and set(data) == {255}
    assert host.counter(event) == 1 and host.config(COMMAND) >> 16 == 0x10 | 1 << bit


def test_poisoned_completion(plain):
    host = plain.host
    host.config(COMMAND, 0x0146, 2)
    host.answer = lambda tlp: plain.push("cpl", completion(SC, bytes(32), tlp.tag, 32, requester=DEVICE, poisoned=1), True)
    assert plain.read_burst(RAM, 3, 4)[1] == [SLVERR] * 4
    assert host.counter("cpl_poisoned") == 1 and host.config(AER + 4) == 1 << 12
    assert host.config(COMMAND) >> 16 & 0x8100 == 0x8100, "Detected Parity Error, Master Data Parity Error"


def test_completion_timeout(plain):
    host = plain.host
    host.silent = True
    start = plain.cycle
    assert plain.read_burst(RAM, 3, 4)[1] == [SLVERR] * 4
    assert 400 <= plain.cycle - start < 900
    assert host.counter("timeout") == 1 and host.config(AER + 4) == 1 << 14
    late = host.requests[0]
    host.silent = False
    plain.push("cpl", completion(SC, bytes(32), late.tag, 32, requester=DEVICE))
    settle(plain)
    assert host.counter("unexpected") == 1
    data, responses = plain.read_burst(RAM, 3, 4)
    assert responses == [OKAY] * 4 and data == bytes(host.byte(RAM + n) for n in range(32)) and host.requests[-1].tag != late.tag
    host.config(EXPRESS + 0x28, 0x10)
    host.silent = True
    plain.start_read(RAM, 3, 1, 7)
    plain.step(3000)
    assert not plain.read_beats[7] and host.counter("timeout") == 1, "Completion Timeout Disable"
    host.answer(host.requests[-1])
    plain.run(lambda: plain.read_beats[7])


def test_unexpected_completions_are_counted(plain):
    host = plain.host
    host.silent = True
    plain.start_read(RAM, 3, 4, 1)
    plain.run(lambda: host.requests)
    tag = host.requests[0].tag
    plain.push("cpl", completion(SC, bytes(32), tag ^ 8, 32, requester=DEVICE))
    plain.push("cpl", completion(SC, bytes(32), tag, 32, requester=DEVICE + 8))
    plain.step(100)
    assert host.counter("unexpected") == 2
    host.answer(host.requests[0])
    plain.run(lambda: len(plain.read_beats[1]) == 4)
    assert {response for _, response, _ in plain.read_beats[1]} == {OKAY}


# ---- interrupts ----


def enable_msi(host, data=0x4120, count=3, address=VECTOR):
    host.config(MSI + 4, address & ONES)
    host.config(MSI + 8, address >> 32)
    host.config(MSI + 12, data, 2)
    host.config(MSI + 2, 1 | count << 4, 2)


def test_each_line_has_its_msi(plain):
    host = plain.host
    enable_msi(host)
    for n in (3, 0, 4):
        plain.values["interrupts"] |= 1 << n
        plain.step(60)
    assert host.interrupts() == [0x4123, 0x4120, 0x4124]
    plain.step(200)
    assert len(host.interrupts()) == 3, "one message as long as a line is high"
    plain.values["interrupts"] &= ~1
    plain.step()
    plain.values["interrupts"] |= 1
    plain.step(60)
    assert host.interrupts()[3:] == [0x4120] and host.counter("msi") == 4
    tlp = host.requests[0]
    assert (tlp.address, tlp.length, tlp.first, tlp.last) == (VECTOR, 1, 15, 0)


def test_msi_at_a_wide_address_and_with_few_vectors(plain):
    host = plain.host
    enable_msi(host, 0x41, 1, 0x5_FEE0_0000)
    plain.values["interrupts"] = 0b11000
    plain.step(120)
    assert sorted(host.interrupts(0x5_FEE0_0000)) == [0x40, 0x41], "lines 4 and 3 share two vectors"


def test_masked_msi_is_pending_until_it_is_unmasked(plain):
    host = plain.host
    enable_msi(host)
    host.config(MSI + 0x10, 0b00100)
    plain.values["interrupts"] = 0b00100
    plain.step(2)
    plain.values["interrupts"] = 0
    plain.step(60)
    assert not host.interrupts() and host.config(MSI + 0x14) == 0b00100
    host.config(MSI + 0x10, 0)
    plain.step(60)
    assert host.interrupts() == [0x4122] and host.config(MSI + 0x14) == 0


@pytest.mark.parametrize("name, bar", [("plain", 5), ("large", 1)])
def test_msix_table_and_pending_bits(make, name, bar):
    bench = make(name)
    host, table = bench.host, WINDOWS[bar]
    lines = bench.parameters["INTERRUPTS"]
    assert host.config(MSIX) >> 16 == lines - 1 and host.config(MSIX + 4) == bar and host.config(MSIX + 8) == 0x800 | bar
    for n in range(lines):
        assert host.read(table + 16 * n + 12, 4) == b"\1\0\0\0", "masked after reset"
        host.write(table + 16 * n, (VECTOR + 0x1000 * n | n << 36).to_bytes(8, "little") + (0xABC0_0000 + n).to_bytes(4, "little"))
        assert host.read(table + 16 * n, 16) == (VECTOR + 0x1000 * n | n << 36).to_bytes(8, "little") + (0xABC0_0000 + n).to_bytes(4, "little") + b"\1\0\0\0"
    host.config(MSIX + 2, 0x8000, 2)
    bench.values["interrupts"] = (1 << lines) - 1
    bench.step(20)
    bench.values["interrupts"] = 0
    bench.step(60)
    assert not host.requests and int.from_bytes(host.read(table + 0x800, 8), "little") == (1 << lines) - 1
    for n in reversed(range(lines)):
        host.write(table + 16 * n + 12, bytes(4))
    bench.step(lines * 40)
    assert all(host.interrupts(VECTOR + 0x1000 * n | n << 36) == [0xABC0_0000 + n] for n in range(lines))
    assert host.read(table + 0x800, 4) == bytes(4) and host.counter("msi") == lines
    host.config(MSIX + 2, 0xC000, 2)
    bench.values["interrupts"] = 1
    bench.step(60)
    assert len(host.requests) == lines, "Function Mask"
    host.config(MSIX + 2, 0x8000, 2)
    bench.step(60)
    assert len(host.requests) == lines + 1 and not bench.memory.log


def test_interrupt_while_no_message_can_be_sent(plain):
    host = plain.host
    plain.values["interrupts"] = 1
    plain.step(5)
    plain.values["interrupts"] = 2
    plain.step(60)
    assert host.counter("interrupt_lost") == 2 and not host.requests
    enable_msi(host)
    plain.step(60)
    assert host.interrupts() == [0x4121], "a line that is still high"
    host.config(COMMAND, 0x0102, 2)
    plain.values["interrupts"] = 4
    plain.step(60)
    assert len(host.interrupts()) == 1, "Bus Master Enable is clear"
    host.config(COMMAND, 0x0106, 2)
    plain.step(60)
    assert host.interrupts()[1:] == [0x4122]


def test_interrupt_while_the_link_is_down(plain):
    host = plain.host
    enable_msi(host)
    plain.values["link_up"] = 0
    plain.step(10)
    plain.values["interrupts"] = 0b10010
    plain.step(10)
    plain.values["interrupts"] = 0b00010
    plain.step(60)
    assert plain.events["interrupt_lost"] == 1 and not host.requests
    plain.values["link_up"] = 1
    host.config_request(0, bytes(4), 0)
    host.setup()
    enable_msi(host)
    plain.step(60)
    assert host.interrupts() == [0x4121]


# ---- messages and errors ----


def test_messages(plain):
    host = plain.host
    plain.push("p", message(0x19, 0, 0b011))
    plain.step(60)
    assert host.messages == [0x1B], "PME_TO_Ack"
    plain.push("p", message(0x50, 0, 0b100, (0x123).to_bytes(4, "little")))
    for code in (0x00, 0x14, 0x40, 0x41, 0x43, 0x44, 0x45, 0x47, 0x48, 0x7F):
        plain.push("p", message(code, 0))
    plain.push("p", message(0x7F, 0, 0b100, bytes(64)))
    settle(plain)
    assert host.config(EXPRESS + 4) >> 18 & 0x3FF == 0x123 and host.counter("ignored") == 11
    assert host.counter("posted_ur") == 0
    for code in (0x20, 0x30, 0x7E, 0x42, 0x10):
        plain.push("p", message(code, 0))
    settle(plain)
    assert host.counter("posted_ur") == 5
    assert host.messages[1:] and set(host.messages[1:]) == {0x31}


def test_error_messages_need_their_enables(plain):
    host = plain.host
    control = host.config(EXPRESS + 8, count=2)
    host.config(COMMAND, 0x0006, 2)
    for enables, expected in ((0b0000, []), (0b0010, []), (0b1010, [0x31]), (0b1000, [])):
        host.config(EXPRESS + 8, control | enables, 2)
        host.write(BASE - 8, bytes(4))
        settle(plain)
        assert host.messages == expected
        del host.messages[:]
    assert host.config(EXPRESS + 8) >> 16 == 0b1010, "Non-Fatal, Unsupported Request"
    host.config(EXPRESS + 8, 0xF_0000 | control | 0b1001)
    host.config(AER + 0x14, 0)
    host.read_request(BASE - 8, 4)
    settle(plain)
    assert host.messages == [0x30] and host.config(EXPRESS + 8) >> 16 == 0b1001 and host.counter("message") == 2
    plain.values["link_correctable"] = 1 << 6
    plain.step()
    plain.values["link_correctable"] = 0
    settle(plain)
    assert host.messages == [0x30, 0x30] and host.config(AER + 0x10) == 0x2040


# ---- states and resets ----


def test_d3hot_answers_configuration_requests_only(plain):
    host = plain.host
    host.config(0x44, 3)
    assert host.read_request(BASE, 4)[1][0].status == UR and plain.write_burst(RAM, 3, bytes(8)) == DECERR
    host.config(0x44, 0)
    assert host.read(BASE, 4) == plain.memory.read(bus(plain, 0), 4) and host.config(COMMAND, count=2) == 0x0106


def test_function_level_reset(plain):
    host = plain.host
    host.config(0x3C, 0x55)
    enable_msi(host)
    host.config(AER + 8, 0x1000)
    host.set_limits(256, 128)
    host.silent = True
    plain.start_read(RAM, 3, 4, 1)
    plain.run(lambda: host.requests)
    control = host.config(EXPRESS + 8, count=2)
    host.config(EXPRESS + 8, control | 0x8000, 2)
    plain.step(40)
    assert plain.resets == 32 and plain.read_beats[1] and {response for _, response, _ in plain.read_beats[1]} == {SLVERR}
    assert host.counter("function_reset") == 1
    assert host.config(COMMAND, count=2) == 0 and host.config(BAR) == 0 and host.config(0x3C) == 0 and host.config(MSI + 2, count=2) & 1 == 0
    assert host.config(AER + 8) == 0x1000, "sticky"
    assert host.config(EXPRESS + 8, count=2) == 0x2830, "Max_Payload_Size stays"
    assert host.read_request(BASE, 4)[1][0].status == UR
    host.silent = False
    plain.push("cpl", completion(SC, bytes(32), host.requests[0].tag, 32, requester=DEVICE))
    host.setup()
    assert plain.read_burst(RAM, 3, 4)[1] == [OKAY] * 4 and host.counter("unexpected") == 1
    assert host.read(BASE, 4) == plain.memory.read(bus(plain, 0), 4)


def test_link_down_with_requests_outstanding(plain):
    host, memory = plain.host, plain.memory
    host.config(AER + 8, 0x1000)
    host.config(EXPRESS + 0x10, 0x40)
    host.silent = memory.silent = True
    plain.start_read(RAM, 3, 4, 1)
    plain.push("np", memory_read(BASE, 4, 9, requester=0))
    plain.step(50)
    host.write(BASE, bytes(16))
    plain.step(50)
    assert len(memory.ar) == 1 and len(memory.b) == 1
    plain.values["link_up"] = 0
    plain.step(60)
    assert {response for _, response, _ in plain.read_beats[1]} == {SLVERR} and plain.resets == 32
    assert plain.read_burst(RAM, 3, 1)[1] == [DECERR] and plain.write_burst(RAM, 3, bytes(8)) == DECERR
    memory.silent = False
    plain.step(100)
    plain.values["link_up"] = 1
    plain.step(100)
    assert not host.completions[9], "the completion of a request from before"
    host.config_request(0, bytes(4), 0)
    assert host.config(COMMAND, count=2) == 0 and host.config(AER + 8) == 0x1000 and host.config(EXPRESS + 0x10, count=2) == 0
    host.setup()
    host.silent = False
    assert host.counter("function_reset") == 1 and plain.read_burst(RAM, 3, 4)[1] == [OKAY] * 4
    assert host.read(BASE, 16) == memory.read(bus(plain, 0), 16)


def test_endpoint_starts_again_after_its_reset(plain):
    host = plain.host
    plain.memory.silent = True
    host.write(BASE, bytes(64))
    plain.push("np", memory_read(BASE, 4, 9, requester=0))
    plain.start_read(RAM, 3, 4, 1)
    plain.step(100)
    plain.values["rst"] = 1
    plain.reset_bus()
    plain.values["rst"] = 0
    plain.memory.silent = False
    for stream in plain.streams:
        plain.streams[stream].clear()
        plain.at[stream] = 0
        plain.offered["rx_" + stream] = False
    plain.sending = plain.held_tx = None
    plain.step(50)
    host.config_request(0, bytes(4), 0)
    assert host.counter("msi") == 0 and host.config(COMMAND, count=2) == 0
    host.setup()
    assert host.read(BASE, 64) == plain.memory.read(bus(plain, 0), 64) and plain.read_burst(RAM, 3, 4)[1] == [OKAY] * 4


def test_counters_saturate_and_are_read_only(plain):
    host = plain.host
    for n in range(3):
        host.read_request(BASE - 4, 4)
    assert host.counter("read_ur") == 3
    host.config(COUNTERS + 8 + 4 * EVENTS.index("read_ur"), 0)
    assert host.counter("read_ur") == 3


# ---- lspci, parameters ----


def test_lspci_decodes_the_configuration_space(plain, tmp_path):
    enable_msi(plain.host)
    data = b"".join(plain.host.config(offset).to_bytes(4, "little") for offset in range(0, 4096, 4))
    check_decoded(dump(DEVICE, data), "endpoint_lspci.txt", tmp_path)


@pytest.mark.parametrize(
    "parameters, expected",
    [
        (["DATA_WIDTH=64"], "DATA_WIDTH is 64; expected 128, 256 or 512"),
        (["BUS_WIDTH=16"], "BUS_WIDTH is 16; expected 32, 64, 128, 256 or 512"),
        (["DMA_WIDTH=32"], "DMA_WIDTH is 32; expected 64, 128, 256 or 512"),
        (["DMA_ID=0"], "DMA_ID is 0; expected 1 or more"),
        (["MAX_PAYLOAD=1024"], "MAX_PAYLOAD is 1024; expected 128, 256 or 512"),
        (["READ_SLOTS=3"], "READ_SLOTS is 3; expected 2, 4, 8 or 16"),
        (["READ_BYTES=64"], "READ_BYTES is 64; expected 128, 256 or 512"),
        (["BAR0_SIZE=64'd2048"], "BAR0_SIZE is 2048; expected 0 or a power of two from 4096"),
        (["BAR1_SIZE=64'd12288"], "BAR1_SIZE is 12288; expected 0 or a power of two from 4096"),
        (["BAR2_SIZE=64'h1_0000_0000"], "BAR2_SIZE is 4294967296; expected at most 2 GiB, or BAR_WIDE"),
        (["BAR0_BASE=64'h1000"], "BAR0_BASE is not a multiple of BAR0_SIZE"),
        (["BAR_WIDE=6'h10", "BAR4_SIZE=64'h1000"], "BAR_WIDE is 010000; expected no BAR in the place after a 64-bit BAR"),
        (["MSIX_BAR=6"], "MSIX_BAR is 6; expected -1 to 5"),
        (["MSIX_BAR=0"], "MSIX_BAR is 0, which has a size of its own; expected a BAR of size 0"),
        (["INTERRUPTS=33"], "INTERRUPTS is 33; expected 1 to 32"),
        (["LINK_SPEED=0"], "LINK_SPEED is 0; expected 1 to 5"),
        (["LINK_WIDTH=3"], "LINK_WIDTH is 3; expected 1, 2, 4, 8 or 16"),
        (["COUNTER_WIDTH=33"], "COUNTER_WIDTH is 33; expected 1 to 32"),
    ],
)
def test_illegal_parameters_of_the_endpoint_stop_elaboration(parameters, expected):
    assert f"pcie_endpoint: {expected}" in refusal("pcie_endpoint", *parameters)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directed tests of the root complex: each rule and each kind of bad input with its answer and its counter."""

import pytest
from model import refusal
from root_complex import BUILDS, DECERR, ECAM, EVENTS, MEMORY32, MEMORY64, OKAY, REGISTERS, SLVERR, Bench
from tlps import CA, RRS, SC, UR, Tlp, completion, completions_of, header_0, memory_read, memory_write, message

ONES = 0xFFFF_FFFF
RAM = 0x8000_0000
DEVICE = 0x100  # bus 1, device 0, function 0
AER = 0x100
MSI_TARGET = 0xFEE0_0000


class Partner:
    """A device below the root port: one configuration space and memory. `status` and `delay` may be set by a test."""

    def __init__(self, bench):
        self.bench, self.memory, self.requests = bench, {}, []
        self.status, self.silent, self.limit, self.boundary = SC, False, 128, 64
        self.space = bytearray(4096)
        self.space[0:4] = bytes([0x34, 0x12, 0x78, 0x56])
        bench.on_tlp = self.receive

    def byte(self, address):
        return self.memory.get(address, address * 37 >> 2 & 0xFF)

    def receive(self, raw):
        tlp = Tlp(raw)
        if tlp.kind in (10, 11):
            return
        check_request(tlp, self.bench)
        self.requests.append(tlp)
        if tlp.is_memory and tlp.has_data:
            self.memory.update(tlp.enabled())
        elif not self.silent:
            self.answer(tlp)

    def answer(self, tlp):
        if self.status != SC:
            self.bench.push("cpl", completion(self.status, b"", tlp.tag, tlp.length * 4))
        elif tlp.is_memory:
            for part in completions_of(tlp, self.byte, self.limit, self.boundary):
                self.bench.push("cpl", part)
        else:
            if tlp.has_data:
                for n in range(4):
                    if tlp.first >> n & 1:
                        self.space[tlp.register + n] = tlp.data[n]
            data = b"" if tlp.has_data else bytes(self.space[tlp.register:tlp.register + 4])
            self.bench.push("cpl", completion(SC, data, tlp.tag, 4))


def check_request(tlp, bench):
    """Rules of §2.2.5, §2.2.7 and §2.6 for a request of the design."""
    assert tlp.requester == 0 and not tlp.poisoned and tlp.traffic_class == 0
    assert len(tlp.raw) == (16 if tlp.wide else 12) + (4 * tlp.length if tlp.has_data else 0)
    if tlp.is_config:
        assert (tlp.length, tlp.last, tlp.wide) == (1, 0, False)
        return
    assert tlp.is_memory and tlp.wide == (tlp.address >> 32 != 0)
    end = tlp.address + 4 * tlp.length - 1
    assert tlp.address >> 12 == end >> 12
    assert 4 * tlp.length <= (bench.parameters["MAX_PAYLOAD"] if tlp.has_data else bench.parameters["READ_BYTES"])
    if tlp.length == 1:
        assert tlp.last == 0 and tlp.first != 0
    else:
        assert tlp.first and tlp.last
        # Enables are contiguous (the exception for two double-words is not used).
        assert tlp.first in (8, 12, 14, 15) and tlp.last in (1, 3, 7, 15)


@pytest.fixture
def make():
    made = []

    def build(name="plain", setup=True, **options):
        bench = Bench(name, **options)
        made.append(bench)
        bench.partner = Partner(bench)
        if setup:
            bench.setup()
        return bench

    yield build
    for bench in made:
        bench.close()


@pytest.fixture
def plain(make):
    return make()


def replies(bench):
    """Completions that the design has sent."""
    return [tlp for tlp in map(Tlp, bench.tlps) if tlp.kind in (10, 11)]


def settle(bench, cycles=60):
    bench.run(bench.quiet)
    bench.step(cycles)


# ---- the root port's configuration space ----

# Offset: (value after reset, bits that software can write). Written from chapter 7 of PCIe 6.0, not from the RTL.
SPACE = {
    0x00: (0x5243_1234, 0), 0x04: (0x0010_0000, 0x0546), 0x08: (0x0604_0000, 0), 0x0C: (0x0001_0000, 0xFF), 0x10: (0, 0), 0x14: (0, 0),
    0x18: (0, 0x00FF_FFFF), 0x1C: (0, 0), 0x20: (0, 0xFFF0_FFF0), 0x24: (0x0001_0001, 0xFFF0_FFF0), 0x28: (0, ONES), 0x2C: (0, ONES), 0x30: (0, 0),
    0x34: (0x40, 0), 0x38: (0, 0), 0x3C: (0x100, 0x0043_00FF), 0x40: (0x0042_8010, 0), 0x44: (0x0000_8021, 0), 0x48: (0x2810, 0x79FF),
    0x4C: (0x0150_0083, 0), 0x50: (0x2083_0000, 0xD0), 0x54: (0, 0), 0x58: (0, 0), 0x5C: (0x0001_0000, 0x17), 0x60: (0, 0), 0x64: (0x20, 0),
    0x68: (0, 0x20), 0x6C: (0x0E, 0), 0x70: (0x03, 0x0F), 0x80: (0x0080_9005, 0x0001_0000), 0x84: (0, 0xFFFF_FFFC), 0x88: (0, ONES), 0x8C: (0, 0xFFFF),
    0x90: (0x0003_0001, 0), 0x94: (0x08, 3), 0x100: (0x0002_0001, 0), 0x104: (0, 0), 0x108: (0, 0x0017_F010), 0x10C: (0x0006_2010, 0x0017_F010),
    0x110: (0, 0), 0x114: (0x2000, 0x31C1), 0x118: (0, 0), 0x11C: (0, 0), 0x128: (0, 0), 0x12C: (0, 7), 0x130: (0, 0), 0x134: (0, 0), 0xFFC: (0, 0),
}


def test_configuration_space_has_its_reset_values_and_writable_bits(make):
    bench = make(setup=False)
    for offset, (value, mask) in SPACE.items():
        assert bench.config(0, offset) == value, hex(offset)
        bench.config(0, offset, ONES)
        assert bench.config(0, offset) == value | mask, hex(offset)
        bench.config(0, offset, 0)
        assert bench.config(0, offset) == value & ~mask, hex(offset)
    assert not bench.tlps


def test_configuration_space_takes_writes_of_bytes(make):
    bench = make(setup=False)
    bench.config(0, 0x18, 0x0504_0302)
    bench.config(0, 0x19, 0xAB, 1)
    bench.config(0, 0x1A, 0x77CD, 2)
    assert bench.config(0, 0x18) == 0x00CD_AB02
    assert bench.config(0, 0x1A, count=1) == 0xCD
    assert bench.read(ECAM + 0x18, 8) == 0x0000_0000_00CD_AB02
    bench.config(0, 0x94, 0x1)
    assert bench.config(0, 0x94) == 8, "D1 is not supported, so the write is ignored"


# ---- configuration requests ----


def test_type_0_on_the_secondary_bus_and_type_1_below(plain):
    assert plain.config(DEVICE, 0) == 0x5678_1234
    plain.config(0x105, 0x12, 0xBEEF, 2)  # function 5
    plain.config(0x8FA, 0xABC, 0x1234_5678)
    first, second, third = plain.partner.requests
    assert (first.type1, first.target, first.register, first.has_data, first.first) == (False, DEVICE, 0, False, 15)
    assert (second.type1, second.target, second.register, second.first, second.data[2:]) == (False, 0x105, 0x10, 0b1100, b"\xef\xbe")
    assert (third.type1, third.target, third.register, third.data) == (True, 0x8FA, 0xABC, b"\x78\x56\x34\x12")


def test_wide_configuration_access_becomes_two_requests(plain):
    plain.partner.space[0x40:0x48] = bytes(range(8))
    assert plain.read(ECAM + 0x100000 + 0x40, 8) == int.from_bytes(bytes(range(8)), "little")
    assert [tlp.register for tlp in plain.partner.requests] == [0x40, 0x44]


@pytest.mark.parametrize("target", [0x008, 0x001, 0x108, 0x900, 0xFF00])
def test_functions_that_no_link_leads_to_read_as_ones(plain, target):
    assert plain.config(target, 0) == ONES
    plain.config(target, 4, 0)
    assert not plain.partner.requests and plain.counter("no_function") == 2


def test_ari_forwarding_opens_the_device_number(plain):
    plain.config(0, 0x68, 0x20)
    assert plain.config(0x1F8, 0) == 0x5678_1234
    assert plain.partner.requests[0].target == 0x1F8


@pytest.mark.parametrize("status, event", [(UR, "cpl_ur"), (CA, "cpl_ca")])
def test_failed_configuration_requests_read_as_ones(plain, status, event):
    plain.partner.status = status
    assert plain.config(DEVICE, 0) == ONES
    plain.config(DEVICE, 4, 0)
    assert plain.counter(event) == 2
    assert plain.config(0, 0x1C) >> 16 == (0x2000 if status == UR else 0x1000)
    plain.config(0, 0x1C, 0x3000_0000)
    assert plain.config(0, 0x1C) == 0


def test_poisoned_configuration_completion_reads_as_ones(plain):
    plain.partner.answer = lambda tlp: plain.push("cpl", completion(SC, b"\1\2\3\4", tlp.tag, 4, poisoned=1), True)
    assert plain.config(DEVICE, 0) == ONES
    assert plain.counter("cpl_poisoned") == 1
    assert plain.config(0, AER + 4) == 1 << 12


def test_retry_status_is_retried_until_the_function_is_ready(plain):
    plain.register(0x18, 0x0008_0010)
    plain.partner.status = RRS
    plain.after(150, lambda: setattr(plain.partner, "status", SC))
    assert plain.config(DEVICE, 0) == 0x5678_1234
    assert plain.counter("cpl_rrs") >= 3
    tags = [tlp.tag for tlp in plain.partner.requests]
    assert len(set(tags)) == len(tags) and all(16 <= tag < 32 for tag in tags)


def test_retries_end_at_the_limit(plain):
    plain.register(0x18, 0x0004_0003)
    plain.partner.status = RRS
    assert plain.config(DEVICE, 8) == ONES
    assert len(plain.partner.requests) == 4 and plain.counter("retry_limit") == 1


def test_software_sees_retry_status_in_the_vendor_id(plain):
    plain.register(0x18, 0x0004_0001)
    plain.config(0, 0x5C, 0x10)
    plain.partner.status = RRS
    assert plain.config(DEVICE, 0) == 0xFFFF_0001
    assert plain.config(DEVICE, 0, count=2) == 0x0001
    assert len(plain.partner.requests) == 2
    # Other registers, and one byte of the Vendor ID, are still retried.
    assert plain.config(DEVICE, 4) == ONES
    assert plain.config(DEVICE, 0, count=1) == 0xFF
    assert len(plain.partner.requests) == 6


def test_configuration_request_times_out_and_its_late_completion_is_ignored(plain):
    plain.partner.silent = True
    began = plain.cycle
    assert plain.config(DEVICE, 0) == ONES
    assert 400 <= plain.cycle - began <= 900
    assert plain.counter("timeout") == 1
    plain.partner.silent = False
    plain.partner.answer(plain.partner.requests[0])
    plain.step(30)
    assert plain.counter("unexpected") == 1
    plain.partner.space[0] = 0x99
    assert plain.config(DEVICE, 0) == 0x5678_1299
    assert plain.config(0, AER + 4) >> 14 & 1, "Completion Timeout in AER"


def test_link_down_answers_at_once(plain):
    plain.values["link_up"] = 0
    plain.step()
    assert plain.config(DEVICE, 0) == ONES and not plain.partner.requests
    assert plain.read_burst(MEMORY32, 2) == (b"\xff" * 4, [SLVERR])
    assert plain.config(0, 0x50) >> 29 & 1 == 0, "DL_Active"


def test_link_down_ends_what_is_pending(plain):
    plain.partner.silent = True
    plain.register(0x14, 0xFFFF_0000)
    plain.start_read(MEMORY32, 2, ident=1)
    plain.start_read(ECAM + 0x100000, 2, ident=2)
    plain.step(50)
    plain.values["link_up"] = 0
    plain.run(lambda: plain.read_beats[2])
    assert plain.read_beats[1][0][1] == SLVERR and plain.read_beats[2][0][:2] == (b"\xff" * 8, OKAY)


def test_complex_that_is_not_enabled_sends_nothing(make):
    bench = make()
    bench.register(0x04, 0)
    assert bench.config(DEVICE, 0) == ONES
    assert bench.read_burst(MEMORY32, 2)[1] == [DECERR]
    bench.push("p", memory_write(RAM, b"abcd"))
    settle(bench)
    assert not bench.partner.requests and bench.counter("posted_ur") == 1 and not bench.memory.log


# ---- memory of devices ----


@pytest.mark.parametrize("name", BUILDS)
def test_reads_of_each_size_alignment_and_length(make, name):
    bench = make(name)
    widest = bench.cpu_bytes.bit_length() - 1
    for size in range(widest + 1):
        for offset in (0, 1, 2, 3, 5, 7, 61, 124):
            for beats in (1, 3):
                base = MEMORY64 if offset % 2 else MEMORY32 + 0x1000
                data, responses = bench.read_burst(base + offset, size, beats)
                assert responses == [OKAY] * beats
                assert data == bytes(bench.partner.byte(base + offset + n) for n in range(len(data))), (size, offset, beats)


def test_reads_ask_only_for_the_bytes_of_the_burst(plain):
    for size, address, first, last, length in [(0, 1, 2, 0, 1), (1, 2, 12, 0, 1), (2, 4, 15, 0, 1), (3, 3, 8, 15, 2), (3, 0, 15, 15, 2), (2, 6, 12, 0, 1)]:
        plain.partner.requests.clear()
        plain.read_burst(MEMORY32 + address, size)
        (tlp,) = plain.partner.requests
        assert (tlp.address % 4096, tlp.first, tlp.last, tlp.length) == (address & ~3, first, last, length)


@pytest.mark.parametrize("name, code, piece", [("plain", 2, 128), ("large", 0, 128), ("large", 1, 256), ("large", 2, 512)])
def test_long_reads_are_cut_at_blocks_of_the_read_request_size(make, name, code, piece):
    bench = make(name)
    bench.config(0, 0x48, code << 12, 2)
    size = bench.cpu_bytes.bit_length() - 1
    data, responses = bench.read_burst(MEMORY32 + 0x2B08, size, 20 if name == "large" else 130)
    assert data == bytes(bench.partner.byte(MEMORY32 + 0x2B08 + n) for n in range(len(data)))
    requests = bench.partner.requests
    assert all(tlp.address % piece == 0 for tlp in requests[1:]) and max(4 * tlp.length for tlp in requests) == piece


@pytest.mark.parametrize("name", BUILDS)
def test_completions_in_any_order_and_in_pieces(make, name):
    bench = make(name)
    waiting = []
    bench.partner.answer = waiting.append
    slots = bench.parameters["READ_SLOTS"]
    for n in range(slots):
        bench.start_read(MEMORY32 + 256 * n + 4, 3, 12, ident=n % 3)
    bench.read_beats.clear()
    bench.run(lambda: len(waiting) >= slots)
    assert len({tlp.tag for tlp in waiting}) == slots
    bench.dice.shuffle(waiting)
    parts = [completions_of(tlp, bench.partner.byte, 64) for tlp in waiting]
    while any(parts):
        choice = bench.dice.choice([part for part in parts if part])
        bench.push("cpl", choice.pop(0))
    bench.run(lambda: sum(map(len, bench.read_beats.values())) == 12 * slots)
    for ident in range(3):
        expected = [n for n in range(slots) if n % 3 == ident]
        for k, n in enumerate(expected):
            data, responses = bench.collect(MEMORY32 + 256 * n + 4, 3, bench.read_beats[ident][12 * k:12 * k + 12])
            assert data == bytes(bench.partner.byte(MEMORY32 + 256 * n + 4 + at) for at in range(len(data))) and set(responses) == {OKAY}


def test_tags_have_eight_bits_if_they_are_enabled(plain):
    plain.config(0, 0x48, 0x2910, 2)
    for n in range(40):
        plain.read(MEMORY32 + 4 * n)
    plain.config(DEVICE, 0)
    tags = [tlp.tag for tlp in plain.partner.requests]
    assert max(tags[:-1]) == 0x47 and len(set(tags)) == 41 and tags[-1] >= 0x80 and not any(tag & 0x10 for tag in tags[:-1])


@pytest.mark.parametrize("name", BUILDS)
def test_writes_with_any_strobes_reach_only_their_bytes(make, name):
    bench = make(name)
    size = bench.cpu_bytes.bit_length() - 1
    for n in range(25):
        count = bench.dice.randrange(1, 6 * bench.cpu_bytes)
        address = MEMORY64 * (n % 2) + MEMORY32 * (1 - n % 2) + 0xC00 + bench.dice.randrange(64)
        data = bench.dice.randbytes(count)
        strobes = bench.dice.choice([(1 << count) - 1, bench.dice.getrandbits(count), bench.dice.getrandbits(count) | bench.dice.getrandbits(count)])
        expected = dict(bench.partner.memory)
        expected.update({address + k: data[k] for k in range(count) if strobes >> k & 1})
        assert bench.write_burst(address, size, data, strobes=strobes) == OKAY
        settle(bench, 40 + count)
        assert bench.partner.memory == expected, (hex(address), count, hex(strobes))


def test_aligned_write_burst_is_one_request(plain):
    plain.write_burst(MEMORY32 + 0x80, 3, bytes(range(128)))
    settle(plain)
    (tlp,) = plain.partner.requests
    assert (tlp.length, tlp.first, tlp.last) == (32, 15, 15) and tlp.data == bytes(range(128))


@pytest.mark.parametrize("code, piece", [(0, 128), (1, 256), (2, 256)])
def test_writes_are_cut_at_blocks_of_max_payload_size(plain, code, piece):
    plain.config(0, 0x48, code << 5, 2)
    plain.write_burst(MEMORY32 + 0xC90, 3, bytes(range(256)) * 2)
    settle(plain, 250)
    assert max(4 * tlp.length for tlp in plain.partner.requests) == piece
    assert all(tlp.address % piece == 0 for tlp in plain.partner.requests[1:])
    assert [plain.partner.memory[MEMORY32 + 0xC90 + n] for n in range(512)] == list(range(256)) * 2


def test_write_without_strobes_sends_nothing(plain):
    assert plain.write_burst(MEMORY32, 3, bytes(8), strobes=0) == OKAY
    settle(plain)
    assert not plain.partner.requests


@pytest.mark.parametrize("status, response, event", [(UR, DECERR, "cpl_ur"), (CA, SLVERR, "cpl_ca"), (3, DECERR, "cpl_ur"), (RRS, SLVERR, "cpl_bad")])
def test_failed_memory_reads(plain, status, response, event):
    plain.partner.status = status
    assert plain.read_burst(MEMORY32 + 8, 3, 2) == (b"\xff" * 16, [response] * 2)
    assert plain.counter(event) == 1
    plain.register(0x04, 3)
    assert plain.read_burst(MEMORY32 + 8, 3, 2) == (b"\xff" * 16, [OKAY] * 2)
    plain.partner.status = SC
    assert plain.read_burst(MEMORY32 + 8, 3)[1] == [OKAY]


def test_poisoned_memory_read(plain):
    plain.partner.answer = lambda tlp: plain.push("cpl", completion(SC, bytes(8), tlp.tag, 8, poisoned=1), True)
    assert plain.read_burst(MEMORY32, 3) == (b"\xff" * 8, [SLVERR])
    assert plain.counter("cpl_poisoned") == 1 and plain.config(0, 0x1C) >> 31


def test_completion_that_is_poisoned_at_its_end_only(plain):
    plain.partner.answer = lambda tlp: plain.push("cpl", completion(SC, bytes(8), tlp.tag, 8), True)
    assert plain.read_burst(MEMORY32, 3) == (b"\xff" * 8, [SLVERR])


def test_memory_read_times_out_and_its_tag_is_free_again(plain):
    plain.partner.silent = True
    plain.read_beats.clear()
    for n in range(10):
        plain.start_read(MEMORY32 + 8 * n, 3, ident=0)
    plain.run(lambda: len(plain.read_beats[0]) == 10, 6000)
    assert {response for _, response, _ in plain.read_beats[0]} == {SLVERR}
    assert plain.events["timeout"] >= 2
    plain.partner.silent = False
    late = plain.partner.requests[:]
    assert plain.read_burst(MEMORY32 + 0x100, 3)[1] == [OKAY]
    for tlp in late:
        plain.partner.answer(tlp)
    settle(plain)
    assert plain.counter("unexpected") == 10
    data, responses = plain.read_burst(MEMORY32 + 0x200, 3, 8)
    assert data == bytes(plain.partner.byte(MEMORY32 + 0x200 + n) for n in range(64)) and set(responses) == {OKAY}


BAD_COMPLETIONS = {
    "other tag": ("unexpected", lambda tlp: completion(SC, bytes(16), tlp.tag ^ 1, 16)),
    "other requester": ("unexpected", lambda tlp: completion(SC, bytes(16), tlp.tag, 16, requester=8)),
    "locked": ("unexpected", lambda tlp: completion(SC, bytes(16), tlp.tag, 16, kind=0b01011)),
    "byte count": ("cpl_bad", lambda tlp: completion(SC, bytes(16), tlp.tag, 20)),
    "lower address": ("cpl_bad", lambda tlp: completion(SC, bytes(16), tlp.tag, 16, lower=4)),
    "too long": ("cpl_bad", lambda tlp: completion(SC, bytes(20), tlp.tag, 16)),
    "no data": ("cpl_bad", lambda tlp: completion(SC, b"", tlp.tag, 16)),
    "short of its length": ("cpl_bad", lambda tlp: completion(SC, bytes(8), tlp.tag, 16, length=4)),
}


@pytest.mark.parametrize("kind", BAD_COMPLETIONS)
def test_completions_that_fit_no_request(plain, kind):
    event, make_bad = BAD_COMPLETIONS[kind]
    plain.partner.answer = lambda tlp: plain.push("cpl", make_bad(tlp))
    expected = SLVERR
    data, responses = plain.read_burst(MEMORY32, 3, 2)
    assert responses == [expected] * 2 and data == b"\xff" * 16
    assert plain.counter(event) == 1
    assert plain.counter("timeout") == (event == "unexpected")
    del plain.partner.answer
    assert plain.read_burst(MEMORY32 + 0x80, 3)[1] == [OKAY]


def test_second_completion_is_unexpected(plain):
    plain.read(MEMORY32)
    plain.partner.answer(plain.partner.requests[0])
    settle(plain)
    assert plain.counter("unexpected") == 1


def test_completion_waits_for_earlier_writes_of_devices(plain):
    plain.memory.silent = True
    plain.register(0x1C, 100000)
    plain.register(0x14, 100000)
    plain.partner.silent = True
    plain.start_read(MEMORY32, 3, ident=2)
    plain.run(lambda: plain.partner.requests)
    plain.push("p", memory_write(RAM, bytes(256)))
    plain.partner.answer(plain.partner.requests[0])
    plain.step(300)
    assert not plain.read_beats[2]
    plain.memory.silent = False
    plain.run(lambda: plain.read_beats[2])
    assert plain.read_beats[2][0][1] == OKAY


def bus_requests():
    return {
        "below every window": (0x1000_0000, 3, 1, DECERR, "decode"), "above every window": (1 << 60, 3, 1, DECERR, "decode"),
        "outside the root port's windows": (MEMORY64 + (0x3F << 32) + 0xFFF0_0000 + (1 << 36), 3, 1, DECERR, "decode"),
        "FIXED": (MEMORY32, 3, 0, SLVERR, "burst"), "WRAP": (MEMORY32, 3, 2, SLVERR, "burst"), "size above the bus": (MEMORY32, 4, 1, SLVERR, "burst"),
        "4 KiB crossed": (MEMORY32 + 0xFF8, 3, 1, SLVERR, "burst"),
    }


@pytest.mark.parametrize("kind", bus_requests())
def test_bus_requests_that_have_no_answer_from_a_device(plain, kind):
    address, size, burst, response, event = bus_requests()[kind]
    plain.start_read(address, size, 2, 1, burst)
    plain.run(lambda: len(plain.read_beats[1]) == 2)
    assert [beat[:2] for beat in plain.read_beats[1]] == [(b"\xff" * 8, response)] * 2
    plain.start_write(address, size, [(bytes(8), 255)] * 2, 1, burst)
    plain.run(lambda: plain.written[1])
    assert plain.written[1] == [response]
    assert plain.counter(event) == 2 and not plain.partner.requests


@pytest.mark.parametrize("last", [0, 3])
def test_wrong_wlast_is_an_error_and_the_next_burst_works(plain, last):
    plain.checkers.pop(0)  # it judges the CPU as well
    plain.start_write(MEMORY32, 3, [(bytes(8), 255)] * 2, 1, last=last)
    plain.run(lambda: plain.written[1])
    assert plain.written[1] == [SLVERR] and plain.counter("burst") >= 1
    plain.write_burst(MEMORY32, 3, bytes(8), 1)
    assert plain.written[1][1] == OKAY


def test_memory_space_disabled(plain):
    plain.config(0, 4, 4, 2)
    assert plain.read_burst(MEMORY32, 2)[1] == [DECERR] and plain.write_burst(MEMORY32, 2, bytes(4)) == DECERR
    assert plain.counter("decode") == 2 and not plain.partner.requests


# ---- DMA: writes ----


@pytest.mark.parametrize("name", BUILDS)
def test_writes_of_devices_at_each_alignment_and_length(make, name):
    bench = make(name)
    largest = bench.parameters["MAX_PAYLOAD"]
    expected = {}
    for n in range(150):
        count = bench.dice.choice([1, 2, 3, 4, 5, 7, 8, largest - 4, largest, bench.dice.randrange(1, largest)])
        address = (RAM if n % 3 else 1 << 40) + 0x1000 * (n % 4) + bench.dice.randrange(4096 - count + 1)
        count = min(count, largest - address % 4)
        data = bench.dice.randbytes(count)
        expected.update({address + k: data[k] for k in range(count)})
        bench.push("p", memory_write(address, data, digest=n % 7 == 0))
    settle(bench)
    assert bench.memory.bytes == expected
    assert not +bench.events, "no event"
    assert bench.checkers[1].handshakes["aw"] >= 150


def test_full_rate_of_writes(plain):
    for n in range(64):
        plain.push("p", memory_write(RAM + 256 * n, bytes(256)))
    began = plain.cycle
    plain.run(lambda: not plain.streams["p"])
    assert plain.cycle - began <= 64 * 9 + 8, "9 beats each"


def test_sparse_byte_enables_of_writes(plain):
    plain.push("p", memory_write(RAM + 4, bytes(range(8)), enables=(0b0101, 0b1010)))
    plain.push("p", memory_write(RAM + 20, bytes(range(4)), enables=(0b1001, 0)))
    plain.push("p", memory_write(RAM + 40, bytes(range(4)), enables=(0, 0)))
    settle(plain)
    assert plain.memory.bytes == {RAM + 4: 0, RAM + 6: 2, RAM + 9: 5, RAM + 11: 7, RAM + 20: 0, RAM + 23: 3}


@pytest.mark.parametrize("address", [REGISTERS, ECAM, MEMORY32, MEMORY64, MEMORY64 + (0x3E << 32)])
def test_requests_of_devices_to_the_windows_are_unsupported(plain, address):
    plain.push("p", memory_write(address, b"abcd"))
    plain.push("np", memory_read(address, 4, 3))
    settle(plain)
    assert plain.counter("posted_ur") == 1 and plain.counter("read_ur") == 1 and not plain.memory.log
    assert [(tlp.status, tlp.tag) for tlp in replies(plain)] == [(UR, 3)]


def test_bus_master_disabled(plain):
    plain.config(0, 4, 0x102, 2)
    plain.push("p", memory_write(RAM, b"abcd"))
    plain.push("np", memory_read(RAM, 4, 3))
    settle(plain)
    assert not plain.memory.log and plain.counter("posted_ur") == 1 and replies(plain)[0].status == UR


MALFORMED = {
    "crosses 4 KiB": memory_write(RAM + 0xFFC, bytes(8), enables=(15, 15)),
    "longer than Max_Payload_Size": memory_write(RAM, bytes(260)),
    "one double-word with a last enable": memory_write(RAM, bytes(4), enables=(15, 15)),
    "two double-words without a last enable": memory_write(RAM, bytes(8), enables=(15, 0)),
    "two double-words without a first enable": memory_write(RAM, bytes(8), enables=(0, 15)),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_writes_are_dropped(plain, kind):
    plain.push("p", MALFORMED[kind])
    plain.push("p", memory_write(RAM + 0x100, b"next"))
    settle(plain)
    assert plain.memory.bytes == {RAM + 0x100 + n: byte for n, byte in enumerate(b"next")}
    assert plain.counter("malformed") == 1 and plain.config(0, AER + 4) == 1 << 18


def test_poisoned_writes_are_dropped(plain):
    plain.push("p", memory_write(RAM, bytes(100), poisoned=1), True)
    plain.push("p", memory_write(RAM + 0x100, b"next"))
    settle(plain)
    assert plain.memory.bytes == {RAM + 0x100 + n: byte for n, byte in enumerate(b"next")}
    assert plain.counter("posted_poisoned") == 1 and plain.config(0, AER + 4) == 1 << 12


@pytest.mark.parametrize("response, bit", [(SLVERR, 15), (DECERR, 20)])
def test_bus_error_of_a_write_is_counted_and_reported(plain, response, bit):
    plain.memory.errors = [(RAM, RAM + 0x100, response)]
    plain.push("p", memory_write(RAM + 0x80, b"abcd"))
    plain.push("p", memory_write(RAM + 0x200, b"abcd"))
    settle(plain)
    assert plain.counter("write_error") == 1 and plain.config(0, AER + 4) == 1 << bit
    assert plain.config(0, AER + 0x1C) == 0, "the header of the write is no longer here"
    assert len(plain.memory.bytes) == 4


def test_bus_that_stalls_drops_writes_until_it_answers(plain):
    plain.memory.frozen = True
    for n in range(12):
        plain.push("p", memory_write(RAM + 0x100 * n, bytes([n + 1]) * 200))
    plain.run(lambda: not plain.streams["p"], 3000)
    assert plain.counter("stall") == 1 and plain.counter("stall_drop") >= 10
    assert plain.register(8) & 4
    plain.memory.frozen = False
    settle(plain)
    assert plain.register(8) & 0xFF00_0004 == 0
    whole = dict(plain.memory.bytes)
    assert all(whole[address] == (address - RAM) // 0x100 + 1 for address in whole)
    plain.push("p", memory_write(RAM + 0x4000, b"again"))
    settle(plain)
    assert plain.memory.read(RAM + 0x4000, 5) == b"again"


# ---- DMA: reads ----


def check_replies(bench, requests, tlps, read=None):
    """Completions answer the requests in order (§2.3.1.1), each with data that fit its Byte Count and Lower Address."""
    read = read or (lambda address: bench.memory.read(address, 1)[0])
    mps = 128 << (bench.config(0, 0x48) >> 5 & 7)
    at = 0
    for request in requests:
        addresses = [address for address, _ in request.enabled()]
        left, where = len(range(addresses[0], addresses[-1] + 1)), addresses[0]
        while left:
            tlp = tlps[at]
            at += 1
            assert (tlp.kind, tlp.status, tlp.tag, tlp.requester, tlp.completer) == (10, SC, request.tag, request.requester, 0)
            assert (tlp.traffic_class, tlp.attributes) == (request.traffic_class, request.attributes)
            assert tlp.byte_count == left and tlp.lower == where & 0x7F and 4 * tlp.length == len(tlp.data) <= mps
            end = (where & ~3) + len(tlp.data)
            took = min(left, end - where)
            assert took == left or end % 64 == 0, "only the last completion ends off the Read Completion Boundary"
            assert tlp.data[where % 4:where % 4 + took] == bytes(read(where + n) for n in range(took))
            where, left = where + took, left - took
    assert at == len(tlps)


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("code", [0, 1, 2])
def test_reads_of_devices_at_each_alignment_and_length(make, name, code):
    bench = make(name)
    if 128 << code > bench.parameters["MAX_PAYLOAD"]:
        pytest.skip("payload size above the design's")
    bench.config(0, 0x48, code << 5, 2)
    bench.memory.delay = 40
    requests = []
    for n in range(40):
        count = bench.dice.choice([1, 2, 3, 4, 5, 8, 64, 127, 512, 4096, bench.dice.randrange(1, 700)])
        address = (RAM if n % 3 else 1 << 40) + 0x1000 * (n % 4) + bench.dice.randrange(4096 - count + 1)
        requests.append(memory_read(address, count, n, traffic_class=n % 8, attributes=n // 8))
        bench.push("np", requests[-1])
    bench.run(bench.quiet, 20000)
    bench.step(60)
    check_replies(bench, list(map(Tlp, requests)), replies(bench))
    assert not +bench.events


def test_full_rate_of_reads(plain):
    plain.config(0, 0x48, 1 << 5, 2)
    for n in range(40):
        plain.push("np", memory_read(RAM + 256 * n, 256, n))
    plain.run(lambda: len(plain.tlps) == 5)
    began = plain.cycle
    plain.run(lambda: len(plain.tlps) == 35)
    assert plain.cycle - began <= 30 * 9 + 9, "9 beats each"


def test_read_of_no_bytes_reads_nothing(plain):
    plain.push("np", memory_read(RAM + 0x20, 0, 9))
    settle(plain)
    (tlp,) = replies(plain)
    assert (tlp.status, tlp.byte_count, tlp.lower, tlp.data) == (SC, 1, 0x20, bytes(4)) and not plain.memory.log


def test_read_of_no_bytes_waits_for_earlier_writes(plain):
    plain.memory.silent = True
    plain.register(0x1C, 100000)
    plain.push("p", memory_write(RAM, bytes(64)))
    plain.push("np", memory_read(RAM + 0x20, 0, 9))
    plain.step(100)
    assert not replies(plain)
    plain.memory.silent = False
    plain.run(lambda: replies(plain))


OTHERS = {
    "FetchAdd": header_0(0b010, 0b01100, 1) + bytes([1, 0, 7, 0x0F]) + RAM.to_bytes(4, "big") + bytes(4),
    "Swap of 8 bytes": header_0(0b011, 0b01101, 2) + bytes([1, 0, 7, 0xFF]) + (1 << 40).to_bytes(8, "big") + bytes(8),
    "CAS of 16 bytes": header_0(0b010, 0b01110, 8) + bytes([1, 0, 7, 0xFF]) + RAM.to_bytes(4, "big") + bytes(32),
    "IORd": header_0(0b000, 0b00010, 1) + bytes([1, 0, 7, 0x0F]) + (0x80).to_bytes(4, "big"),
    "IOWr": header_0(0b010, 0b00010, 1) + bytes([1, 0, 7, 0x0F]) + (0x80).to_bytes(4, "big") + bytes(4),
    "CfgRd0": header_0(0b000, 0b00100, 1) + bytes([1, 0, 7, 0x0F]) + bytes(4),
    "MRdLk": memory_read(RAM, 4, 7, kind=1),
}


@pytest.mark.parametrize("name", ["plain", "small"])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_requests_are_unsupported(make, kind, name):
    bench = make(name)
    bench.push("np", OTHERS[kind])
    bench.push("np", memory_read(RAM, 8, 8))
    settle(bench)
    bad, good = replies(bench)
    assert (bad.status, bad.tag, bad.requester, bad.data, bad.byte_count, bad.lower) == (UR, 7, 0x0100, b"", 4, 0)
    assert bad.kind == (11 if kind == "MRdLk" else 10)
    assert (good.status, good.tag) == (SC, 8) and bench.counter("read_ur") == 1


@pytest.mark.parametrize("enables, address", [((15, 0), RAM), ((0, 15), RAM), ((15, 15), RAM + 0xFFC)])
def test_malformed_reads_get_no_answer(plain, enables, address):
    plain.push("np", memory_read(address, 8, 1, enables=enables))
    settle(plain)
    assert not replies(plain) and plain.counter("malformed") == 1 and plain.config(0, AER + 4) == 1 << 18


@pytest.mark.parametrize("response, status, bit", [(SLVERR, CA, 15), (DECERR, UR, 20)])
def test_bus_error_of_a_read_becomes_the_completion_status_and_ends_the_request(plain, response, status, bit):
    plain.config(0, AER + 0x14, 0)  # advisory errors are reported
    plain.memory.errors = [(RAM + 0x100, RAM + 0x120, response)]
    plain.push("np", memory_read(RAM + 0x40, 0x400, 4))
    plain.push("np", memory_read(RAM + 0x800, 64, 5))
    settle(plain)
    got = replies(plain)
    assert [(tlp.status, tlp.tag, tlp.byte_count) for tlp in got] == [(SC, 4, 0x400), (SC, 4, 0x3C0), (status, 4, 0x340), (SC, 5, 64)]
    assert plain.counter("read_error") == 1
    assert plain.config(0, AER + 4) == 1 << bit and plain.config(0, AER + 0x1C) == 0, "the header of the read is no longer here"
    assert plain.config(0, 0x1C) >> 16 == (0x0800 if status == CA else 0), "Signaled Target Abort"


def test_status_of_an_earlier_bus_error_does_not_stay(plain):
    """IDs of the bus are used again, and a later answer has another status."""
    for n in range(24):
        response, status = ((OKAY, SC), (DECERR, UR), (SLVERR, CA))[n % 3]
        plain.memory.errors = [(RAM, RAM + 0x100, response)] if response else []
        plain.push("np", memory_read(RAM, 64, n))
        settle(plain)
        assert replies(plain)[-1].status == status


def test_read_waits_for_earlier_writes(plain):
    plain.memory.silent = True
    plain.register(0x1C, 100000)
    for n in range(5):
        plain.push("p", memory_write(RAM + 64 * n, bytes([n + 1]) * 64))
    plain.push("np", memory_read(RAM, 320, 1))
    plain.step(200)
    assert not [entry for entry in plain.memory.log if entry[0] == "read"]
    plain.memory.silent = False
    settle(plain)
    assert b"".join(tlp.data for tlp in replies(plain)) == b"".join(bytes([n + 1]) * 64 for n in range(5))


def test_completion_does_not_pass_writes_of_the_cpu(plain):
    plain.tx_open = False
    plain.write_burst(MEMORY32, 3, bytes(64))
    plain.push("np", memory_read(RAM, 4, 1))
    plain.step(60)
    plain.tx_open = True
    settle(plain)
    assert [Tlp(raw).kind for raw in plain.tlps] == [0, 10]


@pytest.mark.parametrize("frozen", [True, False])
def test_bus_that_does_not_answer_reads(plain, frozen):
    plain.memory.frozen, plain.memory.silent = frozen, True
    for n in range(12):
        plain.push("np", memory_read(RAM + 256 * n, 256, n))
    plain.run(lambda: len(replies(plain)) == 12, 4000)
    assert [(tlp.status, tlp.tag) for tlp in replies(plain)] == [(CA, n) for n in range(12)]
    assert plain.counter("stall") == 1 and plain.counter("stall_abort") >= 12 and plain.register(8) & 2
    plain.memory.frozen = plain.memory.silent = False
    settle(plain)
    assert plain.register(8) & 2 == 0
    plain.tlps.clear()
    plain.push("np", memory_read(RAM + 3, 5, 77))
    settle(plain)
    assert replies(plain)[0].data[3:8] == plain.memory.read(RAM + 3, 5)


# ---- interrupts ----


def arm_msi(bench, mask=ONES):
    bench.register(0x20, MSI_TARGET & ONES)
    bench.register(0x24, MSI_TARGET >> 32)
    bench.register(0x28, 1)
    bench.register(0x30, mask)


@pytest.mark.parametrize("target", [0xFEE0_0000, 1 << 40])
@pytest.mark.parametrize("name", BUILDS)
def test_msi_becomes_a_wire_and_a_pulse(make, name, target, monkeypatch):
    monkeypatch.setitem(globals(), "MSI_TARGET", target)
    bench = make(name)
    arm_msi(bench, 1 << 5)
    bench.push("p", memory_write(target, (3).to_bytes(4, "little")))
    settle(bench)
    assert bench.out["msi_pending"] == 8 and bench.pulses == 8 and not bench.out["msi_interrupt"]
    bench.push("p", memory_write(target, (5).to_bytes(4, "little")))
    settle(bench)
    assert bench.register(0x2C) == 0x28 and bench.out["msi_interrupt"] and bench.counter("msi") == 2
    bench.register(0x2C, 0x20)
    bench.step(2)
    assert bench.out["msi_pending"] == 8 and not bench.out["msi_interrupt"] and not bench.memory.log


def test_msi_waits_for_earlier_writes(plain):
    arm_msi(plain)
    plain.register(0x1C, 100000)
    plain.memory.silent = True
    plain.push("p", memory_write(RAM, bytes(256)))
    plain.push("p", memory_write(MSI_TARGET, bytes(4)))
    plain.step(100)
    assert not plain.pulses
    plain.memory.silent = False
    settle(plain)
    assert plain.pulses == 1


@pytest.mark.parametrize("data, marks", [((32).to_bytes(4, "little"), {}), (bytes(8), {}), (bytes(4), {"poisoned": 1})])
def test_writes_to_the_msi_address_that_are_no_msi(plain, data, marks):
    arm_msi(plain)
    plain.push("p", memory_write(MSI_TARGET, data, **marks))
    settle(plain)
    assert plain.counter("msi_bad") == 1 and plain.counter("msi") == 0 and not plain.pulses and not plain.memory.log


def test_msi_that_is_not_enabled_is_a_write_to_memory(plain):
    plain.push("p", memory_write(MSI_TARGET, b"\5\0\0\0"))
    settle(plain)
    assert plain.memory.read(MSI_TARGET, 4) == b"\5\0\0\0" and not plain.pulses


def test_intx_messages_become_levels(plain):
    for wire in (0, 2, 3):
        plain.push("p", message(0x20 + wire))
    settle(plain)
    assert plain.out["intx"] == 0b1101 and plain.register(0x34) == 0b1101
    plain.push("p", message(0x24 + 2))
    settle(plain)
    assert plain.out["intx"] == 0b1001
    plain.values["link_up"] = 0
    plain.step(3)
    assert plain.out["intx"] == 0


def test_intx_waits_for_earlier_writes(plain):
    plain.register(0x1C, 100000)
    plain.memory.silent = True
    plain.push("p", memory_write(RAM, bytes(256)))
    plain.push("p", message(0x20))
    plain.step(100)
    assert not plain.out["intx"]
    plain.memory.silent = False
    settle(plain)
    assert plain.out["intx"] == 1


@pytest.mark.parametrize("code, status, bit", [(0x30, 0x01, 0), (0x31, 0x24, 1), (0x33, 0x54, 2)])
def test_error_messages_reach_the_root_error_registers(plain, code, status, bit):
    plain.config(0, 0x3C, 0x0002_0000)
    plain.config(0, 0x5C, 1 << bit)
    plain.config(0, AER + 0x2C, 1 << bit)
    plain.push("p", message(code, 0x0345, 0))
    settle(plain)
    assert plain.config(0, AER + 0x30) == status
    assert plain.config(0, AER + 0x34) == (0x0345 if bit == 0 else 0x0345_0000)
    assert plain.out["intx"] == 1 and plain.config(0, 4) >> 19 & 1, "INTA of the root port"
    assert plain.system_errors == 1 and plain.register(0x0C) >> 31
    assert (plain.config(0, 4) >> 30 & 1, plain.config(0, 0x1C) >> 30 & 1) == (bit > 0, bit > 0)
    plain.push("p", message(code, 0x0456, 0))
    settle(plain)
    assert plain.config(0, AER + 0x30) == status | (2 if bit == 0 else 8)
    assert plain.config(0, AER + 0x34) == (0x0345 if bit == 0 else 0x0345_0000), "the first one stays"
    plain.config(0, AER + 0x30, ONES)
    plain.step(2)
    assert plain.config(0, AER + 0x30) == 0 and plain.out["intx"] == 0 and plain.counter("message") == 2


def test_error_messages_need_serr_enable_of_the_bridge(plain):
    plain.push("p", message(0x31, 0x0345, 0))
    settle(plain)
    assert plain.config(0, AER + 0x30) == 0 and plain.system_errors == 0 and plain.config(0, 0x1C) >> 30 == 1


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("target", [0xFEE0_0000, 1 << 40])
def test_root_port_interrupts_by_its_own_msi(make, name, target, monkeypatch):
    monkeypatch.setitem(globals(), "MSI_TARGET", target)
    bench = make(name)
    arm_msi(bench)
    bench.config(0, 0x84, target & ONES)
    bench.config(0, 0x88, target >> 32)
    bench.config(0, 0x8C, 17)
    bench.config(0, 0x80, 0x0001_0000)
    bench.config(0, 0x3C, 0x0002_0000)
    bench.config(0, AER + 0x2C, 7)
    for n in range(6):
        bench.push("p", memory_write(RAM + 256 * n, bytes(100)))
        bench.push("p", message(0x30, routing=0))
    settle(bench)
    assert bench.pulses == 1 << 17 and bench.counter("msi") == 1 and bench.out["intx"] == 0
    assert bench.counter("message") == 6 and len(bench.memory.bytes) == 600


@pytest.mark.parametrize("code, event", [(0x18, "ignored"), (0x1B, "ignored"), (0x7F, "ignored"), (0x7E, "posted_ur"), (0x50, "posted_ur"), (0x10, "posted_ur")])
def test_other_messages(plain, code, event):
    plain.push("p", message(code, data=bytes(4) if code == 0x50 else b""))
    plain.push("p", message(0x21))
    settle(plain)
    assert plain.counter(event) == 1 and plain.out["intx"] == 2


# ---- AER of the root port itself ----


def test_unexpected_completion_is_an_advisory_error(plain):
    plain.config(0, 0x48, 0x281F, 2)
    plain.config(0, AER + 0x14, 0)
    stray = completion(SC, bytes(4), 0x55, 4, completer=0x0307)
    plain.push("cpl", stray)
    settle(plain)
    assert plain.config(0, AER + 0x10) == 1 << 13 and plain.config(0, AER + 4) == 1 << 16
    assert plain.config(0, AER + 0x18) == 16, "First Error Pointer"
    assert [plain.config(0, AER + 0x1C + 4 * n) for n in range(3)] == [int.from_bytes(stray[4 * n:4 * n + 4], "big") for n in range(3)]
    assert plain.config(0, AER + 0x30) == 1 and plain.config(0, AER + 0x34) == 0, "ERR_COR of the port itself"
    assert plain.config(0, 0x48) >> 16 & 15 == 1


def test_advisory_error_that_is_masked_sets_its_status_only(plain):
    plain.config(0, 0x48, 0x281F, 2)
    plain.push("np", OTHERS["IORd"])
    settle(plain)
    assert plain.config(0, AER + 0x10) == 1 << 13 and plain.config(0, AER + 4) == 0 and plain.config(0, AER + 0x30) == 0
    assert plain.config(0, 0x48) >> 16 & 15 == 9, "Correctable Error and Unsupported Request Detected"


@pytest.mark.parametrize("severity, status", [(0, 0x24), (1 << 18, 0x54)])
def test_errors_of_the_port_follow_their_severity(plain, severity, status):
    plain.config(0, 4, 0x0006, 2)
    plain.config(0, 0x48, 0x281F, 2)
    plain.config(0, AER + 0x0C, severity)
    plain.push("p", MALFORMED["crosses 4 KiB"])
    settle(plain)
    assert plain.config(0, AER + 0x30) == status
    assert plain.config(0, 0x48) >> 16 & 15 == (4 if severity else 2)
    plain.config(0, AER + 4, ONES)
    assert plain.config(0, AER + 4) == 0


def test_masked_error_is_not_signaled_and_leaves_no_header(plain):
    plain.config(0, 0x48, 0x281F, 2)
    plain.config(0, AER + 8, 1 << 18)
    plain.push("p", MALFORMED["crosses 4 KiB"])
    settle(plain)
    assert plain.config(0, AER + 4) == 1 << 18 and plain.config(0, AER + 0x30) == 0 and plain.config(0, AER + 0x1C) == 0


def test_errors_of_the_lower_layers_reach_aer(plain):
    plain.config(0, 0x48, 0x281F, 2)
    plain.values.update(link_uncorrectable=1 << 4, link_correctable=1 << 6)
    plain.step()
    plain.values.update(link_uncorrectable=0, link_correctable=0)
    assert plain.config(0, AER + 4) == 1 << 4 and plain.config(0, AER + 0x10) == 1 << 6
    assert plain.config(0, AER + 0x30) == 0x55


# ---- registers of the complex ----


def test_register_window(make):
    bench = make(setup=False)
    table = {
        0x00: (0x5243_0001, 0), 0x04: (0, 3), 0x08: (1, 0), 0x0C: (0x0100_0000, None), 0x10: (0, 0x81FF_FFFF), 0x14: (400, ONES), 0x18: (0x0100_1000, ONES),
        0x1C: (600, ONES), 0x20: (0, 0xFFFF_FFFC), 0x24: (0, ONES), 0x28: (0, 1), 0x2C: (0, 0), 0x30: (0, ONES), 0x34: (0, 0), 0x38: (0x83, 0), 0x3C: (0, 0),
        0x80: (0, 0), 0x100: (0, 0), 0xFFC: (0, 0),
    }
    for offset, (value, mask) in table.items():
        assert bench.register(offset) in ((value, value | 0x10100) if offset == 8 else (value,)), hex(offset)
        if mask is not None:
            bench.register(offset, ONES)
            assert bench.register(offset) & ~0xFFFF00 == (value | mask) & ~0xFFFF00 if offset == 8 else bench.register(offset) == value & ~mask | mask, hex(offset)
            bench.register(offset, value)
    bench.register(0x0C, 1 << 24)
    assert bench.register(0x0C) == 0
    bench.register(0x10, 0x1234_5678 & 0x81FF_FFFF)
    bench.write(REGISTERS + 0x11, 0xAB, 1)
    assert bench.register(0x10) == 0x0034_AB78


def test_events_raise_the_interrupt_until_they_are_cleared(plain):
    bit = 1 << EVENTS.index("no_function")
    assert plain.config(8, 0) == ONES
    plain.step()
    assert plain.register(0x0C) & bit and not plain.out["event_interrupt"]
    plain.register(0x10, bit)
    plain.step(2)
    assert plain.out["event_interrupt"]
    plain.register(0x0C, bit)
    plain.step(2)
    assert not plain.out["event_interrupt"]


def test_settings_reach_the_link(plain):
    plain.config(0, 0x50, 0x10, 2)
    plain.config(0, 0x3E, 0x40, 2)
    plain.config(0, 0x48, 0x20, 2)
    plain.step()
    assert plain.out["link_disable"] and plain.out["hot_reset"] and plain.out["max_payload"] == 1
    plain.config(0, 0x48, 0xA0, 2)
    plain.step()
    assert plain.out["max_payload"] == 1, "a size above the design's"


def test_complex_starts_again_after_its_reset(plain):
    """Requests of both sides are outstanding. A completion that comes after the reset belongs to none."""
    plain.partner.silent = plain.memory.silent = True
    plain.start_read(MEMORY32, 3, 4, 1)
    plain.push("p", memory_write(RAM, bytes(64)))
    plain.run(lambda: plain.partner.requests)
    plain.push("np", memory_read(RAM, 64, 9))
    plain.step(100)
    late = plain.partner.requests[0]
    plain.values["rst"] = 1
    for _ in range(4):
        plain.model.tick()
    plain.values["rst"] = 0
    plain.start(2, 0.0)
    plain.partner = Partner(plain)
    plain.step(100)
    assert not plain.tlps and not any(plain.out[port + "valid"] for port in ("s_axi_b", "s_axi_r", "m_axi_aw", "m_axi_w", "m_axi_ar"))
    plain.setup()
    assert plain.register(8) >> 8 == 0 and plain.counter("unexpected") == 0, "requests in flight, and counters"
    plain.partner.answer(late)
    settle(plain)
    assert plain.counter("unexpected") == 1 and plain.read_burst(MEMORY32, 3, 4, 1)[1] == [OKAY] * 4
    plain.push("np", memory_read(RAM, 64, 9))
    settle(plain)
    assert [(tlp.status, tlp.tag) for tlp in replies(plain)] == [(SC, 9)]


# ---- parameters ----


@pytest.mark.parametrize(
    "parameter",
    ["DATA_WIDTH=64", "CPU_WIDTH=32", "CPU_ID=0", "MAX_PAYLOAD=64", "READ_SLOTS=3", "READ_BYTES=64", "DMA_SLOTS=1", "MAX_BURST=1", "MAX_BURST=24", "MAX_BURST=256",
     "ECAM_BUSES=3", "REGISTER_BASE=64'h20000100", "ECAM_BASE=64'h30100000", "MEMORY32_SIZE=64'h30000000", "MEMORY64_BASE=64'h100000", "LINK_SPEED=6",
     "LINK_WIDTH=3", "COUNTER_WIDTH=33"])
def test_illegal_parameter_stops_elaboration_with_a_message(parameter):
    window = {"MEMORY32_SIZE": "the 32-bit memory window", "MEMORY64_BASE": "the 64-bit memory window"}
    name = parameter.split("=")[0]
    assert f"pcie_root_complex: {window.get(name, name)} is " in refusal("pcie_root_complex", parameter)

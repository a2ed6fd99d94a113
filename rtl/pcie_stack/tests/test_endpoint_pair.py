# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Root complex and endpoint in RTL at the two ends of a link: enumeration, registers, DMA and interrupts, and what happens if one end fails."""

import pytest
from device_tree import Enumeration
from endpoint import AER, BAR, COMMAND, EXPRESS, MSI, MSIX
from endpoint_pair import PairBench
from root_complex import DECERR, MEMORY32, MEMORY64, OKAY, SLVERR

RAM = 0x8000_0000
MSI_TARGET = 0xFEE0_0000
DEVICE = 0x100
BUS0, BUS2 = 0x1000_0000, 0x2000_0000  # where the BARs are on the peripheral's bus
SLOW = 20000


@pytest.fixture
def make():
    made = []

    def build(name="joined", **options):
        made.append(PairBench(name, **options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


def enumerate_tree(bench):
    """Enumerates as Linux does. Returns the addresses of BARs 0, 2 and 5."""
    found = Enumeration(bench, MEMORY32, MEMORY64).found
    assert set(found) == {0x000, DEVICE}
    assert [bar[:3] for bar in found[DEVICE]] == [[0, 0x1_0000, False], [2, 0x10_0000, True], [5, 0x1000, False]]
    return [bar[3] for bar in found[DEVICE]]


def enable_msi(bench, vector=4):
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    bench.config(DEVICE, MSI + 4, MSI_TARGET)
    bench.config(DEVICE, MSI + 12, vector, 2)
    bench.config(DEVICE, MSI + 2, 0x21, 2)


@pytest.mark.parametrize("name, stalls", [("joined", 0.0), ("joined", 0.3), ("joined_narrow", 0.1), ("joined_x8", 0.0)])
def test_host_and_peripheral_reach_each_other(make, name, stalls):
    bench = make(name, stalls=stalls)
    side, dice = bench.side, bench.dice
    bar0, bar2, _ = enumerate_tree(bench)
    for bar, base in ((bar0, BUS0), (bar2, BUS2)):
        bench.write(bar + 0x100, 0x0123_4567_89AB_CDEF, 8)
        bench.write(bar + 0x103, 0x77, 1)
        assert bench.read(bar + 0x100, 8) == 0x0123_4567_77AB_CDEF and bench.read(bar + 0x106, 2) == 0x0123
        assert side.memory.read(base + 0x100, 8) == (0x0123_4567_77AB_CDEF).to_bytes(8, "little")
    assert bench.read_burst(bar0 + 0x2_0000, 2)[1] == [DECERR]
    # The peripheral copies host memory, and the host finds it there after the interrupt.
    enable_msi(bench)
    text = dice.randbytes(900)
    bench.memory.write(RAM + 5, text)
    got = b""
    while len(got) < len(text):
        at = RAM + 5 + len(got)
        beats = min(16, (4096 - at % 4096 + side.cpu_bytes - 1) // side.cpu_bytes)
        size = side.cpu_bytes.bit_length() - 1
        data, responses = side.read_burst(at, size, beats, limit=SLOW)
        assert set(responses) == {OKAY}
        got += data
    assert got[:len(text)] == text
    to = RAM + 0x1_0003
    for at in range(0, len(text), 100):
        assert side.write_burst(to + at, 2, text[at:at + 100], limit=SLOW) == OKAY
    side.values["interrupts"] = 0b0010
    bench.run(lambda: bench.out["msi_pending"] >> 5 & 1, SLOW)
    assert bench.memory.read(to, len(text)) == text, "the data are in memory before the interrupt"
    bench.run(bench.quiet, SLOW)
    assert not side.events["cpl_bad"] and not side.events["malformed"] and not bench.events["malformed"]


def test_msix_vectors_reach_the_host(make):
    bench = make()
    side = bench.side
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    _, _, table = enumerate_tree(bench)
    bench.config(DEVICE, MSIX + 2, 0x8000, 2)
    for n in range(4):
        for word, value in enumerate((MSI_TARGET, 0, 8 + n, 0)):
            bench.write(table + 16 * n + 4 * word, value)
    side.values["interrupts"] = 0b1101
    bench.run(lambda: bench.out["msi_pending"] == 0b1101 << 8, SLOW)


def test_many_reads_and_writes_of_both_ends_at_once(make):
    bench = make(stalls=0.1)
    side, dice = bench.side, bench.dice
    bar0, _, _ = enumerate_tree(bench)
    expected, wanted, addresses = {}, {}, {}
    for n in range(120):
        at, data = 0x40 * n, dice.randbytes(dice.randrange(1, 9))
        bench.start_write(bar0 + at, 3, bench.beats_of(bar0 + at, 3, data), 1)
        expected.update({BUS0 + at + k: byte for k, byte in enumerate(data)})
        address = RAM + 0x100 * n
        addresses.setdefault(n % 4, []).append(address)
        bench.memory.write(address, dice.randbytes(64))
        side.start_read(address, 3, 8, n % 4)
        bench.start_read(bar0 + 0x8000 + 8 * n, 3, 1, 2)
        data = dice.randbytes(dice.randrange(1, 40))
        side.start_write(RAM + 0x10_0000 + 0x100 * n + n % 8, 3, side.beats_of(RAM + 0x10_0000 + 0x100 * n + n % 8, 3, data), 5)
        wanted.update({RAM + 0x10_0000 + 0x100 * n + n % 8 + k: byte for k, byte in enumerate(data)})
    bench.run(bench.quiet, 60000)
    bench.step(300)
    assert {address: side.memory.bytes.get(address) for address in expected} == expected and len(side.memory.bytes) == len(expected)
    assert {address: bench.memory.bytes.get(address) for address in wanted} == wanted
    for ident, asked in addresses.items():
        assert b"".join(data for data, _, _ in side.read_beats[ident]) == b"".join(bench.memory.read(address, 64) for address in asked)
    assert b"".join(data for data, _, _ in bench.read_beats[2]) == side.memory.read(BUS0 + 0x8000, 8 * 120)
    answers = [response for beats in (*side.read_beats.values(), bench.read_beats[2]) for _, response, _ in beats]
    assert set(answers) == {OKAY} and set(bench.written[1]) == {OKAY} and set(side.written[5]) == {OKAY}


def test_damaged_frames_are_replayed(make):
    bench = make()
    side = bench.side
    bar0, _, _ = enumerate_tree(bench)
    for n in range(40):
        bench.values["damage"] = bench.dice.choice([0, 1, 2])
        bench.start_write(bar0 + 8 * n, 3, bench.beats_of(bar0 + 8 * n, 3, bytes([n] * 8)), 1)
        bench.step(bench.dice.randrange(30))
        bench.values["damage"] = 0
        bench.step(20)
    bench.run(bench.quiet, 60000)
    assert bench.read_burst(bar0, 3, 40, limit=60000)[0] == bytes(n for n in range(40) for _ in range(8))
    assert bench.config(DEVICE, AER + 0x10) & 0xC1 and bench.config(0, AER + 0x10) & 0xC1, "Receiver Error, Bad TLP or Bad DLLP"
    assert len(side.memory.bytes) == 320


@pytest.mark.parametrize("response, status", [(SLVERR, SLVERR), (DECERR, DECERR)])
def test_errors_of_the_peripheral_reach_the_cpu(make, response, status):
    """SLVERR becomes CA, which the root complex shows as SLVERR. DECERR becomes UR and is DECERR again."""
    bench = make()
    bar0, _, _ = enumerate_tree(bench)
    bench.side.memory.errors.append((BUS0 + 0x40, BUS0 + 0x44, response))
    data, responses = bench.read_burst(bar0 + 0x40, 2)
    assert responses == [status] and data == b"\xff" * 4


def test_peripheral_that_never_answers(make):
    bench = make()
    bar0, _, _ = enumerate_tree(bench)
    bench.side.memory.silent = True
    assert bench.read_burst(bar0, 2, limit=SLOW)[1] == [SLVERR]
    assert bench.side.events["stall"] == 1 and bench.config(DEVICE, 0) == 0x4550_1234
    bench.side.memory.silent = False
    bench.step(50)
    assert bench.read(bar0) == int.from_bytes(bench.side.memory.read(BUS0, 4), "little")


def test_host_memory_that_fails(make):
    bench = make()
    enumerate_tree(bench)
    bench.memory.errors.append((RAM, RAM + 64, SLVERR))
    assert set(bench.side.read_burst(RAM, 3, 4, limit=SLOW)[1]) == {SLVERR}
    assert set(bench.side.read_burst(MEMORY32, 3, 4, limit=SLOW)[1]) == {DECERR}, "an address of a device is no host memory"
    assert bench.side.events["cpl_ca"] == 1 and bench.side.events["cpl_ur"] == 1


@pytest.mark.parametrize("way", ["link", "secondary_bus_reset"])
def test_link_down_with_requests_of_both_ends(make, way):
    bench = make()
    side = bench.side
    bar0, _, _ = enumerate_tree(bench)
    bench.memory.silent = side.memory.silent = True
    bench.start_read(bar0, 2, 1, 1)
    side.start_read(RAM, 3, 4, 1)
    bench.step(300)
    if way == "link":
        bench.values["link"] = 0
    else:
        bench.config(0, 0x3E, 0x42, 2)
    bench.step(300)
    assert [response for _, response, _ in bench.read_beats[1]] == [SLVERR]
    assert [response for _, response, _ in side.read_beats[1]] == [SLVERR] * 4
    assert side.events["function_reset"] == 1 and side.resets == 32
    side.values["interrupts"] = 1
    bench.step(50)
    assert side.events["interrupt_lost"] == 1
    bench.memory.silent = side.memory.silent = False
    bench.values["link"] = 1
    bench.config(0, 0x3E, 0x02, 2)
    bench.wait_for_link()
    bench.step(300)
    enable = bench.config(DEVICE, COMMAND, count=2)
    assert enable == 0, "the function is in its reset state"
    bench.config(DEVICE, BAR, bar0)
    bench.config(DEVICE, COMMAND, 6, 2)
    assert bench.read(bar0) == int.from_bytes(side.memory.read(BUS0, 4), "little")
    assert side.read_burst(RAM, 3, 4, limit=SLOW) == (bench.memory.read(RAM, 32), [OKAY] * 4)


def test_function_level_reset_from_the_host(make):
    bench = make()
    bar0, _, _ = enumerate_tree(bench)
    bench.write(bar0, 0x1234_5678)
    bench.config(DEVICE, EXPRESS + 8, bench.config(DEVICE, EXPRESS + 8, count=2) | 0x8000, 2)
    assert bench.config(DEVICE, COMMAND, count=2) == 0 and bench.read_burst(bar0, 2)[1] == [DECERR]
    bench.step(40)
    assert bench.side.resets == 32


# Cycles of a register read, from the cycle in which the CPU offers the address to the one in which it takes the data. The peripheral answers in the
# cycle after its address. ENDPOINT.md says where the cycles go.
ROUND_TRIP = {("joined", 3): 64, ("joined_x8", 3): 100, ("joined_x8", 88): 270}


@pytest.mark.parametrize("name, latency", ROUND_TRIP)
def test_round_trip_of_a_register_read(make, name, latency):
    bench = make(name, latency=latency)
    bar0, _, _ = enumerate_tree(bench)
    times = []
    for n in range(8):
        bench.step(200)
        start = bench.cycle
        bench.start_read(bar0 + 8, 2, 1, 3)
        bench.run(lambda n=n: len(bench.read_beats[3]) > n)
        times.append(bench.cycle - start)
    # A word of SKP may hold up a read by a few cycles.
    assert min(times) == ROUND_TRIP[name, latency] and max(times) < min(times) + 8, times

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pcie_iommu: translation, its TLB, each fault with its answer and counter, and random traffic against a reference in Python."""

import random

import iommu_figures
import pytest
from iommu import BUILDS, EXECUTE, PAGE, READ, ROOT, VALID, WRITE, IommuBench
from model import refusal
from root_complex import DECERR, OKAY, SLVERR

VIRTUAL, PHYSICAL = 0x1234_5000, 0x9_8765_4000


@pytest.fixture
def make():
    made = []

    def build(*arguments, **options):
        made.append(IommuBench(*arguments, **options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make):
    made = make()
    made.tables.map(VIRTUAL, PHYSICAL)
    made.enable()
    return made


def physical_accesses(bench):
    """Addresses of the accesses that are not page table walks."""
    walk = 1 << bench.parameters["ID_BITS"]
    return [address for kind, address, ident in bench.log if kind == "write" or ident < walk]


def data_of(bench, beats, seed=1):
    return random.Random(seed).randbytes(beats * bench.width)


@pytest.mark.parametrize("name", BUILDS)
def test_addresses_stay_while_it_is_off(make, name):
    bench = make(name)
    data = data_of(bench, 3)
    assert bench.write_burst(0xFF_0000_0040, data, 1) == OKAY and bench.read_burst(0xFF_0000_0040, 3, 1) == (data, {OKAY})
    assert physical_accesses(bench) == [0xFF_0000_0040] * 2 and not bench.count()


@pytest.mark.parametrize("name", BUILDS)
def test_page_is_walked_once_and_then_translated(make, name):
    bench = make(name)
    bench.tables.map(VIRTUAL, PHYSICAL)
    bench.enable()
    data = data_of(bench, 4)
    assert bench.write_burst(VIRTUAL + 0x40, data) == OKAY
    assert bench.memory.read(PHYSICAL + 0x40, len(data)) == data
    assert bench.read_burst(VIRTUAL + 0x40, 4, 1) == (data, {OKAY})
    assert physical_accesses(bench) == [PHYSICAL + 0x40] * 2
    assert len(bench.log) == 2 + bench.parameters["LEVELS"] and bench.count() == {"translated": 2, "walk": 1}


def test_least_recent_walk_loses_its_entry(bench):
    pages = [VIRTUAL + n * PAGE for n in range(5)]
    for n, page in enumerate(pages):
        bench.tables.map(page, PHYSICAL + n * PAGE)
    for page in (*pages[:4], *pages[:4]):
        bench.read_burst(page)
    assert bench.count() == {"translated": 8, "walk": 4}
    bench.read_burst(pages[4])
    bench.read_burst(pages[1])
    assert bench.count()["walk"] == 5
    bench.read_burst(pages[0])
    assert bench.count()["walk"] == 6


def test_flush_makes_new_tables_visible(bench):
    bench.memory.write(PHYSICAL + PAGE, b"new!", 15)
    bench.read_burst(VIRTUAL)
    bench.tables.map(VIRTUAL, PHYSICAL + PAGE)
    assert bench.read_burst(VIRTUAL)[0][:4] != b"new!"
    bench.flush()
    assert bench.read_burst(VIRTUAL)[0][:4] == b"new!"


@pytest.mark.parametrize("cycles", range(1, 40))
def test_walk_during_a_flush_is_done_again(make, cycles):
    bench = make(latency=10)
    bench.memory.write(PHYSICAL + PAGE, b"new!", 15)
    bench.tables.map(VIRTUAL, PHYSICAL)
    bench.enable()
    bench.start_read(VIRTUAL)
    bench.step(cycles)
    old = bool(physical_accesses(bench))
    bench.tables.map(VIRTUAL, PHYSICAL + PAGE)
    bench.flush()
    bench.run(lambda: bench.read[0])
    # The flush may come after the translation of this read, but the next read never sees the old one.
    if old:
        assert bench.read[0][0][0] == bench.memory.read(PHYSICAL, bench.width)
    bench.read_burst(VIRTUAL)
    assert bench.read[0][1][0][:4] == b"new!"


def test_page_without_translation_gets_decerr(bench):
    assert bench.read_burst(VIRTUAL + PAGE, 3) == (b"\xff" * 3 * bench.width, {DECERR})
    assert bench.out["fault_address"] == VIRTUAL + PAGE and not bench.out["fault_write"]
    assert bench.write_burst(VIRTUAL + 2 * PAGE, data_of(bench, 3)) == DECERR
    assert bench.out["fault_address"] == VIRTUAL + 2 * PAGE and bench.out["fault_write"]
    # A table that is missing as a whole
    assert bench.read_burst(1 << 30 | VIRTUAL, 1)[1] == {DECERR}
    assert not physical_accesses(bench) and bench.count() == {"walk": 3, "unmapped": 3}


def test_address_above_the_tables_gets_decerr_without_a_walk(bench):
    for address in (1 << 39, 1 << 63):
        assert bench.read_burst(address | VIRTUAL)[1] == {DECERR} and bench.write_burst(address | VIRTUAL, data_of(bench, 1)) == DECERR
    assert not bench.log and bench.count() == {"unmapped": 4}


def test_page_without_permission_gets_decerr(bench):
    bench.tables.map(VIRTUAL, PHYSICAL, READ)
    before = bench.memory.read(PHYSICAL, bench.width)
    assert bench.write_burst(VIRTUAL, data_of(bench, 2)) == DECERR and bench.memory.read(PHYSICAL, bench.width) == before
    assert bench.read_burst(VIRTUAL)[1] == {OKAY}
    # Executable only
    bench.tables.map(VIRTUAL + PAGE, PHYSICAL, EXECUTE)
    assert bench.read_burst(VIRTUAL + PAGE)[1] == {DECERR}
    assert bench.count() == {"translated": 1, "walk": 2, "permission": 2}


@pytest.mark.parametrize("level, entry", [(0, VALID), (1, VALID | READ), (2, VALID | READ | WRITE), (0, VALID | WRITE), (0, VALID | WRITE | EXECUTE)])
def test_illegal_entry_gets_slverr(bench, level, entry):
    # A pointer in the last table, a leaf in an upper one, and a page that may be written but not read
    bench.tables.set(bench.tables.place(VIRTUAL, level), PHYSICAL >> 12 << 10 | entry)
    assert bench.read_burst(VIRTUAL)[1] == {SLVERR} and bench.write_burst(VIRTUAL, data_of(bench, 1)) == SLVERR
    assert not physical_accesses(bench) and bench.count() == {"walk": 2, "table": 2}


@pytest.mark.parametrize("response", [SLVERR, DECERR])
def test_error_of_the_memory_during_a_walk_gets_slverr(bench, response):
    bench.memory.errors = [(ROOT, ROOT + PAGE, response)]
    assert bench.read_burst(VIRTUAL)[1] == {SLVERR} and bench.count() == {"walk": 1, "table": 1}
    bench.memory.errors = []
    assert bench.read_burst(VIRTUAL)[1] == {OKAY}


def test_error_of_the_memory_reaches_the_root_complex(bench):
    bench.memory.errors = [(PHYSICAL, PHYSICAL + PAGE, SLVERR)]
    assert bench.read_burst(VIRTUAL)[1] == {SLVERR} and bench.write_burst(VIRTUAL, data_of(bench, 1)) == SLVERR
    assert bench.count() == {"translated": 2, "walk": 1}


def test_data_of_a_write_do_not_wait_for_awready(bench):
    """AXI lets a memory accept the address after the data only."""
    bench.addresses_last = True
    assert bench.write_burst(VIRTUAL, data_of(bench, 4)) == OKAY and bench.memory.read(PHYSICAL, 4 * bench.width) == data_of(bench, 4)


def test_walk_that_failed_is_answered_once(make):
    """The walk of a write makes the page known while a read of it waits to be refused."""
    bench = make()
    bench.enable()
    bench.hold_reads = True
    for address in (1 << 63, VIRTUAL):
        bench.start_read(address)
    bench.step(50)
    bench.tables.map(VIRTUAL, PHYSICAL)
    assert bench.write_burst(VIRTUAL, data_of(bench, 1)) == OKAY
    bench.hold_reads = False
    bench.run(bench.quiet)
    bench.step(50)
    assert [response for _, response in bench.read[0]] == [DECERR] * 2 and bench.count() == {"translated": 1, "walk": 2, "unmapped": 2}


def test_fault_waits_for_earlier_requests(make):
    bench = make(latency=50)
    bench.tables.map(VIRTUAL, PHYSICAL)
    bench.enable()
    for address in (VIRTUAL, VIRTUAL + PAGE, VIRTUAL):
        bench.start_read(address, 2)
        bench.start_write(address, data_of(bench, 2))
    bench.run(bench.quiet)
    assert [response for _, response in bench.read[0]] == [OKAY] * 2 + [DECERR] * 2 + [OKAY] * 2 and bench.written[0] == [OKAY, DECERR, OKAY]


@pytest.mark.parametrize("name, stalls, latency", [("plain", 0.0, 1), ("plain", 0.4, 7), ("narrow", 0.2, 3), ("wide", 0.3, 20)])
def test_random_traffic_agrees_with_the_reference(make, name, stalls, latency):
    dice = random.Random(name)
    bench = make(name, stalls=stalls, latency=latency)
    idents = min(4, 1 << bench.parameters["ID_BITS"])
    # Even pages are read and odd ones are written. No two virtual pages share a physical one.
    flags = {n: dice.choice([READ, READ | WRITE, None]) for n in range(24)}
    for n, flag in flags.items():
        if flag is not None:
            bench.tables.map(VIRTUAL + n * PAGE, PHYSICAL + 7 * n % 24 * PAGE, flag)
    bench.enable()
    answers, expected, wanted = {n: [] for n in range(idents)}, {n: [] for n in range(idents)}, {}
    refused = 0
    for round_ in range(300):
        n, beats, ident = dice.randrange(24), dice.randrange(1, 5), dice.randrange(idents)
        at = dice.randrange(PAGE // bench.width - 4) * bench.width
        virtual, physical = VIRTUAL + n * PAGE + at, PHYSICAL + 7 * n % 24 * PAGE + at
        if n % 2:
            allowed = flags[n] == READ | WRITE
            data = data_of(bench, beats, round_)
            bench.start_write(virtual, data, ident)
            wanted.update(enumerate(data, physical) if allowed else ())
            expected[ident].append(OKAY if allowed else DECERR)
        else:
            allowed = flags[n] is not None
            bench.start_read(virtual, beats, ident)
            for beat in range(beats):
                data = bench.memory.read(physical + beat * bench.width, bench.width) if allowed else b"\xff" * bench.width
                answers[ident].append((data, OKAY if allowed else DECERR))
        refused += not allowed
        if not round_ % 40:
            bench.flush()
        if not round_ % 7:
            bench.run(bench.quiet, 20000)
    bench.run(bench.quiet, 20000)
    assert answers == {n: bench.read[n] for n in answers} and expected == {n: bench.written[n] for n in expected}
    assert {address: bench.memory.bytes[address] for address in wanted} == wanted
    counts = bench.count()
    # Two events of a kind in one cycle count once.
    assert 0 < counts["unmapped"] + counts["permission"] == refused and 280 - refused < counts["translated"] <= 300 - refused


def test_module_costs_one_cycle_and_misses_cost_walks():
    rows = {(row["memory_latency_cycles"], row["iommu"]): row for row in iommu_figures.rows()}
    for latency in iommu_figures.LATENCIES:
        off, hits, misses = (rows[latency, iommu] for iommu in ("off", "hits", "misses"))
        assert off["read_latency_cycles"] == hits["read_latency_cycles"] == latency + 1
        # Three dependent reads of the memory
        walk = misses["read_latency_cycles"] - hits["read_latency_cycles"]
        assert 3 * latency < walk < 3 * (latency + 6)
        for kind in ("read", "write"):
            column = f"{kind}_bytes_per_cycle"
            assert hits[column] == off[column] and misses[column] < hits[column]


@pytest.mark.parametrize("parameter, message", [
    ("DATA_WIDTH=32", "DATA_WIDTH is 32"), ("DATA_WIDTH=1024", "DATA_WIDTH is 1024"), ("ENTRIES=0", "ENTRIES is 0"), ("ENTRIES=33", "ENTRIES is 33"), ("LEVELS=1", "LEVELS is 1"),
    ("LEVELS=4", "LEVELS is 4"),
])
def test_illegal_parameter_stops_elaboration_with_a_message(parameter, message):
    assert f"pcie_iommu: {message}; expected" in refusal("pcie_iommu", parameter)

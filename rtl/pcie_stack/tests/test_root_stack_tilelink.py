# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The root complex with TileLink ports, at its frames: a TileLink client above, a TileLink memory, and the data link layer in Python at the link."""

import pytest
from device_tree import Bridge, Endpoint, Enumeration, Tree
from root_complex import DECERR, MEMORY32, MEMORY64, OKAY, SLVERR
from test_root_stack import MSI_TARGET, RAM, start_copy, with_device
from tilelink import GET, INTENT, LOGICAL, PUT_FULL, PUT_PARTIAL
from tilelink_stack import TileLinkBench
from tlps import CA, SC, UR, Tlp, completion, completions_of, memory_read, memory_write


@pytest.fixture
def make():
    made = []

    def build(name="tilelink_stack", **options):
        made.append(TileLinkBench(name, **options))
        made[-1].register(0x04, 1)
        made[-1].run(lambda: made[-1].out["dl_up"], 6000)
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.mark.parametrize("name, stalls", [("tilelink_stack", 0.0), ("tilelink_stack", 0.1), ("narrow_tilelink_stack", 0.0)])
def test_device_is_enumerated_and_copies_memory(make, name, stalls):
    bench = make(name, seed=5, stalls=stalls)
    copy = Endpoint(0xD001, 0x1_0000, False)
    Tree(bench, Bridge(0x5001, 5, {0: Bridge(0x5002, 6, {0: copy})}))
    found = Enumeration(bench, MEMORY32, MEMORY64)
    assert set(found.found) == {0x000, 0x100, 0x200, 0x300}
    bench.write(copy.base() + 0x100, 0x0123_4567_89AB_CDEF, 8)
    bench.write(copy.base() + 0x103, 0x77, 1)
    assert bench.read(copy.base() + 0x100, 8) == 0x0123_4567_77AB_CDEF
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    bench.config(0x300, 0x54, MSI_TARGET)
    bench.config(0x300, 0x5C, 4, 2)
    bench.config(0x300, 0x52, 1, 2)
    text = bytes(range(256)) + bytes(range(255, -1, -1))
    bench.memory.write(RAM + 5, text)
    start_copy(bench, copy, RAM + 5, RAM + 0x4_0003, len(text))
    bench.run(lambda: bench.out["msi_pending"] >> 4 & 1, 20000)
    assert bench.memory.read(RAM + 0x4_0003, len(text)) == text, "the data are in memory before the interrupt"
    bench.run(bench.quiet, 20000)
    assert not bench.link.counts, bench.link.counts
    assert {GET, PUT_PARTIAL} <= {opcode for opcode, _, _ in bench.manager.log}


def test_long_messages_are_one_request_on_the_link(make):
    bench = make()
    with_device(bench)
    bench.tlps.clear()
    memory = {}

    def device(raw):
        tlp = Tlp(raw)
        if tlp.has_data and tlp.is_memory:
            memory.update(tlp.enabled())
        elif tlp.is_memory:
            for part in completions_of(tlp, lambda at: memory.get(at, 0)):
                bench.push("cpl", part)

    bench.on_tlp = device
    data = bytes(range(64))
    assert bench.write_burst(MEMORY32 + 0x40, 6, data) == OKAY
    assert bench.ask(GET, MEMORY32 + 0x40, 6) == (data, [OKAY] * 8)
    assert [(Tlp(raw).length, Tlp(raw).address) for raw in bench.tlps] == [(16, MEMORY32 + 0x40)] * 2
    # Several sources at once: the second read leaves before the first is answered.
    bench.on_tlp = None
    bench.tlps.clear()
    for source in range(4):
        bench.send(GET, source, MEMORY32 + 0x40 * source, 6)
    bench.run(lambda: len(bench.tlps) == 4)
    for raw in bench.tlps[:]:
        device(raw)
    bench.run(lambda: len(bench.answers) == 4)
    assert b"".join(part for part, _, _ in bench.answers[1][1]) == data


def test_errors_of_link_and_memory_have_their_answers(make):
    bench = make()
    with_device(bench)
    # In no window; refused by the device; aborted by the device.
    assert bench.ask(GET, 0x1000, 2)[1] == [DECERR] and bench.ask(PUT_FULL, 0x1000, 2, bytes(4))[1] == [DECERR]
    for status, response in ((UR, DECERR), (CA, SLVERR)):
        bench.on_tlp = lambda raw, status=status: bench.push("cpl", completion(status, b"", Tlp(raw).tag, 4))
        data, responses = bench.ask(GET, MEMORY32 + 0x100, 2)
        assert responses == [response] and data == b"\xff" * 4
    # Atomics are denied, hints are not.
    bench.tlps.clear()
    assert bench.ask(LOGICAL, MEMORY32 + 0x100, 2, bytes(4))[1] == [DECERR] and bench.ask(INTENT, MEMORY32, 6)[1] == [OKAY]
    assert not bench.tlps
    # The memory denies a read, makes one corrupt, and denies a write of the device.
    bench.on_tlp = None
    for response, status in ((DECERR, UR), (SLVERR, CA)):
        bench.memory.errors = [(RAM, RAM + 0x1000, response)]
        bench.tlps.clear()
        bench.push("np", memory_read(RAM, 64, 7))
        bench.run(lambda: any(Tlp(raw).is_completion for raw in bench.tlps))
        assert [Tlp(raw).status for raw in bench.tlps] == [status]
    bench.push("p", memory_write(RAM, bytes(16)))
    bench.run(bench.quiet, 20000)
    bench.step(20)
    assert bench.events["write_error"] == 1 and bench.events["read_error"] == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_silent_memory_is_given_up(make, frozen):
    bench = make()
    with_device(bench)
    bench.run(bench.quiet, 20000)
    bench.on_tlp = None
    bench.tlps.clear()
    bench.memory.frozen, bench.memory.silent = frozen, True
    bench.push("np", memory_read(RAM, 64, 7))
    bench.run(lambda: bench.tlps, 6000)
    assert Tlp(bench.tlps[0]).status == CA and not bench.events["stall"], "the bridge gives up before the complex does"
    bench.memory.frozen = bench.memory.silent = False
    bench.run(bench.quiet, 6000)
    bench.memory.write(RAM, bytes(range(64)))
    bench.step(20)
    bench.tlps.clear()
    bench.push("np", memory_read(RAM, 64, 8))
    bench.run(lambda: bench.tlps, 6000)
    assert (Tlp(bench.tlps[0]).status, Tlp(bench.tlps[0]).data) == (SC, bytes(range(64)))


def test_link_goes_down_with_messages_outstanding(make):
    bench = make()
    with_device(bench)
    bench.on_tlp = None
    bench.tlps.clear()
    for source in range(3):
        bench.send(GET, source, MEMORY32 + 0x40 * source, 6)
    bench.run(lambda: len(bench.tlps) == 3)
    bench.cut()
    bench.run(lambda: len(bench.answers) == 3, 6000)
    assert all(corrupt and not denied for _, beats in bench.answers.values() for _, denied, corrupt in beats)
    bench.answers.clear()
    assert bench.ask(GET, MEMORY32, 3)[1] == [SLVERR] and bench.ask(PUT_FULL, MEMORY32, 3, bytes(8))[1] == [OKAY]

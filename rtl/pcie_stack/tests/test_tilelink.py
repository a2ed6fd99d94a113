# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The TileLink bridges: each rule and each kind of bad input with its answer and its counter, and random traffic against a memory in Python."""

import os

import pytest
from model import refusal
from root_complex import DECERR, OKAY, SLVERR
from tilelink import ARITHMETIC, CLIENTS, GET, INTENT, LOGICAL, MANAGERS, PUT_FULL, PUT_PARTIAL, ClientBench, ManagerBench, lanes

ROUNDS = int(os.environ.get("TILELINK_ROUNDS", "300"))


@pytest.fixture
def make():
    made = []

    def build(kind, *arguments, **options):
        made.append(kind(*arguments, **options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.fixture
def manager(make):
    return make(ManagerBench)


@pytest.fixture
def client(make):
    return make(ClientBench)


# ---- from TileLink to AXI4 ----


@pytest.mark.parametrize("name", MANAGERS)
def test_each_size_is_one_burst(make, name):
    bench = make(ManagerBench, name)
    for size in range(bench.longest + 1):
        address = 0x3000 + (1 << size)
        data = bytes(n + size & 0xFF for n in range(1 << size))
        assert bench.ask(PUT_FULL, 1, address, size, data) == (False, None, [0])
        assert bench.memory.read(address, 1 << size) == data
        denied, got, corrupt = bench.ask(GET, 1, address, size)
        assert (denied, got, any(corrupt)) == (False, data, False)
        beats, axi_size = max(1, (1 << size) // bench.width), min(size, bench.width.bit_length() - 1)
        write, read = bench.log[-2:]
        assert (write[1], len(write[2]), write[3]) == (address, beats, axi_size) and read == ("read", address, beats, axi_size)


def test_partial_put_writes_the_masked_bytes_only(manager):
    before = manager.memory.read(0x100, 16)
    assert manager.ask(PUT_PARTIAL, 3, 0x100, 4, bytes(range(100, 116)), mask=[0b1000_0001, 0b0001_1000]) == (False, None, [0])
    expected = bytes(100 + n if n in (0, 7, 11, 12) else before[n] for n in range(16))
    assert manager.memory.read(0x100, 16) == expected
    assert manager.ask(PUT_PARTIAL, 3, 0x100, 3, bytes(8), mask=0) == (False, None, [0])
    assert manager.memory.read(0x100, 16) == expected


def test_requests_of_several_sources_are_on_the_bus_together(manager):
    manager.silent = True
    for source in range(8):
        manager.send(GET, source, 0x40 * source, 6)
    manager.step(60)
    assert len(manager.ar) == 8
    # The ninth waits for a slot.
    manager.send(GET, 9, 0x8000, 3)
    manager.step(20)
    assert len(manager.ar) == 8 and not manager.answers
    manager.silent = False
    for source in (*range(8), 9):
        assert manager.answer(source)[0] is False
    assert not manager.events


# Message with the fault, the event, and the opcode of the answer (0 AccessAck, 1 AccessAckData).
FAULTS = {
    "unaligned get": ((GET, 0x1004, 3, {}), "malformed"),
    "unaligned put": ((PUT_FULL, 0x1008, 4, {}), "malformed"),
    "mask of a get": ((GET, 0x1000, 3, {"mask": 0x7F}), "malformed"),
    "mask of a full put": ((PUT_FULL, 0x1000, 3, {"mask": 0xFE}), "malformed"),
    "mask of a later beat": ((PUT_FULL, 0x1000, 5, {"mask": [0xFF, 0xFF, 0xFF, 0]}), "malformed"),
    "mask outside the bytes": ((PUT_PARTIAL, 0x1000, 2, {"mask": 0x1F}), "malformed"),
    "parameter": ((GET, 0x1000, 3, {"param": 1}), "malformed"),
    "opcode 6": ((6, 0x1000, 3, {}), "malformed"),
    "opcode 7": ((7, 0x1000, 3, {}), "malformed"),
    "corrupt get": ((GET, 0x1000, 3, {"corrupt": 1}), "malformed"),
    "changed address": ((PUT_FULL, 0x1000, 4, {"address": [0x1000, 0x1010]}), "malformed"),
    "long get": ((GET, 0x1000, 7, {}), "too_long"),
    "long put": ((PUT_FULL, 0x1000, 9, {}), "too_long"),
    "longest put": ((PUT_PARTIAL, 0, 15, {}), "too_long"),
    "arithmetic": ((ARITHMETIC, 0x1000, 3, {"param": 4}), "atomic"),
    "logical": ((LOGICAL, 0x1000, 5, {}), "atomic"),
    "corrupt put": ((PUT_FULL, 0x1000, 3, {"corrupt": 1}), "corrupt"),
    "corrupt beat of a put": ((PUT_FULL, 0x1000, 6, {"corrupt": [0, 0, 0, 1, 0, 0, 0, 0]}), "corrupt"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_message_is_denied_and_counted(manager, fault):
    (opcode, address, size, fields), event = FAULTS[fault]
    denied, data, corrupt = manager.ask(opcode, 5, address, size, bytes(1 << size), limit=20000, **fields)
    assert denied and (data is None or (set(data) == {0xFF} and all(corrupt)))
    assert len(corrupt) == (max(1, (1 << size) // 8) if opcode in (GET, ARITHMETIC, LOGICAL) else 1)
    manager.step()
    assert manager.events == {event: 1} and manager.counter(event) == 1
    assert not manager.log, "the bus sees none of it"
    assert manager.ask(GET, 5, 0x1000, 3)[1] == manager.memory.read(0x1000, 8)


def test_hint_is_acknowledged_without_the_bus(manager):
    assert manager.ask(INTENT, 2, 0x1000, 6, param=1) == (False, None, [0])
    assert not manager.log and not manager.events


def test_source_in_use_waits(manager):
    manager.silent = True
    manager.send(GET, 4, 0x100, 3)
    manager.step(20)
    # The checker judges the client as well: this client breaks the rule on purpose.
    manager.tilelink.outstanding.clear()
    manager.send(PUT_FULL, 4, 0x200, 3, bytes(8))
    manager.step(40)
    assert manager.events == {"source": 1} and not manager.b and not manager.answers
    manager.tilelink.outstanding[4] = (GET, 3)
    manager.silent = False
    assert manager.answer(4)[1] == manager.memory.read(0x100, 8)
    manager.tilelink.outstanding[4] = (PUT_FULL, 3)
    assert manager.answer(4) == (False, None, [0])
    assert manager.memory.read(0x200, 8) == bytes(8) and manager.events == {"source": 1}


def test_errors_of_the_bus_become_denied_and_corrupt(manager):
    manager.memory.errors = [(0x1000, 0x1010, DECERR), (0x2010, 0x2018, SLVERR), (0x3018, 0x3020, DECERR)]
    # DECERR denies; SLVERR makes its beat corrupt; DECERR in a later beat denies the whole answer.
    assert manager.ask(GET, 1, 0x1000, 3) == (True, b"\xff" * 8, [1])
    denied, data, corrupt = manager.ask(GET, 1, 0x2000, 5)
    assert (denied, corrupt) == (False, [0, 0, 1, 0]) and data[:16] == manager.memory.read(0x2000, 16) and data[24:] == manager.memory.read(0x2018, 8)
    assert manager.ask(GET, 1, 0x3000, 5) == (True, b"\xff" * 32, [1] * 4)
    for address in (0x1000, 0x2010):
        assert manager.ask(PUT_FULL, 1, address, 3, bytes(8)) == (True, None, [0])
    manager.step()
    assert manager.events == {"decode": 3, "error": 2}


@pytest.mark.parametrize("frozen", [False, True])
def test_silent_bus_is_given_up_and_comes_back(manager, frozen):
    manager.frozen, manager.silent = frozen, True
    manager.send(GET, 1, 0x100, 6)
    manager.send(PUT_FULL, 2, 0x200, 6, bytes(64))
    assert manager.answer(1) == (True, b"\xff" * 64, [1] * 8) and manager.answer(2) == (True, None, [0])
    manager.step()
    assert manager.events == {"stall": 1, "given_up": 2}
    # New messages are denied at once, and hints need no bus.
    began = manager.cycle
    assert manager.ask(GET, 1, 0x100, 3)[0] and manager.ask(PUT_FULL, 3, 0x300, 3, bytes(8))[0] and not manager.ask(INTENT, 3, 0, 3)[0]
    assert manager.cycle - began < 40 and manager.events["given_up"] == 4
    manager.frozen = manager.silent = False
    manager.run(manager.quiet)
    manager.step(4)
    assert manager.ask(GET, 1, 0x100, 6)[1] == manager.memory.read(0x100, 64)
    assert manager.ask(PUT_FULL, 2, 0x240, 3, bytes(8)) == (False, None, [0])
    if frozen:
        # The bus had not taken the burst: no byte of it is written, but the beat that was offered.
        late = next(strobes for kind, address, strobes, _ in manager.log if (kind, address) == ("write", 0x200))
        assert [bool(strobe) for strobe in late] == [True] + [False] * 7
    assert manager.events["stall"] == 1 and "unexpected" not in manager.events


def test_answer_without_a_request_is_dropped_and_counted(manager):
    manager.checkers = [manager.tilelink]
    manager.queues["m_axi_b"].append({"id": 3, "resp": OKAY})
    manager.queues["m_axi_r"].append({"id": 2, "data": 0, "resp": OKAY, "last": 1})
    manager.step(10)
    assert manager.events["unexpected"] in (1, 2) and not manager.answers
    # A burst that ends early is denied as a whole.
    manager.silent = True
    manager.send(GET, 7, 0x100, 6)
    manager.run(lambda: manager.ar)
    entry = manager.ar.pop()
    manager.silent = False
    manager.queues["m_axi_r"].append({"id": entry["id"], "data": 0, "resp": OKAY, "last": 1})
    assert manager.answer(7)[0]
    assert manager.ask(GET, 7, 0x100, 6)[1] == manager.memory.read(0x100, 64)


@pytest.mark.parametrize("name, stalls, delay, seed", [("tl_uh", 0.0, 0, 1), ("tl_uh", 0.3, 40, 2), ("tl_ul", 0.2, 30, 3), ("tl_wide", 0.2, 60, 4)])
def test_random_messages_against_a_memory_in_python(make, name, stalls, delay, seed):
    bench = make(ManagerBench, name, seed=seed, stalls=stalls, delay=delay)
    dice, sources = bench.dice, min(16, 1 << bench.parameters["SOURCE_BITS"])
    bench.memory.errors = [(0x1_0000 * n + 0x3000, 0x1_0000 * n + 0x4000, DECERR if n & 1 else SLVERR) for n in range(sources)]
    expected, asked, sent, bad = {}, {}, 0, 0
    while sent < ROUNDS or asked:
        for source in list(bench.answers):
            opcode, address, size, data, mask, fault = asked.pop(source)
            denied, got, corrupt = bench.answer(source)
            refused = fault or (address & 0x3000 == 0x3000 and opcode != INTENT)
            if fault or (refused and (opcode != GET or source & 1)):
                assert denied, (source, opcode, hex(address), fault)
            elif refused:
                assert not denied and all(corrupt)
            else:
                assert not denied and not any(corrupt)
                if opcode == GET:
                    assert got == bytes(expected.get(n, bench.memory.read(n, 1)[0]) for n in range(address, address + len(got)))
                for n, byte in enumerate(data if opcode in (PUT_FULL, PUT_PARTIAL) else b""):
                    if mask >> n & 1:
                        expected[address + n] = byte
        free = [source for source in range(sources) if source not in asked]
        if free and sent < ROUNDS and len(bench.queues["a_"]) < 20:
            source = dice.choice(free)
            size = dice.randrange(bench.longest + 1)
            address = 0x1_0000 * source + dice.randrange(0x4000 >> size) * (1 << size)
            opcode = dice.choice([GET, GET, GET, PUT_FULL, PUT_FULL, PUT_PARTIAL, PUT_PARTIAL, INTENT])
            data = dice.randbytes(1 << size)
            mask = dice.getrandbits(1 << size) if opcode == PUT_PARTIAL else (1 << (1 << size)) - 1
            low = address % bench.width if 1 << size < bench.width else 0
            masks = [mask << low >> bench.width * n & lanes(address, size, bench.width) for n in range(max(1, (1 << size) // bench.width))]
            fields, fault = {}, dice.random() < 0.1 and opcode != INTENT
            if fault:
                bad += 1
                kind = dice.randrange(3) if size else 1
                if kind == 0:
                    address += 1 << dice.randrange(size)
                    masks = [lanes(address, size, bench.width)] * len(masks)
                elif kind == 1:
                    fields["corrupt"] = 1
                else:
                    opcode = dice.choice([ARITHMETIC, LOGICAL])
            bench.send(opcode, source, address, size, data, mask=masks if opcode in (PUT_FULL, PUT_PARTIAL) else lanes(address, size, bench.width), **fields)
            asked[source] = (opcode, address, size, data, mask, fault)
            sent += 1
        bench.step()
    bench.run(bench.quiet)
    assert {n: bench.memory.bytes.get(n) for n in expected} == expected and set(bench.memory.bytes) == set(expected)
    assert sum(bench.events[event] for event in ("malformed", "atomic", "corrupt")) == bad
    assert not set(bench.events) - {"malformed", "atomic", "corrupt", "decode", "error"}


# ---- from AXI4 to TileLink ----


@pytest.mark.parametrize("name", CLIENTS)
def test_bursts_become_the_longest_messages(make, name):
    bench = make(ClientBench, name)
    width, longest = bench.width, bench.longest
    size = width.bit_length() - 1
    data = bytes(n * 7 & 0xFF for n in range(10 * width))
    assert bench.write_burst(0x2000 + width, size, data) == OKAY
    assert bench.memory.read(0x2000 + width, len(data)) == data
    got, responses = bench.read_burst(0x2000 + width, size, 10)
    assert got == data and responses == [OKAY] * 10
    for opcode in (PUT_FULL, GET):
        at = 0x2000 + width
        for found, address, bits in bench.log:
            if found == opcode:
                assert address == at and address % (1 << bits) == 0 and bits <= longest
                room = 0x2000 + 11 * width - at
                assert bits == longest or 2 << bits > room or at % (2 << bits), "a longer one fits"
                at += 1 << bits
        assert at == 0x2000 + 11 * width


def test_narrow_and_unaligned_beats(client):
    assert client.read_burst(0x1002, 1, 3)[0] == client.memory.read(0x1002, 6)
    assert client.log == [(GET, 0x1002, 1), (GET, 0x1004, 1), (GET, 0x1006, 1)]
    client.log.clear()
    data, responses = client.read_burst(0x1003, 3, 2)
    assert data == client.memory.read(0x1003, 13) and responses == [OKAY] * 2
    assert client.log == [(GET, 0x1000, 4)]
    client.log.clear()
    assert client.write_burst(0x1004, 2, bytes([1, 2, 3, 4])) == OKAY
    assert client.write_burst(0x2003, 3, bytes(range(10, 23))) == OKAY
    assert client.write_burst(0x3000, 3, bytes(range(32)), strobes=0xF0FF_00FF) == OKAY
    assert client.log == [(PUT_FULL, 0x1004, 2), (PUT_PARTIAL, 0x2000, 4), (PUT_PARTIAL, 0x3000, 5)]
    assert client.memory.read(0x1004, 4) == bytes([1, 2, 3, 4]) and client.memory.read(0x2003, 13) == bytes(range(10, 23))
    assert {n for n in client.memory.bytes if 0x3000 <= n < 0x3020} == {0x3000 + n for n in range(32) if 0xF0FF_00FF >> n & 1}


def test_gets_are_in_flight_together_and_answered_in_order(make):
    client = make(ClientBench, delay=50)
    for n in range(12):
        client.start_read(0x40 * n, 3, 8, ident=n % 3)
    client.run(lambda: len(client.manager.pending) == 8)
    client.run(client.quiet)
    for ident in range(3):
        for n, at in enumerate(range(ident, 12, 3)):
            assert client.collect(0x40 * at, 3, client.read[ident][8 * n:8 * n + 8])[0] == client.memory.read(0x40 * at, 64)


@pytest.mark.parametrize("name, together", [("tl_uh", 1), ("tl_wide", 6)])
def test_bursts_of_writes_wait_for_each_other_if_ordered(make, name, together):
    bench = make(ClientBench, name)
    bench.manager.silent = True
    for n in range(6):
        bench.start_write(0x1000 + 8 * n, 3, bytes(8))
    bench.step(80)
    assert len(bench.manager.pending) == together
    bench.manager.silent = False
    bench.run(bench.quiet)
    assert bench.written[0] == [OKAY] * 6


def test_put_that_is_answered_early_keeps_its_slot_until_it_is_sent(client):
    client.start_write(0x1000, 3, bytes(range(64)), ident=1)
    client.run(lambda: client.manager.pending)
    client.manager.open = False
    for n in range(8):
        client.start_write(0x2000 + 8 * n, 3, bytes([n] * 8))
    client.step(100)
    assert not client.written[1], "its last beat has not been sent"
    client.manager.open = True
    client.run(lambda: len(client.written[0]) == 8)
    assert client.written == {0: [OKAY] * 8, 1: [OKAY]}
    assert client.memory.read(0x1000, 64) == bytes(range(64)) and client.memory.read(0x2000, 64) == bytes(n // 8 for n in range(64))


@pytest.mark.parametrize("size, beats, burst, address", [(3, 4, 0, 0x1000), (3, 4, 2, 0x1000), (4, 1, 1, 0x1000), (3, 2, 1, 0x1FF8), (3, 1, 3, 0x1000)])
def test_wrong_burst_gets_slverr(client, size, beats, burst, address):
    data, responses = client.read_burst(address, size, beats, burst=burst)
    assert responses == [SLVERR] * beats
    client.queues["s_axi_aw"].append({"id": 1, "addr": address, "len": beats - 1, "size": size, "burst": burst})
    for n in range(beats):
        client.queues["s_axi_w"].append({"data": 0, "strb": 255, "last": int(n == beats - 1)})
    client.run(lambda: client.written[1])
    assert client.written[1] == [SLVERR] and not client.log
    assert client.events == {"malformed": 2} and client.counter("malformed") == 2
    assert client.read_burst(0x1000, 3)[1] == [OKAY]


@pytest.mark.parametrize("last", [0, 2])
def test_wrong_wlast_gets_slverr(client, last):
    client.checkers = [client.tilelink]
    assert client.write_burst(0x1000, 3, bytes(32), last=last) == SLVERR
    client.step()
    assert client.events["malformed"] == 2, "a WLAST too early, and none at the end"
    assert client.write_burst(0x1000, 3, bytes(32)) == OKAY


def test_denied_and_corrupt_become_decerr_and_slverr(client):
    client.memory.errors = [(0x1000, 0x1008, DECERR), (0x2010, 0x2018, SLVERR)]
    assert client.read_burst(0x1000, 3)[1] == [DECERR]
    assert client.read_burst(0x2000, 3, 4)[1] == [OKAY, OKAY, SLVERR, OKAY]
    assert client.write_burst(0x1000, 3, bytes(8)) == DECERR
    # One Put of a burst is denied: the whole burst fails.
    client.memory.errors.append((0x4040, 0x4048, DECERR))
    assert client.write_burst(0x4000, 3, bytes(128)) == DECERR
    client.step()
    assert client.events == {"decode": 3, "error": 1}


@pytest.mark.parametrize("frozen", [False, True])
def test_silent_manager_is_given_up_and_comes_back(client, frozen):
    client.manager.frozen, client.manager.silent = frozen, True
    client.start_read(0x100, 3, 20)
    client.start_write(0x2000, 3, bytes(128), ident=1)
    client.start_write(0x3000, 3, bytes(8), ident=2)
    client.run(lambda: len(client.read[0]) == 20 and client.written[1] and client.written[2])
    assert [response for _, response, _ in client.read[0]] == [SLVERR] * 20 and client.written[1] == client.written[2] == [SLVERR]
    assert client.events["stall"] == 1 and client.events["given_up"] > 4
    began = client.cycle
    assert client.read_burst(0x100, 3)[1] == [SLVERR] and client.write_burst(0x5000, 3, bytes(8)) == SLVERR
    assert client.cycle - began < 40
    client.manager.frozen = client.manager.silent = False
    client.run(client.quiet)
    client.step(4)
    assert client.read_burst(0x100, 3, 20) == (client.memory.read(0x100, 160), [OKAY] * 20)
    assert client.write_burst(0x2000, 3, bytes(range(128))) == OKAY and client.memory.read(0x2000, 128) == bytes(range(128))
    assert not {n for n in client.memory.bytes if 0x3000 <= n < 0x6000}, "a burst that was not sent has no effect"
    assert client.events["stall"] == 1 and "unexpected" not in client.events


@pytest.mark.parametrize("answer", [
    {"opcode": 1, "size": 3, "source": 0}, {"opcode": 0, "size": 3, "source": 8}, {"opcode": 2, "size": 3, "source": 1}, {"opcode": 5, "size": 0, "source": 15}])
def test_unexpected_answer_is_dropped_and_counted(client, answer):
    client.checkers = [client.checkers[1]]
    client.manager.beats.append({"param": 0, "sink": 0, "denied": 0, "corrupt": 0, "data": 0} | answer)
    client.step(5)
    assert client.events == {"unexpected": 1}


def test_answer_of_the_wrong_form_is_dropped(client):
    client.checkers = [client.checkers[1]]
    client.manager.silent = True
    client.start_read(0x100, 3)
    client.run(lambda: client.manager.pending)
    right = {"opcode": 1, "param": 0, "size": 3, "source": client.manager.pending[0]["source"], "sink": 0, "denied": 0, "corrupt": 0, "data": 7}
    client.manager.pending.clear()
    client.manager.silent = False
    for wrong in ({"opcode": 0}, {"size": 4}, {"source": right["source"] ^ 1}, {}):
        client.manager.beats.append(right | wrong)
    client.run(lambda: client.read[0])
    assert client.read[0] == [((7).to_bytes(8, "little"), OKAY, 1)] and client.events == {"unexpected": 3}


@pytest.mark.parametrize("name, stalls, delay, fifo, seed", [("tl_uh", 0.0, 0, False, 1), ("tl_uh", 0.3, 40, False, 2), ("tl_ul", 0.2, 30, False, 3), ("tl_wide", 0.2, 60, True, 4)])
def test_random_bursts_against_a_memory_in_python(make, name, stalls, delay, fifo, seed):
    bench = make(ClientBench, name, seed=seed, stalls=stalls, delay=delay, fifo=fifo)
    dice, width = bench.dice, bench.width
    bench.memory.errors = [(0x8000, 0x9000, DECERR), (0x9000, 0xA000, SLVERR)]
    expected, writes, reads = {}, {0: [], 1: []}, {2: [], 3: []}
    for _ in range(ROUNDS // 2):
        size = dice.randrange(width.bit_length())
        beats = dice.choice([1, 1, 2, 3, 8, 16, 17])
        page = dice.choice([0, 0x1000, 0x2000, 0x3000, 0x8000, 0x9000])
        address = page + dice.randrange(0x1000 - (beats << size))
        count = (beats << size) - address % (1 << size)
        wrong = {0x8000: DECERR, 0x9000: SLVERR}.get(page, OKAY)
        if dice.random() < 0.5:
            ident, data = dice.randrange(2), dice.randbytes(count)
            strobes = dice.choice([(1 << count) - 1, dice.getrandbits(count)])
            bench.start_write(address, size, data, strobes, ident)
            writes[ident].append(DECERR if wrong else OKAY)  # AccessAck has no other error
            if not wrong:
                expected.update({address + n: byte for n, byte in enumerate(data) if strobes >> n & 1})
        else:
            ident = dice.randrange(2, 4)
            bench.start_read(address + 0x2_0000 * (not wrong), size, beats, ident)
            reads[ident].append((address + 0x2_0000 * (not wrong), size, beats, wrong))
    bench.run(bench.quiet, 200000)
    assert {ident: bench.written[ident] for ident in writes} == writes
    for ident, asked in reads.items():
        at = 0
        for address, size, beats, wrong in asked:
            data, responses = bench.collect(address, size, bench.read[ident][at:at + beats])
            at += beats
            assert responses == [wrong] * beats and (wrong or data == bench.memory.read(address, len(data)))
        assert at == len(bench.read[ident])
    assert bench.memory.bytes == expected
    assert not set(bench.events) - {"decode", "error"}


# ---- parameters ----

ILLEGAL = [
    ("manager", "DATA_WIDTH=48", "DATA_WIDTH is 48"), ("manager", "SOURCE_BITS=0", "SOURCE_BITS is 0"), ("manager", "SIZE_BITS=5", "SIZE_BITS is 5"),
    ("manager", "MAX_BYTES=4", "MAX_BYTES is 4"), ("manager", "MAX_BYTES=96", "MAX_BYTES is 96"), ("manager", "MAX_BYTES=4096", "MAX_BYTES is 4096"),
    ("manager", "SIZE_BITS=2", "MAX_BYTES is 64"), ("manager", "SLOTS=6", "SLOTS is 6"), ("manager", "COUNTER_WIDTH=33", "COUNTER_WIDTH is 33"),
    ("client", "DATA_WIDTH=1024", "DATA_WIDTH is 1024"), ("client", "ID_BITS=0", "ID_BITS is 0"), ("client", "SIZE_BITS=1", "SIZE_BITS is 1"),
    ("client", "MAX_BYTES=2048", "MAX_BYTES is 2048"), ("client", "SLOTS=1", "SLOTS is 1"), ("client", "COUNTER_WIDTH=33", "COUNTER_WIDTH is 33"),
]


@pytest.mark.parametrize("bridge, parameter, message", ILLEGAL)
def test_illegal_parameter_stops_elaboration_with_a_message(bridge, parameter, message):
    top = f"pcie_tilelink_{bridge}"
    assert f"{top}: {message}; expected" in refusal(top, parameter)

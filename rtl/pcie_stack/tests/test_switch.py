# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The switch: routing, configuration space, messages, order, errors, and random traffic against the model in switch.py."""

import collections

import pytest
from lspci import check_decoded, dump
from model import refusal
from switch import CORES, CPL, LINKS, NP, P, CoreBench, LinkBench, Reference, class_of
from tlps import CA, HOST, SC, UR, Tlp, completion, configuration, header_0, memory_read, memory_write, message

MEMORY, PREFETCH = 0x4000_0000, 0x40_0000_0000
RAM = 0x1000_0000
UPSTREAM = 0x0100


def window(n):
    """Memory window of downstream port n."""
    return MEMORY + 0x100_0000 * n


def prefetch(n):
    return PREFETCH + 0x1_0000_0000 * n


def secondary(n):
    """First of the three buses below downstream port n."""
    return 3 * n


def configure(bench):
    """Sets up the switch through its configuration space, and the model in the same way."""
    count = bench.count
    reference = Reference(count)
    reference.bus = 1
    last_bus = secondary(count - 1) + 2
    setup = [(UPSTREAM, 2, last_bus, MEMORY, MEMORY + 0x100_0000 * count + 0xFFFFF, PREFETCH, prefetch(count) + 0xFFFFF)]
    setup += [(0x0200 + (n - 1 << 3), secondary(n), secondary(n) + 2, window(n), window(n) + 0x1F_FFFF, prefetch(n), prefetch(n) + 0xFFFF_FFFF) for n in range(1, count)]
    for n, (target, first, last, low, high, far, far_end) in enumerate(setup):
        fields = {"type1": n != 0}
        bench.write(target, 0x18, last << 16 | first << 8 | (1 if n == 0 else 2), **fields)
        bench.write(target, 0x20, (high >> 16 & 0xFFF0) << 16 | low >> 16 & 0xFFF0, **fields)
        bench.write(target, 0x24, (far_end >> 16 & 0xFFF0) << 16 | far >> 16 & 0xFFF0, **fields)
        bench.write(target, 0x28, far >> 32, **fields)
        bench.write(target, 0x2C, far_end >> 32, **fields)
        bench.write(target, 0x3C, 0x2_0000, **fields)
        bench.write(target, 0x04, 0x0006, **fields)
        function = reference.functions[n]
        function.secondary, function.subordinate, function.memory, function.prefetch = first, last, (low, high), (far, far_end)
    bench.write(UPSTREAM, 0x18, last_bus << 16 | 0x201, type1=False)
    return reference


@pytest.fixture(params=["one", "two", "four"])
def switch(request):
    made = CoreBench(request.param)
    configure(made)
    yield made
    made.close()


@pytest.fixture
def two():
    made = CoreBench("two")
    configure(made)
    yield made
    made.close()


def port_target(n):
    return UPSTREAM if n == 0 else 0x0200 + (n - 1 << 3)


def change(bench, port, register, mask, value):
    """Changes bits of a register of a port."""
    old = bench.read(port_target(port), register, type1=port != 0)
    bench.write(port_target(port), register, old & ~mask | value, type1=port != 0)


def sends(bench, port, *tlps):
    """Sends TLPs and returns what leaves each port."""
    bench.send(port, *tlps)
    bench.settle()
    return [bench.take(n) for n in range(bench.count)]


def only(bench, port, *tlps):
    """Returns the lists for TLPs that leave one port only."""
    return [list(tlps) if n == port else [] for n in range(bench.count)]


# ---- configuration space ----

# Offset: (value after reset, bits that software can write). Written from chapter 7 of PCIe 6.0, not from the RTL. The second column is the upstream port's, the third
# a downstream port's.
REGISTERS = {
    0x00: (0x5001_1234, 0x5002_1234, 0, 0),
    0x04: (0x0010_0000, 0x0010_0000, 0x0000_0146, 0x0000_0146),
    0x08: (0x0604_0000, 0x0604_0000, 0, 0),
    0x0C: (0x0001_0000, 0x0001_0000, 0xFF, 0xFF),
    0x10: (0, 0, 0, 0),
    0x18: (0, 0, 0x00FF_FFFF, 0x00FF_FFFF),
    0x1C: (0, 0, 0, 0),
    0x20: (0, 0, 0xFFF0_FFF0, 0xFFF0_FFF0),
    0x24: (0x0001_0001, 0x0001_0001, 0xFFF0_FFF0, 0xFFF0_FFF0),
    0x28: (0, 0, 0xFFFF_FFFF, 0xFFFF_FFFF),
    0x2C: (0, 0, 0xFFFF_FFFF, 0xFFFF_FFFF),
    0x30: (0, 0, 0, 0),
    0x34: (0x40, 0x40, 0, 0),
    0x3C: (0, 0, 0x0043_00FF, 0x0043_00FF),
    0x40: (0x0052_8010, 0x0062_8010, 0, 0),
    0x44: (0x0000_8021, 0x0000_8021, 0, 0),
    0x48: (0x0000_2810, 0x0000_2810, 0x78FF, 0x78FF),
    0x4C: (0x0040_0083, 0x0150_0083, 0, 0),
    0x50: (0x0083_0000, 0x2083_0000, 0xC0, 0xD0),
    0x64: (0x0000_0040, 0x0000_0060, 0, 0),
    0x68: (0, 0, 0x80, 0xA0),
    0x6C: (0x0000_000E, 0x0000_000E, 0, 0),
    0x70: (3, 3, 0xF, 0xF),
    0x80: (0x0003_0001, 0x0003_0001, 0, 0),
    0x84: (8, 8, 3, 3),
    0x100: (0, 0, 0, 0),
    0xFFC: (0, 0, 0, 0),
}


def test_registers_after_reset_and_their_writable_bits():
    bench = CoreBench("two")
    bench.write(UPSTREAM, 0x18, 0x02_02_01, type1=False)
    for port, target in ((0, UPSTREAM), (1, 0x0200)):
        for offset, columns in REGISTERS.items():
            reset, mask = columns[port], columns[2 + port]
            if port == 0 and offset == 0x18:
                continue
            fields = {"type1": port != 0}
            assert bench.read(target, offset, **fields) == reset, hex(offset)
            bench.write(target, offset, 0xFFFF_FFFF, **fields)
            assert bench.read(target, offset, **fields) == reset & ~mask | mask, hex(offset)
            bench.write(target, offset, 0, enables=0b0010, **fields)
            assert bench.read(target, offset, **fields) == (reset & ~mask | mask) & ~(mask & 0xFF00), hex(offset)
            bench.write(target, offset, reset, **fields)
            assert bench.read(target, offset, **fields) == reset, hex(offset)


def test_power_state_d3hot_stops_memory_requests_but_not_configuration(two):
    two.write(0x0200, 0x84, 3)
    assert sends(two, 0, memory_write(window(1), bytes(4))) == only(two, 0)
    assert two.events[0]["posted_ur"] == 1 and two.read(0x0200, 0x84) == 0xB
    two.write(0x0200, 0x84, 1)
    assert two.read(0x0200, 0x84) == 0xB
    two.write(0x0200, 0x84, 0)
    write = memory_write(window(1), bytes(4))
    assert sends(two, 0, write) == only(two, 1, write)


def test_configuration_requests_of_type_1_become_type_0_on_the_bus_of_the_link(switch):
    last = switch.count - 1
    for register, value in ((0x10, None), (0x10, 0x1234_5678)):
        near, far = (configuration(bus << 8 | 5, register, 9, value) for bus in (secondary(last), secondary(last) + 1))
        assert sends(switch, 0, near, far) == only(switch, last, b"\x44\x04"[value is None:][:1] + near[1:], far)


def test_only_existing_functions_answer_configuration_requests(switch):
    beyond = 0x0200 + (switch.count - 1 << 3)
    for target, type1 in ((UPSTREAM | 1, False), (beyond, True), (0x0201, True), (0xF000, True), (secondary(1) << 8 | 8, True)):
        answer = switch.config(target, 0, type1=type1)
        assert answer.status == UR and not answer.data and answer.completer == UPSTREAM and answer.byte_count == 4
    assert switch.events[0]["request_ur"] == 5


def test_ari_forwarding_opens_all_devices_of_the_link(switch):
    request = configuration(secondary(1) << 8 | 0xFF, 0, 1)
    change(switch, 1, 0x68, 0x20, 0x20)
    assert sends(switch, 0, request) == only(switch, 1, b"\x04" + request[1:])


def test_configuration_requests_from_below_get_ur(switch):
    for type1 in (False, True):
        out = sends(switch, 1, configuration(0x0100, 0, 7, type1=type1, requester=0x0300))
        assert [Tlp(raw).status for raw in out[1]] == [UR] and Tlp(out[1][0]).completer == 0x0200 and not out[0]


def test_upstream_port_captures_bus_and_device():
    bench = CoreBench("two")
    assert bench.config(0x4500, 0, type1=False).completer == 0
    assert bench.config(0x4518, 0x3C, 0, type1=False).completer == 0x4518
    assert bench.config(0x2200, 0, type1=False).completer == 0x4518
    bench.close()


def test_poisoned_configuration_write_changes_nothing(two):
    answer = two.config(0x0200, 0x3C, 0x77, poisoned=1)
    assert answer.status == UR and two.read(0x0200, 0x3C) & 0xFF == 0
    assert two.read(UPSTREAM, 0x04, type1=False) >> 31 == 1  # Detected Parity Error
    two.write(UPSTREAM, 0x04, 0x8000_0006, type1=False)
    assert two.read(UPSTREAM, 0x04, type1=False) == 0x0010_0006


# ---- memory requests ----


def test_memory_requests_from_above_go_to_the_port_whose_window_has_the_address(switch):
    for n in range(1, switch.count):
        tlps = [memory_write(base, bytes(8)) for base in (window(n), window(n) + 0x1F_FFF8, prefetch(n), prefetch(n) + 0xFFFF_FFF8)]
        tlps += [memory_read(base, 8, n) for base in (window(n), prefetch(n))]
        assert sorted(sends(switch, 0, *tlps)[n]) == sorted(tlps)
    assert not switch.events[0]["posted_ur"]


@pytest.mark.parametrize("address", [RAM, MEMORY + 0x20_0000, MEMORY - 4, PREFETCH + 0x10, 0x1_0000_0000 + MEMORY + 0x100_0000, 0xFFFF_FFF0_0000_0000])
def test_memory_requests_from_above_outside_of_the_windows_are_unsupported(switch, address):
    out = sends(switch, 0, memory_write(address, bytes(4)), memory_read(address, 4, 3))
    answer = Tlp(out[0][0])
    assert out == only(switch, 0, out[0][0]) and (answer.status, answer.tag, answer.requester, answer.completer) == (UR, 3, 0x0100, UPSTREAM)
    assert switch.events[0]["posted_ur"] == 1 and switch.events[0]["request_ur"] == 1


@pytest.mark.parametrize("port", [0, 1])
def test_memory_space_enable_closes_the_windows(switch, port):
    change(switch, port, 0x04, 2, 0)
    out = sends(switch, 0, memory_read(window(1), 4, 3), memory_write(prefetch(1), bytes(4)))
    assert [Tlp(raw).status for raw in out[0]] == [UR] and not any(out[1:])


def test_empty_window_takes_nothing(switch):
    switch.write(0x0200, 0x20, 0x0000_FFF0)
    out = sends(switch, 0, memory_read(window(1), 4, 3))
    assert [Tlp(raw).status for raw in out[0]] == [UR] and not any(out[1:])


def test_memory_requests_from_below_go_up_or_to_a_peer(two):
    up = [memory_write(RAM, bytes(64)), memory_write(0xFFFF_FFF0_0000_0000, bytes(4)), memory_read(RAM, 64, 1)]
    peer = [memory_write(window(2), bytes(64)), memory_write(prefetch(2), bytes(8)), memory_read(window(2), 64, 2)]
    out = sends(two, 1, *up, *peer)
    assert [sorted(tlps) for tlps in out] == [sorted(up), [], sorted(peer)]


@pytest.mark.parametrize("address", [window(1), prefetch(1), MEMORY + 0x20_0000, PREFETCH + 0x1000])
def test_memory_requests_from_below_into_unused_windows_are_unsupported(two, address):
    out = sends(two, 1, memory_read(address, 4, 3), memory_write(address, bytes(4)))
    assert out == only(two, 1, *out[1]) and [Tlp(raw).status for raw in out[1]] == [UR] and Tlp(out[1][0]).completer == 0x0200
    assert two.events[1]["posted_ur"] == 1


@pytest.mark.parametrize("port, peer_passes", [(0, True), (1, False)])
def test_bus_master_enable_gates_requests_from_below(two, port, peer_passes):
    change(two, port, 0x04, 4, 0)
    peer = memory_write(window(2), bytes(4))
    out = sends(two, 1, memory_read(RAM, 4, 3), memory_write(RAM, bytes(4)), peer)
    assert [Tlp(raw).status for raw in out[1]] == [UR] and not out[0] and out[2] == ([peer] if peer_passes else [])
    # Completions are not gated.
    answer = completion(SC, bytes(4), 1, 4, requester=HOST, completer=0x0300)
    assert sends(two, 1, answer) == only(two, 0, answer)


@pytest.mark.parametrize("address, count, enables", [(RAM + 1, 3, None), (RAM + 2, 1, None), (RAM, 0, None), (RAM + 3, 200, None), (RAM, 4096, None), (RAM, 4, (0b0101, 0))])
def test_unsupported_reads_have_the_byte_count_of_the_whole_request(two, address, count, enables):
    request = memory_read(address, count, 0xA5, requester=0x1234, enables=enables, traffic_class=5, attributes=7)
    assert sends(two, 0, request) == only(two, 0, Reference.refuse(configure(two), 0, request)[0][1])


def test_atomic_operations_are_routed_and_can_be_blocked_at_the_egress_port(two):
    swap = header_0(0b010, 0b01101, 2) + bytes([3, 0, 9, 0xFF]) + (RAM).to_bytes(4, "big") + bytes(8)
    cas = header_0(0b010, 0b01110, 4) + bytes([3, 0, 10, 0xFF]) + (RAM).to_bytes(4, "big") + bytes(16)
    assert sends(two, 1, swap, cas) == only(two, 0, swap, cas)
    change(two, 0, 0x68, 0x80, 0x80)
    out = sends(two, 1, swap, cas)
    assert [(Tlp(raw).status, Tlp(raw).byte_count) for raw in out[1]] == [(UR, 8), (UR, 8)] and not out[0]


@pytest.mark.parametrize("kind, fmt", [(1, 0), (2, 0), (2, 2), (0b11011, 2)])
def test_locked_io_and_deferrable_requests_are_unsupported(two, kind, fmt):
    request = header_0(fmt, kind, 1) + bytes([0, 8, 4, 15]) + window(1).to_bytes(4, "big") + bytes(4 if fmt & 2 else 0)
    assert [Tlp(raw).status for raw in sends(two, 0, request)[0]] == [UR]


# ---- completions ----


def test_completions_are_routed_by_the_bus_of_the_requester(two):
    def answer(bus):
        return completion(SC, bytes(64), 1, 64, requester=bus << 8)

    assert sends(two, 0, answer(secondary(1)), answer(secondary(2) + 2)) == [[], [answer(secondary(1))], [answer(secondary(2) + 2)]]
    assert sends(two, 1, answer(0), answer(secondary(2)), answer(0x80)) == [[answer(0), answer(0x80)], [], [answer(secondary(2))]]


@pytest.mark.parametrize("port, bus", [(0, 2), (0, 0), (0, 0x80), (1, 2), (1, secondary(1)), (1, secondary(1) + 2)])
def test_unexpected_completions_are_dropped_and_counted(two, port, bus):
    assert sends(two, port, completion(SC, bytes(200), 1, 200, requester=bus << 8)) == only(two, 0)
    assert two.events[port]["unexpected"] == 1
    assert two.read(port_target(port), 0x48, type1=port != 0) >> 16 == 1  # Correctable Error Detected: advisory


def test_completions_find_the_host_before_the_bus_numbers_are_set():
    bench = CoreBench("two")
    answer = completion(SC, bytes(4), 1, 4, requester=HOST)
    assert sends(bench, 2, answer) == only(bench, 0, answer)
    bench.close()


# ---- messages ----

INTX = {name: code for name, code in zip("ABCDabcd", range(0x20, 0x28), strict=True)}


def wires(raws):
    """INTx messages as letters: capital letters assert."""
    return "".join("ABCDabcd"[Tlp(raw).raw[7] - 0x20] for raw in raws)


def test_messages_to_the_root_complex_go_up(two):
    up = message(0x18, 0x0300, routing=0)
    assert sends(two, 1, up) == only(two, 0, up)
    assert sends(two, 0, up) == only(two, 0) and two.events[0]["posted_ur"] == 1


def test_interrupt_wires_are_turned_by_device_and_joined(two):
    def tell(port, letter):
        out = sends(two, port, message(INTX[letter], 0x0300))
        assert not out[1] and not out[2] and all(raw[:3] == b"\x34\0\0" and raw[4:7] == b"\1\0\0" for raw in out[0])
        return wires(out[0])

    assert tell(1, "A") == "A" and tell(1, "B") == "B"
    assert tell(2, "A") == ""  # device 1 turns INTA into INTB, which is asserted
    assert tell(1, "b") == "" and tell(2, "a") == "b"
    assert tell(2, "D") == "" and tell(1, "a") == "" and tell(1, "a") == "" and tell(2, "d") == "a"


def test_link_down_deasserts_the_wires_of_the_port(two):
    two.send(2, message(INTX["C"], 0x0300))
    two.settle()
    assert wires(two.take(0)) == "D"
    two.active = 0b011
    two.settle()
    assert wires(two.take(0)) == "d"


def test_wires_from_above_are_unsupported(two):
    assert sends(two, 0, message(INTX["A"], 0)) == only(two, 0) and two.events[0]["posted_ur"] == 1


def test_interrupt_messages_stay_behind_the_writes_before_them(two):
    writes = [memory_write(RAM + 64 * n, bytes(64)) for n in range(6)]
    two.full[0][P] = True
    two.send(1, *writes, message(INTX["A"], 0x0300))
    two.run(100)
    assert not two.received[0]
    two.full[0][P] = False
    two.settle()
    out = two.take(0)
    assert out[:6] == writes and wires(out[6:]) == "A"


def test_broadcasts_reach_all_downstream_ports(switch):
    short, long = message(0x00, 0, routing=3), message(0x7F, 0, routing=3, data=bytes(range(100)))
    switch.send(0, short, long)
    for n in range(1, switch.count):
        switch.send(n, *(memory_write(RAM, bytes(64)) for _ in range(4)))
    switch.settle()
    assert len(switch.take(0)) == 4 * (switch.count - 1)
    assert all(switch.take(n) == [short, long] for n in range(1, switch.count))
    assert sends(switch, 1, short) == only(switch, 0) and switch.events[1]["posted_ur"] == 1


def test_broadcast_waits_for_room_at_each_port_and_then_leaves_all_at_once(two):
    two.full[2][P] = True
    two.send(0, message(0x00, 0, routing=3), memory_write(window(1), bytes(4)))
    two.run(50)
    assert not two.received[1] and not two.received[2]
    two.full[2][P] = False
    two.settle()
    assert two.received[1][0] == two.received[2][0] and len(two.received[1]) == 2


def test_broadcast_leaves_out_links_that_are_down(two):
    two.active = 0b011
    turn_off = message(0x00, 0, routing=3)
    assert sends(two, 0, turn_off) == only(two, 1, turn_off)
    two.active = 0b001
    assert sends(two, 0, turn_off) == only(two, 0) and not two.events[0]["posted_ur"]


def test_turn_off_is_acknowledged_when_all_ports_have_acknowledged(switch):
    turn_off, acknowledge = message(0x19, 0, routing=3), message(0x1B, 0x0300, routing=5)
    for _ in range(2):
        assert sends(switch, 0, turn_off) == [[]] + [[turn_off]] * (switch.count - 1)
        for n in range(1, switch.count):
            assert not switch.take(0)
            switch.send(n, acknowledge)
            switch.settle()
        assert switch.take(0) == [b"\x35\0\0\0\1\0\0\x1b" + bytes(8)]


def test_turn_off_without_links_is_acknowledged_at_once(two):
    two.active = 0b001
    assert sends(two, 0, message(0x19, 0, routing=3)) == only(two, 0, b"\x35\0\0\0\1\0\0\x1b" + bytes(8))


@pytest.mark.parametrize("port", [0, 1])
def test_vendor_messages_that_end_here(two, port):
    assert sends(two, port, message(0x7F, 0, data=bytes(64))) == only(two, 0) and not two.events[port]["posted_ur"]
    assert sends(two, port, message(0x7E, 0, data=bytes(64))) == only(two, 0) and two.events[port]["posted_ur"] == 1


def test_messages_routed_by_id(two):
    def by_id(bus):
        return header_0(0b001, 0b10010, 0) + bytes([0, 0, 0, 0x7E]) + bytes([bus, 0]) + bytes(6)

    assert sends(two, 0, by_id(secondary(2))) == only(two, 2, by_id(secondary(2)))
    assert sends(two, 1, by_id(secondary(2) + 1), by_id(0)) == [[by_id(0)], [], [by_id(secondary(2) + 1)]]


@pytest.mark.parametrize("name", ["two", "four"])
def test_slot_power_limit_shows_in_device_capabilities(name):
    bench = CoreBench(name)
    bench.send(0, message(0x50, 0, data=bytes([0x4B, 0x02, 0, 0])))
    bench.settle()
    bench.write(UPSTREAM, 0x18, 0x02_02_01, type1=False)
    assert bench.read(UPSTREAM, 0x44, type1=False) >> 18 == 0x24B and bench.read(0x0200, 0x44) >> 18 == 0
    bench.close()


@pytest.mark.parametrize("port, register, mask, passes", [(0, 0x3C, 0x2_0000, ""), (1, 0x3C, 0x2_0000, ""), (0, 0x04, 0x100, "c"), (1, 0x04, 0x100, "c")])
def test_error_messages_pass_if_both_ports_let_them(two, port, register, mask, passes):
    errors = [message(code, 0x0300, routing=0) for code in (0x30, 0x31, 0x33)]
    for n in (0, 1):
        change(two, n, 0x04, 0x100, 0x100)
    assert sends(two, 1, *errors) == only(two, 0, *errors)
    assert two.read(0x0200, 0x1C) >> 30 & 1 == 1  # Received System Error
    assert two.read(0x0200, 0x04) >> 30 & 1 == 1  # Signaled System Error
    change(two, port, register, mask, 0)
    assert sends(two, 1, *errors) == only(two, 0, *errors[:len(passes)])
    assert not two.events[1]["posted_ur"]


# ---- errors that the switch detects ----


def detect(bench, port, name):
    bench.put(**{name: 1 << port})
    bench.step()
    bench.put(**{name: 0})
    bench.settle()
    return bench.take(0)


@pytest.mark.parametrize("port", [0, 1, 2])
@pytest.mark.parametrize("name, code, bits", [("malformed", 0x33, 4), ("overflow", 0x33, 4), ("protocol_error", 0x33, 4), ("link_correctable", 0x30, 1)])
def test_errors_of_the_layers_set_status_and_send_messages(two, port, name, code, bits):
    for n in range(3):
        change(two, n, 0x04, 0x100, 0x100)
        change(two, n, 0x48, 0xF, 0)
    assert detect(two, port, name) == ([] if bits == 1 else [message(code, port_target(port), routing=0)])
    change(two, port, 0x48, 0xF, 0xF)
    assert detect(two, port, name) == [message(code, port_target(port), routing=0)]
    assert two.read(port_target(port), 0x48, type1=port != 0) >> 16 == bits
    two.write(port_target(port), 0x48, bits << 16 | 0x280F, type1=port != 0)
    assert two.read(port_target(port), 0x48, type1=port != 0) == 0x280F
    # Without SERR# Enable in Bridge Control of the upstream port nothing from below passes.
    change(two, 0, 0x3C, 0x2_0000, 0)
    assert bool(detect(two, port, name)) == (port == 0)


def test_dropped_write_is_a_nonfatal_error_and_unsupported_read_an_advisory_one(two):
    change(two, 0, 0x04, 0x100, 0x100)
    change(two, 1, 0x48, 0xF, 0xF)
    out = sends(two, 1, memory_write(window(1), bytes(4)))
    assert out == only(two, 0, message(0x31, 0x0200, routing=0)) and two.read(0x0200, 0x48) >> 16 == 0xA
    two.write(0x0200, 0x48, 0xF_280F)
    out = sends(two, 1, memory_read(window(1), 4, 1))
    assert not out[0] and len(out[1]) == 1 and two.read(0x0200, 0x48) >> 16 == 9
    # Unsupported requests are reported only if that is enabled.
    change(two, 1, 0x48, 8, 0)
    assert sends(two, 1, memory_write(window(1), bytes(4))) == only(two, 0)


def test_poisoned_tlps_pass_and_set_detected_parity_error(two):
    write = memory_write(RAM, bytes(64), poisoned=1)
    assert sends(two, 1, write) == only(two, 0, write)
    assert two.read(0x0200, 0x1C) >> 31 == 1 and two.events[1]["marked"] == 1
    down = memory_write(window(1), bytes(64), poisoned=1)
    assert sends(two, 0, down) == only(two, 1, down) and two.read(UPSTREAM, 0x04, type1=False) >> 31 == 1


# ---- order and liveness ----


def test_non_posted_requests_and_completions_stay_behind_older_posted_requests(two):
    writes = [memory_write(RAM + 64 * n, bytes(64)) for n in range(3)]
    read, answer = memory_read(RAM, 4, 1), completion(SC, bytes(4), 1, 4, requester=HOST)
    two.full[0][P] = True
    two.send(1, *writes, read, answer)
    two.run(100)
    assert not two.received[0]
    two.full[0][P] = False
    two.settle()
    out = two.take(0)
    assert out[:3] == writes and sorted(out[3:]) == sorted([read, answer])


@pytest.mark.parametrize("blocked", [NP, CPL])
@pytest.mark.parametrize("port", [0, 1, 2])
def test_full_type_stops_no_other_type_at_any_port(two, blocked, port):
    """P passes NP and Cpl, and these pass each other (Table 2-40), while one port takes none of one type."""
    two.full[port][blocked] = True
    for source in range(3):
        for target in range(3):
            if source == target:
                continue
            address = window(target) if target else RAM
            bus = secondary(target) if target else 0
            for n in range(4):
                two.send(source, memory_read(address, 4, n), completion(SC, bytes(4), n, 4, requester=bus << 8), memory_write(address, bytes(64)))
    two.run(600)
    left = collections.Counter((n, class_of(raw)) for n in range(3) for raw, _ in two.received[n])
    # The oldest TLP of a type may block the others of this type from the same port.
    for n in range(3):
        assert left[n, P] == 8
        for kind in (NP, CPL):
            assert left[n, kind] == (0 if (n, kind) == (port, blocked) else 8) or kind == blocked
    two.full[port][blocked] = False
    two.settle()
    assert sum(map(len, two.received)) == 6 * 12


def test_no_completion_leaves_while_completions_have_no_room_but_writes_do(two):
    """A non-posted request that waits for its own completion holds back nothing but non-posted requests."""
    two.full[1][CPL] = True
    for n in range(4):
        two.send(1, memory_read(window(1), 4, n), memory_write(RAM, bytes(4)))
    two.run(200)
    assert len(two.take(0)) == 4 and not two.received[1]
    two.full[1][CPL] = False
    two.settle()
    assert [Tlp(raw).tag for raw in two.take(1)] == [0, 1, 2, 3]


@pytest.mark.parametrize("name, payload, beats", [("two", 256, 9), ("four", 128, 9), ("wide", 512, 9)])
def test_writes_leave_without_a_gap(name, payload, beats):
    bench = CoreBench(name)
    configure(bench)
    for n in range(20):
        bench.send(0, memory_write(prefetch(1), bytes(payload)))
        bench.send(1, memory_write(0x80_0000_0000, bytes(payload)))
    bench.settle()
    for port in (0, 1):
        times = [time for _, time in bench.received[port]]
        assert times[-1] - times[0] == 19 * beats
    bench.close()


def test_ports_share_an_egress_port_fairly():
    bench = CoreBench("four")
    configure(bench)
    for n in range(1, 5):
        bench.send(n, *(memory_write(RAM + 64 * n, bytes([n]) * 64) for _ in range(20)))
    bench.settle()
    sources = [raw[-1] for raw in bench.take(0)]
    assert all(sorted(sources[n:n + 4]) == [1, 2, 3, 4] for n in range(0, 80, 4))
    bench.close()


# ---- links ----


def test_tlps_for_a_link_that_is_down_end_at_the_ingress_port(two):
    two.active = 0b011
    out = sends(two, 0, memory_read(window(2), 4, 1), memory_write(window(2), bytes(64)), configuration(secondary(2) << 8, 0, 2))
    assert [(Tlp(raw).status, Tlp(raw).tag) for raw in out[0]] == [(UR, 1), (UR, 2)] and two.events[0]["posted_ur"] == 1
    assert two.read(0x0208, 0x50) >> 29 & 1 == 0  # Data Link Layer Link Active


def test_tlps_that_wait_for_a_link_are_freed_when_it_goes_down(two):
    two.full[2] = [True] * 3
    two.send(0, memory_write(window(2), bytes(64)), memory_read(window(2), 4, 1), memory_write(window(1), bytes(4)))
    two.run(50)
    assert not any(two.received)
    two.active = 0b011
    two.settle()
    assert [Tlp(raw).status for raw in two.take(0)] == [UR] and len(two.take(1)) == 1


@pytest.mark.parametrize("name", ["two", "four"])
@pytest.mark.parametrize("digest", [0, 1])
def test_tlp_that_its_link_cuts_does_not_fit_its_length_at_the_egress_port(name, digest):
    bench = CoreBench(name)
    configure(bench)
    for payload in range(4, 129, 4):
        write = memory_write(RAM, bytes(payload), digest=digest)
        for cut in range(bench.beat, len(write), bench.beat):
            bench.send(1, write, cut=cut)
            bench.settle()
            assert (len(bench.take(0)[0]) - len(write)) % bench.beat != 0
    bench.close()


def test_upstream_link_down_resets_the_switch_and_its_links(two):
    assert not two.out["hot_reset"]
    two.active = 0b110
    two.run(5)
    assert two.out["hot_reset"] == 0b110
    two.active = 0b111
    two.run(5)
    assert not two.out["hot_reset"] and two.read(UPSTREAM, 0x18, type1=False) == 0 and two.read(UPSTREAM, 0x04, type1=False) == 0x0010_0000


def test_secondary_bus_reset_and_link_disable(two):
    change(two, 1, 0x3C, 0x40_0000, 0x40_0000)
    assert two.out["hot_reset"] == 0b010
    change(two, 1, 0x3C, 0x40_0000, 0)
    change(two, 0, 0x3C, 0x40_0000, 0x40_0000)
    assert two.out["hot_reset"] == 0b110
    change(two, 2, 0x50, 0x10, 0x10)
    assert two.out["link_disable"] == 0b100


# ---- random traffic ----


def random_tlp(bench, reference, port, serial):
    """A TLP of any kind. `serial` is in the requester and tag of requests, and in the completer and tag of completions."""
    dice = bench.dice
    ident, tag = serial >> 8, serial & 0xFF
    kind, place = dice.randrange(12), dice.randrange(bench.count + 1)
    if kind < 7:
        base = dice.choice([window(place), prefetch(place)]) if place and place < bench.count else RAM if place else MEMORY + 0x40_0000
        address = base + 4 * dice.randrange(0x40)
        size = dice.choice([4, 8, dice.randrange(4, 129, 4)])
        digest = dice.randrange(2)
        if kind < 4:
            return memory_write(address, dice.randbytes(size), requester=ident)[:6] + bytes([tag]) + memory_write(address, dice.randbytes(size), requester=ident)[7:] if not digest \
                else (lambda raw: raw[:6] + bytes([tag]) + raw[7:])(memory_write(address, dice.randbytes(size), requester=ident, digest=1))
        return memory_read(address, size, tag, requester=ident, traffic_class=dice.randrange(8))
    if kind < 10:
        bus = dice.choice([0, 1, 2, 0x70, *range(3, 3 * bench.count + 3)])
        size = dice.choice([0, 4, dice.randrange(4, 129, 4)])
        return completion(SC if size else CA, dice.randbytes(size), tag, max(size, 4), requester=bus << 8, completer=ident)
    if kind == 10:
        bus = dice.choice([1, 2, 0x70, *range(3, 3 * bench.count + 3)])
        target = bus << 8 | dice.choice([0, 0, 8, 1])
        return configuration(target, dice.choice([0, 8, 0x100]), tag, type1=dice.random() < 0.8, requester=ident)
    routing = dice.choice([0, 2, 3])
    data = dice.randbytes(dice.choice([0, 4, 64]))
    head = header_0(3 if data else 1, 0b10000 | routing, len(data) // 4) + ident.to_bytes(2, "big") + bytes([tag, 0x7F])
    return head + bytes([dice.choice([0, 3, 0x70]), 0]) + bytes(6) + data


def key(raw):
    """Serial number of a TLP, and whether it is a completion of the switch: UR, or configuration data."""
    if class_of(raw) != CPL:
        return False, int.from_bytes(raw[4:7], "big")
    if int.from_bytes(raw[8:10], "big") >= 0x8000:
        return True, int.from_bytes(raw[8:11], "big")
    return False, int.from_bytes(raw[4:6], "big") << 8 | raw[10]


def check(bench, reference, own_answers):
    """Compares all that was handed over with all that has left: destinations, bytes, and order by Table 2-40."""
    expected = [{} for _ in range(bench.count)]
    for port in range(bench.count):
        for place, (_, raw) in enumerate(sorted(bench.handed[port])):
            serial = key(raw)[1]
            for target, *rest in reference.route(port, raw):
                if target == "answer":
                    expected[port][True, serial] = (rest[0], port, place, "answer")
                elif target == "own":
                    expected[0][True, serial] = (None, port, place, "answer")
                elif target != "end":
                    expected[target][False, serial] = (rest[0], port, place, class_of(raw))
    total = 0
    for port in range(bench.count):
        arrived = [(key(raw), raw) for raw in bench.take(port)]
        assert len({each for each, _ in arrived}) == len(arrived), f"port {port}: a TLP left twice"
        assert {each for each, _ in arrived} == set(expected[port]), f"port {port}: other TLPs left than expected"
        last, seen = collections.defaultdict(lambda: -1), collections.defaultdict(set)
        for each, raw in arrived:
            wanted, source, place, kind = expected[port][each]
            if wanted is None:
                own_answers.append(raw)
            else:
                assert raw == wanted, f"port {port}: {raw.hex()} instead of {wanted.hex()}"
            assert place > last[source, kind], f"port {port}: order within a type"
            last[source, kind] = place
            seen[source].add(each)
            if kind in (NP, CPL):
                older = [other for other, (_, from_, before, type_) in expected[port].items() if from_ == source and type_ == P and before < place]
                assert all(other in seen[source] for other in older), f"port {port}: a TLP passed a posted request"
        total += len(arrived)
    return total


def traffic(bench, amount, pause):
    reference = configure(bench)
    for handed in bench.handed:
        handed.clear()
    serial = 0x80_0000
    for _ in range(amount):
        bench.send(bench.dice.randrange(bench.count), random_tlp(bench, reference, bench.dice.randrange(bench.count), serial))
        serial += 1
        for _ in range(pause if bench.dice.random() < 0.3 else 0):
            bench.step()
        if bench.dice.random() < 0.02:
            port, kind = bench.dice.randrange(bench.count), bench.dice.randrange(3)
            bench.full[port][kind] = not bench.full[port][kind]
    for full in bench.full:
        full[:] = [False] * 3
    bench.settle(400000)
    assert sum(map(len, bench.handed)) == amount
    own = []
    total = check(bench, reference, own)
    assert own and all(Tlp(raw).status == SC for raw in own)
    return total


@pytest.mark.parametrize("name, seed, stalls", [("one", 1, 0.2), ("two", 2, 0.0), ("two", 3, 0.5), ("four", 4, 0.3), ("four", 5, 0.0), ("wide", 6, 0.3)])
def test_random_traffic_is_routed_and_ordered_as_in_the_model(name, seed, stalls):
    bench = CoreBench(name, seed, stalls)
    assert traffic(bench, 3000, 4) > 1500
    bench.close()


@pytest.mark.parametrize("name, seed, stalls, damage", [("links", 1, 0.0, 0.0), ("links", 2, 0.3, 0.01), ("links_wide", 3, 0.2, 0.003)])
def test_random_traffic_through_complete_ports(name, seed, stalls, damage):
    bench = LinkBench(name, seed, stalls, damage)
    assert traffic(bench, 1200, 10) > 600
    bench.close()


@pytest.mark.parametrize("blocked", [NP, CPL])
def test_other_end_that_takes_no_more_of_a_type_stops_no_writes(blocked):
    bench = LinkBench("links")
    configure(bench)
    bench.full[0][blocked] = True
    for n in range(40):
        bench.send(1, memory_read(RAM, 4, n), completion(SC, bytes(4), n, 4, requester=HOST), memory_write(RAM, bytes(64)))
    bench.run(4000)
    found = collections.Counter(class_of(raw) for raw, _ in bench.received[0])
    assert found[P] == 40 and found[NP + CPL - blocked] == 40 and found[blocked] == 0
    bench.full[0][blocked] = False
    bench.settle()
    assert len(bench.received[0]) == 120
    bench.close()


def test_link_down_below_the_switch_and_up_again():
    bench = LinkBench("links")
    configure(bench)
    bench.up = 0b101
    bench.run(200)
    assert bench.read(0x0200, 0x50) >> 29 & 1 == 0
    assert bench.config(secondary(1) << 8, 0).status == UR
    bench.up = 0b111
    bench.run(1000)
    write = memory_write(window(1), bytes(64))
    bench.send(0, write)
    bench.settle()
    assert bench.take(1) == [write] and bench.read(0x0200, 0x50) >> 29 & 1 == 1
    bench.close()


# ---- lspci, parameters ----


def test_lspci_decodes_the_configuration_space(tmp_path):
    bench = CoreBench("two")
    configure(bench)
    text = ""
    for port in range(3):
        data = b"".join(bench.read(port_target(port), offset, type1=port != 0).to_bytes(4, "little") for offset in range(0, 4096, 4))
        text += dump(port_target(port), data)
    bench.close()
    check_decoded(text, "switch_lspci.txt", tmp_path)


@pytest.mark.parametrize(
    "parameters, expected",
    [
        (["DOWNSTREAM=0"], "DOWNSTREAM is 0; expected 1 to 31"),
        (["DOWNSTREAM=32"], "DOWNSTREAM is 32; expected 1 to 31"),
        (["DOWNSTREAM=100000"], "DOWNSTREAM is 100000; expected 1 to 31"),
        (["DOWNSTREAM=1", "DATA_WIDTH=64"], "DATA_WIDTH is 64; expected 128, 256 or 512"),
        (["DOWNSTREAM=1", "MAX_PAYLOAD=384"], "MAX_PAYLOAD is 384; expected a power of two from 128 to 4096"),
        (["DOWNSTREAM=1", "LINK_SPEED=6"], "LINK_SPEED is 6; expected 1 to 5"),
        (["DOWNSTREAM=1", "LINK_WIDTH=3"], "LINK_WIDTH is 3; expected 1, 2, 4, 8 or 16"),
    ],
)
def test_illegal_parameters_of_the_switch_stop_elaboration(parameters, expected):
    assert expected in refusal("pcie_switch_core", *parameters)


def test_builds_are_all_used():
    assert set(CORES) == {"one", "two", "four", "wide"} and set(LINKS) == {"links", "links_wide"}

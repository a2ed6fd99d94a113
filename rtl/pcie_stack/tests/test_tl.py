# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of one transaction layer: each rule of PCIe 6.0 chapter 2 that it implements, and random traffic against the rules in tl_reference.py."""

import collections
import os
import random

import pytest
import tl_reference as ref
from model import refusal
from tl_dut import TL_BUILDS, Tl
from tl_reference import CPL, INIT1, INIT2, NP, P, UPDATE, tlp

ENDLESS = 0


@pytest.fixture(params=TL_BUILDS)
def tl(request):
    """A transaction layer after reset, the link still down."""
    made = Tl(request.param)
    yield made
    made.close()


@pytest.fixture
def make_tl():
    """Makes one of a given build."""
    made = []

    def build(name, seed=1):
        made.append(Tl(name, seed))
        return made[-1]

    yield build
    for each in made:
        each.close()


def value(header, data, scales=(0, 0)):
    """The 24 bits of a flow-control DLLP."""
    return scales[0] << 22 | (header & 0xFF) << 14 | scales[1] << 12 | data & 0xFFF


def link_up(tl, credits=(ENDLESS, ENDLESS), vcs=None, scaled=False, scales=(0, 0), vc_of=None):
    """Brings the link to DL_Active; `credits` are those of the other end for each type."""
    vcs = tl.vcs if vcs is None else vcs
    tl.set(vc_enable=(1 << vcs) - 1, remote_features=int(scaled), max_payload=(tl.parameters["MAX_PAYLOAD"] // 128).bit_length() - 1)
    if vc_of is not None:
        tl.set(tc_map=sum(vc << 3 * tc for tc, vc in enumerate(vc_of)))
    tl.set(dl_state=2)
    tl.step(4)
    for vc in range(vcs):
        for kind_class in range(3):
            tl.learn(INIT1, kind_class, vc, value(*credits, scales))
    tl.step(3 * vcs + 2)
    tl.set(dl_state=3, vc_init2=(1 << vcs) - 1, vc_ready=(1 << vcs) - 1)
    tl.step(2)
    tl.log()


def of(log, kind):
    return [record for record in log if record.kind == kind]


def left(tl):
    return [record.data for record in of(tl.log(), "left")]


def write(serial, dwords=4, **fields):
    return tlp("MWr", dwords, tag=serial, **fields)


def read(serial, **fields):
    return tlp("MRd", 1, tag=serial, **fields)


def completion(serial, dwords=1, **fields):
    return tlp("CplD", dwords, tag=serial, **fields)


# ---- sending: credits ----


def test_sends_each_length_unchanged(tl, dice):
    link_up(tl)
    expected = []
    for dwords in range(1, tl.parameters["MAX_PAYLOAD"] // 4 + 1):
        for four in (False, True):
            expected.append(write(dwords, dwords, data=dice.randbytes(4 * dwords), four=four))
            tl.send(P, expected[-1])
    tl.step(40000 if tl.beat == 8 else 20000)
    assert left(tl) == expected
    assert tl.counts() == {}


def test_tlps_wait_until_flow_control_is_complete(tl):
    tl.set(dl_state=3)
    tl.step(4)
    tl.send(P, write(0))
    tl.step(50)
    assert left(tl) == []
    for kind_class in range(3):
        tl.learn(INIT1, kind_class, 0, value(1, 8))
    tl.step(50)
    assert left(tl) == []
    tl.set(vc_ready=1)
    tl.step(20)
    assert left(tl) == [write(0)]


@pytest.mark.parametrize("kind_class, make", [(P, write), (NP, read), (CPL, completion)])
def test_header_credits_limit_each_type(tl, kind_class, make):
    link_up(tl, (3, 100))
    expected = [make(n) for n in range(5)]
    for each in expected:
        tl.send(kind_class, each)
    tl.step(200)
    assert left(tl) == expected[:3]
    assert tl.get("tx_starved") == 1 << kind_class
    tl.learn(UPDATE, kind_class, 0, value(4, 100))
    tl.step(50)
    assert left(tl) == expected[3:4]
    tl.learn(UPDATE, kind_class, 0, value(5, 100))
    tl.step(50)
    assert left(tl) == expected[4:]


@pytest.mark.parametrize("dwords, units", [(1, 1), (4, 1), (5, 2), (31, 8), (32, 8)])
def test_data_credits_are_rounded_up_to_16_bytes(tl, dwords, units):
    link_up(tl, (ENDLESS, 9 + units - 1))
    tl.send(P, write(0, 32))
    tl.send(P, write(1, 4))
    tl.send(P, write(2, dwords))
    tl.step(100)
    assert len(left(tl)) == 2
    tl.learn(UPDATE, P, 0, value(0, 9 + units))
    tl.step(50)
    assert left(tl) == [write(2, dwords)]


def test_completion_without_data_uses_no_data_credits(tl):
    link_up(tl, (ENDLESS, 8))
    tl.send(CPL, completion(0, 32))
    tl.send(CPL, tlp("Cpl"))
    tl.step(50)
    assert len(left(tl)) == 2


@pytest.mark.parametrize("scales", [(1, 1), (2, 2), (3, 3), (2, 3), (3, 1)])
def test_scaled_credits_count_in_multiples(tl, scales):
    factors = [{1: 1, 2: 4, 3: 16}[scale] for scale in scales]
    link_up(tl, (1, 8), scaled=True, scales=scales)
    assert tl.get("scaled_flow_control") == 1
    # The reads come first: a read may not pass a posted request that waits.
    for n in range(20):
        tl.send(NP, read(n))
    tl.step(200)
    for n in range(20):
        tl.send(P, write(n, 32))
    tl.step(600)
    sent = left(tl)
    assert len([each for each in sent if each[0] & 0x40]) == min(factors[0], factors[1], 20)
    assert len([each for each in sent if not each[0] & 0x40]) == min(factors[0], 20)


def test_scales_are_ignored_without_scaled_flow_control(tl):
    link_up(tl, (1, 8), scales=(2, 2))
    for n in range(3):
        tl.send(NP, read(n))
    tl.step(50)
    assert len(left(tl)) == 1


def test_credit_counters_wrap(tl):
    link_up(tl, (100, 0x700))
    header, data, number = 100, 0x700, 0
    for _ in range(12):
        expected = [write(number + n, 32) for n in range(60)]
        number += 60
        for each in expected:
            tl.send(P, each)
        tl.step(1800 if tl.beat == 8 else 900)
        assert left(tl) == expected
        header, data = header + 60, data + 480
        tl.learn(UPDATE, P, 0, value(header, data))
        tl.step(4)
    assert header > 512 and data > 4096 and tl.counts() == {}


# ---- flow control: bad input ----


@pytest.mark.parametrize(
    "bad",
    [
        value(4, 100),  # 96 headers fewer
        value(100 + 128, 100),  # more than 127 unused headers
        value(100, 99),
        value(100, 100 + 2048),
        value(0, 100 + 2000),
    ],
)
def test_illegal_update_changes_nothing(tl, bad):
    link_up(tl, (100, 100))
    tl.learn(UPDATE, P, 0, bad)
    tl.step(8)
    assert tl.counts() == {"bad_update": 1}
    for n in range(13):
        tl.send(P, write(n, 32))
    tl.step(500)
    # 12 TLPs of 8 units.
    assert len(left(tl)) == 12


def test_update_of_infinite_credits_must_be_zero(tl):
    link_up(tl)
    tl.learn(UPDATE, P, 0, value(0, 0))
    tl.step(8)
    assert tl.counts() == {}
    tl.learn(UPDATE, P, 0, value(1, 0))
    tl.learn(UPDATE, NP, 0, value(0, 1))
    tl.step(8)
    assert tl.counts() == {"bad_update": 2}


def test_update_with_another_scale_is_illegal(tl):
    link_up(tl, (10, 10), scaled=True, scales=(1, 1))
    for scales in ((2, 1), (1, 3), (0, 0)):
        tl.learn(UPDATE, P, 0, value(10, 10, scales))
        tl.step(8)
    assert tl.counts() == {"bad_update": 3}


@pytest.mark.parametrize(
    "init, scaled, is_bad",
    [
        (value(1, 8), False, False),
        (value(127, 2047), False, False),
        (value(0, 0), False, False),
        (value(1, 7), False, True),  # less than 128 bytes of posted data
        (value(128, 8), False, True),
        (value(1, 2048), False, True),
        (value(1, 8, (1, 0)), True, True),  # one scale is zero
        (value(1, 8, (0, 1)), True, True),
        (value(1, 2, (2, 2)), True, False),
        (value(1, 1, (2, 2)), True, True),
    ],
)
def test_least_and_most_credits_of_initialization(tl, init, scaled, is_bad):
    tl.set(remote_features=int(scaled), dl_state=2)
    tl.step(4)
    tl.learn(INIT1, P, 0, init)
    tl.step(4)
    assert tl.counts() == ({"bad_init": 1} if is_bad else {})


def test_two_updates_in_a_row(tl):
    link_up(tl, (10, 10))
    for n in range(1, 4):
        tl.learn(UPDATE, P, 0, value(10 + n, 10 + 8 * n))
    tl.step(8)
    assert tl.counts() == {}
    for n in range(5):
        tl.send(P, write(n, 32))
    tl.step(200)
    assert len(left(tl)) == 4


# ---- sending: order ----


@pytest.mark.parametrize(
    "kind_class, later, passes",
    [
        (NP, read(9), False),
        (NP, read(9, ro=True), False),  # B2a: a read never passes by Relaxed Ordering
        (NP, tlp("FetchAdd", 1, tag=9), False),
        (NP, tlp("FetchAdd", 1, tag=9, ro=True), True),
        (NP, tlp("CfgWr", 1, tag=9), False),
        (CPL, completion(9), False),
        (CPL, completion(9, ro=True), True),
        (CPL, tlp("Cpl", tag=9, ro=True), True),
    ],
)
def test_only_relaxed_tlps_pass_a_stalled_posted_request(tl, kind_class, later, passes):
    link_up(tl, (ENDLESS, 8))
    tl.send(P, write(0, 32))
    tl.step(80)
    tl.log()
    tl.send(P, write(1, 32))
    tl.step(80)
    tl.send(kind_class, later)
    tl.step(80)
    assert left(tl) == ([later] if passes else [])
    tl.learn(UPDATE, P, 0, value(0, 16))
    tl.step(80)
    assert left(tl) == ([write(1, 32)] if passes else [write(1, 32), later])


def test_posted_requests_pass_stalled_non_posted_and_completions(tl):
    link_up(tl, (1, 100))
    for n in range(2):
        tl.send(NP, read(n))
        tl.send(CPL, completion(n))
    tl.step(50)
    assert len(left(tl)) == 2
    for n in range(40):
        tl.learn(UPDATE, P, 0, value(n + 1, 100))
        tl.send(P, write(n))
        tl.step(8)
    tl.step(30)
    assert left(tl) == [write(n) for n in range(40)]


def test_completions_and_non_posted_pass_each_other(tl):
    link_up(tl, (1, 100))
    tl.send(NP, read(0))
    tl.send(NP, read(1))
    tl.step(40)
    tl.send(CPL, completion(2))
    tl.step(40)
    assert left(tl) == [read(0), completion(2)]
    tl.send(CPL, completion(3))
    tl.step(40)
    tl.learn(UPDATE, NP, 0, value(3, 100))
    tl.send(NP, read(4))
    tl.step(40)
    assert left(tl) == [read(1), read(4)]


def test_older_non_posted_requests_pass_a_younger_stalled_posted_request(tl):
    link_up(tl, (2, 100))
    tl.learn(UPDATE, P, 0, value(2, 100))
    for n in range(4):
        tl.send(P, write(n))
        tl.step(20)
        tl.send(NP, read(n))
        tl.step(20)
    # Two posted have credits; the reads 0 and 1 are older than write 2, reads 2 and 3 are not.
    assert left(tl) == [write(0), read(0), write(1), read(1)]
    tl.learn(UPDATE, NP, 0, value(20, 100))
    tl.step(40)
    assert left(tl) == []
    tl.learn(UPDATE, P, 0, value(3, 100))
    tl.step(40)
    assert left(tl) == [write(2), read(2)]


def test_many_relaxed_completions_pass_one_stalled_posted_request_and_then_wait(tl):
    link_up(tl, (ENDLESS, 8))
    tl.send(P, write(0, 32))
    tl.send(P, write(1, 32))
    tl.step(60)
    tl.log()
    for n in range(300):
        tl.send(CPL, tlp("Cpl", tag=n % 256, ro=True))
    tl.step(4000)
    passed = left(tl)
    # Passing is optional: a window limits it, so that no counter wraps.
    assert tl.parameters["TX_TLPS"] < len(passed) < 300
    tl.learn(UPDATE, P, 0, value(0, 16))
    tl.step(4000)
    assert left(tl) == [write(1, 32)] + [tlp("Cpl", tag=n % 256, ro=True) for n in range(len(passed), 300)]


# ---- sending: channels ----


def burst(tl, amount, vcs):
    for n in range(amount):
        for vc in vcs:
            tl.send(P, write(n, 32, tc=vc), vc)


def vcs_that_left(tl):
    return [data[1] >> 4 & 7 for data in left(tl)]


def blocked_link_up(tl):
    """All TCs have a VC of their number; TLPs wait in the slots."""
    link_up(tl, vc_of=[n % tl.vcs for n in range(8)])
    tl.set(ready_gaps=1000000)


@pytest.mark.parametrize("name", ["tl_narrow", "tl_small"])
def test_strict_priority_of_the_highest_channel(make_tl, name):
    tl = make_tl(name)
    blocked_link_up(tl)
    tl.set(vc_arbitration=0)
    burst(tl, 3, range(tl.vcs))
    tl.step(1500)
    tl.set(ready_gaps=0)
    tl.step(1500)
    order = vcs_that_left(tl)
    # Up to two TLPs were selected before the others came.
    assert order[2:] == sorted(order[2:], reverse=True) and len(order) == 3 * tl.vcs


@pytest.mark.parametrize("name", ["tl_narrow", "tl_small"])
def test_round_robin_of_channels(make_tl, name):
    tl = make_tl(name)
    blocked_link_up(tl)
    burst(tl, 3, range(tl.vcs))
    tl.step(1500)
    tl.set(ready_gaps=0)
    tl.step(1500)
    order = vcs_that_left(tl)[2:]
    assert all((later - earlier) % tl.vcs == 1 for earlier, later in zip(order, order[1:]))


def test_weighted_round_robin_follows_the_table(make_tl):
    tl = make_tl("tl_small")
    blocked_link_up(tl)
    tl.set(vc_arbitration=2)
    tl.set_phases([0, 1, 1, 1, 0, 1, 1, 1])
    burst(tl, 8, range(2))
    tl.step(400)
    tl.set(ready_gaps=0)
    tl.step(750)
    # Up to two TLPs were selected before the others came.
    assert sorted(vcs_that_left(tl)[2:10]) == [0] * 2 + [1] * 6
    # Phases of a channel without TLPs are used by the others.
    tl.step(2000)
    tl.log()
    burst(tl, 20, [0])
    tl.step(600)
    assert vcs_that_left(tl) == [0] * 20


@pytest.mark.parametrize("name", ["tl_narrow", "tl_small"])
def test_a_channel_without_credits_does_not_stop_the_others(make_tl, name):
    tl = make_tl(name)
    link_up(tl, (1, 8), vc_of=[n % tl.vcs for n in range(8)])
    burst(tl, 2, range(tl.vcs))
    tl.step(1000)
    assert sorted(vcs_that_left(tl)) == list(range(tl.vcs))
    tl.learn(UPDATE, P, 1, value(2, 16))
    tl.step(100)
    assert vcs_that_left(tl) == [1]


# ---- sending: bad input ----


@pytest.mark.parametrize(
    "bad",
    [
        write(1, 8)[:-4],  # a double-word less than Length
        write(1, 8) + bytes(4),
        bytes([0x5F]) + write(1, 8)[1:],  # undefined Fmt and Type
        bytes([0x80]) + write(1, 8)[1:],  # a prefix
        write(1, 8, td=True)[:-4],  # TD without a digest
        write(1, 8, tc=1),  # TC1 is mapped to another VC
    ],
)
def test_refuses_what_no_port_may_send(tl, bad):
    link_up(tl, vc_of=[0, 7, 0, 0, 0, 0, 0, 0])
    tl.send(P, write(0, 8))
    tl.send(P, bad)
    tl.send(P, write(2, 8))
    tl.step(100)
    assert left(tl) == [write(0, 8), write(2, 8)]
    assert tl.counts() == {"refused": 1}


def test_refuses_tlps_longer_than_the_port_can_send(tl):
    link_up(tl)
    too_long = tl.parameters["MAX_TLP_BYTES"] // 4
    for n in range(6):
        tl.send(P, write(n, too_long))
    tl.send(P, write(9, 8))
    tl.step(2000)
    assert left(tl) == [write(9, 8)]
    assert tl.counts() == {"refused": 6}


def test_a_full_transmit_buffer_stops_only_its_queue(tl):
    link_up(tl, (1, 100))
    tl.set(insists=1)
    for n in range(200):
        tl.send(P, write(n, 32))
    tl.step(2000)
    tl.log()
    assert tl.get("tx_room") & 7 == 6
    tl.set(insists=0)
    tl.send(CPL, completion(0))
    tl.send(NP, read(0))
    tl.step(30)
    # They are taken, and wait for older posted requests.
    accepted = {record.data[0] for record in of(tl.log(), "accepted")}
    assert {completion(0)[0], read(0)[0]} <= accepted or tl.get("unsent") > 150
    for n in range(2, 220):
        tl.learn(UPDATE, P, 0, value(n, 100 + 8 * n))
        tl.step(40)
    assert len(left(tl)) == 201


# ---- receiving: buffers and credits ----


def advertised(tl, scaled):
    """The credits of InitFC for the parameters: (header, data) per type, None if infinite."""
    out = []
    for name in ("P", "NP", "CPL"):
        if name == "CPL" and tl.parameters["INFINITE_COMPLETIONS"]:
            out.append([None, None])
            continue
        sizes = tl.parameters[f"RX_{name}_HEADERS"], tl.parameters[f"RX_{name}_DATA"]
        for_type = []
        for size, most in zip(sizes, (127, 2047)):
            factor = 1 if not scaled or size <= most else 4 if size <= 4 * most else 16
            for_type.append(min(size // factor, most) * factor)
        out.append(for_type)
    return out


@pytest.mark.parametrize("scaled", [False, True])
def test_advertises_its_buffers(tl, scaled):
    link_up(tl, scaled=scaled)
    receiver = ref.Receiver(tl.vcs, scaled=scaled)
    for vc in range(tl.vcs):
        assert [receiver.advertise(vc, kind_class, tl.init_fc(vc, kind_class)) for kind_class in range(3)] == advertised(tl, scaled)


@pytest.mark.parametrize("scaled", [False, True])
def test_receives_as_much_as_it_advertises_and_no_more(tl, scaled):
    link_up(tl, scaled=scaled)
    tl.set(p_gaps=1000000, np_gaps=1000000, cpl_gaps=1000000)
    headers, data = advertised(tl, scaled)[P]
    expected = []
    # All data credits in the most TLPs that use them: the least favourable case for the buffer.
    for n in range(headers):
        units = max(1, data // headers) if n < headers - 1 else min(data - (headers - 1) * max(1, data // headers), tl.parameters["MAX_PAYLOAD"] // 16)
        expected.append(write(n % 256, 4 * units, four=True, td=True))
        tl.receive(expected[-1])
    tl.step(20000)
    assert tl.counts() == {}
    tl.receive(write(77))
    tl.step(20)
    assert tl.counts() == {"overflow": 1}
    assert of(tl.log(), "dropped")[0].data[:2] == b"\x80\x00"
    # The link delivers at one beat per cycle from now on, and nothing is lost.
    tl.set(p_gaps=0)
    tl.step(20000)
    assert [record.data for record in of(tl.log(), "taken")] == expected


def test_data_overflow_is_found(tl):
    link_up(tl)
    tl.set(p_gaps=1000000)
    _, data = advertised(tl, False)[P]
    payload = tl.parameters["MAX_PAYLOAD"] // 4
    number = data * 4 // payload
    for n in range(number + 1):
        tl.receive(write(n, payload))
    tl.step(20000)
    assert tl.counts() == {"overflow": 1}
    assert tl.count("received") == number


@pytest.mark.parametrize("scaled", [False, True])
def test_update_fc_follows_each_freed_tlp(tl, scaled):
    link_up(tl, scaled=scaled)
    receiver = ref.Receiver(tl.vcs, scaled=scaled)
    for kind_class in range(3):
        receiver.advertise(0, kind_class, tl.init_fc(0, kind_class))
    for n in range(20):
        for kind_class, each in ((P, write(n, 5)), (NP, tlp("FetchAdd", 1, tag=n)), (CPL, completion(n, 3))):
            receiver.arrive(each)
            tl.receive(each)
            tl.step(60)
            for record in tl.log():
                if record.kind == "taken":
                    receiver.take(record.vc, record.type, record.data)
                elif record.kind == "update":
                    receiver.update(record.vc, record.type, int.from_bytes(record.data, "little"))
    assert receiver.taken == 60 and receiver.all_reported()


def test_update_fc_becomes_urgent_after_the_limit(tl):
    link_up(tl)
    tl.set(update_fc_latency_limit=30, update_gaps=1000000)
    tl.receive(write(0))
    tl.step(20)
    tl.set(update_gaps=0)
    tl.step(4)
    assert [record.flags for record in of(tl.log(), "update")] == [0]
    tl.set(update_gaps=1000000)
    tl.receive(write(1))
    tl.step(60)
    tl.set(update_gaps=0)
    tl.step(4)
    assert [record.flags for record in of(tl.log(), "update")] == [1]


def test_period_refreshes_all_finite_types(tl):
    link_up(tl)
    tl.set(update_fc_period=200)
    tl.step(1000 + 200)
    updates = of(tl.log(), "update")
    finite = [(vc, kind_class) for vc in range(tl.vcs) for kind_class in range(3) if tl.init_fc(vc, kind_class) & 0xFF0FFF]
    counts = collections.Counter((record.vc, record.type) for record in updates)
    assert set(counts) == set(finite) and all(4 <= number <= 6 for number in counts.values())
    assert all(record.flags == 1 for record in updates)


def test_init_fc2_on_a_ready_channel_is_answered_with_all_types(tl):
    link_up(tl)
    tl.learn(INIT2, P, 0, value(0, 0))
    tl.step(40)
    updates = of(tl.log(), "update")
    assert [(record.vc, record.type, int.from_bytes(record.data, "little")) for record in updates] == [(0, n, tl.init_fc(0, n)) for n in range(3)]


# ---- receiving: order ----


@pytest.mark.parametrize(
    "kind_class, later, passes",
    [
        (NP, read(9), False),
        (NP, read(9, ro=True), False),
        (NP, tlp("FetchAdd", 1, tag=9, ro=True), True),
        (CPL, completion(9), False),
        (CPL, completion(9, ro=True), True),
    ],
)
def test_user_gets_a_later_tlp_only_after_older_posted_requests(tl, kind_class, later, passes):
    link_up(tl)
    tl.set(p_gaps=1000000)
    for n in range(2):
        tl.receive(write(n, 20))
    tl.receive(later)
    tl.receive(write(2, 20))
    tl.step(100)
    assert [record.data for record in of(tl.log(), "taken")] == ([later] if passes else [])
    tl.set(p_gaps=0)
    tl.step(60)
    taken = [(record.type, record.data) for record in of(tl.log(), "taken")]
    assert [data for kind, data in taken if kind == P] == [write(n, 20) for n in range(3)]
    assert ((kind_class, later) in taken) != passes


def test_posted_requests_reach_the_user_while_the_others_are_stalled(tl):
    link_up(tl)
    tl.set(np_gaps=1000000, cpl_gaps=1000000)
    tl.receive(read(0))
    tl.receive(completion(0))
    for n in range(30):
        tl.receive(write(n))
        tl.step(12)
    taken = of(tl.log(), "taken")
    assert [record.data for record in taken] == [write(n) for n in range(30)]
    tl.set(cpl_gaps=0)
    tl.step(10)
    assert [record.data for record in of(tl.log(), "taken")] == [completion(0)]


def test_poisoned_tlp_is_passed_on_with_a_flag(tl):
    link_up(tl)
    for ep in (True, False, True):
        tl.receive(write(3, 20, ep=ep))
    tl.step(60)
    assert [record.flags for record in of(tl.log(), "taken")] == [2, 0, 2]
    assert tl.counts() == {"poisoned": 2}


def test_tlp_that_the_data_link_layer_rejects_leaves_no_trace(tl):
    link_up(tl)
    for n in range(20):
        tl.receive(write(n, 20), good=n % 3 != 1)
        tl.receive(b"\xff" * 24, good=False)
    tl.step(500)
    assert [record.data for record in of(tl.log(), "taken")] == [write(n, 20) for n in range(20) if n % 3 != 1]
    assert tl.counts() == {}


# ---- receiving: malformed TLPs ----

BAD = {
    "format": [bytes([0x5F]) + write(1)[1:], bytes([0x80]) + write(1)[1:], bytes([0x22]) + write(1)[1:], tlp("MRd", kind_type=0b01100), bytes([0x6A]) + write(1)[1:]],
    "length": [write(1, 8)[:-4], write(1, 8) + bytes(4), write(1, 8, td=True)[:-4], read(1) + bytes(4), write(1, 1) + bytes(600)],
    "byte_enables": [
        write(1, 2, enables=0x0F), write(1, 2, enables=0xF0), write(1, 1, enables=0xFF), write(1, 3, enables=0xF5), write(1, 3, enables=0x5F), write(1, 4, enables=0xF7),
        write(1, 2, address=0x1004, enables=0xF9), tlp("MRd", 4, enables=0x0F), tlp("CfgRd", 1, enables=0x1F), tlp("IOWr", 1, enables=0x1F),
    ],
    "traffic_class": [write(1, tc=5), tlp("CfgRd", tc=1), tlp("IORd", tc=1), tlp("Msg", code=0x20, tc=1), tlp("Msg", code=0x31, tc=1), tlp("MsgD", code=0x50, tc=1)],
    "boundary": [write(1, 2, address=0x1FFC), tlp("MRd", 33, address=0xFF80), tlp("MRd", 1024, address=0x1004), tlp("MRd", 2, address=0x1_0000_0FFC, four=True)],
    "operand": [
        tlp("CfgRd", 2), tlp("IORd", 3), tlp("CfgWr", 2), tlp("FetchAdd", 4), tlp("Swap", 2, address=0x1004), tlp("CAS", 1), tlp("CAS", 4, address=0x1004),
        tlp("CAS", 8, address=0x1008), tlp("FetchAdd", 3),
    ],
}


@pytest.mark.parametrize("fault", BAD)
def test_malformed_tlps_are_dropped_counted_and_logged(tl, fault):
    vc_of = [0, 0, 0, 0, 0, 7, 0, 0]
    link_up(tl, vcs=min(tl.vcs, 2), vc_of=vc_of)
    for number, each in enumerate(BAD[fault], 1):
        assert ref.faults(each, vc_of, {0, 1}, tl.parameters["MAX_PAYLOAD"]) >= {fault}
        tl.receive(each)
        tl.receive(write(5))
        tl.step(200)
        log = tl.log()
        assert [record.data for record in of(log, "taken")] == [write(5)], each.hex()
        dropped = of(log, "dropped")
        assert len(dropped) == 1
        assert int.from_bytes(dropped[0].data[:2], "little") >> ref.FAULTS.index(fault) & 1
        assert dropped[0].data[2:14] == each[:12]
        assert tl.count(fault) == number


def test_payload_above_the_maximum_is_malformed(tl):
    link_up(tl)
    tl.set(max_payload=0)
    for each in (write(1, 32), write(2, 33), completion(3, 33), tlp("MRd", 256)):
        tl.receive(each)
    tl.step(200)
    assert [record.data for record in of(tl.log(), "taken")] == [write(1, 32), tlp("MRd", 256)]
    assert tl.counts() == {"payload": 2}


@pytest.mark.parametrize("good", [
    write(1, 2, enables=0xF9), write(1, 1, enables=0x05), tlp("MRd", 1, enables=0x00), write(1, 3, enables=0x1E), write(1, 2, address=0x1004, enables=0x3C),
    tlp("MRd", 1024, address=0x2000), tlp("MRd", 4, enables=0x00, four=True)[:1] + b"\x01" + tlp("MRd", 4, enables=0x00, four=True)[2:],
    tlp("CAS", 8), tlp("DMWr", 1), tlp("Msg", code=0x7F, tc=0), tlp("MRdLk"),
])  # fmt: skip
def test_unusual_tlps_are_not_malformed(tl, good):
    link_up(tl)
    assert ref.faults(good, [0] * 8, {0}, 128) == set()
    tl.receive(good)
    tl.step(60)
    assert [record.data for record in of(tl.log(), "taken")] == [good]
    assert tl.counts() == {}


def test_syndrome_of_changed_headers_agrees_with_the_reference(tl, dice):
    vc_of = [0, tl.vcs - 1, 0, 0, 6, 0, 0, 0]
    link_up(tl, vcs=tl.vcs, vc_of=vc_of)
    max_payload, open_vcs = tl.parameters["MAX_PAYLOAD"], set(range(tl.vcs))
    found = collections.Counter()
    for n in range(3000):
        data = bytearray(ref.random_tlp(dice, dice.randrange(3), max_payload, serial=n))
        for _ in range(dice.randrange(4)):
            bit = dice.choice([*range(0, 32), *range(56, 64), *range(80, 96), *range(112, 8 * min(len(data), 16))])
            data[min(bit // 8, len(data) - 1)] ^= 1 << bit % 8
        each = bytes(data)
        expected = ref.faults(each, vc_of, open_vcs, max_payload)
        # A TLP whose length in the header does not fit into the buffer is a Receiver Overflow as well.
        tl.receive(each)
        tl.step(2 + len(each) // tl.beat * 2 + 20)
        log = tl.log()
        dropped = of(log, "dropped")
        got = {name for bit, name in enumerate(ref.FAULTS) if dropped and int.from_bytes(dropped[0].data[:2], "little") >> bit & 1}
        # A TLP that ends before its address breaks the rule of Length. Rules that need the address do not apply.
        cut = {"byte_enables", "boundary", "operand"} if len(each) < 4 * ref.Fields(each).header else set()
        assert got - {"overflow"} - cut == expected - cut, each.hex()
        found.update(expected)
        assert len(of(log, "taken")) == (not got)
    assert set(found) == set(ref.FAULTS[:7])


def test_malformed_tlps_return_their_credits(tl):
    link_up(tl)
    headers, _ = advertised(tl, False)[P]
    for _ in range(2 * headers + 3):
        tl.receive(write(1, 3, enables=0xF5))
        tl.step(2)
    tl.step(60)
    assert tl.counts() == {"byte_enables": 2 * headers + 3}
    updates = of(tl.log(), "update")
    assert (int.from_bytes(updates[-1].data, "little") >> 14) & 0xFF == (3 * headers + 3) & 0xFF


# ---- link down ----


def test_link_down_empties_both_directions(tl):
    link_up(tl, (1, 100))
    tl.set(p_gaps=1000000, ready_gaps=1000000)
    for n in range(3):
        tl.send(P, write(n, 30))
        tl.receive(write(n, 30))
    tl.step(100)
    # A TLP is half sent, and another half taken.
    tl.set(p_gaps=0, ready_gaps=0)
    tl.step(1)
    tl.set(p_gaps=1000000, ready_gaps=1000000)
    tl.step(1)
    tl.set(dl_state=0, vc_init2=0, vc_ready=0)
    tl.step(5)
    tl.set(p_gaps=0, ready_gaps=0)
    tl.step(20)
    log = tl.log()
    assert [record.flags for record in of(log, "left")] == [1]
    assert [record.flags & 1 for record in of(log, "taken")] == [1]
    link_up(tl, (5, 100))
    tl.send(P, write(7, 30))
    tl.receive(write(8, 30))
    tl.step(100)
    log = tl.log()
    assert [record.data for record in of(log, "left")] == [write(7, 30)]
    assert [record.data for record in of(log, "taken")] == [write(8, 30)]
    assert tl.init_fc(0, P) == value(*advertised(tl, False)[P])


# ---- full rate ----


@pytest.mark.parametrize("dwords", [1, 4, 29, 32])
def test_a_beat_per_cycle_in_both_directions(tl, dwords):
    link_up(tl)
    number, cycles = 400, 300
    beats = -(-(12 + 4 * dwords) // tl.beat)
    if tl.parameters["TX_TLPS"] < 16 or tl.parameters["RX_P_HEADERS"] < 16:
        pytest.skip("small buffers")
    for n in range(number):
        tl.send(P, write(n, dwords))
        tl.receive(write(n, dwords))
    tl.step(50)
    before = tl.beats(P), tl.beats(3)
    tl.step(cycles)
    assert beats * number > cycles + 50
    assert (tl.beats(P) - before[0], tl.beats(3) - before[1]) == (cycles, cycles)


# ---- random traffic ----


class World:
    """Random traffic in both directions, judged by the reference."""

    def __init__(self, tl, seed, scaled):
        self.tl, self.dice, self.scaled = tl, random.Random(seed), scaled
        self.vc_of = [self.dice.randrange(tl.vcs) for _ in range(8)]
        self.tcs = {vc: [tc for tc in range(8) if self.vc_of[tc] == vc] for vc in range(tl.vcs)}
        self.sender, self.receiver = ref.Sender(tl.vcs), ref.Receiver(tl.vcs, self.vc_of, scaled)
        self.payload = tl.parameters["MAX_PAYLOAD"]
        self.serial = 0
        self.in_flight = collections.deque()
        # The other end: credits that it grants, and credits that it was granted.
        self.granted, self.limits, self.used = {}, {}, {}
        self.start()

    def start(self):
        tl, dice = self.tl, self.dice
        tl.set(vc_enable=(1 << tl.vcs) - 1, remote_features=int(self.scaled), max_payload=(self.payload // 128).bit_length() - 1)
        tl.set(tc_map=sum(vc << 3 * tc for tc, vc in enumerate(self.vc_of)), vc_arbitration=dice.randrange(3), dl_state=2)
        tl.set_phases([dice.randrange(tl.vcs) for _ in range(tl.parameters["VC_PHASES"])])
        tl.step(4)
        for key in self.sender.credits:
            scales = (dice.randint(1, 3), dice.randint(1, 3)) if self.scaled else (0, 0)
            fields = (dice.choice([0, 1, 3, 20, 127]), dice.choice([0, self.payload // 16, 100, 2047]))
            factors = [{0: 1, 1: 1, 2: 4, 3: 16}[scale] for scale in scales]
            # [free credits, total so far, factor, field's width, is infinite]
            self.granted[key] = [[0, field * factor, factor, field == 0] for field, factor in zip(fields, factors)]
            self.granted[key].append(scales)
            self.tell(INIT1, key)
            self.limits[key] = list(self.receiver.advertise(*key, tl.init_fc(*key)))
            self.used[key] = [0, 0]
        tl.step(4 + 3 * tl.vcs)
        tl.set(dl_state=3, vc_init2=(1 << tl.vcs) - 1, vc_ready=(1 << tl.vcs) - 1)

    def tell(self, kind, key):
        header, data, scales = self.granted[key]
        self.tl.learn(kind, key[1], key[0], value(*(0 if each[3] else each[1] // each[2] for each in (header, data)), scales))

    def grant(self, share):
        """The other end returns credits of a part of the received TLPs."""
        for key, (header, data, _) in self.granted.items():
            changed = False
            for each in (header, data):
                amount = min(each[0], 1 + self.dice.randrange(1 + each[0])) if self.dice.random() < share and each[0] else 0
                each[0] -= amount
                each[1] += amount
                changed |= bool(amount)
            if changed:
                self.tell(UPDATE, key)

    def send(self, number):
        vcs = [vc for vc, tcs in self.tcs.items() if tcs]
        for _ in range(number):
            vc, kind_class = self.dice.choice(vcs), self.dice.choice((P, P, NP, CPL))
            self.serial += 1
            self.tl.send(kind_class, ref.random_tlp(self.dice, kind_class, self.payload, self.dice.choice(self.tcs[vc]), self.serial), vc)

    def receive(self, number, malformed):
        vcs = [vc for vc, tcs in self.tcs.items() if tcs]
        for _ in range(number):
            vc, kind_class = self.dice.choice(vcs), self.dice.choice((P, P, NP, CPL))
            self.serial += 1
            each = ref.random_tlp(self.dice, kind_class, self.payload, self.dice.choice(self.tcs[vc]), self.serial)
            fields, key = ref.Fields(each), (vc, kind_class)
            limits = list(self.limits[key])
            if kind_class == CPL and self.tl.parameters["INFINITE_COMPLETIONS"]:
                # The user limits its requests instead.
                freed = self.receiver.freed[key]
                limits = [self.tl.parameters["RX_CPL_HEADERS"] + freed[0], self.tl.parameters["RX_CPL_DATA"] + freed[1]]
            amounts = (1, fields.units)
            good = self.dice.random() >= 0.02
            if any(used + amount > limit for used, amount, limit in zip(self.used[key], amounts, limits)):
                continue
            if malformed and self.dice.random() < 0.05:
                # One double-word is missing or too many.
                each = each[:-4] if fields.dwords > 4 and self.dice.random() < 0.5 else each + bytes(4)
            if good:
                self.used[key] = [used + amount for used, amount in zip(self.used[key], amounts)]
            self.in_flight.append(each)
            self.tl.receive(each, good)

    def judge(self):
        """Compares all that has happened with the rules."""
        for record in self.tl.log():
            if record.kind == "accepted":
                self.sender.accept(record.vc, record.data)
            elif record.kind == "left":
                fields = ref.Fields(record.data)
                key = self.vc_of[fields.tc], fields.kind_class
                self.sender.leave(key[0], record.data)
                for each, amount in zip(self.granted[key], (1, fields.units)):
                    if not each[3]:
                        each[0] += amount
            elif record.kind == "learned":
                word = int.from_bytes(record.data, "little")
                assert self.sender.learn(record.flags, record.type, record.vc, word, self.scaled)
            elif record.kind == "arrived":
                each = self.in_flight.popleft()
                if record.flags and ref.Fields(each).dwords * 4 != len(each):
                    self.receiver.discard(each)
                elif record.flags:
                    self.receiver.arrive(each)
            elif record.kind == "offered":
                self.receiver.offer(record.vc, record.type)
            elif record.kind == "taken":
                assert record.flags >> 1 == (record.data[2] >> 6 & 1)
                self.receiver.take(record.vc, record.type, record.data)
            elif record.kind == "update":
                self.limits[record.vc, record.type] = self.receiver.update(record.vc, record.type, int.from_bytes(record.data, "little"))

    def pace(self):
        """New rates for all parties."""
        dice = self.dice
        pick = lambda: dice.choice([0, 0, 100000, 500000, 900000])  # noqa: E731
        self.tl.set(user_gaps=pick(), link_gaps=pick(), ready_gaps=pick(), update_gaps=pick(), insists=dice.randrange(2))
        self.tl.set(p_gaps=dice.choice([0, 0, 500000, 1000000]), np_gaps=dice.choice([0, 500000, 1000000]), cpl_gaps=dice.choice([0, 500000, 1000000]))
        self.share = dice.choice([0.02, 0.2, 1])

    def run(self, tlps):
        """Runs until so many TLPs have passed each way."""
        step = 64
        for turn in range(10 * tlps):
            if turn % 32 == 0:
                self.pace()
            if self.tl.get("unsent") < 40:
                self.send(20)
            if self.tl.get("unreceived") < 20:
                self.receive(20, malformed=True)
            self.grant(self.share)
            self.tl.step(step)
            self.judge()
            if self.sender.left >= tlps and self.receiver.taken >= tlps:
                break
        self.drain()

    def drain(self):
        """All TLPs arrive in the end, and all credits are reported."""
        self.tl.set(user_gaps=0, link_gaps=0, ready_gaps=0, update_gaps=0, p_gaps=0, np_gaps=0, cpl_gaps=0)
        for _ in range(400):
            self.grant(1)
            self.tl.step(100)
            self.judge()
            if not (self.tl.get("unsent") or self.sender.waiting() or self.tl.get("unreceived") or self.receiver.waiting()):
                break
        self.tl.step(200)
        self.judge()
        assert not self.tl.get("unsent") and not self.sender.waiting(), "TLPs to send wait for ever"
        assert not self.tl.get("unreceived") and not self.receiver.waiting(), "received TLPs wait for ever"
        assert self.receiver.all_reported(), "freed credits are not reported"
        assert set(self.tl.counts()) <= {"length", "poisoned"}


# `make long` asks for more.
TLPS = int(os.environ.get("RANDOM_TLPS", "1500"))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_random_traffic_follows_the_rules(tl, scaled, seed):
    World(tl, 450 + seed, scaled).run(TLPS)


# ---- parameters ----


@pytest.mark.parametrize(
    "parameters, expected",
    [
        (["DATA_WIDTH=96"], "DATA_WIDTH is 96; expected 64, 128, 256 or 512"),
        (["NUM_VCS=9"], "NUM_VCS is 9; expected 1 to 8"),
        (["MAX_PAYLOAD=300"], "MAX_PAYLOAD is 300; expected a power of two from 128 to 4096"),
        (["MAX_TLP_BYTES=530"], "MAX_TLP_BYTES is 530; expected a multiple of 4 from MAX_PAYLOAD + 20 to 4160"),
        (["TX_BYTES=2048"], "TX_BYTES is 2048; expected a power of two with room for four TLPs and eight beats"),
        (["TX_TLPS=12"], "TX_TLPS is 12; expected a power of two from 4 to 256"),
        (["RX_P_HEADERS=0"], "receive headers are 0, 64, 96; expected 1 to 2032"),
        (["RX_P_DATA=31"], "RX_P_DATA is 31; expected MAX_PAYLOAD / 16 to 32752"),
        (["RX_NP_DATA=1"], "RX_NP_DATA is 1; expected 2 to 32752"),
        (["RX_CPL_DATA=31"], "RX_CPL_DATA is 31"),
        (["VC_PHASES=12"], "VC_PHASES is 12; expected a power of two from 2 to 128"),
    ],
)
def test_illegal_parameters_of_the_transaction_layer_stop_elaboration(parameters, expected):
    assert expected in refusal("pcie_tl", *parameters)

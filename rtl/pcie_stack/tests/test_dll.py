# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directed tests of one data link layer: each rule of PCIe 6.0 chapter 3 that it implements, in four builds."""

import pathlib
import zlib

import pytest
import reference
from model import refusal
from reference import Frame, ack, dllp, feature, flow_control, tlp_frame

RTL = pathlib.Path(__file__).resolve().parent.parent
CORPUS = RTL.parent.parent / "crates" / "tlp" / "tests" / "corpus" / "dllps.txt"
TIMER = 1000
LATENCY = 32


def link_up(dut):
    """Brings the link to DL_Active with three InitFC1 and three InitFC2."""
    dut.set(phy_link_up=1, replay_timer_limit=TIMER, ack_latency_limit=LATENCY)
    dut.step(8)
    for kind in (0b01, 0b11):
        for kind_type in range(3):
            dut.push(Frame(flow_control(kind, kind_type, 0, 0x112233), True))
        dut.step(200)
    assert dut.get("dl_state") == 3
    dut.frames()
    dut.learned()


def tlps_of(frames):
    return [frame for frame in frames if not frame.dllp]


def sequences(frames):
    return [int.from_bytes(frame.data[:2], "big") for frame in tlps_of(frames)]


def acks(frames):
    """(sequence, is Nak) of the Acks and Naks."""
    return [(frame.data[2] << 8 | frame.data[3], frame.data[0] == 0x10) for frame in frames if frame.dllp and frame.data[0] in (0x00, 0x10)]


def tlp(number, dwords=3):
    return b"".join((number * 257 + n).to_bytes(4, "big") for n in range(dwords))


def receive(dut, sequence, data=None, **marks):
    dut.push(Frame(tlp_frame(sequence, data or tlp(sequence)), False, **marks))


# ---- CRCs ----


def test_reference_crcs_agree_with_zlib_and_with_the_corpus():
    for length in range(40):
        data = bytes(range(7, 7 + length))
        assert reference.lcrc(data) == zlib.crc32(data).to_bytes(4, "little")
    for line in CORPUS.read_text().splitlines():
        if not line.startswith("#") and "error=" not in line:
            # Reserved bits are sent unchanged: the CRC covers them.
            data = bytes.fromhex(line.split()[0])
            assert reference.dllp(data[:4]) == data


def test_sent_lcrc_is_right_for_every_length(dut, dice):
    link_up(dut)
    expected = []
    for dwords in range(3, dut.parameters["MAX_TLP_BYTES"] // 4 + 1):
        expected.append(dice.randbytes(4 * dwords))
        dut.send(expected[-1])
    frames = []
    for _ in range(20000):
        if len(frames) == len(expected):
            break
        dut.run(100)
        for frame in tlps_of(dut.frames()):
            frames.append(frame)
            dut.push(Frame(ack(sequences([frame])[0]), True))
    assert [frame.data for frame in frames] == [tlp_frame(n, data) for n, data in enumerate(expected)]


@pytest.mark.parametrize("gaps", [0, 300000])
def test_accepts_right_lcrc_of_every_length(dut, dice, gaps):
    link_up(dut)
    dut.gaps(link=gaps)
    expected = [dice.randbytes(4 * dwords) for dwords in [*range(3, 50), 64, 100, 255, 256, 257, 1028]]
    for n, data in enumerate(expected):
        # The receiver ignores the reserved bits, which are under the LCRC.
        dut.push(Frame(tlp_frame(n, data, reserved=n % 16), False))
    dut.step(8000)
    assert dut.received() == expected
    assert "bad_lcrc" not in dut.counts()


def test_rejects_each_damaged_bit(dut, dice):
    link_up(dut)
    frame = tlp_frame(0, dice.randbytes(20))
    for bit in range(8 * len(frame)):
        data = bytearray(frame)
        data[bit // 8] ^= 1 << bit % 8
        dut.push(Frame(data, False))
    dut.step(2000)
    assert dut.received() == []
    assert dut.count("bad_lcrc") == 8 * len(frame)
    assert acks(dut.frames()) == [(0xFFF, True)]


def test_dllps_of_the_corpus_are_judged_as_it_says(dut):
    link_up(dut)
    vcs = dut.parameters["NUM_VCS"]
    counts = {"bad": 0, "unknown": 0}
    fc, other = [], []
    for line in CORPUS.read_text().splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        data = bytes.fromhex(words[0])
        fields = dict(word.split("=") for word in words[1:])
        if fields.get("type") in ("Ack", "Nak", "Feature"):
            continue
        if fields.get("error") == "length" and len(data) < 5:
            data = data.ljust(2, b"\0")
        dut.push(Frame(data, True))
        if fields.get("error") in ("crc", "length"):
            counts["bad"] += 1
        elif fields.get("error") == "type" or int(fields.get("vc", 0)) >= vcs:
            counts["unknown"] += 1
        elif "vc" in fields:
            kind = {name: number for number, name in reference.FC_NAMES.items()}[fields["type"]]
            value = int(fields["hdr_scale"]) << 22 | int(fields["hdr"]) << 14 | int(fields["data_scale"]) << 12 | int(fields["data"])
            fc.append((kind, reference.TYPES.index(fields["class"]), int(fields["vc"]), value))
        else:
            other.append(data[:4])
    dut.step(1000)
    assert (dut.count("bad_dllp"), dut.count("unknown_dllp")) == (counts["bad"], counts["unknown"])
    assert dut.learned() == fc
    assert dut.other() == other
    assert dut.get("dl_state") == 3


def test_sends_the_dllps_of_the_corpus(dut):
    link_up(dut)
    expected = [bytes.fromhex(line.split()[0]) for line in CORPUS.read_text().splitlines() if not line.startswith("#") and "error=" not in line]
    for data in expected:
        dut.send_other(data[:4])
    dut.step(400)
    assert [frame.data for frame in dut.frames()] == expected


# ---- replay ----


def test_replays_when_the_timer_expires(dut):
    link_up(dut)
    for n in range(3):
        dut.send(tlp(n))
    dut.step(100)
    first = tlps_of(dut.frames())
    assert sequences(first) == [0, 1, 2]
    dut.step(TIMER + 20)
    again = tlps_of(dut.frames())
    assert [frame.data for frame in again] == [frame.data for frame in first]
    # From the end of the first TLP.
    assert TIMER < again[0].time - first[0].time < TIMER + 12
    assert dut.count("replay_timeout") == 1


def test_replay_timer_restarts_only_with_progress(dut):
    link_up(dut)
    for n in range(4):
        dut.send(tlp(n))
    dut.step(100)
    first = tlps_of(dut.frames())
    dut.step(500)
    dut.push(Frame(ack(1), True))
    dut.step(400)
    # The same Ack again is no progress.
    dut.push(Frame(ack(1), True))
    dut.step(TIMER - 400 - 50)
    assert tlps_of(dut.frames()) == []
    dut.step(100)
    again = tlps_of(dut.frames())
    assert sequences(again) == [2, 3]
    assert first[0].time + 500 + TIMER < again[0].time < first[0].time + 700 + TIMER


def test_replay_timer_stands_still_in_recovery_and_stops_when_all_is_acknowledged(dut):
    link_up(dut)
    dut.send(tlp(0))
    dut.step(500)
    dut.set(phy_recovery=1)
    dut.step(5000)
    dut.set(phy_recovery=0)
    dut.step(TIMER - 500 - 30)
    assert sequences(dut.frames()) == [0]
    dut.step(60)
    assert sequences(dut.frames()) == [0]
    dut.push(Frame(ack(0), True))
    dut.step(5000)
    assert dut.frames() == []
    assert dut.count("replay_timeout") == 1


def test_fourth_replay_without_progress_retrains_first(dut):
    link_up(dut)
    dut.send(tlp(0))
    dut.step(3 * TIMER + 400)
    assert sequences(dut.frames()) == [0] * 4
    assert not dut.get("retrain_request")
    dut.step(TIMER)
    assert dut.get("retrain_request")
    assert dut.count("replay_rollover") == 1
    dut.send(tlp(1))
    dut.step(3000)
    # There is no replay and no new TLP before the link has retrained; DLLPs continue.
    dut.update(0, 0, 0x111111)
    dut.step(50)
    frames = dut.frames()
    assert tlps_of(frames) == [] and len(frames) == 1
    dut.set(phy_recovery=1)
    dut.step(100)
    assert not dut.get("retrain_request")
    assert tlps_of(dut.frames()) == []
    dut.set(phy_recovery=0)
    dut.step(100)
    assert sequences(dut.frames()) == [0, 1]
    assert dut.count("replay_timeout") == 4
    # REPLAY_NUM is 0 again: three more before the next.
    dut.step(3 * TIMER + 400)
    assert dut.count("replay_rollover") == 1
    dut.step(TIMER)
    assert dut.count("replay_rollover") == 2


def test_progress_sets_replay_num_back(dut):
    link_up(dut)
    for n in range(6):
        dut.send(tlp(n))
    dut.step(100)
    for n in range(5):
        dut.push(Frame(ack(n, nak=True), True))
        dut.step(100)
    assert dut.count("replay") == 5
    assert dut.count("replay_rollover") == 0


def test_nak_acknowledges_what_a_lost_ack_had(dut):
    link_up(dut)
    for n in range(5):
        dut.send(tlp(n))
    dut.step(100)
    dut.frames()
    dut.push(Frame(ack(2, nak=True), True))
    dut.step(100)
    assert sequences(dut.frames()) == [3, 4]
    assert (dut.count("nak_received"), dut.count("replay")) == (1, 1)


def test_nak_of_all_that_was_sent_replays_nothing(dut):
    link_up(dut)
    dut.send(tlp(0))
    dut.step(100)
    dut.frames()
    dut.push(Frame(ack(0, nak=True), True))
    dut.step(3000)
    assert dut.frames() == []


def test_ack_during_a_replay_skips_acknowledged_tlps(dut):
    link_up(dut)
    for n in range(6):
        dut.send(tlp(n, 20))
    dut.step(300)
    dut.frames()
    # The wire is slow: the Ack arrives during the replay.
    dut.gaps(ready=950000)
    dut.push(Frame(ack(0xFFF, nak=True), True))
    dut.step(40)
    dut.push(Frame(ack(4), True))
    dut.gaps()
    dut.step(2)
    dut.gaps(ready=950000)
    dut.step(500)
    dut.gaps()
    dut.step(300)
    seen = sequences(dut.frames())
    assert seen[-1] == 5 and len(seen) < 6 and seen == sorted(seen)


def test_damaged_ack_is_not_taken(dut):
    link_up(dut)
    dut.send(tlp(0))
    dut.step(100)
    good = ack(0)
    for bit in range(48):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        dut.push(Frame(data, True))
    dut.push(Frame(good, True, error=True))
    dut.step(TIMER)
    assert sequences(dut.frames()) == [0, 0]
    assert dut.count("bad_dllp") == 49


def test_reports_ack_beyond_the_last_sent_tlp(dut):
    link_up(dut)
    for n in range(3):
        dut.send(tlp(n))
    dut.step(100)
    dut.frames()
    for sequence in (3, 100, 2 + 2047):
        dut.push(Frame(ack(sequence), True))
        dut.push(Frame(ack(sequence, nak=True), True))
    # 2048 back counts as old: dropped without an error.
    dut.push(Frame(ack((2 - 2048) % 4096), True))
    dut.push(Frame(ack((2 - 2047) % 4096, nak=True), True))
    dut.step(100)
    assert dut.count("protocol_error") == 6
    assert dut.frames() == []
    dut.step(TIMER)
    assert sequences(dut.frames()) == [0, 1, 2]


def test_sequence_numbers_wrap(dut):
    link_up(dut)
    dut.set(ack_count_limit=3)
    number, seen, got = 0, 0, 0
    while seen < 9000:
        while number < 9000 and dut.get("unsent") < 50:
            dut.send(tlp(number))
            number += 1
            receive(dut, got % 4096, tlp(got))
            got += 1
        dut.step(40)
        frames = dut.frames()
        for frame in tlps_of(frames):
            assert frame.data == tlp_frame(seen % 4096, tlp(seen))
            seen += 1
        if tlps_of(frames):
            dut.push(Frame(ack((seen - 1) % 4096), True))
    dut.step(200)
    assert dut.received() == [tlp(n) for n in range(got)]
    assert got == 9000
    assert set(dut.counts()) == {"ack_sent"}


def test_sends_at_most_2047_unacknowledged_tlps(make):
    dut = make("widest")
    link_up(dut)
    dut.set(replay_timer_limit=60000)
    for n in range(3000):
        dut.send(tlp(n))
    dut.step(8000)
    assert sequences(dut.frames()) == list(range(2047))
    dut.push(Frame(ack(0), True))
    dut.step(100)
    assert sequences(dut.frames()) == [2047]
    dut.push(Frame(ack(2047), True))
    dut.step(8000)
    assert sequences(dut.frames()) == list(range(2048, 3000))


def test_replay_buffer_bounds_what_is_unacknowledged(dut):
    link_up(dut)
    dut.set(replay_timer_limit=60000)
    limit = dut.parameters["REPLAY_TLPS"]
    for n in range(limit + 20):
        dut.send(tlp(n))
    dut.step(4 * limit + 100)
    small = len(sequences(dut.frames()))
    assert small == min(limit, 2047) if dut.parameters["REPLAY_BYTES"] // dut.beat > limit * 2 else small <= limit
    longest = dut.parameters["MAX_TLP_BYTES"]
    dut.push(Frame(ack(small - 1), True))
    while dut.get("unsent"):
        dut.step(100)
        for frame in tlps_of(dut.frames()):
            dut.push(Frame(ack(sequences([frame])[0]), True))
    dut.step(100)
    last = sequences(dut.frames())
    if last:
        dut.push(Frame(ack(last[-1]), True))
    dut.step(100)
    rows = -(-(longest + 8) // dut.beat)
    for n in range(2 * dut.parameters["REPLAY_BYTES"] // longest + 5):
        dut.send(tlp(n, longest // 4))
    dut.step(6 * dut.parameters["REPLAY_BYTES"] // dut.beat)
    count = len(sequences(dut.frames()))
    assert 0 < count * rows <= dut.parameters["REPLAY_BYTES"] // dut.beat


# ---- receiving ----


def test_duplicate_is_dropped_and_acknowledged_at_once(dut):
    link_up(dut)
    for n in range(3):
        receive(dut, n)
    dut.step(LATENCY + 60)
    assert acks(dut.frames()) == [(2, False)]
    receive(dut, 1)
    dut.step(20)
    assert acks(dut.frames()) == [(2, False)]
    receive(dut, (3 - 2048) % 4096)
    dut.step(20)
    assert acks(dut.frames()) == [(2, False)]
    assert dut.count("duplicate") == 2
    assert len(dut.received()) == 3


def test_gap_asks_once_for_a_replay(dut):
    link_up(dut)
    receive(dut, 0)
    for n in (2, 3, 4, 2048):
        receive(dut, n)
    dut.step(100)
    assert acks(dut.frames()) == [(0, True)]
    assert dut.count("sequence_gap") == 4
    for n in (1, 2, 4):
        receive(dut, n)
    dut.step(100)
    assert acks(dut.frames())[-1] == (2, True)
    assert dut.received() == [tlp(n) for n in (0, 1, 2)]


def test_frame_marked_by_the_physical_layer_gets_a_nak(dut):
    link_up(dut)
    receive(dut, 0, error=True)
    dut.step(50)
    assert acks(dut.frames()) == [(0xFFF, True)]
    assert dut.count("receiver_error") == 1
    assert dut.received() == []


def test_nullified_tlp_is_dropped_without_a_nak(dut):
    link_up(dut)
    good = tlp_frame(0, tlp(0, 9))
    nullified = good[:-4] + reference.inverted(good[-4:])
    dut.push(Frame(nullified, False, nullify=True))
    dut.step(50)
    assert dut.frames() == []
    assert dut.count("nullified") == 1
    # EDB with a right LCRC, and an inverted LCRC without EDB, are Bad TLPs.
    dut.push(Frame(good, False, nullify=True))
    dut.push(Frame(nullified, False))
    dut.step(50)
    assert acks(dut.frames()) == [(0xFFF, True)]
    assert dut.count("bad_lcrc") == 2
    dut.push(Frame(good, False))
    dut.step(50)
    assert dut.received() == [tlp(0, 9)]


@pytest.mark.parametrize("dwords", [0, 1, 2])
def test_frame_without_a_whole_header_is_bad(dut, dwords):
    link_up(dut)
    dut.push(Frame(tlp_frame(0, tlp(0, dwords)), False))
    dut.step(50)
    assert dut.count("bad_lcrc") == 1
    receive(dut, 0)
    dut.step(50)
    assert dut.received() == [tlp(0)]


def test_ack_waits_for_the_latency_limit(dut):
    link_up(dut)
    begin = dut.now
    receive(dut, 0)
    receive(dut, 1)
    dut.step(200)
    sent = [frame for frame in dut.frames() if frame.dllp]
    assert acks(sent) == [(1, False)]
    assert LATENCY < sent[0].time - begin < LATENCY + 16


def test_ack_covers_at_most_the_count_limit(dut):
    link_up(dut)
    dut.set(ack_count_limit=4, ack_latency_limit=1000)
    for n in range(12):
        receive(dut, n)
        dut.step(20)
    assert acks(dut.frames()) == [(3, False), (7, False), (11, False)]


# ---- sending ----


def test_nullified_tlp_takes_no_sequence_number(dut):
    link_up(dut)
    dut.send(tlp(0))
    for n in range(3):
        dut.send(tlp(50, 10 + n), nullify=True)
    dut.send(tlp(1))
    dut.step(200)
    frames = tlps_of(dut.frames())
    kept = [frame for frame in frames if not frame.nullify]
    assert [frame.data for frame in kept] == [tlp_frame(0, tlp(0)), tlp_frame(1, tlp(1))]
    nullified = [frame for frame in frames if frame.nullify]
    if dut.parameters["CUT_THROUGH"]:
        for n, frame in enumerate(nullified):
            good = tlp_frame(1, tlp(50, 10 + n))
            assert frame.data == good[:-4] + reference.inverted(good[-4:])
    assert len(nullified) == (3 if dut.parameters["CUT_THROUGH"] else 0)
    assert dut.count("tx_nullified") == 3
    # A nullified TLP is not replayed.
    dut.step(TIMER)
    assert sequences(dut.frames()) == [0, 1]


def test_nullified_tlps_do_not_fill_the_buffer(dut):
    link_up(dut)
    longest = dut.parameters["MAX_TLP_BYTES"] // 4
    number = 3 * dut.parameters["REPLAY_BYTES"] // (4 * longest) if dut.parameters["REPLAY_BYTES"] < 100000 else 40
    for n in range(number):
        dut.send(tlp(n, longest), nullify=True)
    dut.send(tlp(7))
    dut.step(number * (longest * 4 // dut.beat + 20) + 100)
    assert [frame.data for frame in tlps_of(dut.frames()) if not frame.nullify] == [tlp_frame(0, tlp(7))]


def test_tlp_beyond_the_longest_is_nullified(dut):
    link_up(dut)
    longest = dut.parameters["MAX_TLP_BYTES"] // 4
    for extra in (17, 40, 200):
        dut.send(tlp(9, longest + extra))
    dut.send(tlp(0))
    dut.step(600)
    frames = tlps_of(dut.frames())
    assert [frame.data for frame in frames if not frame.nullify] == [tlp_frame(0, tlp(0))]
    for frame in frames[:-1]:
        assert frame.data[-4:] == reference.inverted(reference.lcrc(frame.data[:-4]))
    assert dut.count("tx_overlong") == 3


def test_order_of_what_is_scheduled(dut):
    link_up(dut)
    # One long TLP occupies the wire, while everything else is scheduled.
    dut.set(ack_count_limit=1)
    dut.gaps(ready=1000000)
    for n in range(2):
        dut.send(tlp(n))
    dut.update(1, 0, 0x222222, urgent=False)
    receive(dut, 0)
    receive(dut, 5)
    dut.send_other(bytes([0x30, 1, 2, 3]))
    dut.step(40)
    dut.gaps()
    dut.step(100)
    kinds = ["tlp" if not frame.dllp else frame.data[0] for frame in dut.frames()]
    # The update was in the output register before the TLP had its LCRC.
    assert kinds[0] == 0x90
    assert kinds[1:] == [0x10, "tlp", "tlp", 0x30]


def test_urgent_update_passes_tlps(dut):
    link_up(dut)
    dut.gaps(ready=1000000)
    for n in range(3):
        dut.send(tlp(n))
    dut.step(40)
    dut.update(2, 0, 0x333333, urgent=True)
    dut.step(10)
    dut.gaps()
    dut.step(60)
    kinds = [frame.data[0] if frame.dllp else "tlp" for frame in dut.frames()]
    assert kinds == ["tlp", 0xA0, "tlp", "tlp"]


# ---- link states ----


def test_initialization_survives_lost_dllps(dut, dice):
    dut.init_fc(0, 0, 0xABCDEF)
    dut.set(phy_link_up=1)
    partner = reference.Partner(vcs=1, features=None)
    for _ in range(40000):
        dut.step()
        for frame in dut.frames():
            if dice.random() < 0.3:
                partner.receive(dut.now, frame)
        for frame in partner.poll(dut.now):
            if dice.random() < 0.3:
                dut.push(frame)
        for kind, kind_type, vc, _ in dut.learned():
            # The transaction layer informs an end that has missed all InitFC2.
            if kind == 0b11 and dut.get("dl_state") == 3:
                dut.update(kind_type, vc, 0x444444)
        if dut.get("dl_state") == 3 and partner.state == "active":
            break
    assert dut.get("dl_state") == 3 and partner.state == "active"
    assert partner.channels[0].remote[0] == 0xABCDEF


def test_each_missing_init_dllp_keeps_the_state(dut):
    dut.set(phy_link_up=1)
    dut.step(100)
    for kind_type in (0, 2, 2, 0):
        dut.push(Frame(flow_control(0b01, kind_type, 0, 1), True))
    dut.step(2000)
    assert dut.get("vc_init2") & 1 == 0
    # An UpdateFC is not counted; an InitFC2 is counted.
    dut.push(Frame(flow_control(0b10, 1, 0, 1), True))
    dut.step(200)
    assert dut.get("vc_init2") & 1 == 0
    assert {frame.data[0] for frame in dut.frames() if frame.data[0] != 0x02} == {0x40, 0x50, 0x60}
    dut.push(Frame(flow_control(0b11, 1, 0, 1), True))
    dut.step(200)
    assert dut.get("vc_init2") & 1 == 1


@pytest.mark.parametrize("how", ["InitFC2", "UpdateFC", "TLP"])
def test_any_sign_of_the_other_end_completes_initialization(dut, how):
    dut.set(phy_link_up=1)
    dut.step(100)
    # The first of these only ends the exchange of features.
    for kind_type in (0, 0, 1, 2):
        dut.push(Frame(flow_control(0b01, kind_type, 0, 1), True))
    dut.step(500)
    assert dut.get("dl_state") == 2 and dut.get("dl_up")
    dut.frames()
    if how == "TLP":
        receive(dut, 0)
    else:
        dut.push(Frame(flow_control(0b11 if how == "InitFC2" else 0b10, 1, 0, 1), True))
    dut.step(100)
    assert dut.get("dl_state") == 3
    assert dut.received() == ([tlp(0)] if how == "TLP" else [])


def test_no_tlp_passes_before_dl_up(dut):
    dut.set(phy_link_up=1)
    dut.send(tlp(0))
    receive(dut, 0)
    dut.step(500)
    assert tlps_of(dut.frames()) == []
    assert dut.received() == []
    assert dut.counts() == {}


def test_all_channels_initialize(make):
    dut = make("narrow")
    for vc in range(8):
        for kind_type in range(3):
            dut.init_fc(vc, kind_type, 0x100000 * vc + 0x1000 * kind_type + 5)
    dut.set(phy_link_up=1, vc_enable=0b10111111)
    partner = reference.Partner(vcs=8)
    for _ in range(20000):
        dut.step()
        for frame in dut.frames():
            partner.receive(dut.now, frame)
        for frame in partner.poll(dut.now):
            dut.push(frame)
    assert dut.get("vc_ready") == 0b10111111
    for vc in range(8):
        channel = partner.channels[vc]
        assert channel.fi1 == (vc != 6)
        if vc != 6:
            assert channel.remote == {kind_type: 0x100000 * vc + 0x1000 * kind_type + 5 for kind_type in range(3)}
    # Software switches a channel off.
    dut.set(vc_enable=0b00000011)
    dut.step(10)
    assert dut.get("vc_ready") == 0b00000011


def test_features_are_exchanged(make):
    dut = make("wide")
    dut.set(phy_link_up=1, local_features=0x123456)
    partner = reference.Partner(features=0x000005)
    for _ in range(1000):
        dut.step()
        for frame in dut.frames():
            partner.receive(dut.now, frame)
        for frame in partner.poll(dut.now):
            dut.push(frame)
    assert (dut.get("remote_features_valid"), dut.get("remote_features")) == (1, 5)
    assert partner.remote_features == 0x123456
    assert dut.get("dl_state") == 3


def test_partner_without_features_goes_on(make):
    dut = make("wide")
    dut.set(phy_link_up=1)
    dut.step(300)
    assert dut.get("dl_state") == 1
    assert {frame.data for frame in dut.frames()} == {feature(False, 1)}
    dut.push(Frame(flow_control(0b01, 0, 0, 1), True))
    dut.step(10)
    assert (dut.get("dl_state"), dut.get("remote_features_valid")) == (2, 0)


def test_link_down_forgets_everything(dut):
    link_up(dut)
    for n in range(4):
        dut.send(tlp(n, 30))
        receive(dut, n)
    dut.step(60)
    dut.set(phy_link_up=0)
    dut.step(200)
    assert dut.get("dl_state") == 0 and not dut.get("dl_up") and dut.get("unsent") <= 3
    dut.frames()
    dut.received()
    left = dut.get("unsent")
    link_up(dut)
    receive(dut, 0)
    dut.send(tlp(9))
    dut.step(300)
    frames = dut.frames()
    assert dut.received() == [tlp(0)]
    expected = [tlp(n, 30) for n in range(4)][4 - left :] + [tlp(9)]
    # TLPs that were still in the transaction layer are new TLPs.
    assert [frame.data for frame in tlps_of(frames)][-1] == tlp_frame(left, tlp(9))
    assert len(tlps_of(frames)) in (len(expected), len(expected) - 1)


# ---- the partner ----


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.1])
def test_talks_to_the_partner_over_a_lossy_link(dut, dice, loss):
    partner = reference.Partner(vcs=1, replay_timer=900, ack_latency=40, window=8)
    dut.set(phy_link_up=1, replay_timer_limit=900, ack_latency_limit=40)
    if not dut.parameters["FEATURE_EXCHANGE"]:
        partner.state = "init"
    number = 300
    longest = min(dut.parameters["MAX_TLP_BYTES"], 160) // 4
    forth = [dice.randbytes(4 * dice.randint(3, longest)) for _ in range(number)]
    back = [dice.randbytes(4 * dice.randint(3, longest)) for _ in range(number)]
    partner.to_send.extend(back)
    for data in forth:
        dut.send(data)
        if dice.random() < 0.05:
            dut.send(data, nullify=True)

    def carry(frame):
        """Frames that arrive of this one."""
        if dice.random() >= loss:
            return [frame]
        kind = dice.randrange(4)
        if kind == 0:
            return []
        if kind == 1:
            return [frame, frame]
        if kind == 2:
            return [frame._replace(error=True)]
        data = bytearray(frame.data)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        return [frame._replace(data=bytes(data))]

    got, retrain = [], 0
    for _ in range(60000):
        dut.step(2)
        now = dut.now
        for frame in dut.frames():
            for arrived in carry(frame):
                partner.receive(now, arrived)
        for frame in partner.poll(now):
            for arrived in carry(frame):
                dut.push(arrived)
        for kind, kind_type, vc, _ in dut.learned():
            if kind == 0b11 and dut.get("dl_state") == 3:
                dut.update(kind_type, vc, 0x555555)
        got += dut.received()
        if dut.get("retrain_request") or partner.retrain:
            partner.retrain, retrain = False, now + 50
        dut.set(phy_recovery=now < retrain)
        if len(got) == number and len(partner.received) == number:
            break
    assert got == back
    assert len(partner.received) == number, (dut.counts(), partner.counts)
    assert partner.received == forth
    assert dut.count("protocol_error") == partner.counts["protocol error"] == 0
    if loss:
        assert dut.count("replay") and partner.counts["replay"]


# ---- parameters ----


@pytest.mark.parametrize(
    "parameter, expected",
    [
        ("DATA_WIDTH=96", "DATA_WIDTH is 96; expected 64, 128, 256 or 512"),
        ("DATA_WIDTH=32", "DATA_WIDTH is 32"),
        ("NUM_VCS=9", "NUM_VCS is 9; expected 1 to 8"),
        ("NUM_VCS=0", "NUM_VCS is 0"),
        ("MAX_TLP_BYTES=545", "MAX_TLP_BYTES is 545"),
        ("REPLAY_BYTES=5000", "REPLAY_BYTES is 5000; expected a power of two"),
        ("REPLAY_BYTES=512", "expected room for MAX_TLP_BYTES"),
        ("REPLAY_TLPS=4096", "REPLAY_TLPS is 4096"),
        ("REPLAY_TLPS=100", "REPLAY_TLPS is 100"),
        ("INIT_FC_CYCLES=8", "INIT_FC_CYCLES is 8"),
    ],
)
def test_illegal_parameters_stop_elaboration(parameter, expected):
    assert expected in refusal("pcie_dll", parameter)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Directed tests of one physical layer: each rule of PCIe 6.0 §4.2.1.2 and §4.2.2.3 that it implements, against framing and striping in Python."""

import pytest
from dut_phy import BUILDS, Phy
from model import refusal
from reference import dllp, lcrc
from reference_phy import (
    Packet, Word, blocks_of, frame_crc, read_blocks, read_symbols, stp_token, times_of, words_of_blocks, words_of_times, write_blocks, write_symbols,
)

BLOCK_BUILDS = [name for name, build in BUILDS.items() if build["GENERATION"] >= 3]
SYMBOL_BUILDS = [name for name, build in BUILDS.items() if build["GENERATION"] < 3]


@pytest.fixture
def phy(request):
    """A physical layer that receives what it sends, the link up."""
    made = Phy(request.param)
    made.up()
    yield made
    made.close()


every = pytest.mark.parametrize("phy", BUILDS, indirect=True)
with_blocks = pytest.mark.parametrize("phy", BLOCK_BUILDS, indirect=True)
with_symbols = pytest.mark.parametrize("phy", SYMBOL_BUILDS, indirect=True)


def tlp(dice, dwords, number=0, nullify=False, digest=None):
    """A TLP frame with a header that agrees with its length."""
    four, digest = dice.randrange(2), dice.randrange(2) if digest is None else digest
    header = bytes([(0x40 if dwords else 0) | four << 5, 0, digest << 7 | dwords >> 8 & 3, dwords & 0xFF]) + dice.randbytes(8 + 4 * four)
    body = (number % 4096).to_bytes(2, "big") + header + dice.randbytes(4 * (dwords + digest))
    crc = lcrc(body)
    return Packet(body + (bytes(byte ^ 0xFF for byte in crc) if nullify else crc), False, nullify)


def packets_of(dice, number, longest=32, nullify=True):
    out = []
    for n in range(number):
        if dice.random() < 0.4:
            out.append(Packet(dllp(dice.randbytes(4)), True, False))
        else:
            out.append(tlp(dice, dice.choice((0, 0, 1, 2, 3, 4, 5, 6, 7, 8, longest)), n, nullify and dice.random() < 0.05))
    return out


def run(phy, cycles=20000):
    """Steps until all is sent and received."""
    for _ in range(cycles // 100):
        phy.step(100)
        if not phy.unsent and not phy.unreceived:
            break
    phy.step(300)


def received(phy):
    return [Packet(frame.data, frame.dllp, frame.nullify) for frame in phy.frames() if not frame.error]


def read(phy):
    """The packets on the lanes, and the places of SKP."""
    words = phy.words()
    if phy.blocks:
        return read_blocks(blocks_of(words, phy.lanes, phy.symbols), phy.lanes, phy.generation)
    return read_symbols(times_of(words, phy.lanes, phy.symbols), phy.lanes)


def words_for(phy, packets, dice, gap=0.3, skip=0):
    """The words of the lanes for the receiver."""
    if phy.blocks:
        return words_of_blocks(write_blocks(packets, phy.lanes, phy.generation, dice, gap, skip), phy.lanes, phy.symbols)
    return words_of_times(write_symbols(packets, phy.lanes, dice, gap, skip, phy.symbols), phy.lanes, phy.symbols)


def recovers(phy, dice):
    """The link retrains and carries frames again."""
    phy.attach()
    for _ in range(200):
        phy.step(16)
        if phy.state == "L0":
            break
    phy.step(100)
    phy.frames()
    packets = packets_of(dice, 10)
    for packet in packets:
        phy.send(packet)
    run(phy)
    assert received(phy) == packets


# ---- framing ----


def test_frame_crc_and_parity_give_the_eds_token():
    # EDS has the format of an STP token of length 1 and sequence number 0.
    assert stp_token(1, 0) == bytes([0x1F, 0x80, 0x90, 0x00])
    assert len({frame_crc(1 << n) for n in range(11)}) == 11


@every
def test_sends_by_the_rules_and_receives_what_it_sent(phy, dice):
    phy.keep()
    packets = packets_of(dice, 250)
    for packet in packets:
        phy.send(packet)
    run(phy)
    assert received(phy) == packets
    sent, skips = read(phy)
    assert sent == packets
    assert phy.count("rx_overflow") == phy.count("rx_error") == phy.count("tx_underrun") == phy.count("tx_length") == phy.count("recovery") == 0
    assert phy.count("tx_frame") == phy.count("rx_frame") == len(packets)


@every
@pytest.mark.parametrize("gap", [0.05, 0.6])
def test_receives_what_the_writer_sends(phy, dice, gap):
    packets = packets_of(dice, 200)
    # Not more than a frame per cycle for long: one in three is long.
    packets = [packet if n % 3 or packet.dllp else tlp(dice, 40, n) for n, packet in enumerate(packets)]
    phy.detach()
    phy.inject(words_for(phy, packets, dice, gap, skip=5 if phy.blocks else 40))
    run(phy)
    assert received(phy) == packets
    assert phy.count("skp_received") > 1
    assert phy.count("recovery") == phy.count("rx_error") == 0


@pytest.mark.parametrize("phy", ["phy_x8", "phy_x4", "phy_gen1_x8"], indirect=True)
def test_packs_without_gaps(phy, dice):
    phy.keep()
    # Frames of one beat, which are together longer than the words that leave in the same time.
    longest = phy.beat // 4 - 6
    packets = [tlp(dice, longest - n % 2, n, digest=0) if n % 4 else Packet(dllp(dice.randbytes(4)), True, False) for n in range(120)]
    for packet in packets:
        phy.send(packet)
    run(phy)
    words = phy.words()
    stream = bytes(word.data[lane * phy.symbols + s] for word in words for s in range(phy.symbols) for lane in range(phy.lanes))
    # After the first packets there is always one that waits.
    length = stream.index(packets[-1].data[-8:]) - stream.index(packets[41].data[-8:])
    assert length == sum(len(packet.data) + 2 for packet in packets[42:])


@every
def test_skp_at_the_longest_interval(phy):
    phy.keep()
    words = 1538 // phy.symbols if not phy.blocks else 375 * 16 // phy.symbols
    phy.step(4 * words + 100)
    _, skips = read(phy)
    steps = {right - left for left, right in zip(skips, skips[1:])}
    if phy.blocks:
        assert steps <= {374, 375, 376} and len(skips) >= 3
    else:
        assert all(1530 <= step <= 1546 for step in steps) and len(skips) >= 3
    assert phy.count("skp_sent") == phy.count("skp_received")


# ---- what the data link layer gives up ----


@with_blocks
def test_nullified_tlp_has_its_full_length_and_edb(phy, dice):
    phy.keep()
    packets = [tlp(dice, 40, 1, nullify=True), tlp(dice, 1, 2)]
    phy.disturb(cut_at=2)
    for packet in packets:
        phy.send(packet)
    run(phy)
    sent, _ = read(phy)
    assert [(len(packet.data), packet.nullify) for packet in sent] == [(len(packet.data), packet.nullify) for packet in packets]
    assert sent[1] == packets[1]
    assert received(phy) == sent


@with_blocks
@pytest.mark.parametrize("cut_at", [1, 3])
def test_nullified_tlps_among_others(phy, dice, cut_at):
    phy.keep()
    phy.disturb(cut_at=cut_at)
    packets = packets_of(dice, 150)
    packets = [packet if packet.dllp or n % 4 else tlp(dice, n % 61, n, nullify=True) for n, packet in enumerate(packets)]
    for packet in packets:
        phy.send(packet)
    run(phy)
    sent, _ = read(phy)
    assert [(len(packet.data), packet.dllp, packet.nullify) for packet in sent] == [(len(packet.data), packet.dllp, packet.nullify) for packet in packets]
    assert phy.count("recovery") == 0


@every
def test_pause_within_a_tlp_nullifies_it(phy, dice):
    phy.keep()
    packets = [tlp(dice, 60, 1), tlp(dice, 0, 2), Packet(dllp(b"abcd"), True, False)]
    # Only the long TLP has a beat 4.
    phy.disturb(pause_at=4, pause=200)
    for packet in packets:
        phy.send(packet)
    run(phy)
    sent, _ = read(phy)
    assert [packet.nullify for packet in sent] == [True, False, False]
    if phy.blocks:
        assert len(sent[0].data) == len(packets[0].data)
    assert sent[1:] == packets[1:] == received(phy)[-2:]
    assert phy.count("tx_underrun") == 1


@with_blocks
@pytest.mark.parametrize("claimed", [3, 90])
def test_tlp_of_another_length_than_its_header_says(phy, dice, claimed):
    phy.keep()
    wrong = bytearray(tlp(dice, 30, 1, digest=0).data)
    wrong[5] = claimed
    packets = [Packet(bytes(wrong), False, False), tlp(dice, 2, 2)]
    for packet in packets:
        phy.send(packet)
    run(phy)
    sent, _ = read(phy)
    assert sent[0].nullify and len(sent[0].data) == len(wrong) + 4 * (claimed - 30)
    assert sent[1:] == packets[1:]
    assert phy.count("tx_length") == 1


# ---- receiver errors, 128b/130b ----


def flip(words, dice, symbol, bit, phy):
    """The words with one bit inverted, of symbol `symbol` of the stream."""
    word, at = divmod(symbol, phy.link)
    at = at % phy.lanes * phy.symbols + at // phy.lanes
    data = bytearray(words[word].data)
    data[at] ^= 1 << bit
    return [*words[:word], words[word]._replace(data=bytes(data)), *words[word + 1 :]]


@pytest.mark.parametrize("phy", ["phy_x8", "phy_x1"], indirect=True)
def test_each_bit_of_stp_is_protected(phy, dice):
    packets = [tlp(dice, 3, 5), tlp(dice, 2, 6)]
    for bit in (0, 3, 4, 7, 8, 14, 15, 20, 23):
        phy.detach()
        phy.inject(flip(words_for(phy, packets, dice, 0), dice, bit // 8, bit % 8, phy))
        run(phy)
        assert received(phy) == []
        assert phy.state == "TS1" and phy.recovery and phy.link_up
        recovers(phy, dice)
    assert phy.count("bad_token") >= 2 and phy.count("bad_stp") >= 6
    assert phy.count("recovery") == 9


@with_blocks
def test_wrong_tokens_end_the_stream(phy, dice):
    good = tlp(dice, 2, 1)
    wrong = {
        "no token": [0x77, 0, 0, 0], "half SDP": [0xF0, 0xAD, 0, 0], "EDB alone": [0xC0] * 4, "EDB with an error": [0xC0, 0xC0, 0xC1, 0xC0],
        "EDS early": [0x1F, 0x80, 0x90, 0], "short": list(stp_token(4, 0)), "long": list(stp_token(1152, 0)), "idle with a bit": [0, 0, 4, 0],
    }
    for symbols in wrong.values():
        phy.detach()
        block = write_blocks([good], phy.lanes, phy.generation, dice, 0)
        stream = [symbol for is_set, data in block for symbol in data]
        # After the TLP and idle to the next symbol time.
        at = len(good.data) + 2
        at += -at % max(phy.lanes, 4) + max(phy.lanes, 4)
        stream[at : at + 4] = symbols
        blocks = [(False, stream[first : first + 16 * phy.lanes]) for first in range(0, len(stream), 16 * phy.lanes)]
        blocks += write_blocks([good], phy.lanes, phy.generation, dice, 0)
        phy.inject(words_of_blocks(blocks, phy.lanes, phy.symbols))
        run(phy)
        # The TLP after the error is in a stream that the receiver does not follow.
        assert received(phy) == [good]
        assert phy.state == "TS1"
        recovers(phy, dice)
    assert phy.count("bad_token") + phy.count("bad_stp") == phy.count("recovery") == len(wrong)


@with_blocks
@pytest.mark.parametrize("kind", ["no EDS", "data after EDS", "SKP twice", "mixed lanes"])
def test_wrong_block_types_end_the_stream(phy, dice, kind):
    lanes = phy.lanes
    idle, eds = (False, [0] * 16 * lanes), (False, [0] * (16 * lanes - 4) + [0x1F, 0x80, 0x90, 0])
    symbol = 0x99 if phy.generation == 5 else 0xAA
    skp = (True, [value for value in [symbol] * 12 + [0xE1, 0, 0, 0] for _ in range(lanes)])
    blocks = {"no EDS": [idle, skp], "data after EDS": [eds, idle], "SKP twice": [eds, skp, skp], "mixed lanes": [idle, idle]}[kind]
    words = words_of_blocks(blocks, lanes, phy.symbols)
    if kind == "mixed lanes":
        words[-1] = words[-1]._replace(control=[True] + words[-1].control[1:])
    phy.detach()
    phy.inject(words)
    run(phy)
    assert phy.count("bad_block") == 1 and phy.state == "TS1"
    recovers(phy, dice)


@with_blocks
def test_ordered_set_within_a_tlp_cuts_it(phy, dice):
    long = tlp(dice, 200, 1)
    blocks = write_blocks([long], phy.lanes, phy.generation, dice, 0)
    blocks.insert(1, (True, [0xAA] * 16 * phy.lanes))
    phy.detach()
    phy.inject(words_of_blocks(blocks, phy.lanes, phy.symbols))
    run(phy)
    frames = phy.frames()
    assert [frame.error for frame in frames] == [True] and len(frames[0].data) < len(long.data) + 4 * phy.beat
    recovers(phy, dice)


# ---- receiver errors, 8b/10b ----


@with_symbols
@pytest.mark.parametrize("kind", ["STP without END", "END without STP", "control symbol", "ordered set"])
def test_wrong_symbols_end_the_frame_with_an_error(phy, dice, kind):
    good = tlp(dice, 2, 1)
    times = write_symbols([good, good, good], phy.lanes, dice, 0)
    cells = [cell for row in times for cell in row]
    length = len(good.data) + 2
    if kind == "STP without END":
        cells[length - 1] = (0x33, False)
    elif kind == "END without STP":
        cells[0] = (0x00, False)
    elif kind == "control symbol":
        cells[9] = (0x7C, True)
    else:
        word = phy.link
        cells[word : word + phy.lanes] = [(0xBC, True)] * phy.lanes
    times = [cells[first : first + phy.lanes] for first in range(0, len(cells), phy.lanes)]
    phy.detach()
    phy.inject(words_of_times(times, phy.lanes, phy.symbols))
    run(phy)
    frames = phy.frames()
    assert phy.count("bad_frame") >= 1
    sound = [frame.data for frame in frames if not frame.error]
    assert sound == [good.data] * len(sound)
    assert len(sound) == {"STP without END": 1, "END without STP": 2, "control symbol": 2, "ordered set": len(sound)}[kind]
    assert any(frame.error for frame in frames) or kind == "END without STP"
    assert phy.state == "L0"


@every
def test_marked_symbols_give_the_frame_an_error(phy, dice):
    packets = [tlp(dice, 40, n) for n in range(4)]
    words = words_for(phy, packets, dice, 0)
    # Within the third TLP.
    at = (2 * (len(packets[0].data) + 30)) // phy.link + 1
    words[at] = words[at]._replace(bad=1)
    phy.detach()
    phy.inject(words)
    run(phy)
    frames = phy.frames()
    assert len(frames) == 4 and sum(frame.error for frame in frames) >= 1
    assert all(frame.data == packet.data for frame, packet in zip(frames, packets))
    assert phy.count("bad_symbol") == phy.count("rx_error") == sum(frame.error for frame in frames) <= 2


# ---- the receive queue ----


@every
def test_dllps_back_to_back_from_this_transmitter_fit(phy, dice):
    packets = [Packet(dllp(n.to_bytes(4, "big")), True, False) for n in range(600)]
    for packet in packets:
        phy.send(packet)
    run(phy)
    assert received(phy) == packets
    assert phy.count("rx_overflow") == 0


@every
def test_more_dllps_than_one_per_cycle_are_lost_whole(phy, dice):
    packets = [Packet(dllp(n.to_bytes(4, "big")), True, False) for n in range(1200)]
    phy.detach()
    phy.inject(words_for(phy, packets, dice, 0))
    run(phy)
    got = [frame for frame in phy.frames()]
    numbers = [int.from_bytes(frame.data[:4], "big") for frame in got if not frame.error]
    assert numbers == sorted(numbers)
    assert all(frame.data == packets[number].data for number, frame in zip(numbers, (frame for frame in got if not frame.error)))
    if phy.count("rx_overflow"):
        assert len(numbers) < len(packets)
        assert phy.beat > 8 and phy.link > 8
    else:
        assert len(numbers) == len(packets)
    recovers(phy, dice)


# ---- link state ----


@every
def test_retrains_on_request_without_going_down(phy, dice):
    packets = packets_of(dice, 60)
    for packet in packets:
        phy.send(packet)
    phy.step(20)
    phy.set(retrain=1)
    phy.step(8)
    assert phy.recovery and phy.link_up
    phy.set(retrain=0)
    run(phy)
    assert not phy.recovery and phy.state == "L0"
    # The frame that was under way was completed, and the rest followed.
    assert received(phy) == packets
    assert phy.count("recovery") == 1 and phy.count("link_down") == 0


@every
def test_goes_down_and_comes_up_again(phy, dice):
    phy.set(enable=0)
    phy.step(8)
    assert phy.state == "down" and not phy.link_up
    phy.set(enable=1)
    phy.step(200)
    assert phy.state == "down", "the other end must see electrical idle"
    phy.up()
    assert phy.count("link_down") == 1
    recovers(phy, dice)


@pytest.mark.parametrize("phy", ["phy_x8", "phy_gen1_x8"], indirect=True)
def test_other_end_in_electrical_idle_takes_the_link_down(phy):
    phy.detach()
    phy.inject([Word(False, False, 0, [False] * phy.link, bytes(phy.link))] * 60)
    phy.step(50)
    assert phy.state == "down" and phy.count("link_down") == 1


# ---- parameters ----


@pytest.mark.parametrize(
    "top, parameters, expected",
    [
        ("pcie_phy", "DATA_WIDTH=96", "DATA_WIDTH is 96; expected 64, 128, 256 or 512"),
        ("pcie_phy", "LANES=3", "LANES is 3; expected 1, 2, 4, 8 or 16"),
        ("pcie_phy", "LANES=16", "LANES * SYMBOLS is 64; expected at least 4 and at most DATA_WIDTH / 8 = 32"),
        ("pcie_phy", "SYMBOLS=3", "SYMBOLS is 3"),
        ("pcie_phy", "GENERATION=6", "GENERATION is 6; expected 1 to 5"),
        ("pcie_phy", "GENERATION=2 LANES=4 SYMBOLS=8", "SYMBOLS is 8; expected 1, 2 or 4"),
        ("pcie_phy", "SKP_INTERVAL=376", "SKP_INTERVAL is 376; expected 370 to 375 blocks"),
        ("pcie_phy", "GENERATION=1 SKP_INTERVAL=1179", "SKP_INTERVAL is 1179; expected 1180 to 1538 symbol times"),
        ("pcie_phy", "TRAIN_CYCLES=10", "TRAIN_CYCLES is 10"),
        ("pcie_phy", "QUEUE_WORDS=24", "QUEUE_WORDS is 24"),
        ("pcie_timing_model", "DEPTH=100", "DEPTH is 100; expected a power of two"),
        ("pcie_timing_model", "LANES=3", "LANES * SYMBOLS is 12; expected a power of two"),
    ],
)
def test_illegal_parameters_of_the_physical_layer_stop_elaboration(top, parameters, expected):
    assert expected in refusal(top, *parameters.split())

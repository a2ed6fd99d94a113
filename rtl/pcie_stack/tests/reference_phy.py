# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Framing and striping in Python, symbol by symbol, written from PCIe 6.0 §4.2.1.2, §4.2.2.3 and §4.2.8 alone. The readers check each rule for
transmitters; the writers choose idle symbols, ordered sets and lengths by a random generator."""

import collections

STP, SDP, END, EDB, PAD, COM, SKP = 0xFB, 0x5C, 0xFD, 0xFE, 0xF7, 0xBC, 0x1C
Packet = collections.namedtuple("Packet", "data dllp nullify")


def skp_symbol(generation):
    return 0x99 if generation == 5 else 0xAA


def frame_crc(length):
    """(L[0] X^14 + L[1] X^13 + ... + L[10] X^4) mod (X^4 + X + 1), by long division."""
    rest = 0
    for bit in [length >> n & 1 for n in range(11)] + [0] * 4:
        rest = rest << 1 | bit
        if rest & 0x10:
            rest ^= 0x13
    return rest


def stp_token(length, sequence):
    """The four symbols of an STP token; `length` in double-words."""
    crc = frame_crc(length)
    parity = (bin(length).count("1") + bin(crc).count("1")) % 2
    return bytes([(length & 0xF) << 4 | 0xF, parity << 7 | length >> 4, crc << 4 | sequence >> 8, sequence & 0xFF])


def framed(packet, blocks):
    """The symbols of a packet, and which are control symbols. `data` of a TLP begins with the sequence number and ends with the LCRC."""
    if blocks:
        if packet.dllp:
            out = bytes([0xF0, 0xAC]) + packet.data
        else:
            out = stp_token((len(packet.data) + 2) // 4, int.from_bytes(packet.data[:2], "big") & 0xFFF) + packet.data[2:]
            out += bytes([0xC0] * 4) if packet.nullify else b""
        return [(symbol, False) for symbol in out]
    symbols = [(symbol, False) for symbol in packet.data]
    return [(SDP if packet.dllp else STP, True), *symbols, (EDB if packet.nullify else END, True)]


# ---- 128b/130b ----


def blocks_of(words, lanes, symbols):
    """Blocks of the captured words: (ordered set or not, 16 symbol times of one symbol per lane)."""
    out, times, kinds = [], None, None
    for word in words:
        assert word.valid
        if word.start:
            assert times is None or len(times) == 16
            times, kinds = [], set()
            out.append((kinds, times))
        if times is None:
            continue
        for s in range(symbols):
            times.append([word.data[lane * symbols + s] for lane in range(lanes)])
        kinds.update(word.control)
    if len(times) < 16:
        out.pop()
    assert all(len(kinds) == 1 for kinds, _ in out), "a block of two types"
    return [(kinds.pop(), times) for kinds, times in out]


def read_blocks(blocks, lanes, generation):
    """The packets of the data blocks, and the numbers of the SKP blocks. Asserts the rules for transmitters."""
    packets, skips, stream = [], [], []
    for number, (is_set, times) in enumerate(blocks):
        if not is_set:
            stream += [(number, time, lane, times[time][lane]) for time in range(16) for lane in range(lanes)]
            continue
        assert all(len(set(time)) == 1 for time in times), "an ordered set differs between lanes"
        body = bytes(time[0] for time in times)
        if body[0] == skp_symbol(generation):
            assert body[:13] == bytes([skp_symbol(generation)] * 12 + [0xE1])
            assert number and not blocks[number - 1][0], "SKP follows an ordered set"
            skips.append(number)
            stream.append((number, None, None, "SKP"))
        else:
            assert body[0] in (0x1E, 0x2D, 0xE1)
            stream.append((number, None, None, "set"))
    at, idle_at, stp_times, sdp_times = 0, None, set(), set()

    def take(count):
        nonlocal at
        part = stream[at : at + count]
        assert len(part) == count and all(isinstance(entry[3], int) for entry in part), "a token or a packet is cut by an ordered set"
        at += count
        return bytes(entry[3] for entry in part)

    while at < len(stream):
        number, time, lane, symbol = stream[at]
        if symbol in ("SKP", "set"):
            assert number == 0 or blocks[number - 1][0] or bytes(s for t in blocks[number - 1][1] for s in t)[-4:] == bytes([0x1F, 0x80, 0x90, 0]), "no EDS"
            at += 1
            continue
        if len(stream) - at < 4400 and number == blocks_end(blocks):
            break  # the capture may end within a packet
        if lanes >= 4:
            assert lane % 4 == 0, "a token begins in a lane that is no multiple of 4"
        here = (number, time)
        if symbol == 0:
            idle_at = here
            take(1)
            # After IDL, tokens begin in the next double-word of lanes.
            while lanes > 1 and at < len(stream) and stream[at][2] is not None and stream[at][2] % min(lanes, 4):
                assert take(1) == b"\0"
            continue
        if symbol == 0x1F and bytes(entry[3] for entry in stream[at : at + 4]) == bytes([0x1F, 0x80, 0x90, 0x00]):
            assert (time, lane) == {1: (12, 0), 2: (14, 0)}.get(lanes, (15, lanes - 4)), "EDS is not in the last double-word"
            take(4)
            continue
        if idle_at is not None:
            assert lane == 0 and here > idle_at, "STP or SDP after IDL is not in lane 0 of a later symbol time"
        idle_at = None
        if symbol & 0xF == 0xF:
            assert here not in stp_times, "two STP in a symbol time"
            stp_times.add(here)
            token = take(4)
            length = token[0] >> 4 | (token[1] & 0x7F) << 4
            sequence = (token[2] & 0xF) << 8 | token[3]
            assert token == stp_token(length, sequence) and length >= 5
            data = sequence.to_bytes(2, "big") + take(4 * length - 4)
            nullify = at < len(stream) and stream[at][3] == 0xC0
            if nullify:
                assert take(4) == bytes([0xC0] * 4)
            packets.append(Packet(data, False, nullify))
        else:
            assert symbol == 0xF0, f"no token: {symbol:#x}"
            assert here not in sdp_times, "two SDP in a symbol time"
            sdp_times.add(here)
            assert take(2) == b"\xf0\xac"
            packets.append(Packet(take(6), True, False))
    return packets, skips


def blocks_end(blocks):
    """The number of the last block."""
    return len(blocks) - 1


def write_blocks(packets, lanes, generation, dice, gap, skip=0):
    """Blocks that carry the packets; idle symbols before a packet with the chance `gap`, SKP every `skip` blocks or later."""
    data, total, per_block = [], [], 16 * lanes
    stp_times, sdp_times = set(), set()

    def time():
        return len(data) // lanes + len(total) * 16

    def flush():
        while len(data) >= per_block:
            total.append((False, data[:per_block]))
            del data[:per_block]

    def idle(count=1):
        for _ in range(count):
            # To lane 0, in double-words.
            data.extend([0] * (max(lanes, 4) - len(data) % max(lanes, 4)))
            flush()

    since = 0
    for packet in packets:
        if skip and len(total) - since >= skip:
            if len(data) % per_block == 0 and not data:
                data.extend([0] * (per_block - 4))
            else:
                data.extend([0] * (per_block - 4 - len(data)))
            data.extend([0x1F, 0x80, 0x90, 0x00])
            flush()
            total.append((True, [symbol for symbol in [skp_symbol(generation)] * 12 + [0xE1, 0, 0, 0] for _ in range(lanes)]))
            since = len(total)
        if dice.random() < gap:
            idle(dice.choice((1, 1, 1, 2, 9)))
        used = sdp_times if packet.dllp else stp_times
        if time() in used:
            idle()
        used.add(time())
        data.extend(symbol for symbol, _ in framed(packet, True))
        flush()
        # Blocks are whole, and EDS needs a double-word at the end.
        if len(data) == 0 and skip:
            idle()
    idle(2)
    while data:
        idle()
    return total


def words_of_blocks(blocks, lanes, symbols):
    """Words for the receiver."""
    out = []
    for is_set, block in blocks:
        for first in range(0, 16, symbols):
            data = [block[(first + s) * lanes + lane] for lane in range(lanes) for s in range(symbols)]
            out.append(Word(True, first == 0, 0, [is_set] * len(data), bytes(data)))
    return out


class Word(collections.namedtuple("Word", "valid start bad control data")):
    """A clock cycle of all lanes: data and control bits lane by lane."""


# ---- 8b/10b ----


def times_of(words, lanes, symbols):
    """Symbol times of the captured words: (symbol, is control) per lane."""
    return [[(word.data[lane * symbols + s], word.control[lane * symbols + s]) for lane in range(lanes)] for word in words for s in range(symbols)]


def read_symbols(times, lanes):
    """The packets, and the symbol times of SKP ordered sets. Asserts the rules for transmitters."""
    packets, skips = [], []
    packet, kind, was_idle = None, None, True
    time = 0
    while time < len(times):
        row = times[time]
        if row[0] == (COM, True):
            assert packet is None, "an ordered set within a packet"
            assert all(symbol == (COM, True) for symbol in row)
            if times[time + 1 : time + 2] and times[time + 1][0] == (SKP, True):
                assert all(symbol == (SKP, True) for row in times[time + 1 : time + 4] for symbol in row)
                skips.append(time)
                time += 4
            else:
                time += 16
            was_idle = True
            continue
        starts, padding = [], False
        for lane, (symbol, control) in enumerate(row):
            if packet is not None:
                if not control:
                    packet.append(symbol)
                    continue
                assert symbol in (END, EDB), "a control symbol within a packet"
                assert lane % 4 == 3 or lanes < 4
                packets.append(Packet(bytes(packet), kind == SDP, symbol == EDB))
                packet = None
                ended = True
                was_idle = False
            elif control and symbol in (STP, SDP):
                assert not padding, "a packet after PAD"
                assert lane % 4 == 0 and (not was_idle or lane == 0), "STP or SDP in the wrong lane"
                assert symbol not in starts, "two STP or two SDP in a symbol time"
                starts.append(symbol)
                packet, kind = bytearray(), symbol
            elif control:
                assert symbol == PAD and lanes >= 8 and not was_idle
                padding = True
            else:
                assert symbol == 0, "idle data is not zero"
                assert was_idle or lane == 0, "no PAD after END"
                was_idle = True
        if padding:
            assert row[-1] == (PAD, True)
            was_idle = True
        time += 1
    return packets, skips


def write_symbols(packets, lanes, dice, gap, skip=0, symbols=1):
    """Symbol times that carry the packets; SKP every `skip` symbol times, where a word of `symbols` begins."""
    data, out, since, starts = [], [], 0, {}

    def flush():
        while len(data) >= lanes:
            out.append(data[:lanes])
            del data[:lanes]

    def pad():
        if data:
            data.extend([(PAD, True) if lanes >= 8 else (0, False)] * (lanes - len(data)))
            flush()

    for packet in packets:
        if dice.random() < gap:
            pad()
            for _ in range(dice.choice((1, 1, 2, 9))):
                # Double-words of the stream at x1 and x2.
                out.extend([[(0, False)] * lanes] * max(1, 4 // lanes))
        if skip and len(out) - since >= skip:
            pad()
            while len(out) % symbols:
                out.append([(0, False)] * lanes)
            out.extend([[(COM, True)] * lanes] + [[(SKP, True)] * lanes] * 3)
            since = len(out)
        start = SDP if packet.dllp else STP
        if starts.get(start) == len(out):
            pad()
        starts[start] = len(out)
        data.extend(framed(packet, False))
        flush()
    pad()
    out.extend([[(0, False)] * lanes] * 16)
    while len(out) % 16:
        out.append([(0, False)] * lanes)
    return out


def words_of_times(times, lanes, symbols):
    """Words for the receiver."""
    out = []
    for first in range(0, len(times), symbols):
        rows = times[first : first + symbols]
        cells = [rows[s][lane] for lane in range(lanes) for s in range(symbols)]
        out.append(Word(True, first % 16 == 0, 0, [control for _, control in cells], bytes(symbol for symbol, _ in cells)))
    return out

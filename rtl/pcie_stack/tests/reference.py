# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A data link layer in Python, written from PCIe 6.0 chapter 3 alone (non-FLIT mode). It is the partner of the RTL in the tests, and shares no
code or method with it: CRCs are calculated bit by bit, and
sequence numbers are compared like in the text. Time is a number of cycles."""

import collections

FC_NAMES = {0b01: "InitFC1", 0b11: "InitFC2", 0b10: "UpdateFC"}
TYPES = ("P", "NP", "Cpl")


def shift(register, bits, polynomial, width):
    """The CRC shift register of §3.5.1 and §3.6.2.1: the highest bit is fed back, bit 0 of each byte enters first."""
    for bit in bits:
        feedback = register >> width - 1 ^ bit
        register = register << 1 & (1 << width) - 1
        if feedback:
            register ^= polynomial
    return register


def bits_of(data):
    """The bits of bytes in the order in which they enter the register."""
    return [byte >> n & 1 for byte in data for n in range(8)]


def field(register, width):
    """Complemented, and each byte mirrored: register bit 31 (15) is bit 0 of the first byte."""
    register ^= (1 << width) - 1
    out = []
    for low in range(width - 8, -1, -8):
        byte = register >> low & 0xFF
        out.append(sum((byte >> 7 - n & 1) << n for n in range(8)))
    return bytes(out)


def lcrc(sequence_and_tlp):
    """The LCRC field: over the reserved bits, the sequence number and the TLP."""
    return field(shift(0xFFFFFFFF, bits_of(sequence_and_tlp), 0x04C11DB7, 32), 32)


def crc_16(four):
    """The CRC field of a DLLP."""
    return field(shift(0xFFFF, bits_of(four), 0x100B, 16), 16)


def inverted(data):
    """The bytes with every bit inverted."""
    return bytes(byte ^ 0xFF for byte in data)


def dllp(four):
    """A DLLP of its four bytes."""
    return bytes(four) + crc_16(four)


def ack(sequence, nak=False):
    """An Ack or a Nak."""
    return dllp([0x10 if nak else 0x00, 0, sequence >> 8, sequence & 0xFF])


def flow_control(kind, kind_type, vc, value):
    """InitFC1, InitFC2 or UpdateFC; `value` is HdrScale, HdrFC, DataScale and DataFC in 24 bits."""
    return dllp([kind << 6 | kind_type << 4 | vc, value >> 16, value >> 8 & 0xFF, value & 0xFF])


def feature(acknowledges, features):
    """A Data Link Feature DLLP."""
    return dllp([0x02, acknowledges << 7 | features >> 16, features >> 8 & 0xFF, features & 0xFF])


def tlp_frame(sequence, tlp, reserved=0):
    """The frame of a TLP."""
    covered = bytes([reserved << 4 | sequence >> 8, sequence & 0xFF]) + tlp
    return covered + lcrc(covered)


class Frame(collections.namedtuple("Frame", "data dllp nullify error time")):
    """A frame on the link."""

    def __new__(cls, data, dllp, nullify=False, error=False, time=0):
        return super().__new__(cls, bytes(data), dllp, nullify, error, time)


class Channel:
    """Flow-control initialization of one virtual channel (§3.4.1)."""

    def __init__(self, credits):
        self.credits = credits
        self.remote = {}
        self.fi1 = self.fi2 = False
        self.next_send = 0


class Partner:
    """One data link layer. `poll` gives the frames to send, `receive` takes one."""

    def __init__(self, vcs=1, features=1, replay_timer=1000, ack_latency=50, repeat=200, window=2047):
        # `window`: unacknowledged TLPs at most. Frames leave in no time, and wait in the RTL's queue instead.
        self.window = window
        self.replay_timer_limit, self.ack_latency_limit, self.repeat = replay_timer, ack_latency, repeat
        self.features = features
        self.remote_features = None
        self.counts = collections.Counter()
        self.channels = {vc: Channel([0x010203 * (vc + 1) + n for n in range(3)]) for vc in range(vcs)}
        self.state = "feature" if features is not None else "init"
        self.to_send, self.received, self.updates, self.out = collections.deque(), [], [], []
        # Transmitter.
        self.next_transmit_seq, self.ackd_seq = 0, 0xFFF
        self.retry = collections.OrderedDict()
        self.replay_num, self.timer = 0, None
        self.replay_at = None
        self.retrain = False
        # Receiver.
        self.next_rcv_seq, self.nak_scheduled, self.ack_at = 0, False, None
        self.acks = []

    # ---- transmitter ----

    def poll(self, now):
        """The frames that leave at `now`."""
        out, self.out = self.out, []
        if self.state == "feature":
            if now % 64 == 0:
                out.append(Frame(feature(self.remote_features is not None, self.features), True))
            return out
        for vc, channel in self.channels.items():
            if (vc == 0 or self.state == "active") and not (channel.fi1 and channel.fi2) and now >= channel.next_send:
                kind = 0b11 if channel.fi1 else 0b01
                out += [Frame(flow_control(kind, n, vc, channel.credits[n]), True) for n in range(3)]
                channel.next_send = now + self.repeat
        out += [Frame(ack(*each), True) for each in self.acks]
        self.acks = []
        if self.ack_at is not None and now >= self.ack_at:
            out.append(Frame(ack((self.next_rcv_seq - 1) % 4096), True))
            self.ack_at = None
        if self.timer is not None and now - self.timer >= self.replay_timer_limit:
            self.counts["timeout"] += 1
            self.begin_replay()
        if self.replay_at is not None:
            out += [Frame(data, False) for data in self.retry.values()]
            self.replay_at = None
            self.timer = now if self.retry else None
        while self.state == "active" and self.to_send and (self.next_transmit_seq - self.ackd_seq) % 4096 <= self.window:
            data = tlp_frame(self.next_transmit_seq, self.to_send.popleft())
            self.retry[self.next_transmit_seq] = data
            self.next_transmit_seq = (self.next_transmit_seq + 1) % 4096
            self.timer = now if self.timer is None else self.timer
            out.append(Frame(data, False))
        return out

    def begin_replay(self):
        self.replay_num += 1
        if self.replay_num == 4:
            self.replay_num, self.retrain = 0, True
        self.replay_at = True
        self.timer = None
        self.counts["replay"] += 1

    def acknowledged(self, now, sequence, nak):
        if ((self.next_transmit_seq - 1) - sequence) % 4096 > 2048:
            self.counts["protocol error"] += 1
            return
        if (sequence - self.ackd_seq) % 4096 >= 2048:
            return
        if sequence != self.ackd_seq:
            while self.retry and (sequence - next(iter(self.retry))) % 4096 < 2048:
                self.retry.popitem(last=False)
            self.ackd_seq = sequence
            self.replay_num = 0
            self.timer = now if self.retry else None
        if nak and self.retry:
            self.begin_replay()

    # ---- receiver ----

    def receive(self, now, frame):
        """Takes one frame from the link."""
        if frame.dllp:
            self.receive_dllp(now, frame)
        elif self.channels[0].fi1:
            self.receive_tlp(now, frame)

    def receive_tlp(self, now, frame):
        covered, crc = frame.data[:-4], frame.data[-4:]
        sequence = int.from_bytes(frame.data[:2], "big") % 4096
        right = lcrc(covered)
        if not frame.error and frame.nullify and crc == inverted(right):
            self.counts["nullified"] += 1
        elif frame.error or frame.nullify or crc != right:
            self.counts["bad"] += 1
            self.nak()
        elif sequence == self.next_rcv_seq:
            self.received.append(covered[2:])
            self.next_rcv_seq = (sequence + 1) % 4096
            self.nak_scheduled = False
            self.channels[0].fi2 = True
            self.advance()
            if self.ack_at is None:
                self.ack_at = now + self.ack_latency_limit
        elif (self.next_rcv_seq - sequence) % 4096 <= 2048:
            self.counts["duplicate"] += 1
            self.ack_at = now
        else:
            self.counts["gap"] += 1
            self.nak()

    def nak(self):
        if not self.nak_scheduled:
            self.nak_scheduled = True
            self.acks.append(((self.next_rcv_seq - 1) % 4096, True))
            self.ack_at = None

    def receive_dllp(self, now, frame):
        four, crc = frame.data[:4], frame.data[4:]
        if frame.error or len(frame.data) != 6 or crc_16(four) != crc:
            self.counts["bad dllp"] += 1
            return
        kind = four[0]
        if kind in (0x00, 0x10):
            if self.state == "active":
                self.acknowledged(now, (four[2] & 0xF) << 8 | four[3], kind == 0x10)
        elif kind == 0x02:
            if self.remote_features is None:
                self.remote_features = int.from_bytes(four[1:], "big") & 0x7FFFFF
            if self.state == "feature" and four[1] >> 7:
                self.state = "init"
        elif kind >> 6 and kind >> 4 & 3 < 3 and not kind & 8:
            self.receive_fc(now, kind >> 6, kind >> 4 & 3, kind & 7, int.from_bytes(four[1:], "big"))
        else:
            self.counts["other"] += 1

    def receive_fc(self, now, kind, kind_type, vc, value):
        if self.state == "feature" and (kind, vc) == (0b01, 0):
            self.state = "init"
        if vc not in self.channels or self.state == "feature" or (vc and self.state != "active"):
            return
        channel = self.channels[vc]
        if kind == 0b10:
            self.updates.append((vc, kind_type, value))
        elif not channel.fi1:
            channel.remote[kind_type] = value
            if len(channel.remote) == 3:
                channel.fi1, channel.next_send = True, 0
                return self.advance()
        elif kind == 0b11 and channel.fi2 and self.state == "active":
            # The other end has missed all InitFC2: an UpdateFC gives it the same information.
            self.out.append(Frame(flow_control(0b10, kind_type, vc, channel.credits[kind_type]), True))
        if channel.fi1 and kind != 0b01 and not channel.fi2:
            channel.fi2 = True
            self.out += [Frame(flow_control(0b11, n, vc, channel.credits[n]), True) for n in range(3)]
        return self.advance()

    def advance(self):
        if self.state == "init" and self.channels[0].fi1 and self.channels[0].fi2:
            self.state = "active"

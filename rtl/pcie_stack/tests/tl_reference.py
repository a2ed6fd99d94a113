# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules of a transaction layer in Python, written from PCIe 6.0 chapter 2 alone (non-FLIT mode). It shares no code or method with the RTL: credits are
counted as the text does, and order is checked TLP by TLP against Table 2-40."""

import collections

P, NP, CPL = range(3)
NAMES = ("P", "NP", "Cpl")
INIT1, UPDATE, INIT2 = 1, 2, 3
FAULTS = ("format", "length", "payload", "byte_enables", "traffic_class", "boundary", "operand", "overflow")

# ---- TLPs ----

# (Fmt, Type) of each TLP of Table 2-3 without prefixes, and its class.
DEFINED = {}
for kind, fmts, types, kind_class in [
    ("MRd", (0, 1), (0b00000,), NP),
    ("MRdLk", (0, 1), (0b00001,), NP),
    ("MWr", (2, 3), (0b00000,), P),
    ("DMWr", (2, 3), (0b11011,), NP),
    ("IORd", (0,), (0b00010,), NP),
    ("IOWr", (2,), (0b00010,), NP),
    ("CfgRd", (0,), (0b00100, 0b00101), NP),
    ("CfgWr", (2,), (0b00100, 0b00101), NP),
    ("Msg", (1,), range(0b10000, 0b11000), P),
    ("MsgD", (3,), range(0b10000, 0b11000), P),
    ("Cpl", (0,), (0b01010, 0b01011), CPL),
    ("CplD", (2,), (0b01010, 0b01011), CPL),
    ("FetchAdd", (2, 3), (0b01100,), NP),
    ("Swap", (2, 3), (0b01101,), NP),
    ("CAS", (2, 3), (0b01110,), NP),
]:
    for fmt in fmts:
        for each in types:
            DEFINED[fmt, each] = (kind, kind_class)


class Fields:
    """The fields of a header that rules depend on."""

    def __init__(self, tlp):
        self.fmt, self.type = tlp[0] >> 5, tlp[0] & 31
        self.kind, self.kind_class = DEFINED.get((self.fmt, self.type), (None, None))
        self.tc = tlp[1] >> 4 & 7
        self.th, self.td, self.ep, self.ro = bool(tlp[1] & 1), bool(tlp[2] & 0x80), bool(tlp[2] & 0x40), bool(tlp[2] & 0x20)
        self.length = (tlp[2] & 3) << 8 | tlp[3] or 1024
        self.has_data = bool(self.fmt & 2)
        self.header = 4 if self.fmt & 1 else 3
        self.dwords = self.header + (self.length if self.has_data else 0) + self.td
        self.units = -(-self.length // 4) if self.has_data else 0
        self.first_enables, self.last_enables = tlp[7] & 15, tlp[7] >> 4
        self.code = tlp[7]
        self.address = int.from_bytes(tlp[8 : 4 * self.header].ljust(4 * self.header - 8, b"\0"), "big") & ~3

    def may_pass_posted(self):
        """Relaxed Ordering in rows C and D of Table 2-40; a read request may never pass."""
        return self.ro and (self.kind_class == CPL or self.has_data)


def contiguous(enables):
    """No disabled byte between two enabled ones."""
    return "0" not in f"{enables:04b}".strip("0")


def faults(tlp, vc_of, open_vcs, max_payload):
    """The names of the rules that a received TLP breaks."""
    f = Fields(tlp)
    if f.kind is None:
        return {"format"}
    found = set()
    if f.dwords * 4 != len(tlp):
        found.add("length")
    if f.has_data and f.length * 4 > max_payload:
        found.add("payload")
    if f.kind in ("MRd", "MRdLk", "MWr", "DMWr", "IORd", "IOWr", "CfgRd", "CfgWr") and not (f.th and f.kind in ("MRd", "MRdLk")):
        first, last = f.first_enables, f.last_enables
        if f.length == 1:
            if last:
                found.add("byte_enables")
        elif not first or not last:
            found.add("byte_enables")
        elif not (f.length == 2 and f.address % 8 == 0):
            # All bytes from the first enabled one to the last: the first double-word ends enabled, the last begins so.
            if not (contiguous(first) and first & 8 and contiguous(last) and last & 1):
                found.add("byte_enables")
    tc0 = f.kind in ("IORd", "IOWr", "CfgRd", "CfgWr")
    if f.kind in ("Msg", "MsgD"):
        tc0 = f.code in (*range(0x20, 0x28), *range(0x30, 0x40), 0x00, 0x14, 0x18, 0x19, 0x1A, 0x1B, 0x50)
    if vc_of[f.tc] not in open_vcs or (tc0 and f.tc):
        found.add("traffic_class")
    if f.kind in ("MRd", "MRdLk", "MWr", "DMWr", "FetchAdd", "Swap", "CAS") and f.address % 4096 + 4 * f.length > 4096:
        found.add("boundary")
    if f.kind in ("IORd", "IOWr", "CfgRd", "CfgWr") and f.length != 1:
        found.add("operand")
    if f.kind in ("FetchAdd", "Swap") and (f.length not in (1, 2) or f.address % (4 * f.length)):
        found.add("operand")
    # Each of the two operands of CAS is naturally aligned.
    if f.kind == "CAS" and (f.length not in (2, 4, 8) or f.address % (2 * f.length)):
        found.add("operand")
    return found


# ---- credits ----


class Sender:
    """The rules of a sender: order within a VC, credits, bytes. Calls come in the order of the events."""

    def __init__(self, vcs):
        self.accepted = {}  # (vc, class): TLPs that have not left, each with its number
        self.posted_waiting = {vc: collections.deque() for vc in range(vcs)}
        self.number = 0
        self.credits = {}
        self.left = 0
        for vc in range(vcs):
            for kind_class in range(3):
                self.accepted[vc, kind_class] = collections.deque()
                self.credits[vc, kind_class] = None

    def accept(self, vc, tlp):
        f = Fields(tlp)
        self.accepted[vc, f.kind_class].append((self.number, tlp))
        if f.kind_class == P:
            self.posted_waiting[vc].append(self.number)
        self.number += 1

    def learn(self, kind, kind_class, vc, value, scaled=False):
        """A flow-control DLLP; returns whether it is legal."""
        scales, fields, widths = (value >> 22, value >> 12 & 3), (value >> 14 & 0xFF, value & 0xFFF), (8, 12)
        if not scaled:
            scales = (0, 0)
        known = self.credits[vc, kind_class]
        if kind != UPDATE:
            if known is None:
                self.credits[vc, kind_class] = [
                    {"modulus": factor << width, "factor": factor, "scale": scale, "limit": field * factor, "consumed": 0, "infinite": field == 0}
                    for scale, field, width in zip(scales, fields, widths)
                    for factor in [{0: 1, 1: 1, 2: 4, 3: 16}[scale]]
                ]
            return True
        for each, scale, field in zip(known, scales, fields):
            if each["scale"] != scale or (field if each["infinite"] else (field * each["factor"] - each["consumed"]) % each["modulus"] >= each["modulus"] // 2):
                return False
        for each, field in zip(known, fields):
            each["limit"] = field * each["factor"] % each["modulus"]
        return True

    def leave(self, vc, tlp):
        """A TLP leaves: it must be the oldest of its class, allowed to pass, and covered by credits (§2.6.1.1)."""
        f = Fields(tlp)
        assert self.accepted[vc, f.kind_class], "a TLP leaves that was not accepted"
        number, expected = self.accepted[vc, f.kind_class].popleft()
        assert tlp == expected, "a TLP leaves that is not the oldest of its class"
        waiting = self.posted_waiting[vc]
        if f.kind_class == P:
            assert waiting.popleft() == number
        elif waiting and waiting[0] < number:
            assert f.may_pass_posted(), f"a {f.kind} passes a posted request"
        for each, amount in zip(self.credits[vc, f.kind_class], (1, f.units)):
            required = (each["consumed"] + amount) % each["modulus"]
            if not each["infinite"]:
                assert (each["limit"] - required) % each["modulus"] <= each["modulus"] // 2, f"{f.kind} without credits"
            each["consumed"] = required
        self.left += 1

    def waiting(self):
        return sum(len(queue) for queue in self.accepted.values())


class Receiver:
    """The rules of a receiver: order towards the user, bytes, credits."""

    def __init__(self, vcs, vc_of=(0,) * 8, scaled=False):
        self.vc_of = vc_of
        self.scaled = scaled
        self.stored = {(vc, kind_class): collections.deque() for vc in range(vcs) for kind_class in range(3)}
        self.posted_waiting = {vc: collections.deque() for vc in range(vcs)}
        self.begun = dict.fromkeys(self.stored, None)
        self.freed = {key: [0, 0] for key in self.stored}
        self.advertised = {}
        self.reported = {}
        self.number = self.taken = 0

    def arrive(self, tlp):
        f = Fields(tlp)
        vc = self.vc_of[f.tc]
        self.stored[vc, f.kind_class].append((self.number, tlp))
        if f.kind_class == P:
            self.posted_waiting[vc].append(self.number)
        self.number += 1

    def discard(self, tlp):
        """A malformed TLP of a known class, whose credits are returned."""
        f = Fields(tlp)
        self.free(self.vc_of[f.tc], f)

    def free(self, vc, f):
        freed = self.freed[vc, f.kind_class]
        freed[0] += 1
        freed[1] += f.units

    def offer(self, vc, kind_class):
        """The first beat of a TLP is taken by the user."""
        assert self.stored[vc, kind_class], "a TLP is offered that did not arrive"
        number, tlp = self.stored[vc, kind_class][0]
        waiting = self.posted_waiting[vc]
        if kind_class != P and waiting and waiting[0] < number:
            assert Fields(tlp).may_pass_posted(), "a TLP is offered before an older posted request is taken"

    def take(self, vc, kind_class, tlp):
        """The last beat is taken."""
        number, expected = self.stored[vc, kind_class].popleft()
        assert tlp == expected, "the user gets a TLP that is not the oldest of its class"
        if kind_class == P:
            assert self.posted_waiting[vc].popleft() == number
        self.free(vc, Fields(tlp))
        self.taken += 1

    def advertise(self, vc, kind_class, value):
        """InitFC's 24 bits; returns the credits (header, data), None if infinite."""
        scales, fields = (value >> 22, value >> 12 & 3), (value >> 14 & 0xFF, value & 0xFFF)
        assert self.scaled == bool(scales[0]) == bool(scales[1])
        factors = [{0: 1, 1: 1, 2: 4, 3: 16}[scale] for scale in scales]
        assert fields[0] < 128 and fields[1] < 2048
        self.advertised[vc, kind_class] = (scales, factors, [field * factor if field else None for field, factor in zip(fields, factors)])
        return self.advertised[vc, kind_class][2]

    def update(self, vc, kind_class, value):
        """An UpdateFC must report what the user has freed, rounded down to its scale, or a bit less if it is late."""
        scales, factors, first = self.advertised[vc, kind_class]
        widths, fields = (8, 12), (value >> 14 & 0xFF, value & 0xFFF)
        assert (value >> 22, value >> 12 & 3) == scales
        credits = []
        for n in range(2):
            if first[n] is None:
                assert fields[n] == 0
                credits.append(None)
                continue
            modulus = factors[n] << widths[n]
            last = self.reported.setdefault((vc, kind_class), list(first))[n]
            now = last + (fields[n] * factors[n] - last) % modulus
            assert now <= first[n] + self.freed[vc, kind_class][n], "an UpdateFC reports credits that are not free"
            assert now - last < modulus // 2
            self.reported[vc, kind_class][n] = now
            credits.append(now)
        return credits

    def waiting(self):
        return sum(len(queue) for queue in self.stored.values())

    def all_reported(self):
        """Whether the last UpdateFCs report all that is free."""
        for key, (_, factors, first) in self.advertised.items():
            for n in range(2):
                if first[n] is not None:
                    last = self.reported.get(key, first)[n]
                    if (first[n] + self.freed[key][n]) // factors[n] * factors[n] != last:
                        return False
        return True


# ---- TLPs to send ----


def head(kind, fmt, length, tc=0, ro=False, td=False, ep=False, kind_type=None):
    """The first double-word."""
    types = {each: number for (_, number), (each, _) in reversed(DEFINED.items())}
    number = types[kind] if kind_type is None else kind_type
    return bytes([fmt << 5 | number, tc << 4, td << 7 | ep << 6 | ro << 5 | (length >> 8 & 3), length & 0xFF])


def tlp(kind, dwords=1, address=0x1000, data=None, tag=0, tc=0, ro=False, td=False, ep=False, enables=None, four=False, code=0x7E, requester=0x0100, kind_type=None):
    """Any TLP. `dwords` is Length, `data` the payload."""
    has_data = kind in ("MWr", "DMWr", "IOWr", "CfgWr", "MsgD", "CplD", "FetchAdd", "Swap", "CAS")
    four = four or kind in ("Msg", "MsgD")
    if enables is None:
        enables = 0x0F if dwords == 1 else 0xFF
    if kind in ("Msg", "MsgD"):
        enables = code
    first = head(kind, has_data << 1 | four, dwords if kind not in ("Msg", "Cpl") else 0, tc, ro, td, ep, kind_type)
    if kind in ("Cpl", "CplD"):
        rest = requester.to_bytes(2, "big") + (4 * dwords & 0xFFF).to_bytes(2, "big") + b"\x02\x00" + bytes([tag & 0xFF, 0])
    else:
        rest = requester.to_bytes(2, "big") + bytes([tag & 0xFF, enables]) + address.to_bytes(8 if four else 4, "big")
    payload = (data if data is not None else bytes((tag + n) & 0xFF for n in range(4 * dwords))) if has_data else b""
    return first + rest + payload + (b"\xec\x5c\xec\x5c" if td else b"")


def random_tlp(dice, kind_class, max_payload, tc=0, serial=0):
    """A legal TLP of a class. Its requester or completer ID and its tag hold a serial number."""
    ro, td, ep, four = dice.random() < 0.3, dice.random() < 0.1, dice.random() < 0.05, dice.random() < 0.5
    common = {"tag": serial, "requester": serial >> 8 & 0xFFFF, "ro": ro, "td": td, "ep": ep}
    most = max_payload // 4
    pick = dice.random()
    dwords = dice.randint(1, 4) if dice.random() < 0.4 else dice.randint(1, most)
    if kind_class == CPL:
        return tlp("CplD", dwords, data=dice.randbytes(4 * dwords), tc=tc, **common) if pick < 0.7 else tlp("Cpl", 1, tc=tc, **common)
    address = dice.randrange(0, 4096, 128) if dice.random() < 0.5 else dice.randrange(0, 4097 - 4 * dwords, 4)
    address = min(address, 4096 - 4 * dwords) + (dice.randrange(1, 1 << 19) << 12) + (dice.randrange(1, 1 << 31) << 32 if four else 0)
    if kind_class == P:
        if pick < 0.8:
            return tlp("MWr", dwords, address, dice.randbytes(4 * dwords), tc=tc, four=four, **common)
        return tlp("Msg", 1, address, tc=tc, **common) if pick < 0.9 else tlp("MsgD", dwords, address, dice.randbytes(4 * dwords), tc=tc, **common)
    if pick < 0.5:
        return tlp("MRd", dwords, address, tc=tc, four=four, **common)
    if pick < 0.7 and tc == 0:
        return tlp(dice.choice(["CfgRd", "CfgWr", "IORd", "IOWr"]), 1, address & 0xFFFFFFFC, tc=0, **common)
    kind = dice.choice(["FetchAdd", "Swap", "CAS"])
    length = 2 if kind == "CAS" else 1
    return tlp(kind, length, address & ~15, dice.randbytes(4 * length), tc=tc, four=four, enables=0xFF, **common)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes literal TLPs and DLLPs with their fields, or the rule that they break, as test cases for riser's parser.

Made only from the figures of the PCI Express Base Specification 5.0 (section 2.2: headers, prefixes and messages;
2.7.1: ECRC; 3.5: DLLPs; 3.6.2.1: LCRC), with separate bit arithmetic. Shares no code with riser, and never reads riser's output.
Deterministic: it uses one seed and its own generator, so every version of Python writes the same bytes.

    python3 tools/corpus/make_corpus.py tlps > crates/tlp/tests/corpus/tlps.txt
    python3 tools/corpus/make_corpus.py dllps > crates/tlp/tests/corpus/dllps.txt
    python3 tools/corpus/make_corpus.py frames > crates/link/tests/corpus/frames.txt

A line has the packet's bytes, then `name=value` for each field that does not have its default value, or `malformed=RULE`.
Fields:

    type prefixes tc attr at ph st ln td ep requester tag address length first_be last_be operand completer register
    status bcm byte_count lower_address routing code message header data ecrc tolerated emits

The fields of DLLPs are `type class vc hdr_scale hdr data_scale data sequence ack supported bits`, or `error`.
Those of frames are `kind`, and of a TLP `sequence` and `tlp`, or `error`.

Numbers are decimal, except ids, addresses, byte enables, codes, bits and bytes, which are hexadecimal. `emits` is
the TLP after it is parsed and written again, if that differs: reserved bits become zero, and headers with addresses
below 4 GiB get three DW.
"""

import sys
import zlib


class Dice:
    """A small generator of pseudo-random numbers (xorshift64*), which are the same on every machine."""

    def __init__(self, seed):
        self.state = seed

    def bits(self, count):
        """Returns `count` random bits, at most 32."""
        mask = (1 << 64) - 1
        self.state ^= self.state >> 12
        self.state = (self.state ^ self.state << 25) & mask
        self.state ^= self.state >> 27
        return (self.state * 0x2545F4914F6CDD1D & mask) >> 64 - count

    def below(self, limit):
        """Returns a number below `limit`."""
        return self.bits(32) % limit

    def pick(self, choices):
        """Returns one of the choices."""
        return choices[self.below(len(choices))]

    def chance(self, of):
        """Returns True once in `of` times."""
        return self.below(of) == 0


def pack(*fields):
    """Packs fields (width in bits, value) into bytes. The first field is in the highest bits, as in the figures."""
    number, width = 0, 0
    for bits, value in fields:
        assert 0 <= value < 1 << bits, (bits, value)
        number, width = number << bits | value, width + bits
    return number.to_bytes(width // 8, "big")


# ---- TLPs (section 2.2) ----

# Name: Fmt with a short header, Type, whether a long header exists (Table 2-3).
REQUESTS = {
    "MRd": (0b000, 0b00000, True),
    "MRdLk": (0b000, 0b00001, True),
    "MWr": (0b010, 0b00000, True),
    "DMWr": (0b010, 0b11011, True),
    "IORd": (0b000, 0b00010, False),
    "IOWr": (0b010, 0b00010, False),
    "CfgRd0": (0b000, 0b00100, False),
    "CfgWr0": (0b010, 0b00100, False),
    "CfgRd1": (0b000, 0b00101, False),
    "CfgWr1": (0b010, 0b00101, False),
    "FetchAdd": (0b010, 0b01100, True),
    "Swap": (0b010, 0b01101, True),
    "CAS": (0b010, 0b01110, True),
}
COMPLETIONS = {"Cpl": (0b000, 0b01010), "CplD": (0b010, 0b01010), "CplLk": (0b000, 0b01011), "CplDLk": (0b010, 0b01011)}
STATUS = {"SC": 0b000, "UR": 0b001, "CRS": 0b010, "CA": 0b100}
# Name, code, subtype, routings, DWs of data (None: any), whether TC must be 0 (Table F-1 and section 2.2.8).
MESSAGES = (
    [("Unlock", 0x00, None, [3], 0, True), ("Invalidate_Request", 0x01, None, [2], 2, False)]
    + [("Invalidate_Completion", 0x02, None, [2], 0, False), ("Page_Request", 0x04, None, [0], 0, False)]
    + [("PRG_Response", 0x05, None, [2], 0, False), ("LTR", 0x10, None, [4], 0, True), ("OBFF", 0x12, None, [4], 0, True)]
    + [("PM_Active_State_Nak", 0x14, None, [4], 0, True), ("PM_PME", 0x18, None, [0], 0, True)]
    + [("PME_Turn_Off", 0x19, None, [3], 0, True), ("PME_TO_Ack", 0x1B, None, [5], 0, True)]
    + [(f"Assert_INT{'ABCD'[n]}", 0x20 + n, None, [4], 0, True) for n in range(4)]
    + [(f"Deassert_INT{'ABCD'[n]}", 0x24 + n, None, [4], 0, True) for n in range(4)]
    + [("ERR_COR", 0x30, None, [0], 0, True), ("ERR_NONFATAL", 0x31, None, [0], 0, True)]
    + [("ERR_FATAL", 0x33, None, [0], 0, True), ("Attention_Indicator_Off", 0x40, None, [4], 0, False)]
    + [("Attention_Indicator_On", 0x41, None, [4], 0, False), ("Attention_Indicator_Blink", 0x43, None, [4], 0, False)]
    + [("Power_Indicator_Off", 0x44, None, [4], 0, False), ("Power_Indicator_On", 0x45, None, [4], 0, False)]
    + [("Power_Indicator_Blink", 0x47, None, [4], 0, False), ("Attention_Button_Pressed", 0x48, None, [4], 0, False)]
    + [("Set_Slot_Power_Limit", 0x50, None, [4], 1, True), ("PTM_Request", 0x52, None, [4], 0, True)]
    + [("PTM_Response", 0x53, None, [4], 0, True), ("PTM_ResponseD", 0x53, None, [4], 1, True)]
    + [("Vendor_Defined_Type_0", 0x7E, None, [0, 2, 3, 4], None, False)]
    + [("LN", 0x7F, 0x00, [2, 3], 2, True), ("Hierarchy_ID", 0x7F, 0x01, [3], 4, True), ("DRS", 0x7F, 0x08, [4], 0, True)]
    + [("FRS", 0x7F, 0x09, [0], 0, True), ("Vendor_Defined_Type_1", 0x7F, None, [0, 2, 3, 4], None, False)]
)
ATOMIC_LENGTHS = {"FetchAdd": [1, 2], "Swap": [1, 2], "CAS": [2, 4, 8]}
# First bytes of prefixes: MR-IOV, VendPrefixL0 and L1; Extended TPH, PASID, VendPrefixE0 and E1 (section 2.2.10).
LOCAL = [0x80, 0x8E, 0x8F]
EXTENDED_TPH, PASID = 0x90, 0x91
VENDOR_END_TO_END = [0x9E, 0x9F]


class Packet:
    """A TLP as the values of its fields, which may change until the bytes are made."""

    def __init__(self, kind, fmt, typ):
        self.kind, self.fmt, self.typ = kind, fmt, typ
        self.tc = self.attr = self.at = self.tag = self.length = 0
        self.ln = self.th = self.td = self.ep = 0
        self.ph = self.st = 0
        self.prefixes = []
        # DW 1 and later, as functions of the packet, so that fields may change until the bytes are made.
        self.rest = lambda: b""
        self.fields = {}
        self.data = b""
        self.digest = None
        self.tolerated = set()

    def header(self):
        """Returns the header: its first DW (section 2.2.1), then the rest."""
        first = pack(
            (3, self.fmt), (5, self.typ), (1, self.tag >> 9), (3, self.tc), (1, self.tag >> 8 & 1), (1, self.attr >> 2),
            (1, self.ln), (1, self.th), (1, self.td), (1, self.ep), (2, self.attr & 3), (2, self.at), (10, self.length % 1024),
        )
        return first + self.rest()

    def bytes(self):
        """Returns prefixes, header, data, digest."""
        prefixes = b"".join(dw.to_bytes(4, "big") for dw in self.prefixes)
        body = prefixes + self.header() + self.data
        if not self.td:
            return body
        right = ecrc(self.prefixes, self.header(), self.data)
        return body + (right if self.digest != "wrong" else bytes(byte ^ 0xFF for byte in right))

    def line(self):
        """Returns the packet's line in the corpus."""
        fields = {"type": self.kind}
        fields["prefixes"] = ",".join(f"{dw:08x}" for dw in self.prefixes)
        fields |= {"tc": self.tc, "attr": self.attr, "at": self.at}
        if self.th:
            fields |= {"ph": str(self.ph), "st": f"{self.st:02x}"}
        fields |= {"ln": self.ln, "td": self.td, "ep": self.ep}
        fields |= self.fields
        fields["data"] = self.data.hex()
        if self.td:
            fields["ecrc"] = self.digest or "right"
        fields["tolerated"] = ",".join(sorted(self.tolerated))
        shown = [f"{name}={value}" for name, value in fields.items() if value not in (0, "", None)]
        return self.bytes().hex() + " " + " ".join(shown)

    def malformed(self, rule):
        """Returns the line of a packet that breaks `rule`."""
        return f"{self.bytes().hex()} malformed={rule}"


def ecrc(prefixes, header, data):
    """Returns the digest (section 2.7.1) over end-to-end prefixes, header and data; Type[0] and EP count as ones.

    The specification's CRC processes bit 0 of each byte first, and its figure mirrors the bits of each byte of
    the result. That equals zlib's CRC-32, low byte first.
    """
    covered = b"".join(dw.to_bytes(4, "big") for dw in prefixes if dw >> 28 & 1)
    invariant = bytes([header[0] | 0x01, header[1], header[2] | 0x40]) + header[3:]
    return zlib.crc32(covered + invariant + data).to_bytes(4, "little")


def some_bytes(dice, count):
    """Returns random bytes."""
    return bytes(dice.bits(8) for _ in range(count))


def address_of(dice, room, long, align=4):
    """Returns an address with at least `room` bytes up to the next 4 KiB boundary, above 4 GiB if `long`."""
    page = dice.bits(20) << 12 | (dice.bits(32) | 1) << 32 if long else dice.bits(20) << 12
    return page | dice.below((4096 - room) // align + 1) * align


def with_address(packet, dw1, address, long):
    """Returns DW 1 and the address, with PH in its lowest bits (section 2.2.4.1)."""
    high = pack((32, address >> 32)) if long else b""
    return dw1 + high + pack((30, address >> 2 & 0x3FFFFFFF), (2, packet.ph))


def request(dice, kind):
    """Returns a request with only its common fields, and whether its address is long."""
    fmt, typ, may_be_long = REQUESTS[kind]
    long = may_be_long and dice.chance(2)
    packet = Packet(kind, fmt | long, typ)
    packet.tag, requester = dice.bits(10), dice.bits(16)
    packet.fields = {"requester": f"{requester:04x}", "tag": packet.tag}
    packet.requester = requester
    return packet, long


def byte_enables(dice, address, length):
    """Returns byte enables that section 2.2.5 allows, last then first."""
    if length == 1:
        return 0, dice.bits(4)
    if length == 2 and address % 8 == 0:
        return 1 + dice.below(15), 1 + dice.below(15)
    return dice.pick([0b0001, 0b0011, 0b0111, 0b1111]), dice.pick([0b1000, 0b1100, 0b1110, 0b1111])


def memory(dice, kind):
    """Returns an MRd, MRdLk, MWr or DMWr."""
    packet, long = request(dice, kind)
    most = {"MRd": 1024, "MRdLk": 64, "DMWr": 32, "MWr": 40}[kind]
    packet.length = dice.pick([1, 1, 2, 3, 1 + dice.below(most), most])
    address = address_of(dice, packet.length * 4, long)
    last, first = byte_enables(dice, address, packet.length)
    if kind in ("MRd", "MWr") and dice.chance(5):
        packet.th, packet.ph, packet.st = 1, dice.bits(2), dice.bits(8)
        if kind == "MRd":
            # The steering tag replaces the byte enables, which then count as all ones (section 2.2.7.1).
            last, first = 0 if packet.length == 1 else 0xF, 0xF
        else:
            packet.tag = packet.fields["tag"] = 0
    packet.be, packet.address, packet.long = (last, first), address, long
    packet.fields |= {"address": f"{address:x}", "length": packet.length, "first_be": f"{first:x}", "last_be": f"{last:x}"}
    packet.rest = lambda: memory_rest(packet)
    packet.ln = int(kind in ("MRd", "MWr") and dice.chance(8))
    if REQUESTS[kind][0] & 2:
        packet.data = some_bytes(dice, packet.length * 4)
        blank(packet)
    return packet


def blank(packet):
    """Sets the bytes before the first and after the last enabled one to zero, because riser does not keep them."""
    last, first = packet.be
    enables = [first] + [0xF] * (packet.length - 2) + [last] if packet.length > 1 else [first]
    lanes = [enables[n // 4] >> n % 4 & 1 for n in range(packet.length * 4)]
    on = [n for n, lane in enumerate(lanes) if lane] or [0]
    packet.data = bytes(byte if on[0] <= n <= on[-1] else 0 for n, byte in enumerate(packet.data))


def memory_rest(packet):
    """Returns DW 1 and the address of a memory request."""
    (last, first), low_tag = packet.be, packet.tag & 0xFF
    enables = pack((4, last), (4, first))
    if packet.th and packet.fmt & 2:
        low_tag = packet.st
    elif packet.th:
        enables = pack((8, packet.st))
    return with_address(packet, pack((16, packet.requester), (8, low_tag)) + enables, packet.address, packet.long)


def io(dice, kind):
    """Returns an IORd or IOWr."""
    packet, _ = request(dice, kind)
    packet.length, packet.last = 1, 0
    first, packet.address = dice.bits(4), dice.bits(30) << 2
    packet.fields |= {"address": f"{packet.address:x}", "first_be": f"{first:x}"}
    packet.be = (0, first)
    packet.rest = lambda: pack((16, packet.requester), (8, packet.tag & 0xFF), (4, packet.last), (4, first), (32, packet.address))
    if kind == "IOWr":
        packet.data = some_bytes(dice, 4)
        blank(packet)
    return packet


def config(dice, kind):
    """Returns a CfgRd0, CfgWr0, CfgRd1 or CfgWr1: bus, device, function; reserved; register; reserved (section 2.2.7)."""
    packet, _ = request(dice, kind)
    packet.length, packet.last = 1, 0
    first, completer, register = dice.bits(4), dice.bits(16), dice.bits(10)
    packet.fields |= {"completer": f"{completer:04x}", "register": f"{register * 4:03x}", "first_be": f"{first:x}"}
    packet.be = (0, first)
    packet.rest = lambda: pack(
        (16, packet.requester), (8, packet.tag & 0xFF), (4, packet.last), (4, first),
        (16, completer), (4, 0), (10, register), (2, 0),
    )
    if kind.startswith("CfgWr"):
        packet.data = some_bytes(dice, 4)
        blank(packet)
    return packet


def atomic(dice, kind):
    """Returns a FetchAdd, Swap or CAS. The field of the byte enables is reserved, or has a steering tag (section 2.2.7)."""
    packet, long = request(dice, kind)
    packet.length = dice.pick(ATOMIC_LENGTHS[kind])
    operand = packet.length * 4 // (2 if kind == "CAS" else 1)
    packet.address = address_of(dice, operand, long, operand)
    packet.fields |= {"address": f"{packet.address:x}", "length": packet.length, "operand": operand}
    if dice.chance(4):
        packet.th, packet.ph, packet.st = 1, dice.bits(2), dice.bits(8)
    dw1 = lambda: pack((16, packet.requester), (8, packet.tag & 0xFF), (8, packet.st))
    packet.rest = lambda: with_address(packet, dw1(), packet.address, long)
    packet.data = some_bytes(dice, packet.length * 4)
    return packet


def completion(dice, kind):
    """Returns a Cpl, CplD, CplLk or CplDLk (section 2.2.9)."""
    packet = Packet(kind, *COMPLETIONS[kind])
    packet.tag, has_data = dice.bits(10), packet.fmt & 2
    completer, requester = dice.bits(16), dice.bits(16)
    names = {"Cpl": ["SC", "UR", "CRS", "CA"], "CplLk": ["UR", "CA"]}.get(kind, ["SC"])
    packet.status = STATUS[name] if (name := dice.pick(names)) else 0
    low = dice.bits(7)
    packet.length = dice.pick([1, 2, 1 + dice.below(32)]) if has_data else 0
    # With data, Byte Count is at least the number of bytes of data. Without data, it may have any value.
    here = packet.length * 4 - low % 4
    count = dice.pick([here, min(here + dice.below(2000), 4096)]) if has_data else 1 + dice.below(4096)
    packet.count, packet.low, bcm = count, low, 0
    packet.fields = {"completer": f"{completer:04x}", "requester": f"{requester:04x}", "tag": packet.tag, "status": name}
    packet.fields |= {"byte_count": count, "lower_address": low, "length": packet.length}
    packet.rest = lambda: pack(
        (16, completer), (3, packet.status), (1, bcm), (12, packet.count % 4096),
        (16, requester), (8, packet.tag & 0xFF), (1, 0), (7, packet.low),
    )
    packet.ln = int(kind in ("Cpl", "CplD") and dice.chance(8))
    if has_data:
        lead = low % 4
        packet.data = bytes(lead) + some_bytes(dice, packet.length * 4 - lead)
    return packet


def message(dice, row):
    """Returns a Msg or MsgD for a row of MESSAGES (section 2.2.8)."""
    name, code, subtype, routings, dw, _ = row
    length = dice.pick([0, 0, 1, 5]) if dw is None else dw
    packet = Packet("MsgD" if length else "Msg", 0b011 if length else 0b001, 0b10000 | dice.pick(routings))
    packet.length, packet.tag, requester = length, dice.bits(10), dice.bits(16)
    head = bytearray(some_bytes(dice, 8))
    if subtype is not None:
        head[2:5] = bytes([0, 1, subtype])
    elif code == 0x7F:
        head[2:4] = b"\x1a\xb4"
    packet.head = bytes(head)
    packet.fields = {"requester": f"{requester:04x}", "tag": packet.tag, "code": f"{code:02x}", "message": name}
    packet.fields |= {"routing": str(packet.typ & 7), "header": packet.head.hex(), "length": length}
    packet.rest = lambda: pack((16, requester), (8, packet.tag & 0xFF), (8, code)) + packet.head
    packet.data = some_bytes(dice, length * 4)
    return packet


def dress(dice, packet, tc0):
    """Adds the common fields that the type allows, a digest and prefixes."""
    is_memory = packet.kind in ("MRd", "MRdLk", "MWr", "DMWr", *ATOMIC_LENGTHS)
    if packet.kind == "MRdLk":
        packet.attr = dice.bits(3)
    elif not tc0:
        packet.tc, packet.attr = dice.bits(3), dice.bits(3)
    if is_memory:
        packet.at = dice.pick([0, 0, 2, 1 if packet.kind == "MRd" else 0])
    packet.ep = int(dice.chance(10) and len(packet.data) > 0)
    packet.td = int(dice.chance(4))
    packet.digest = "wrong" if packet.td and dice.chance(5) else None
    if dice.chance(5):
        packet.prefixes = prefixes(dice, packet, is_memory)
    return packet


def prefixes(dice, packet, is_memory):
    """Returns local prefixes, then end-to-end ones that are legal for this TLP."""
    local = [dice.pick(LOCAL) << 24 | dice.bits(24) for _ in range(dice.below(3))]
    end_to_end = [dice.pick(VENDOR_END_TO_END) << 24 | dice.bits(24) for _ in range(dice.below(3))]
    if is_memory or packet.fields.get("message") in ("Invalidate_Request", "Page_Request", "PRG_Response"):
        end_to_end.append(PASID << 24 | dice.bits(2) << 20 | dice.bits(20))
    if is_memory and packet.th:
        end_to_end.append(EXTENDED_TPH << 24 | dice.bits(8) << 16)
    return local + end_to_end


def legal(dice, kind):
    """Returns a legal TLP of this type."""
    if kind in ("MRd", "MRdLk", "MWr", "DMWr"):
        return dress(dice, memory(dice, kind), False)
    if kind in ("IORd", "IOWr"):
        return dress(dice, io(dice, kind), True)
    if kind.startswith("Cfg"):
        return dress(dice, config(dice, kind), True)
    if kind in ATOMIC_LENGTHS:
        return dress(dice, atomic(dice, kind), False)
    if kind in COMPLETIONS:
        return dress(dice, completion(dice, kind), False)
    row = next(row for row in MESSAGES if row[0] == kind)
    return dress(dice, message(dice, row), row[5])


def plain(dice, kind):
    """Returns a legal TLP without prefixes, digest and hints, for rows with one error."""
    while True:
        packet = legal(dice, kind)
        if not (packet.td or packet.prefixes or packet.th or packet.ep):
            return packet


# ---- TLPs that break a rule ----


def broken_fields(dice):
    """Returns lines of TLPs in which one field that must be zero, or one, has another value."""
    for family, kinds in [("Io", ["IORd", "IOWr"]), ("Config", ["CfgRd0", "CfgWr0", "CfgRd1", "CfgWr1"])]:
        for rule, field, bits in [("Tc", "tc", 3), ("Attr", "attr", 2), ("At", "at", 2), ("LastBe", "last", 4)]:
            for _ in range(5):
                packet = plain(dice, dice.pick(kinds))
                setattr(packet, field, 1 + dice.below((1 << bits) - 1))
                yield packet.malformed(family + rule)
        for _ in range(5):
            packet = plain(dice, dice.pick(kinds))
            packet.length = 2 + dice.below(30)
            packet.data = bytes(packet.length * 4) if packet.data else b""
            yield packet.malformed(family + "Length")


def broken_messages(dice):
    """Returns messages whose TC must be 0 but is not, and a Set_Slot_Power_Limit of wrong length."""
    rules = [(range(0x20, 0x28), "InterruptTc"), (range(0x14, 0x1C), "PowerTc"), (range(0x30, 0x34), "ErrorTc")]
    rules += [([0x00], "UnlockTc"), ([0x50], "SlotPowerTc"), ([0x10], "LtrTc"), ([0x12], "ObffTc"), ([0x52, 0x53], "PtmTc")]
    rules += [([0x7F], "PciSigTc")]
    for row in MESSAGES:
        for rule in (rule for codes, rule in rules if row[5] and row[1] in codes):
            for _ in range(2):
                packet = plain(dice, row[0])
                packet.tc = 1 + dice.below(7)
                yield packet.malformed(rule)
    for length in (0, 2, 3, 7):
        packet = plain(dice, "Set_Slot_Power_Limit")
        packet.fmt, packet.length, packet.data = (0b011 if length else 0b001), length, bytes(length * 4)
        yield packet.malformed("SlotPowerLength")


def broken_requests(dice):
    """Returns TLPs with wrong byte enables, boundaries, lengths and addresses."""
    for _ in range(12):
        packet = plain(dice, dice.pick(["MRd", "MWr", "MRdLk", "DMWr"]))
        packet.be = {1: (1 + dice.below(15), dice.bits(4)), 2: (0, 0xF)}.get(packet.length, (0b0101, 0b1111))
        yield packet.malformed("ByteEnables")
    for _ in range(8):
        packet = plain(dice, dice.pick(["MRd", "MWr", "MRdLk"]))
        if packet.length > 1:
            packet.address = packet.address & ~0xFFF | 4096 - 4 * (1 + dice.below(packet.length - 1))
            packet.be = (0xF, 0xF)
            yield packet.malformed("Crosses4K")
    for _ in range(4):
        packet = plain(dice, "DMWr")
        packet.length, packet.be, packet.address = 33 + dice.below(9), (0xF, 0xF), packet.address & ~0xFFF
        packet.data = bytes(packet.length * 4)
        yield packet.malformed("DeferrableLength")
    for kind, lengths in ATOMIC_LENGTHS.items():
        for length in [n for n in (1, 2, 3, 4, 5, 8, 9) if n not in lengths]:
            packet = plain(dice, kind)
            packet.length, packet.data = length, bytes(length * 4)
            yield packet.malformed("AtomicLength")
    for _ in range(12):
        packet = plain(dice, dice.pick(list(ATOMIC_LENGTHS)))
        if packet.fields["operand"] > 4:
            packet.address ^= 4
            yield packet.malformed("AtomicAddress")


def broken_frames(dice):
    """Returns TLPs with a reserved format, too short, too long, or with wrong prefixes."""
    reserved = [0x1B, 0x0C, 0x2D, 0x0E, 0x03, 0x06, 0x07, 0x08, 0x09, 0x0F, 0x18, 0x1F, 0x22, 0x24, 0x2A, 0x10, 0x50, 0x41, 0x62]
    for first in reserved:
        yield bytes([first]).hex() + plain(dice, "MRd").bytes()[1:].hex() + " malformed=ReservedType"
    for first in (0xA0, 0xBF, 0xC4, 0xE0, 0xFF):
        yield bytes([first]).hex() + plain(dice, "MRd").bytes()[1:].hex() + " malformed=ReservedFmt"
    for kind in ("MRd", "MWr", "CplD", "CAS", "CfgWr0", "Vendor_Defined_Type_1", "IOWr", "PM_PME"):
        tlp = plain(dice, kind).bytes()
        yield f"{tlp[: 1 + dice.below(len(tlp) - 1)].hex()} malformed=Length"
        yield f"{(tlp + bytes(8 + dice.below(9))).hex()} malformed=Length"
        yield f"{(tlp + bytes(1 + dice.below(3))).hex()} malformed=Length"
        yield f"{(tlp + some_bytes(dice, 4)).hex()} malformed=Digest"
        packet = plain(dice, kind)
        packet.td = 1
        yield f"{packet.bytes()[:-1 - dice.below(4)].hex()} malformed=Digest"
        yield from broken_prefixes(dice, kind)


def broken_prefixes(dice, kind):
    """Returns prefixes in the wrong order, of the wrong type, too many, or without a header."""
    vendor = lambda: dice.pick(VENDOR_END_TO_END) << 24 | dice.bits(24)
    local = lambda: dice.pick(LOCAL) << 24 | dice.bits(24)
    packet = plain(dice, kind)
    for rule, list_ in [
        ("PrefixOrder", [vendor(), local()]),
        ("PrefixOrder", [local(), vendor(), vendor(), local(), vendor()]),
        ("LocalPrefix", [dice.pick([0x81, 0x85, 0x8D]) << 24 | dice.bits(24)]),
        ("PrefixCount", [local() for _ in range(9)]),
        ("EndToEndCount", [vendor() for _ in range(5)]),
        ("EndToEndCount", [local(), local()] + [vendor() for _ in range(8)]),
    ]:
        packet.prefixes = list_
        yield packet.malformed(rule)
    yield f"{pack((32, local())).hex()} malformed=PrefixedHeader"
    yield f"{(pack((32, local())) + pack((32, vendor()))[:3]).hex()} malformed=PrefixedHeader"


def tolerated(dice):
    """Returns TLPs that a sender must not send, but that a receiver accepts."""

    def one(kind, rule, **changes):
        packet = plain(dice, kind)
        for name, value in changes.items():
            setattr(packet, name, value)
        packet.tolerated.add(rule)
        return packet

    for _ in range(4):
        yield one(dice.pick(["MRd", "MWr", "Swap"]), "ReservedAt", at=3).line()
        yield one(dice.pick(["MWr", "DMWr", "CAS", "MRdLk"]), "TranslationRequest", at=1).line()
        yield one("MRdLk", "LockedTc", tc=1 + dice.below(7)).line()
        yield one(dice.pick(["MWr", "CplD", "CfgRd0", "LTR"]), "ReservedEndToEnd", prefixes=[0x92000000 | dice.bits(24)]).line()
        yield one(dice.pick(["MRd", "FetchAdd"]), "PasidOnce", prefixes=[0x91000000, 0x91000000 | dice.bits(20)]).line()
        yield one(dice.pick(["IORd", "CfgWr0", "CplD", "PM_PME"]), "Pasid", prefixes=[0x91000001 | dice.bits(20)]).line()
        yield one(dice.pick(["MWr", "Swap", "CplD", "OBFF"]), "ExtendedTph", prefixes=[0x90000000 | dice.bits(8) << 16]).line()
        packet = one("CplD", "CompletionData", status=dice.pick([1, 2, 4]))
        packet.fields["status"] = next(name for name, bits in STATUS.items() if bits == packet.status)
        yield packet.line()
        packet = one("CplD", "CompletionByteCount")
        if packet.length > 1:
            lead = packet.low % 4
            packet.count = packet.fields["byte_count"] = 1 + dice.below(4 - lead)
            packet.data = packet.data[: lead + packet.count].ljust(packet.length * 4, b"\0")
            yield packet.line()
        packet = one("Vendor_Defined_Type_0", "ReservedRouting", typ=0b10110 | dice.bits(1))
        packet.fields["routing"] = str(packet.typ & 7)
        yield packet.line()
        packet = one("CplLk", "LockedCompletion", status=0)
        packet.fields["status"] = "SC"
        yield packet.line()
        yield from odd_messages(dice)


def reserved_bits(dice):
    """Returns TLPs with bits that a receiver ignores. riser writes them again without these bits."""
    for _ in range(4):
        for rule, field, kinds in [
            ("ReservedTh", "th", ["IORd", "CfgWr1", "CplD", "PM_PME"]),
            ("ReservedLn", "ln", ["MRdLk", "IOWr", "CAS", "CplLk", "ERR_COR"]),
        ]:
            yield changed(plain(dice, dice.pick(kinds)), rule, field, 1, 0)
        packet = plain(dice, dice.pick(["MRd", "MWr", "FetchAdd"]))
        if packet.fmt & 1 == 0:
            packet.rest = long_rest(packet)
            yield changed(packet, "AddressFormat", "fmt", packet.fmt | 1, packet.fmt)
        packet = plain(dice, "Cpl")
        packet.fields["status"] = "UR"
        yield changed(packet, "ReservedStatus", "status", dice.pick([3, 5, 6, 7]), STATUS["UR"])


def reserved_attributes(dice):
    """Returns TLPs with attributes that a receiver ignores: IDO in I/O and configuration requests, RO and No Snoop in messages."""
    for _ in range(4):
        yield changed(plain(dice, dice.pick(["IORd", "IOWr", "CfgRd0", "CfgWr1"])), "ReservedIdo", "attr", 4, 0)
        packet = plain(dice, dice.pick(["LTR", "PM_PME", "ERR_FATAL", "Assert_INTA", "Unlock"]))
        packet.attr = 1 + dice.below(3)
        packet.tolerated.add("MessageAttr")
        yield packet.line()


def changed(packet, rule, field, odd, normal):
    """Returns the line of a packet with an unusual field, which riser writes again with its normal value."""
    setattr(packet, field, odd)
    packet.tolerated.add(rule)
    wire = packet.bytes().hex()
    setattr(packet, field, normal)
    normal_wire, fields = packet.line().split(" ", 1)
    return f"{wire} {fields} emits={normal_wire}"


def long_rest(packet):
    """Returns the rest of a header, with a zero high half before its address if Fmt requires it."""
    short = packet.rest
    return lambda: short()[:4] + (bytes(4) if packet.fmt & 1 else b"") + short()[4:]


def odd_messages(dice):
    """Returns messages with a wrong routing, wrong data, or an unknown code."""
    row = dice.pick([row for row in MESSAGES if row[4] == 0])
    for rule, changed in [
        ("MessageRouting", row[:3] + ([next(n for n in range(6) if n not in row[3])],) + row[4:]),
        ("MessageData", row[:4] + (5,) + row[5:]),
        ("MessageCode", ("-", dice.pick([0x03, 0x2F, 0x54, 0x7D, 0xFF]), None, [4], 0, False)),
    ]:
        packet = message(dice, changed)
        if changed[1] == 0x53:
            continue
        packet.tolerated.add(rule)
        yield packet.line()


def tlps():
    """Returns the lines of the TLP corpus."""
    dice = Dice(0x5EED_0F_C0DE)
    kinds = list(REQUESTS) + list(COMPLETIONS) + [row[0] for row in MESSAGES]
    often = ["MRd", "MWr", "CplD"] * 6 + ["FetchAdd", "Swap", "CAS", "DMWr", "MRdLk", "Cpl", "CplLk", "CplDLk"] * 2
    lines = [legal(dice, kind).line() for _ in range(8) for kind in kinds]
    lines += [legal(dice, kind).line() for _ in range(8) for kind in often]
    for make in (broken_fields, broken_messages, broken_requests, broken_frames, tolerated, reserved_bits, reserved_attributes):
        lines += make(dice)
    return lines


# ---- DLLPs (section 3.5) ----

POWER = {"PM_Enter_L1": 0x20, "PM_Enter_L23": 0x21, "PM_Active_State_Request_L1": 0x23, "PM_Request_Ack": 0x24}
FLOW_CONTROL = {"InitFC1": 0b01, "InitFC2": 0b11, "UpdateFC": 0b10}


def crc_16(four):
    """Returns the CRC of a DLLP (section 3.5.1), computed bit by bit: polynomial 100Bh, all ones at first, bit 0 of each byte first,
    complemented. The highest bit is sent first, so each of the two bytes is mirrored."""
    register = 0xFFFF
    for bit in (byte >> n & 1 for byte in four for n in range(8)):
        feedback = register >> 15 ^ bit
        register = register << 1 & 0xFFFF ^ (0x100B if feedback else 0)
    mirrored = int(f"{register ^ 0xFFFF:016b}"[::-1], 2)
    return mirrored.to_bytes(2, "little")


def dllp(four, fields, emits=None):
    """Returns the line of a DLLP with these four bytes."""
    whole = lambda bytes_: (bytes_ + crc_16(bytes_)).hex()
    return f"{whole(four)} {fields}" + (f" emits={whole(emits)}" if emits and emits != four else "")


def flow_control(dice):
    """Returns an InitFC1, InitFC2 or UpdateFC, scaled or not."""
    kind, credits = dice.pick(list(FLOW_CONTROL)), dice.below(3)
    vc, header, data = dice.bits(3), dice.bits(8), dice.bits(12)
    scales = (0, 0) if dice.chance(2) else (dice.bits(2), dice.bits(2))
    first = pack((2, FLOW_CONTROL[kind]), (2, credits), (1, 0), (3, vc))
    fields = f"type={kind} class={['P', 'NP', 'Cpl'][credits]} vc={vc} hdr_scale={scales[0]} hdr={header}"
    rest = pack((2, scales[0]), (8, header), (2, scales[1]), (12, data))
    return dllp(first + rest, f"{fields} data_scale={scales[1]} data={data}")


def acknowledge(dice):
    """Returns an Ack or Nak with random reserved bits, or with zeros."""
    kind, sequence, noise = dice.pick(["Ack", "Nak"]), dice.bits(12), dice.bits(12) * dice.bits(1)
    make = lambda reserved: pack((8, 0x00 if kind == "Ack" else 0x10), (12, reserved), (12, sequence))
    return dllp(make(noise), f"type={kind} sequence={sequence}", make(0))


def dllps():
    """Returns the lines of the DLLP corpus."""
    dice = Dice(0xD1_1B5)
    lines = [flow_control(dice) for _ in range(80)] + [acknowledge(dice) for _ in range(24)]
    for name, first in list(POWER.items()) + [("NOP", 0x31)]:
        for noise in (0, dice.bits(24)):
            lines.append(dllp(pack((8, first), (24, noise)), f"type={name}", pack((8, first), (24, 0))))
    for _ in range(6):
        ack, features, vendor = dice.bits(1), dice.bits(23), dice.bits(24)
        lines.append(dllp(pack((8, 0x02), (1, ack), (23, features)), f"type=Feature ack={ack} supported={features:x}"))
        lines.append(dllp(pack((8, 0x30), (24, vendor)), f"type=Vendor bits={vendor:x}"))
    # Reserved types, and those of multi-root I/O virtualization.
    for first in (0x01, 0x03, 0x0F, 0x11, 0x22, 0x25, 0x32, 0x3F, 0x48, 0x70, 0x73, 0x88, 0xB0, 0xB7, 0xCF, 0xF0, 0xFF):
        lines.append(dllp(pack((8, first), (24, dice.bits(24))), "error=type"))
    for _ in range(6):
        whole = bytes.fromhex(flow_control(dice).split()[0])
        bit = dice.below(48)
        lines.append(f"{(int.from_bytes(whole, 'big') ^ 1 << bit).to_bytes(6, 'big').hex()} error=crc")
        lines.append(f"{(whole + b'x')[: dice.pick([1, 4, 5, 7])].hex()} error=length")
    return lines


# ---- frames (section 3.6.2.1) ----


def lcrc(covered):
    """Returns the LCRC of a sequence number and a TLP, computed bit by bit as `crc_16`: polynomial 04C11DB7h."""
    register = 0xFFFF_FFFF
    for bit in (byte >> n & 1 for byte in covered for n in range(8)):
        feedback = register >> 31 ^ bit
        register = register << 1 & 0xFFFF_FFFF ^ (0x04C1_1DB7 if feedback else 0)
    mirrored = int(f"{register ^ 0xFFFF_FFFF:032b}"[::-1], 2)
    return mirrored.to_bytes(4, "little")


def tlp_frame(sequence, tlp):
    """Returns a TLP with its sequence number and LCRC."""
    covered = pack((4, 0), (12, sequence)) + tlp
    return covered + lcrc(covered)


def frames():
    """Returns the lines of the corpus of frames."""
    dice = Dice(0xF4A_3E5)
    kinds = list(REQUESTS) + list(COMPLETIONS) + [row[0] for row in MESSAGES]
    made = [legal(dice, kind).line() for _ in range(2) for kind in kinds]
    # A wrong ECRC may be any; riser writes one that it chooses.
    tlps_ = [bytes.fromhex(line.split()[0]) for line in made if "emits=" not in line and "ecrc=wrong" not in line]
    lines = []
    for n, tlp in enumerate(tlps_):
        sequence = [0, 1, 2047, 2048, 4095][n] if n < 5 else dice.bits(12)
        lines.append(f"{tlp_frame(sequence, tlp).hex()} kind=TLP sequence={sequence} tlp={tlp.hex()}")
    for tlp in tlps_[:12]:
        whole = tlp_frame(dice.bits(12), tlp)
        number, bits = int.from_bytes(whole, "big"), 8 * len(whole)
        # The first four bits are reserved.
        flipped = number ^ 1 << dice.below(bits - 4)
        lines.append(f"{flipped.to_bytes(len(whole), 'big').hex()} kind=TLP error=lcrc")
        reserved = number ^ dice.pick(range(1, 16)) << bits - 4
        lines.append(f"{reserved.to_bytes(len(whole), 'big').hex()} kind=TLP error=reserved")
        lines.append(f"{(whole[:-4] + bytes(byte ^ 0xFF for byte in whole[-4:])).hex()} kind=TLP error=lcrc")
        lines.append(f"{whole[: dice.pick([1, 5, 9, 17, len(whole) - 1])].hex()} kind=TLP error=length")
    for line in dllps():
        error = next((word for word in line.split() if word.startswith("error=")), "")
        if "emits=" not in line:
            lines.append(f"{line.split()[0]} kind=DLLP {error}".strip())
    return lines


def main():
    """Writes one of the files to standard output."""
    makers = {"tlps": tlps, "dllps": dllps, "frames": frames}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        sys.exit(f"usage: make_corpus.py {'|'.join(makers)}")
    print(f"# Written by tools/corpus/make_corpus.py {sys.argv[1]}, which describes the fields. Do not edit.")
    print("\n".join(makers[sys.argv[1]]()))


if __name__ == "__main__":
    main()

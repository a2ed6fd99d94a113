#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks traces against the rules of the PCI Express Base Specification 5.0, independently of `riser trace --check`.

Written from the text of the specification (sections 2.2 to 2.4, and 2.8). It shares no code with riser, and does not read
riser's output. Only the names of rules are riser's (docs/reference/rules.md).

    python3 tools/oracle/make_traces.py tlps 100 | python3 tools/oracle/check_trace.py

The input holds traces with an empty line after each. A line is a TLP: link, direction and bytes in hexadecimal, such as
`0 up 000000010100040f00002000`. `# rcb=128` sets a setting of the trace: `rcb`, `mps`, `mrrs` in bytes, or `tags`. A trace
has no times. The output has a line for each trace: `NUMBER:RULE` for each violation, NUMBER from 1 on.
"""

import sys
import zlib

# Fmt and Type: name, and the properties that rules use (Table 2-3).
MEMORY, IO, CONFIG, ATOMIC, MESSAGE, COMPLETION = "memory", "io", "config", "atomic", "message", "completion"
FORMATS = {
    (0b000, 0b00000): ("MRd", MEMORY), (0b001, 0b00000): ("MRd", MEMORY),
    (0b000, 0b00001): ("MRdLk", MEMORY), (0b001, 0b00001): ("MRdLk", MEMORY),
    (0b010, 0b00000): ("MWr", MEMORY), (0b011, 0b00000): ("MWr", MEMORY),
    (0b010, 0b11011): ("DMWr", MEMORY), (0b011, 0b11011): ("DMWr", MEMORY),
    (0b000, 0b00010): ("IORd", IO), (0b010, 0b00010): ("IOWr", IO),
    (0b000, 0b00100): ("CfgRd0", CONFIG), (0b010, 0b00100): ("CfgWr0", CONFIG),
    (0b000, 0b00101): ("CfgRd1", CONFIG), (0b010, 0b00101): ("CfgWr1", CONFIG),
    (0b010, 0b01100): ("FetchAdd", ATOMIC), (0b011, 0b01100): ("FetchAdd", ATOMIC),
    (0b010, 0b01101): ("Swap", ATOMIC), (0b011, 0b01101): ("Swap", ATOMIC),
    (0b010, 0b01110): ("CAS", ATOMIC), (0b011, 0b01110): ("CAS", ATOMIC),
    (0b000, 0b01010): ("Cpl", COMPLETION), (0b010, 0b01010): ("CplD", COMPLETION),
    (0b000, 0b01011): ("CplLk", COMPLETION), (0b010, 0b01011): ("CplDLk", COMPLETION),
}
for _routing in range(8):
    FORMATS[(0b001, 0b10000 | _routing)] = ("Msg", MESSAGE)
    FORMATS[(0b011, 0b10000 | _routing)] = ("MsgD", MESSAGE)

TO_ROOT, BY_ADDRESS, BY_ID, BROADCAST, LOCAL, GATHERED = range(6)
ANY = None
# Message Code: routings, lengths of data in DW, and the rule that requires TC 0 (section 2.2.8, Appendix F).
MESSAGES = {
    0x00: ({BROADCAST}, {0}, "unlock-tc"),
    0x01: ({BY_ID}, {2}, None),
    0x02: ({BY_ID}, {0}, None),
    0x04: ({TO_ROOT}, {0}, None),
    0x05: ({BY_ID}, {0}, None),
    0x10: ({LOCAL}, {0}, "ltr-tc"),
    0x12: ({LOCAL}, {0}, "obff-tc"),
    0x14: ({LOCAL}, {0}, "power-tc"),
    0x18: ({TO_ROOT}, {0}, "power-tc"),
    0x19: ({BROADCAST}, {0}, "power-tc"),
    0x1B: ({GATHERED}, {0}, "power-tc"),
    0x30: ({TO_ROOT}, {0}, "error-tc"),
    0x31: ({TO_ROOT}, {0}, "error-tc"),
    0x33: ({TO_ROOT}, {0}, "error-tc"),
    0x50: ({LOCAL}, {1}, "slot-power-tc"),
    0x52: ({LOCAL}, {0}, "ptm-tc"),
    0x53: ({LOCAL}, {0, 1}, "ptm-tc"),
    0x7E: ({TO_ROOT, BY_ID, BROADCAST, LOCAL}, ANY, None),
    0x7F: ({TO_ROOT, BY_ID, BROADCAST, LOCAL}, ANY, None),
}
for _code in range(0x20, 0x28):
    MESSAGES[_code] = ({LOCAL}, {0}, "interrupt-tc")
for _code in (0x40, 0x41, 0x43, 0x44, 0x45, 0x47, 0x48):
    MESSAGES[_code] = ({LOCAL}, {0}, None)
# Vendor-defined messages of the PCI-SIG, by subtype (section 2.2.8.6).
SIG_MESSAGES = {
    0x00: ({BY_ID, BROADCAST}, {2}, "pci-sig-tc"),
    0x01: ({BROADCAST}, {4}, "pci-sig-tc"),
    0x08: ({LOCAL}, {0}, "pci-sig-tc"),
    0x09: ({TO_ROOT}, {0}, "pci-sig-tc"),
}

# A receiver drops a TLP that breaks one of these rules. Such a request has no completion.
MALFORMED = {
    "reserved-fmt", "reserved-type", "prefixed-header", "length", "digest", "prefix-order", "local-prefix", "end-to-end-count",
    "byte-enables", "crosses-4k", "deferrable-length", "io-tc", "io-attr", "io-at", "io-length", "io-last-be", "config-tc",
    "config-attr", "config-at", "config-length", "config-last-be", "atomic-length", "atomic-address", "slot-power-length",
}  # fmt: skip

SUCCESS, UR, CRS, CA = 0b000, 0b001, 0b010, 0b100


class Tlp:
    """The fields of a TLP, taken from its bytes."""

    def __init__(self, data):
        self.data = data
        self.prefixes = []
        at = 0
        while len(data) >= at + 4 and data[at] >> 5 == 0b100:
            self.prefixes.append(int.from_bytes(data[at : at + 4], "big"))
            at += 4
        self.start = at
        rest = data[at:]
        self.fmt, self.type = (rest[0] >> 5, rest[0] & 31) if rest else (None, None)
        self.name, self.family = FORMATS.get((self.fmt, self.type), (None, None))
        self.header_len = 16 if self.fmt is not None and self.fmt & 1 else 12
        if self.name and len(rest) >= self.header_len:
            self.read(rest)
            self.is_complete = True
        else:
            self.is_complete = False

    def read(self, h):
        self.tc = h[1] >> 4 & 7
        self.ln, self.th = h[1] >> 1 & 1, h[1] & 1
        self.td, self.ep = h[2] >> 7, h[2] >> 6 & 1
        self.attr, self.ido, self.at = h[2] >> 4 & 3, h[1] >> 2 & 1, h[2] >> 2 & 3
        self.length = (h[2] & 3) << 8 | h[3] or 1024
        self.has_data = bool(self.fmt & 0b010)
        high_tag = (h[1] >> 7 & 1) << 9 | (h[1] >> 3 & 1) << 8
        word = lambda at: h[at] << 8 | h[at + 1]
        if self.family == COMPLETION:
            self.completer, self.requester, self.tag = word(4), word(8), high_tag | h[10]
            self.status, self.bcm = h[6] >> 5, h[6] >> 4 & 1
            self.byte_count = word(6) & 0xFFF or 4096
            self.lower_address = h[11] & 0x7F
            return
        self.requester, self.tag = word(4), high_tag | h[6]
        self.first_be, self.last_be = h[7] & 15, h[7] >> 4
        self.code = h[7]
        self.address = int.from_bytes(h[8 : self.header_len], "big") & ~3
        if self.family == MESSAGE:
            self.routing, self.vendor, self.subtype = self.type & 7, word(10), h[12]

    def is_read(self):
        return self.name in ("MRd", "MRdLk")

    def is_posted(self):
        return self.name == "MWr" or self.family == MESSAGE

    def enables(self):
        """Returns First and Last DW BE. A read with TH has a steering tag instead, and reads all bytes (section 2.2.7.1)."""
        if self.th and self.name in ("MRd", "MRdLk", "DMWr"):
            return 15, 15 if self.length > 1 else 0
        return self.first_be, self.last_be


def judge_prefixes(t, broken):
    local = [p for p in t.prefixes if not p >> 28 & 1]
    end_to_end = [p for p in t.prefixes if p >> 28 & 1]
    if local and t.prefixes[: len(local)] != local:
        broken.append("prefix-order")
    if any(p >> 24 & 15 not in (0, 14, 15) for p in local):
        broken.append("local-prefix")
    if len(end_to_end) > 4:
        broken.append("end-to-end-count")
    kinds = [p >> 24 & 15 for p in end_to_end]
    addressed = t.family in (MEMORY, ATOMIC)
    if 0 in kinds and not (addressed and t.th):
        broken.append("extended-tph")
    if 1 in kinds and not (addressed or t.family == MESSAGE and t.code in (0x01, 0x04, 0x05)):
        broken.append("pasid")
    if kinds.count(1) > 1:
        broken.append("pasid-once")
    if any(kind not in (0, 1, 14, 15) for kind in kinds):
        broken.append("reserved-end-to-end")


def judge_common(t, broken):
    addressed = t.family in (MEMORY, ATOMIC)
    if addressed and t.header_len == 16 and t.address < 1 << 32:
        broken.append("address-format")
    if addressed and t.at == 3:
        broken.append("reserved-at")
    if addressed and t.at == 1 and t.name != "MRd":
        broken.append("translation-request")
    if t.th and not addressed:
        broken.append("reserved-th")
    if t.ido and t.family in (IO, CONFIG):
        broken.append("reserved-ido")
    if t.ln and t.name not in ("MRd", "MWr", "Cpl", "CplD"):
        broken.append("reserved-ln")


def judge_memory(t, broken):
    first, last = t.enables()
    up_to_top, from_bottom = (8, 12, 14, 15), (1, 3, 7, 15)
    if t.length == 1:
        legal = last == 0
    elif t.length == 2 and t.address % 8 == 0:
        legal = first != 0 and last != 0
    else:
        legal = first in up_to_top and last in from_bottom
    if not legal:
        broken.append("byte-enables")
    if t.address // 4096 != (t.address + 4 * t.length - 1) // 4096:
        broken.append("crosses-4k")
    if t.name == "DMWr" and t.length > 32:
        broken.append("deferrable-length")
    if t.name == "MRdLk" and t.tc:
        broken.append("locked-tc")


def judge_fixed(t, broken):
    """Checks the restrictions of I/O and configuration requests (section 2.2.7)."""
    for name, is_wrong in [
        ("tc", t.tc), ("attr", t.attr), ("at", t.at), ("length", t.length != 1), ("last-be", t.last_be),
    ]:  # fmt: skip
        if is_wrong:
            broken.append(f"{t.family}-{name}")


def operand(t):
    """Returns the size of an operand in bytes; None for an illegal Length."""
    sizes = {"CAS": {2: 4, 4: 8, 8: 16}}.get(t.name, {1: 4, 2: 8})
    return sizes.get(t.length)


def judge_atomic(t, broken):
    if operand(t) is None:
        broken.append("atomic-length")
    elif t.address % operand(t):
        broken.append("atomic-address")


def judge_message(t, broken):
    row = MESSAGES.get(t.code)
    if t.code == 0x7F and t.vendor == 1:
        row = SIG_MESSAGES.get(t.subtype, row)
    data = t.length if t.has_data else 0
    if t.code == 0x50 and data != 1:
        broken.append("slot-power-length")
    if t.routing > GATHERED:
        broken.append("reserved-routing")
    if row is None:
        broken.append("message-code")
        return
    routings, lengths, tc_rule = row
    if t.code == 0x53:
        lengths = {1} if t.has_data else {0}
    if t.routing <= GATHERED and t.routing not in routings:
        broken.append("message-routing")
    if lengths is not ANY and data not in lengths:
        broken.append("message-data")
    # Attributes of Ignored Messages are not defined; those of ATS and of vendors are not reserved.
    if t.attr and t.code not in (0x01, 0x02, 0x04, 0x05, 0x7E, 0x7F) and not 0x40 <= t.code <= 0x48:
        broken.append("message-attr")
    if tc_rule and t.tc:
        broken.append(tc_rule)


def judge_completion(t, broken):
    if t.status not in (SUCCESS, UR, CRS, CA):
        broken.append("reserved-status")
    if t.has_data and t.status != SUCCESS:
        broken.append("completion-data")
    lanes = t.lower_address % 4 + t.byte_count
    if t.has_data and not t.bcm and t.length > (lanes + 3) // 4:
        broken.append("completion-byte-count")
    if t.name == "CplLk" and t.status == SUCCESS:
        broken.append("locked-completion")


OF_FAMILY = {
    MEMORY: judge_memory, IO: judge_fixed, CONFIG: judge_fixed, ATOMIC: judge_atomic, MESSAGE: judge_message,
    COMPLETION: judge_completion,
}  # fmt: skip


def judge_size(t, broken):
    due = t.start + t.header_len + (4 * t.length if t.has_data else 0) + 4 * t.td
    if len(t.data) == due + 4 and not t.td:
        broken.append("digest")
    elif len(t.data) != due:
        broken.append("length")


def judge_alone(t):
    """Returns the rules that one TLP breaks."""
    if t.fmt is None or t.fmt == 0b100:
        return ["prefixed-header" if t.prefixes else "length"]
    if t.fmt > 0b100:
        return ["reserved-fmt"]
    if t.name is None:
        return ["reserved-type"]
    if not t.is_complete:
        return ["length"]
    broken = []
    judge_prefixes(t, broken)
    judge_common(t, broken)
    OF_FAMILY[t.family](t, broken)
    judge_size(t, broken)
    return broken


def requested(t):
    """Returns address and number of the bytes that a memory read requests (sections 2.2.5, 2.3.1.1 and Table 2-40)."""
    first, last = t.enables()
    if t.length == 1 and first == 0:
        return t.address, 1
    lowest = [n for n in range(4) if first >> n & 1][0]
    highest = [n for n in range(4) if (last if t.length > 1 else first) >> n & 1][-1]
    start, end = t.address + lowest, t.address + 4 * (t.length - 1) + highest + 1
    return start, end - start


def ecrc(t):
    """Returns the digest of a TLP (section 2.7.1). Bit 0 of Type and EP count as ones. Local prefixes are not covered."""
    header = bytearray(t.data[t.start : -4])
    header[0] |= 1
    header[2] |= 0x40
    prefixes = b"".join(prefix.to_bytes(4, "big") for prefix in t.prefixes if prefix >> 28 & 1)
    return zlib.crc32(prefixes + header).to_bytes(4, "little")


class Request:
    """A request that waits for completions."""

    def __init__(self, number, t):
        self.number, self.tlp, self.answered = number, t, False
        self.is_memory_read = t.is_read()
        if self.is_memory_read:
            self.next, self.remaining = requested(t)
        else:
            self.next, self.remaining = 0, operand(t) if t.family == ATOMIC else 4

    def data_dw(self):
        """Returns the DWs of data in a successful completion of a request other than a memory read."""
        t = self.tlp
        if t.family == ATOMIC:
            return operand(t) // 4
        return 1 if t.name in ("IORd", "CfgRd0", "CfgRd1") else 0

    def answer(self, c, rcb, broken):
        """Checks a completion. Returns True if it is the last completion of the request."""
        t, self.answered = self.tlp, True
        if c.tc != t.tc:
            broken.append("completion-tc")
        if c.attr != t.attr:
            broken.append("completion-attr")
        if (c.name in ("CplLk", "CplDLk")) != (t.name == "MRdLk"):
            broken.append("completion-locked")
        if c.status == CRS and t.family != CONFIG and t.name != "DMWr":
            broken.append("completion-retry")
        if c.status != SUCCESS:
            if not (self.is_memory_read and c.bcm):
                self.fixed_fields(c, broken)
            return True
        if c.has_data != (self.is_memory_read or self.data_dw() > 0):
            broken.append("completion-type")
            return True
        if self.is_memory_read:
            return self.answer_read(c, rcb, broken)
        self.fixed_fields(c, broken)
        if c.has_data and c.length != self.data_dw():
            broken.append("completion-length")
        return True

    def fixed_fields(self, c, broken):
        if c.byte_count != self.remaining:
            broken.append("byte-count")
        if c.lower_address and not self.is_memory_read and self.tlp.family != ATOMIC:
            broken.append("lower-address")

    def answer_read(self, c, rcb, broken):
        if not c.bcm and c.byte_count != self.remaining:
            broken.append("byte-count")
            # A completion is missing if Lower Address agrees with Byte Count, but not with the address of the next
            # byte.
            then = self.next + self.remaining - c.byte_count
            if c.byte_count < self.remaining and c.lower_address == then % 128 != self.next % 128:
                self.next, self.remaining = then, c.byte_count
        if c.lower_address != self.next % 128:
            broken.append("lower-address")
        if c.length > (self.next % 4 + self.remaining + 3) // 4:
            broken.append("completion-length")
        brought = min(c.length * 4 - self.next % 4, self.remaining)
        self.next, self.remaining = self.next + brought, self.remaining - brought
        if self.remaining and self.next % rcb:
            broken.append("completion-boundary")
        return not self.remaining


class Order:
    """Checks that switches keep the order of writes across several links (section 2.4.1)."""

    def __init__(self):
        self.seen = {}  # Bytes of a write: link, direction and place where it was seen last.
        self.counts, self.left = {}, {}

    def see(self, way, t):
        place = self.counts[way] = self.counts.get(way, 0) + 1
        before = self.seen.get(t.data)
        self.seen[t.data] = way, place
        if before is None or before[0] == way:
            return False
        path = before[0], way, t.tc
        bound = [requester for at, requester in self.left.setdefault(path, []) if at > before[1]]
        if any(requester in (None, t.requester) for requester in bound):
            return True
        relaxed = t.attr & 2
        if not relaxed:
            self.left[path].append((before[1], t.requester if t.ido else None))
        return False


class Judge:
    """Checks one trace, TLP by TLP."""

    def __init__(self, settings):
        self.settings = settings
        self.verdicts = []
        self.waiting = {}  # Link, direction, requester, tag: requests, the oldest first.
        self.shown, self.unjudged = set(), set()
        self.began_before, self.has_requests = set(), set()
        self.doubtful = []  # Completions that precede all requests of their requester.
        self.order = Order()

    def see(self, number, link, way, t, links):
        broken = judge_alone(t)
        malformed = MALFORMED.intersection(broken) or any(name.endswith("-tc") and name != "locked-tc" for name in broken)
        if t.is_complete and not malformed:
            if t.td and t.data[-4:] != ecrc(t):
                broken.append("ecrc")
            self.sizes(t, broken)
            if t.family == COMPLETION:
                self.completion(number, link, way, t, broken)
            elif not t.is_posted():
                self.request(number, link, way, t, broken)
            elif t.name == "MWr" and links > 1 and self.order.see((link, way), t):
                broken.append("posted-order")
        elif t.is_complete and t.family != COMPLETION and not t.is_posted():
            self.unjudged.add((link, way, t.requester, t.tag))
        self.verdicts += [(number, rule) for rule in broken]

    def sizes(self, t, broken):
        of = self.settings.get
        if t.has_data and 4 * t.length > of("mps", 4096):
            broken.append("max-payload-size")
        if t.is_read() and 4 * t.length > of("mrrs", 4096):
            broken.append("max-read-request-size")
        if not t.is_posted() and t.family != COMPLETION and t.tag >= of("tags", 1024):
            broken.append("tag-range")

    def request(self, number, link, way, t, broken):
        key = (link, way, t.requester, t.tag)
        self.shown.add(key)
        self.unjudged.discard(key)
        self.has_requests.add(key[:3])
        waiting = self.waiting.setdefault(key, [])
        if waiting:
            broken.append("tag-in-use")
        waiting.append(Request(number, t))

    def completion(self, number, link, way, c, broken):
        key = (link, "up" if way == "down" else "down", c.requester, c.tag)
        if key[:3] not in self.has_requests:
            self.began_before.add(key[:3])
        waiting = self.waiting.get(key)
        if not waiting:
            is_seen = key in self.shown or key[:3] in self.has_requests and key[:3] not in self.began_before
            if is_seen and key not in self.unjudged:
                broken.append("unexpected-completion")
            else:
                self.doubtful.append((number, key))
            return
        fits = [r for r in waiting if c.status != SUCCESS or c.byte_count == r.remaining]
        request = (fits or waiting)[0]
        rcb = self.settings.get("rcb", 64) if way == "down" else 128
        # The request determines the correct amount of data.
        broken[:] = [rule for rule in broken if rule != "completion-byte-count"]
        if request.answer(c, rcb, broken):
            waiting.remove(request)

    def finish(self):
        """A trace without times does not show that a request has timed out.

        A completion has the wrong Requester ID if its requester has sent nothing, and another one waits for its tag.
        """
        for number, key in self.doubtful:
            waiting = [r for k, rs in self.waiting.items() if k[:2] == key[:2] and k[3] == key[3] for r in rs]
            asked = any(r.number < number and not r.answered for r in waiting)
            if key[:3] not in self.has_requests and asked:
                self.verdicts.append((number, "unexpected-completion"))
        return sorted(self.verdicts)


def judge(lines):
    settings = {}
    tlps = []
    for line in lines:
        if line.startswith("# "):
            name, value = line[2:].split("=")
            settings[name] = int(value)
        else:
            link, way, data = line.split()
            tlps.append((link, way, Tlp(bytes.fromhex(data))))
    judge_of_trace = Judge(settings)
    links = len({link for link, _, _ in tlps})
    for number, (link, way, tlp) in enumerate(tlps, 1):
        judge_of_trace.see(number, link, way, tlp, links)
    return judge_of_trace.finish()


def main():
    lines = []
    for line in [*sys.stdin, "\n"]:
        if line.strip():
            lines.append(line.strip())
        elif lines:
            print(" ".join(f"{number}:{rule}" for number, rule in judge(lines)))
            lines = []


if __name__ == "__main__":
    main()

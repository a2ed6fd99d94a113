#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes random traces with seeded faults, as `check_trace.py` reads them. Shares no code with riser.

    python3 tools/oracle/make_traces.py tlps COUNT [SEED]           traces of one TLP, most of them with a fault in a field
    python3 tools/oracle/make_traces.py transactions COUNT [SEED]   traces of requests and completions, most with one fault
"""

import random
import sys

DEVICE, HOST, OTHER = 0x0100, 0x0000, 0x0200
CODES = [
    0x00, 0x01, 0x02, 0x04, 0x05, 0x10, 0x12, 0x14, 0x18, 0x19, 0x1B, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x30, 0x31,
    0x33, 0x40, 0x41, 0x43, 0x44, 0x45, 0x47, 0x48, 0x50, 0x52, 0x53, 0x7E, 0x7F,
]  # fmt: skip
# Type of each kind of TLP, without the lowest bit of Fmt, and whether it has data.
TYPES = {
    "MRd": (0b00000, 0), "MRdLk": (0b00001, 0), "MWr": (0b00000, 1), "DMWr": (0b11011, 1), "IORd": (0b00010, 0),
    "IOWr": (0b00010, 1), "CfgRd0": (0b00100, 0), "CfgWr0": (0b00100, 1), "CfgRd1": (0b00101, 0), "CfgWr1": (0b00101, 1),
    "FetchAdd": (0b01100, 1), "Swap": (0b01101, 1), "CAS": (0b01110, 1), "Cpl": (0b01010, 0), "CplD": (0b01010, 1),
    "CplLk": (0b01011, 0), "CplDLk": (0b01011, 1),
}  # fmt: skip
ADDRESSED = ("MRd", "MRdLk", "MWr", "DMWr", "FetchAdd", "Swap", "CAS")
READS = ("MRd", "MRdLk", "IORd", "CfgRd0", "CfgRd1")


class Fields(dict):
    """The fields of a TLP by name. Missing fields are zero."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__

    def __missing__(self, name):
        return 0

    def with_(self, **changes):
        return Fields({**self, **changes})

    def bytes(self):
        kind, fields = self.kind, self
        if kind == "Msg":
            fmt, ty = 0b011 if self.data else 0b001, 0b10000 | self.routing
        else:
            ty, has_data = TYPES[kind]
            fmt = has_data << 1 | (1 if self.long else 0)
        if self.raw_type:
            fmt, ty = self.raw_type >> 5, self.raw_type & 31
        length = self.length & 0x3FF
        head = [
            fmt << 5 | ty,
            (self.tag >> 9 & 1) << 7 | self.tc << 4 | (self.tag >> 8 & 1) << 3 | self.ido << 2 | self.ln << 1 | self.th,
            self.td << 7 | self.ep << 6 | self.attr << 4 | self.at << 2 | length >> 8,
            length & 0xFF,
        ]
        if kind.startswith("Cpl"):
            count = self.byte_count & 0xFFF
            head += [self.completer >> 8, self.completer & 255, self.status << 5 | self.bcm << 4 | count >> 8, count & 255]
            head += [self.requester >> 8, self.requester & 255, self.tag & 255, self.lower_address]
        else:
            enables = self.code if kind == "Msg" else self.last << 4 | self.first
            head += [self.requester >> 8, self.requester & 255, self.tag & 255, enables]
            if kind == "Msg":
                head += list(self.rest)
            elif fmt & 1:
                head += list(self.address.to_bytes(8, "big"))
            else:
                head += list((self.address & 0xFFFFFFFC).to_bytes(4, "big"))
        data = b"\0" * (4 * (self.length or 1024)) if fmt & 2 else b""
        if self.content:
            data = self.content.to_bytes(4, "big") + data[4:]
        digest = b"\0\0\0\0" if self.td else b""
        prefixes = b"".join(prefix.to_bytes(4, "big") for prefix in self.prefixes or [])
        whole = prefixes + bytes(head) + data + digest
        if self.only_prefixes:
            return prefixes
        if self.cut:
            whole = whole[: max(len(whole) - self.cut, 4)]
        return whole + b"\0" * self.more


def read(dice, kind="MRd", most=1024):
    """Returns a legal memory read or write of contiguous bytes."""
    is_long = dice.random() < 0.4
    size = dice.choice([1, 2, 3, 4, 7, 64, 100, 128, 200, 256, 512, 1000, 2048, 4096, dice.randint(1, 4096)])
    size = min(size, 4 * most - 3)
    at = dice.randrange(0, 4096 - size + 1)
    start = (dice.randrange(1, 1 << 20) << 32 if is_long else 0) | dice.randrange(1, 1 << 19) << 12 | at
    end = start + size
    length = (end + 3) // 4 - start // 4
    first, last = 15 << start % 4 & 15, 15 >> -end % 4
    if length == 1:
        first, last = first & last, 0
    return Fields(
        kind=kind, long=is_long, length=length, requester=DEVICE, tag=dice.randrange(256), first=first, last=last,
        address=start & ~3,
    )  # fmt: skip


def memory(dice, kind):
    t = read(dice, kind, 32 if kind == "DMWr" else 1024)
    choice = dice.random()
    if choice < 0.15:
        t = t.with_(length=1, first=dice.randrange(16), last=0)
    elif choice < 0.25:
        t = t.with_(length=2, first=dice.randrange(1, 16), last=dice.randrange(1, 16), address=t.address & ~7)
    return t.with_(attr=dice.randrange(4), tc=0 if kind == "MRdLk" else dice.randrange(8))


def register(dice, kind):
    if kind.startswith("IO"):
        return Fields(kind=kind, length=1, requester=HOST, tag=dice.randrange(32), first=dice.randrange(16), address=0xCFC0)
    address = DEVICE << 16 | dice.randrange(1024) << 2
    return Fields(kind=kind, length=1, requester=HOST, tag=dice.randrange(32), first=dice.randrange(16), address=address)


def atomic(dice, kind):
    size = dice.choice([4, 8, 16] if kind == "CAS" else [4, 8])
    is_long = dice.random() < 0.4
    address = (dice.randrange(1, 1 << 20) << 32 if is_long else 0) | dice.randrange(1, 1 << 20) * size
    length = size // 4 * (2 if kind == "CAS" else 1)
    return Fields(kind=kind, long=is_long, length=length, requester=DEVICE, tag=dice.randrange(256), address=address)


def message(dice):
    rows = {
        0x00: (3, 0), 0x01: (2, 2), 0x02: (2, 0), 0x04: (0, 0), 0x05: (2, 0), 0x18: (0, 0), 0x19: (3, 0), 0x1B: (5, 0),
        0x30: (0, 0), 0x31: (0, 0), 0x33: (0, 0), 0x50: (4, 1),
    }  # fmt: skip
    code = dice.choice(CODES)
    routing, length = rows.get(code, (4, 0))
    rest = bytes(8)
    if code in (0x7E, 0x7F):
        routing, length = dice.choice([0, 2, 3, 4]), dice.choice([0, 1, 4])
        rest = bytes([0, 0, 0x12, 0x34]) + bytes(4)
        subtype = dice.choice([None, 0, 1, 8, 9, 5]) if code == 0x7F else None
        if subtype is not None:
            routing, length = {0: (2, 2), 1: (3, 4), 8: (4, 0), 9: (0, 0)}.get(subtype, (routing, length))
            rest = bytes([0, 0, 0, 1, subtype, 0, 0, 0])
    elif code == 0x53 and dice.random() < 0.5:
        length = 1
    return Fields(kind="Msg", routing=routing, code=code, data=length > 0, length=length, requester=DEVICE, rest=rest)


def lone_completion(dice):
    kind = dice.choice(["Cpl", "CplD", "CplD", "CplLk", "CplDLk"])
    has_data = TYPES[kind][1]
    lower = dice.randrange(128)
    length = dice.randint(1, 64) if has_data else 0
    count = min(4096, 4 * length - lower % 4 + dice.choice([0, 0, 64])) if has_data else dice.randint(1, 4096)
    status = 0 if has_data else dice.choice([1, 2, 4] if kind == "CplLk" else [0, 1, 2, 4])
    return Fields(
        kind=kind, requester=DEVICE, completer=HOST, tag=dice.randrange(256), byte_count=count, lower_address=lower,
        length=length, status=status,
    )  # fmt: skip


def random_tlp(dice):
    kind = dice.choice([*ADDRESSED, "IORd", "IOWr", "CfgRd0", "CfgWr0", "CfgRd1", "CfgWr1", "Msg", "Msg", "Msg", "Msg", "Cpl", "Cpl"])
    if kind in ("MRd", "MRdLk", "MWr", "DMWr"):
        return memory(dice, kind)
    if kind in ("FetchAdd", "Swap", "CAS"):
        return atomic(dice, kind)
    if kind == "Msg":
        return message(dice)
    return lone_completion(dice) if kind == "Cpl" else register(dice, kind)


def prefixes(dice, t):
    """Returns prefixes, most of which are legal."""
    pool = [0x80 << 24, 0x8E000001, 0x8F000002, 0x90120000, 0x91012345, 0x91000001, 0x9E000000, 0x9F000003, 0x92000000, 0x81000000]
    chosen = [dice.choice(pool) for _ in range(dice.choice([1, 1, 1, 2, 2, 3, 5, 6]))]
    if dice.random() < 0.7:
        chosen.sort(key=lambda prefix: prefix >> 28)
    return t.with_(prefixes=chosen[:8])


def with_fault(dice, t):
    """Changes one field, to a value that may be legal."""
    of_all = [
        lambda: t.with_(tc=dice.randrange(8)), lambda: t.with_(attr=dice.randrange(4)), lambda: t.with_(at=dice.randrange(4)),
        lambda: t.with_(ido=1), lambda: t.with_(th=1), lambda: t.with_(ln=1), lambda: t.with_(length=dice.randrange(1024)),
        lambda: t.with_(first=dice.randrange(16)), lambda: t.with_(last=dice.randrange(16)), lambda: prefixes(dice, t),
        lambda: t.with_(raw_type=dice.randrange(256)), lambda: t.with_(more=dice.choice([4, 4, 8, 12])),
        lambda: t.with_(cut=dice.choice([4, 8, 12, 5])), lambda: t.with_(td=1),
        lambda: prefixes(dice, t).with_(th=1), lambda: prefixes(dice, t).with_(only_prefixes=1),
    ]  # fmt: skip
    of_kind = []
    if t.kind in ADDRESSED:
        of_kind = [lambda: t.with_(length=dice.randint(33, 40))] if t.kind == "DMWr" else []
        of_kind += [
            lambda: t.with_(long=1, address=t.address & 0xFFFFFFFF), lambda: t.with_(address=t.address ^ dice.choice([4, 8])),
            lambda: t.with_(address=t.address & ~0xFFF | dice.randrange(1024) << 2), lambda: t.with_(at=dice.randrange(4)),
        ]  # fmt: skip
    elif t.kind == "Msg":
        of_kind = [
            lambda: t.with_(routing=dice.randrange(8)), lambda: t.with_(code=dice.randrange(256)),
            lambda: t.with_(data=True, length=dice.randint(1, 5)), lambda: t.with_(data=False),
            lambda: t.with_(attr=dice.randrange(4)), lambda: t.with_(code=0x50, routing=4, rest=bytes(8), data=True, length=dice.randint(1, 3)),
        ] + [lambda: t.with_(tc=dice.randint(1, 7))] * 12  # fmt: skip
    elif t.kind.startswith("Cpl"):
        of_kind = [
            lambda: t.with_(status=dice.randrange(8)), lambda: t.with_(byte_count=dice.randint(1, 300)),
            lambda: t.with_(bcm=1, byte_count=dice.randint(1, 300)), lambda: t.with_(status=3),
            lambda: t.with_(kind="CplLk", status=0, length=0), lambda: t.with_(kind="CplLk", status=0, length=0),
        ]  # fmt: skip
    return dice.choice(of_all + of_kind * 2)()


def fixed_faults(dice, t):
    """Breaks one restriction of I/O and configuration requests, or of AtomicOps."""
    return t.with_(**dice.choice([
        {"tc": dice.randint(1, 7)}, {"attr": dice.randint(1, 3)}, {"at": dice.randint(1, 3)}, {"length": dice.randint(2, 5)},
        {"last": dice.randint(1, 15)},
    ]))  # fmt: skip


def is_cut_by_the_reader(t, data):
    """Returns True for short TLPs that riser's reader of datagrams accepts: writes of one DW, and absent digests."""
    return t.cut and (t.td or t.kind == "MWr")


def one_tlp(dice):
    while True:
        t = random_tlp(dice)
        choice = dice.random()
        if choice < 0.7:
            t = with_fault(dice, t)
        elif choice < 0.85 and t.kind[:2] in ("IO", "Cf"):
            t = fixed_faults(dice, t)
        data = t.bytes()
        if not is_cut_by_the_reader(t, data) and len([p for p in t.prefixes or []]) <= 8:
            break
    settings = []
    if dice.random() < 0.1:
        settings.append(f"# mps={dice.choice([128, 256, 512])}")
    if dice.random() < 0.1:
        settings.append(f"# mrrs={dice.choice([128, 256, 512])}")
    if dice.random() < 0.1:
        settings.append(f"# tags={dice.choice([32, 256])}")
    return settings + [f"0 {dice.choice(['up', 'down'])} {data.hex()}"]


def requested(t):
    if t.length == 1 and not t.first:
        return t.address, 1
    last = t.last if t.length > 1 else t.first
    start = t.address + (t.first & -t.first).bit_length() - 1
    end = t.address + 4 * ((t.length or 1024) - 1) + last.bit_length()
    return start, end - start


def completions(dice, t, rcb, completer):
    """Returns the completions of a request; a memory read has several."""
    base = Fields(requester=t.requester, completer=completer, tag=t.tag, tc=t.tc, attr=t.attr)
    if t.kind in ("MRd", "MRdLk"):
        suffix = "Lk" if t.kind == "MRdLk" else ""
        start, left = requested(t)
        if dice.random() < 0.05:
            return [base.with_(kind="Cpl" + suffix, status=dice.choice([1, 4]), byte_count=left, lower_address=start & 127)]
        pieces = []
        while left:
            step = dice.choice([1, 2, 3, 8])
            take = min(left, (start // rcb + step) * rcb - start)
            lead = start % 4
            pieces.append(base.with_(
                kind="CplD" + suffix, byte_count=left, lower_address=start & 127, length=(lead + take + 3) // 4,
            ))  # fmt: skip
            start, left = start + take, left - take
        if len(pieces) > 1 and dice.random() < 0.05:
            pieces[-1] = pieces[-1].with_(kind="Cpl" + suffix, status=dice.choice([1, 4]), length=0)
        return pieces
    if dice.random() < 0.1:
        status = dice.choice([1, 2, 4] if t.kind.startswith("Cfg") else [1, 4])
        return [base.with_(kind="Cpl", status=status, byte_count=4)]
    if t.kind in ("FetchAdd", "Swap", "CAS"):
        dw = t.length // (2 if t.kind == "CAS" else 1)
        return [base.with_(kind="CplD", byte_count=4 * dw, length=dw)]
    if t.kind in READS:
        return [base.with_(kind="CplD", byte_count=4, length=1)]
    return [base.with_(kind="Cpl", byte_count=4)]


def wrong_completion(dice, pieces, at):
    """Puts a fault in one completion."""
    c = pieces[at]
    other = {"Cpl": "CplLk", "CplD": "CplDLk", "CplLk": "Cpl", "CplDLk": "CplD"}
    without = {"CplD": "Cpl", "CplDLk": "CplLk", "Cpl": "CplD", "CplLk": "CplDLk"}
    kinds = [
        lambda: c.with_(lower_address=dice.choice([0, c.lower_address ^ 64, dice.randrange(128)])),
        lambda: c.with_(byte_count=dice.choice([4, c.length * 4, c.byte_count + 64, c.byte_count - 64, dice.randint(1, 4096)]) % 4096),
        lambda: c.with_(tc=c.tc ^ dice.randint(1, 7)), lambda: c.with_(attr=c.attr ^ dice.randint(1, 3)),
        lambda: c.with_(kind=other[c.kind]), lambda: c.with_(kind=without[c.kind], length=0 if c.length else 1),
        lambda: c.with_(kind=without[c.kind] if c.length else c.kind, length=0, status=dice.choice([1, 2, 2, 4, 3])),
        lambda: c.with_(length=c.length + dice.choice([1, 2, 16])), lambda: c.with_(length=max(c.length - 1, 1)),
        lambda: c.with_(tag=(c.tag + 1) % 256), lambda: c.with_(ep=1), lambda: c.with_(ido=1), lambda: c.with_(bcm=1, byte_count=4 * c.length),
        lambda: c.with_(requester=OTHER),
    ]  # fmt: skip
    fault = dice.randrange(len(kinds) + 3)
    if fault < len(kinds):
        pieces[at] = kinds[fault]()
    elif fault == len(kinds):
        del pieces[at]
    elif fault == len(kinds) + 1:
        pieces.insert(at, c)
    elif len(pieces) > 1:
        # Swaps two pieces.
        at = min(at, len(pieces) - 2)
        pieces[at], pieces[at + 1] = pieces[at + 1], pieces[at]
    if fault in (7, 8) and not c.length:
        pieces[at] = c


def exchange(dice, settings):
    """Returns requests of a device and of a host with their completions, interleaved at random. Most traces have one fault."""
    count = dice.choice([1, 2, 2, 3, 4])
    tags = dice.sample(range(1, 32), count)
    queues, faulty = [], dice.randrange(count) if dice.random() < 0.8 else None
    for n in range(count):
        kind = dice.choice(["MRd", "MRd", "MRd", "MRd", "MRdLk", "DMWr", "IORd", "IOWr", "CfgRd0", "CfgWr0", "FetchAdd", "Swap", "CAS"])
        t = random_request(dice, kind).with_(tag=tags[n])
        is_host = dice.random() < 0.3 or kind[:2] in ("IO", "Cf") or kind == "MRdLk"
        t.requester = HOST if is_host else DEVICE
        rcb = 128 if is_host else settings.get("rcb", 64)
        if n == faulty and dice.random() < 0.12:
            rcb = dice.choice([32, 64])
        pieces = completions(dice, t, rcb, DEVICE if is_host else HOST)
        if n == faulty and pieces:
            if dice.random() < 0.12:
                t = t.with_(tag=dice.choice([40, 255, 256, 700]))
                pieces = [piece.with_(tag=t.tag) for piece in pieces]
            else:
                wrong_completion(dice, pieces, dice.randrange(len(pieces)))
        there, back = ("down", "up") if is_host else ("up", "down")
        queues.append([(there, t)] + [(back, piece) for piece in pieces])
        if n == faulty and dice.random() < 0.1:
            queues[-1].insert(dice.randint(1, len(queues[-1])), (there, t.with_(address=t.address)))
    lines = []
    while any(queues):
        queue = dice.choice([queue for queue in queues if queue])
        way, t = queue.pop(0)
        lines.append(f"0 {way} {t.bytes().hex()}")
    # Later requests of both sides make requests without completions visible.
    for way, back, requester in [("up", "down", DEVICE), ("down", "up", HOST)]:
        t = Fields(kind="MRd", length=1, requester=requester, tag=0, first=15, address=0x1000)
        lines.append(f"0 {way} {t.bytes().hex()}")
        lines.append(f"0 {back} {completions(random.Random(1), t, 128, HOST)[0].bytes().hex()}")
    return lines


def random_request(dice, kind):
    if kind in ("MRd", "MRdLk", "DMWr"):
        t = read(dice, kind, 32 if kind == "DMWr" else 256)
        if dice.random() < 0.05:
            t = t.with_(length=1, first=0, last=0)
        return t.with_(tc=0 if kind == "MRdLk" else dice.choice([0, 0, 3]), attr=dice.randrange(4))
    if kind in ("FetchAdd", "Swap", "CAS"):
        return atomic(dice, kind)
    return register(dice, kind)


def order(dice):
    """Returns writes over three links, from link 2 to link 0. A switch may swap two adjacent writes."""
    writes = [
        Fields(kind="MWr", length=1, first=15, requester=dice.choice([DEVICE, OTHER]), address=0x1000, content=n + 1,
               attr=dice.choice([0, 0, 0, 2]), ido=dice.choice([0, 0, 1]), tc=dice.choice([0, 0, 0, 1]))
        for n in range(dice.randint(2, 6))
    ]  # fmt: skip
    lines = []
    for link in (2, 1, 0):
        if link < 2 and dice.random() < 0.6:
            at = dice.randrange(len(writes) - 1)
            writes[at], writes[at + 1] = writes[at + 1], writes[at]
        lines += [f"{link} up {t.bytes().hex()}" for t in writes]
    return lines


def one_exchange(dice):
    if dice.random() < 0.15:
        return order(dice)
    settings = {}
    if dice.random() < 0.3:
        settings["rcb"] = dice.choice([64, 128])
    if dice.random() < 0.3:
        settings["mps"] = dice.choice([128, 256, 512])
    if dice.random() < 0.3:
        settings["mrrs"] = dice.choice([128, 256, 512])
    if dice.random() < 0.5:
        settings["tags"] = dice.choice([32, 256])
    return [f"# {name}={value}" for name, value in settings.items()] + exchange(dice, settings)


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    dice = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    make = {"tlps": one_tlp, "transactions": one_exchange}[kind]
    for _ in range(count):
        print("\n".join(make(dice)) + "\n")


if __name__ == "__main__":
    main()

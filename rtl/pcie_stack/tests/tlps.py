# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TLPs for the tests of the root complex, written from PCIe 6.0 §2.2 and independent of the RTL."""

from dataclasses import dataclass

SC, UR, RRS, CA = 0, 1, 2, 4
HOST = 0x0008  # a requester above a switch


def header_0(fmt, kind, length, traffic_class=0, attributes=0, poisoned=0, digest=0):
    word = fmt << 29 | kind << 24 | traffic_class << 20 | (attributes >> 2 & 1) << 18 | digest << 15 | poisoned << 14 | (attributes & 3) << 12 | length & 0x3FF
    return word.to_bytes(4, "big")


def address_words(address):
    """Returns the address bytes and whether the header has 4 double-words."""
    wide = address >> 32 != 0
    return (address & ~3).to_bytes(8 if wide else 4, "big"), wide


def byte_enables(address, count):
    """Double-words, first and last byte enables of `count` bytes at `address`."""
    dwords = (address % 4 + count + 3) // 4
    first = 0xF << address % 4 & 0xF
    last = 0xF >> (-(address + count) % 4)
    if count == 0:
        return 1, 0, 0
    return (1, first & last, 0) if dwords == 1 else (dwords, first, last)


def memory_write(address, data, requester=0x0100, enables=None, **fields):
    """A memory write of `data`. With `enables` (first, last), the data are whole double-words."""
    if enables is None:
        dwords, first, last = byte_enables(address, len(data))
        data = bytes(address % 4) + data + bytes(4 * dwords - address % 4 - len(data))
    else:
        dwords, (first, last) = len(data) // 4, enables
    words, wide = address_words(address)
    digest = bytes(4) if fields.get("digest") else b""
    return header_0(0b011 if wide else 0b010, 0, dwords, **fields) + requester.to_bytes(2, "big") + bytes([0, last << 4 | first]) + words + data + digest


def memory_read(address, count, tag, requester=0x0100, enables=None, kind=0, **fields):
    """A memory read of `count` bytes."""
    dwords, first, last = byte_enables(address, count)
    if enables is not None:
        first, last = enables
    words, wide = address_words(address)
    return header_0(0b001 if wide else 0b000, kind, dwords, **fields) + requester.to_bytes(2, "big") + bytes([tag, last << 4 | first]) + words


def completion(status, data, tag, byte_count, lower=0, requester=0, completer=0x0100, kind=0b01010, length=None, **fields):
    """A completion, with data if there are any (whole double-words)."""
    length = len(data) // 4 if length is None else length
    words = header_0(0b010 if data else 0, kind, length, **fields) + completer.to_bytes(2, "big")
    return words + (status << 13 | byte_count & 0xFFF).to_bytes(2, "big") + requester.to_bytes(2, "big") + bytes([tag, lower]) + data


def configuration(target, register, tag, value=None, type1=True, enables=15, requester=HOST, poisoned=0):
    """A configuration read, or a write of `value`. `target` is bus, device and function."""
    head = header_0(0 if value is None else 2, 5 if type1 else 4, 1, poisoned=poisoned)
    data = b"" if value is None else value.to_bytes(4, "little")
    return head + requester.to_bytes(2, "big") + bytes([tag, enables]) + target.to_bytes(2, "big") + register.to_bytes(2, "big") + data


def message(code, requester=0x0100, routing=0b100, data=b""):
    return header_0(0b011 if data else 0b001, 0b10000 | routing, len(data) // 4) + requester.to_bytes(2, "big") + bytes([0, code]) + bytes(8) + data


@dataclass
class Tlp:
    """The fields of a TLP."""

    raw: bytes

    def __post_init__(self):
        raw = self.raw
        word = int.from_bytes(raw[:4], "big")
        self.fmt, self.kind, self.length = word >> 29, word >> 24 & 31, word & 0x3FF or 1024
        self.traffic_class, self.attributes, self.poisoned = word >> 20 & 7, word >> 12 & 3 | (word >> 18 & 1) << 2, word >> 14 & 1
        self.has_data, self.wide = bool(self.fmt & 2), bool(self.fmt & 1)
        self.data = raw[16 if self.wide else 12:] if self.has_data else b""
        self.requester, self.tag = int.from_bytes(raw[4:6], "big"), raw[6]
        self.first, self.last = raw[7] & 15, raw[7] >> 4
        self.is_memory, self.is_config, self.is_completion = self.kind == 0, self.kind in (4, 5), self.kind == 10
        if self.is_memory:
            self.address = int.from_bytes(raw[8:16 if self.wide else 12], "big")
        elif self.is_config:
            word = int.from_bytes(raw[8:12], "big")
            self.target, self.register = word >> 16, word & 0xFFC
            self.type1 = self.kind == 5
        elif self.kind in (10, 11):
            word = int.from_bytes(raw[4:8], "big")
            self.completer, self.status, self.byte_count = word >> 16, word >> 13 & 7, word & 0xFFF or 4096
            self.requester, self.tag, self.lower = int.from_bytes(raw[8:10], "big"), raw[10], raw[11] & 0x7F

    def enabled(self):
        """Yields the address and the value of each enabled byte; the value is None for a read."""
        for n in range(4 * self.length):
            enables = self.first if n < 4 else self.last if n >= 4 * self.length - 4 else 15
            if enables >> n % 4 & 1:
                yield self.address + n, self.data[n] if self.has_data else None


def completions_of(request, read, limit=128, boundary=64, whole=True):
    """The completions of a memory read, cut at multiples of `boundary`, at most `limit` bytes each. `read(address)` is a byte."""
    addresses = [address for address, _ in request.enabled()]
    first = addresses[0] if addresses else request.address
    end = addresses[-1] + 1 if addresses else request.address + 1
    out, at = [], first
    while at < end:
        stop = min(end, (at // boundary + limit // boundary) * boundary if at + limit < end or not whole else end)
        if stop - (at & ~3) > limit:
            stop = at // boundary * boundary + limit
        data = bytes(read(n) for n in range(at & ~3, stop + -stop % 4))
        out.append(completion(SC, data, request.tag, end - at, at & 0x7F, request.requester))
        at = stop
    return out

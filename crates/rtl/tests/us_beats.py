#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random TLPs, and the beats of cocotbext-pcie for them on RQ, RC, CQ and CC.

`descriptor::oracle` compares riser's own packing with the output:

    pip install cocotb==1.9.2 cocotbext-axi cocotbext-pcie==0.2.16
    ./us_beats.py --count 4 > us_beats.txt           # the committed file
    ./us_beats.py --count 400 > /tmp/more.txt && RISER_US_BEATS=/tmp/more.txt cargo test -p riser-rtl oracle

A line `S stream width packets` starts a stream with that many packets per beat. `T` is a TLP as on the wire, with the other fields of
its descriptor; `B` a beat: data, keep, last, user. Numbers are hexadecimal, except in `S`.
"""
import argparse
import logging
import random

from cocotbext.pcie.core.tlp import CplStatus, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.utils import PcieId
from cocotbext.pcie.xilinx.us import interface
from cocotbext.pcie.xilinx.us.tlp import Tlp_us

USER_BITS = {
    "rq": {512: 137, 0: 62}, "rc": {512: 161, 0: 75}, "cq": {512: 183, 0: 88}, "cc": {512: 81, 0: 33},
}
SOURCES = {"rq": interface.RqSource, "rc": interface.RcSource, "cq": interface.CqSource, "cc": interface.CcSource}
STREAMS = [(stream, width, 1) for stream in USER_BITS for width in (64, 128, 256, 512)] + [
    ("rc", 256, 2), ("rc", 512, 2), ("rc", 512, 4), ("rq", 512, 2), ("cq", 512, 2), ("cc", 512, 2),
]
READS = [TlpType.MEM_READ, TlpType.MEM_READ_64]
WRITES = [TlpType.MEM_WRITE, TlpType.MEM_WRITE_64]
IO = [TlpType.IO_READ, TlpType.IO_WRITE]
ATOMICS = {TlpType.FETCH_ADD: (1, 2), TlpType.SWAP: (1, 2), TlpType.CAS: (2, 4)}


class Bus:
    """Signals of a stream; the source reads only their widths."""

    def __init__(self, stream, width):
        self.tuser = [None] * USER_BITS[stream][width if width == 512 else 0]


class Ended(Exception):
    """Signals the end of the packets."""


def beats(stream, width, packets, frames):
    """Returns the beats that a source of cocotbext-pcie drives for these frames, without a simulator."""
    source = SOURCES[stream].__new__(SOURCES[stream])
    source.bus, source.width, source.seg_count = Bus(stream, width), width, packets
    source.byte_lanes = width // 32
    source.seg_byte_lanes = source.byte_lanes // packets
    source.log = logging.getLogger("beats")
    waiting, shown = list(frames), []

    def next_frame():
        if not waiting:
            raise Ended
        return waiting.pop(0)

    async def get_frame():
        return next_frame()

    async def drive(beat):
        shown.append(beat)

    source._get_frame, source._get_frame_nowait, source._drive = get_frame, next_frame, drive
    source.empty = lambda: not waiting
    source._init()
    running = source._run()
    try:
        running.send(None)
    except Ended:
        pass
    return shown


def span(tlp, rng):
    """Returns a legal address and byte enables, for at most 64 double-words."""
    length = rng.choice([1, 1, 2, 3, rng.randint(4, 12), rng.randint(4, 64)])
    at = rng.randrange(0, 1024 - length + 1) * 4
    page = rng.randrange(1, 1 << (52 if tlp.fmt_type in (TlpType.MEM_READ_64, TlpType.MEM_WRITE_64) else 20))
    if tlp.fmt_type in (TlpType.MEM_READ_64, TlpType.MEM_WRITE_64):
        page |= 1 << 20
    tlp.address, tlp.length = page << 12 | at, length
    if length == 1:
        tlp.first_be, tlp.last_be = rng.randint(0, 15), 0
    elif length == 2 and at % 8 == 0:
        tlp.first_be, tlp.last_be = rng.choice([1, 8, 12, 15, 9]), rng.choice([1, 3, 15, 9])
    else:
        tlp.first_be, tlp.last_be = rng.choice([8, 12, 14, 15]), rng.choice([1, 3, 7, 15])


def common(tlp, rng):
    tlp.requester_id = PcieId.from_int(rng.randrange(1 << 16))
    tlp.completer_id = PcieId.from_int(rng.randrange(1 << 16))
    tlp.tag, tlp.tc, tlp.attr = rng.randrange(256), TlpTc(rng.randrange(8)), TlpAttr(rng.randrange(8))


def request(rng):
    tlp = Tlp_us()
    tlp.fmt_type = rng.choice(READS * 3 + WRITES * 4 + IO + list(ATOMICS))
    common(tlp, rng)
    if tlp.fmt_type in IO:
        tlp.address, tlp.length, tlp.attr, tlp.tc = rng.randrange(1 << 30) * 4, 1, TlpAttr(0), TlpTc(0)
        tlp.first_be, tlp.last_be = rng.randint(1, 15), 0
    elif tlp.fmt_type in ATOMICS:
        tlp.length = rng.choice(ATOMICS[tlp.fmt_type])
        tlp.address, tlp.first_be, tlp.last_be = rng.randrange(1 << 28) * 16, 0, 0
    else:
        span(tlp, rng)
    if tlp.fmt_type in WRITES + list(ATOMICS) + [TlpType.IO_WRITE]:
        tlp.data = bytearray(rng.randbytes(4 * tlp.length))
    return tlp


def completion(rng):
    tlp = Tlp_us()
    common(tlp, rng)
    if rng.random() < 0.2:
        tlp.fmt_type, tlp.status = TlpType.CPL, rng.choice([CplStatus.SC, CplStatus.UR, CplStatus.CA])
        tlp.length, tlp.byte_count, tlp.lower_address = 0, 4, 0
        tlp.request_completed = True
        return tlp
    tlp.fmt_type = TlpType.CPL_DATA
    tlp.length = rng.choice([1, 2, rng.randint(3, 12), rng.randint(3, 64)])
    tlp.lower_address = rng.randrange(4096)
    here = 4 * tlp.length - (tlp.lower_address & 3)
    more = rng.choice([0, 0, 64, 512])
    tlp.byte_count = here + more if more else rng.randint(max(1, here - 3), here)
    tlp.request_completed = not more
    tlp.data = bytearray(rng.randbytes(4 * tlp.length))
    return tlp


def blank(tlp, first, end):
    """Sets unused bytes to zero, because riser's TLPs do not keep them."""
    for n in range(len(tlp.data)):
        if not first <= n < end:
            tlp.data[n] = 0


def blank_request(tlp):
    if tlp.fmt_type in WRITES + [TlpType.IO_WRITE]:
        last = tlp.last_be or tlp.first_be
        first = (tlp.first_be & -tlp.first_be).bit_length() - 1
        blank(tlp, first, 4 * tlp.length - 4 + last.bit_length() if tlp.first_be else 0)


def case(stream, rng):
    """Returns a TLP, its frame, and the other fields of the descriptor."""
    if stream in ("rq", "cq"):
        tlp = request(rng)
        blank_request(tlp)
        wire = tlp.pack()
        if stream == "rq":
            tlp.seq_num = rng.randrange(64)
            return wire, tlp.pack_us_rq(), f"{tlp.first_be:x} {tlp.last_be:x} {tlp.seq_num:x}"
        tlp.bar_id, tlp.bar_aperture = rng.randrange(7), rng.randrange(7, 64)
        if tlp.fmt_type in ATOMICS:
            tlp.first_be, tlp.last_be = 15, 15 if tlp.length > 1 else 0
        function = int(tlp.completer_id) & 0xff
        # The model has only the function number, three bits.
        tlp.completer_id = PcieId(0, 0, function & 7)
        return wire, tlp.pack_us_cq(), f"{function & 7:x} {tlp.bar_id:x} {tlp.bar_aperture:x}"
    tlp = completion(rng)
    blank(tlp, tlp.lower_address & 3, (tlp.lower_address & 3) + tlp.byte_count)
    wire = tlp.pack()
    if stream == "cc":
        return wire, tlp.pack_us_cc(), "0"
    if tlp.status != CplStatus.SC:
        tlp.error_code = 2
    return wire, tlp.pack_us_rc(), f"{tlp.lower_address:x} {int(tlp.error_code):x} {int(tlp.request_completed):x}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=4, help="TLPs per stream")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print("# SPDX-License-Identifier: Apache-2.0 OR MIT")
    print(f"# us_beats.py --count {options.count} --seed {options.seed}, of cocotbext-pcie 0.2.16")
    for stream, width, packets in STREAMS:
        print(f"S {stream} {width} {packets}")
        frames = []
        for _ in range(options.count):
            wire, frame, more = case(stream, rng)
            print(f"T {wire.hex()} {more}")
            frames.append(frame)
        for beat in beats(stream, width, packets, frames):
            print(f"B {beat.tdata:x} {beat.tkeep:x} {beat.tlast:x} {beat.tuser:x}")


if __name__ == "__main__":
    main()

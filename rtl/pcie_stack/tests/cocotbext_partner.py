# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A port in RTL with the port of cocotbext-pcie at the other end of its link. The frames of both cross as bytes. cocotbext-pcie supplies sequence numbers, Acks
and Naks, flow control, and the codecs of TLPs and DLLPs; zlib supplies the LCRC.

It has no replay, no scaled flow control and no Data Link Feature DLLP, and it counts header credits in 12 bits. So only frames of the RTL and DLLPs are lost, and
each side sends fewer than 256 TLPs of a type."""

import collections
import random
import zlib

import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_steps
from cocotbext.pcie.core.dllp import Dllp, DllpType, FcType
from cocotbext.pcie.core.port import Port
from cocotbext.pcie.core.tlp import Tlp, TlpType

BEAT = 8
TYPES = {FcType.P: "p", FcType.NP: "np", FcType.CPL: "cpl"}
CREDITS = [4, 20, 3, 4, 5, 18]  # of the partner: headers and data of P, NP and Cpl
EVENT_REPLAY, EVENT_TIMEOUT, EVENT_OVERFLOW = 11, 8, 7


class Partner(Port):
    """The port of cocotbext-pcie. A frame is lost with the chance `loss`."""

    def __init__(self, dut, rng, loss):
        self.dut, self.rng, self.loss = dut, rng, loss
        self.frames = Queue(1)
        self.sent, self.heard, self.received = collections.Counter(), collections.Counter(), collections.defaultdict(list)
        super().__init__([CREDITS] + [[0] * 6] * 7)
        self.max_latency_timer_steps = get_sim_steps(200, "ns")
        self.fc_idle_timer_steps, self.fc_update_steps = get_sim_steps(1, "us"), get_sim_steps(2, "us")
        self.rx_handler = self.take
        cocotb.start_soon(self.drive())
        cocotb.start_soon(self.listen())

    async def take(self, tlp):
        """The user of this port: keeps a TLP for a while, then returns its credits."""
        self.received[TYPES[tlp.get_fc_type()]].append(bytes(tlp.pack()))
        for _ in range(self.rng.randrange(40)):
            await RisingEdge(self.dut.clk)
        tlp.release_fc()

    async def handle_tx(self, pkt):
        if isinstance(pkt, Dllp):
            self.sent[pkt.type] += 1
            await self.frames.put((pkt.pack_crc(), True, self.rng.random() < self.loss))
        else:
            covered = pkt.seq.to_bytes(2, "big") + pkt.pack()
            await self.frames.put((covered + zlib.crc32(covered).to_bytes(4, "little"), False, False))

    async def drive(self):
        """Frames to the RTL, from one edge of the clock to the next. A lost frame takes its time."""
        dut = self.dut
        await RisingEdge(dut.clk)
        while True:
            if self.frames.empty():
                dut.phy_rx_valid.value = 0
                await RisingEdge(dut.clk)
                continue
            frame, dllp, lost = self.frames.get_nowait()
            frame = b"\0\0" + frame
            dut.phy_rx_dllp.value = dllp
            for at in range(0, len(frame), BEAT):
                beat = frame[at : at + BEAT]
                dut.phy_rx_valid.value = not lost
                dut.phy_rx_sop.value = at == 0
                dut.phy_rx_eop.value = at + BEAT >= len(frame)
                dut.phy_rx_end.value = len(beat) // 4 - 1
                dut.phy_rx_data.value = int.from_bytes(beat, "little")
                await RisingEdge(dut.clk)

    async def listen(self):
        """Frames of the RTL."""
        dut, frame = self.dut, b""
        while True:
            await RisingEdge(dut.clk)
            if not dut.phy_tx_valid.value:
                continue
            assert bool(dut.phy_tx_sop.value) == (frame == b""), "a frame begins within another, or has no begin"
            beat = int(dut.phy_tx_data.value).to_bytes(BEAT, "little")
            frame += beat[: 4 * (int(dut.phy_tx_end.value) + 1)] if dut.phy_tx_eop.value else beat
            if dut.phy_tx_eop.value:
                await self.hear(frame[2:], bool(dut.phy_tx_dllp.value))
                frame = b""

    async def hear(self, frame, dllp):
        if dllp:
            pkt = Dllp.unpack_crc(frame)
            self.heard[pkt.type] += 1
        else:
            covered = frame[:-4]
            assert frame[-4:] == zlib.crc32(covered).to_bytes(4, "little"), "wrong LCRC"
            pkt = Tlp.unpack(covered[2:])
            assert bytes(pkt.pack()) == covered[2:], "the codec makes another TLP of it"
            pkt.seq = int.from_bytes(covered[:2], "big")
        if self.rng.random() < self.loss:
            return
        await self.ext_recv(pkt)
        fc = self.fc_state[0]
        for name in ("ph", "pd", "nph", "npd", "cplh", "cpld"):
            state = getattr(fc, name)
            assert state.rx_credits_available < state.rx_field_range // 2, f"the RTL sends without credits: {name}"


def make(rng, kind):
    """A TLP of a class."""
    tlp = Tlp()
    data = rng.randbytes(4 * rng.randint(1, 32))
    if kind == FcType.P:
        tlp.fmt_type = rng.choice([TlpType.MEM_WRITE, TlpType.MEM_WRITE_64])
        tlp.set_addr_be_data(rng.randrange(1 << 20) * 4096 + (1 << 32 if tlp.fmt_type == TlpType.MEM_WRITE_64 else 0), data)
    elif kind == FcType.NP:
        tlp.fmt_type = rng.choice([TlpType.MEM_READ, TlpType.CFG_WRITE_0, TlpType.CFG_READ_1])
        if tlp.fmt_type == TlpType.MEM_READ:
            tlp.set_addr_be(rng.randrange(1 << 20) * 4096, len(data))
        else:
            tlp.length, tlp.first_be = 1, rng.randint(1, 15)
            tlp.data = bytearray(data[:4] if tlp.fmt_type == TlpType.CFG_WRITE_0 else b"")
    else:
        tlp.fmt_type = rng.choice([TlpType.CPL, TlpType.CPL_DATA])
        if tlp.fmt_type == TlpType.CPL_DATA:
            tlp.set_data(data)
            tlp.byte_count = len(data)
    tlp.tag = rng.randrange(32)
    return tlp


async def send(dut, tlps, rng):
    """The user of the RTL sends, with pauses."""
    for tlp in tlps:
        for at in range(0, len(tlp), BEAT):
            beat = tlp[at : at + BEAT]
            dut.tx_valid.value, dut.tx_sop.value, dut.tx_eop.value = 1, at == 0, at + BEAT >= len(tlp)
            dut.tx_end.value, dut.tx_data.value = len(beat) // 4 - 1, int.from_bytes(beat, "little")
            await RisingEdge(dut.clk)
            while not dut.tx_ready.value:
                await RisingEdge(dut.clk)
        dut.tx_valid.value = 0
        for _ in range(rng.randrange(20)):
            await RisingEdge(dut.clk)


async def receive(dut, name, received, rng):
    """The user of the RTL takes one type of TLPs, with pauses."""
    valid, ready, sop, eop, end, data = (getattr(dut, f"rx_{name}_{signal}") for signal in "valid ready sop eop end data".split())
    tlp = b""
    while True:
        takes = rng.random() < 0.6
        ready.value = takes
        await RisingEdge(dut.clk)
        if not takes or not valid.value:
            continue
        assert bool(sop.value) == (tlp == b"")
        beat = int(data.value).to_bytes(BEAT, "little")
        tlp += beat[: 4 * (int(end.value) + 1)] if eop.value else beat
        if eop.value:
            received[name].append(tlp)
            tlp = b""


async def bring_up(dut, rng, loss):
    """Resets the RTL and returns the partner when flow control is initialized at both ends."""
    inputs = {
        "tc_map": 0, "vc_enable": 1, "vc_arbitration": 0, "vc_phases": 0, "max_payload": 0, "update_fc_latency_limit": 40, "update_fc_period": 500, "local_features": 0,
        "tx_valid": 0, "tx_vc": 0, "ecrc_generate": 0, "ecrc_check": 0, "replay_timer_limit": 400, "ack_latency_limit": 40, "ack_count_limit": 0, "phy_link_up": 0,
        "phy_recovery": 0, "phy_tx_ready": 1, "phy_rx_valid": 0, "phy_rx_nullify": 0, "phy_rx_error": 0, "tx_dllp_valid": 0, "tx_dllp_bytes": 0,
        "rx_p_ready": 0, "rx_np_ready": 0, "rx_cpl_ready": 0,
    }
    for name, value in inputs.items():
        getattr(dut, name).value = value
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value, dut.phy_link_up.value = 0, 1
    await RisingEdge(dut.clk)
    partner = Partner(dut, rng, loss)
    await partner.fc_state[0].initialized.wait()
    while int(dut.dl_state.value) != 3:
        await RisingEdge(dut.clk)
    return partner


def count(vector, event):
    return int(vector.value) >> 16 * event & 0xFFFF


async def exchange(dut, seed, loss, each=60):
    """Sends `each` TLPs of each type both ways, and compares all that arrives. Returns the partner."""
    rng = random.Random(seed)
    partner = await bring_up(dut, rng, loss)
    kinds = [kind for kind in TYPES for _ in range(each)]
    down, up = ([make(rng, kind) for kind in rng.sample(kinds, len(kinds))] for _ in range(2))
    of_type = lambda tlps: {name: [bytes(tlp.pack()) for tlp in tlps if TYPES[tlp.get_fc_type()] == name] for name in TYPES.values()}
    expected_down, expected_up = of_type(down), of_type(up)
    received = collections.defaultdict(list)
    for name in TYPES.values():
        cocotb.start_soon(receive(dut, name, received, rng))
    cocotb.start_soon(send(dut, [bytes(tlp.pack()) for tlp in up], rng))
    for tlp in down:
        await partner.send(tlp)
    progress, quiet = None, 0
    while received != expected_down or partner.received != expected_up:
        await RisingEdge(dut.clk)
        arrived = {name: (len(received[name]), len(partner.received[name])) for name in TYPES.values()}
        quiet = quiet + 1 if arrived == progress else 0
        progress = arrived
        assert quiet < 4000, f"TLPs are missing or wrong: {arrived} of {each}; starved {dut.tx_starved.value}"
    assert not count(dut.tl_counts, EVENT_OVERFLOW)
    assert all(partner.heard[kind] and partner.sent[kind] for kind in (DllpType.ACK, DllpType.UPDATE_FC_P, DllpType.UPDATE_FC_NP, DllpType.UPDATE_FC_CPL))
    return partner


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def intact_link(dut):
    """An intact link causes no Nak and no replay."""
    partner = await exchange(dut, 1, 0)
    assert not partner.heard[DllpType.NAK] and not partner.sent[DllpType.NAK]
    assert not count(dut.counts, EVENT_REPLAY)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def lossy_link(dut):
    """Frames are lost: the partner's Naks and the expired REPLAY_TIMER cause replays."""
    partner = await exchange(dut, 2, 0.15)
    assert partner.sent[DllpType.NAK] and not partner.heard[DllpType.NAK]
    assert count(dut.counts, EVENT_REPLAY) >= partner.sent[DllpType.NAK] // 2 and count(dut.counts, EVENT_TIMEOUT)

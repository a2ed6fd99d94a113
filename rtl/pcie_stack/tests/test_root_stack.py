# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The root complex with transaction and data link layer, at its frames. The other end is the data link layer in Python."""

import pytest
from device_tree import COPY_LENGTH, COPY_SOURCE, COPY_START, COPY_TARGET, Bridge, Endpoint, Enumeration, Tree
from model import refusal
from reference import Frame, Partner
from root_complex import DECERR, MEMORY32, MEMORY64, OKAY, SLVERR, Bench
from tlps import CA, SC, UR, Tlp, completion, memory_read, memory_write, message

RAM = 0x8000_0000
MSI_TARGET = 0xFEE0_0000
AER = 0x100


class StackBench(Bench):
    """The design with its surroundings. TLPs of the device cross the link as frames. A test may damage a frame in `on_frame`."""

    def connect(self):
        self.link = Partner(replay_timer=3000)
        # Credits without limit; the tests send less than the receive buffers hold.
        self.link.channels[0].credits = [0, 0, 0]
        self.frames_in, self.frame, self.on_frame = [], None, None
        self.values.update(
            phy_link_up=1, phy_tx_ready=1, replay_timer_limit=2000, ack_latency_limit=32, update_fc_latency_limit=64, local_features=1)
        self.sequence_of_receive = 0

    def reconnect(self):
        """The link comes up again after it was down."""
        self.connect()

    def cut(self):
        """The link goes down."""
        self.values.update(phy_link_up=0, phy_rx_valid=0)
        self.link, self.frames_in, self.frame = None, [], None

    def push(self, stream, tlp, poisoned=False):
        assert not poisoned
        self.link.to_send.append(tlp)

    def drive_link(self):
        values = self.values
        values["phy_tx_ready"] = int(self.go())
        if self.link is None:
            return
        for frame in self.link.poll(self.cycle):
            self.frames_in += self.beats(self.on_frame(frame) if self.on_frame else frame)
        values["phy_rx_valid"] = 0
        if self.frames_in and self.go():
            values.update(self.frames_in.pop(0))

    def beats(self, frame):
        if frame is None:
            return []
        data = bytes(2) + frame.data
        out = []
        for at in range(0, len(data), self.beat):
            part = data[at:at + self.beat]
            last = at + len(part) == len(data)
            out.append({
                "phy_rx_valid": 1, "phy_rx_sop": int(at == 0), "phy_rx_eop": int(last), "phy_rx_dllp": int(frame.dllp), "phy_rx_end": len(part) // 4 - 1,
                "phy_rx_nullify": int(last and frame.nullify), "phy_rx_error": int(last and frame.error), "phy_rx_data": part.ljust(self.beat, b"\xa5"),
            })
        return out

    def sample_link(self, out):
        if self.link is None or not (out["phy_tx_valid"] and self.values["phy_tx_ready"]):
            return
        assert bool(out["phy_tx_sop"]) == (self.frame is None), f"cycle {self.cycle}: sop of a frame"
        self.frame = (self.frame or b"") + (out["phy_tx_data"][:4 * (out["phy_tx_end"] + 1)] if out["phy_tx_eop"] else out["phy_tx_data"])
        if not out["phy_tx_eop"]:
            return
        frame, self.frame = Frame(self.frame[2:], bool(out["phy_tx_dllp"]), bool(out["phy_tx_nullify"])), None
        self.link.receive(self.cycle, frame)
        for tlp in self.link.received:
            self.tlps.append(tlp)
            if self.on_tlp:
                self.on_tlp(tlp)
        self.link.received.clear()

    def quiet(self):
        return super().quiet() and not self.frames_in and not self.link.to_send and not self.link.retry


@pytest.fixture
def make():
    made = []

    def build(name="stack", **options):
        made.append(StackBench(name, **options))
        made[-1].register(0x04, 1)
        made[-1].run(lambda: made[-1].out["dl_up"], 6000)
        return made[-1]

    yield build
    for bench in made:
        bench.close()


def start_copy(bench, function, source, target, length):
    """Lets a device copy host memory: a DMA read, DMA writes, and an MSI."""
    bench.write(function.base() + COPY_SOURCE, source, 8)
    bench.write(function.base() + COPY_TARGET, target, 8)
    bench.write(function.base() + COPY_LENGTH, length)
    bench.write(function.base() + COPY_START, 1)


def with_device(bench):
    """Enumerates one device at the link, with MSI vector 5."""
    copy = Endpoint(0xD001, 0x1_0000, False)
    Tree(bench, copy)
    Enumeration(bench, MEMORY32, MEMORY64)
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    bench.config(0x100, 0x54, MSI_TARGET)
    bench.config(0x100, 0x5C, 5, 2)
    bench.config(0x100, 0x52, 1, 2)
    return copy


@pytest.mark.parametrize("name, stalls", [("stack", 0.0), ("stack", 0.1), ("narrow_stack", 0.0)])
def test_device_is_enumerated_and_copies_memory(make, name, stalls):
    bench = make(name, seed=4, stalls=stalls)
    copy, other = Endpoint(0xD001, 0x1_0000, False), Endpoint(0xD002, 0x10_0000, True)
    tree = Tree(bench, Bridge(0x5001, 5, {0: Bridge(0x5002, 6, {0: copy}), 1: Bridge(0x5002, 6, {0: other})}))
    found = Enumeration(bench, MEMORY32, MEMORY64)
    assert set(found.found) == {0x000, 0x100, 0x200, 0x208, 0x300, 0x400} and tree.find(0x400) is other
    for base in (copy.base(), other.base()):
        bench.write(base + 0x100, 0x0123_4567_89AB_CDEF, 8)
        bench.write(base + 0x103, 0x77, 1)
        assert bench.read(base + 0x100, 8) == 0x0123_4567_77AB_CDEF
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    text = bytes(range(256)) + bytes(range(255, -1, -1))
    bench.memory.write(RAM + 5, text)
    for target, function, vector in ((0x300, copy, 4), (0x400, other, 9)):
        bench.config(target, 0x54, MSI_TARGET)
        bench.config(target, 0x5C, vector, 2)
        bench.config(target, 0x52, 1, 2)
        to = RAM + 0x1_0003 * vector
        start_copy(bench, function, RAM + 5, to, len(text))
        bench.run(lambda vector=vector: bench.out["msi_pending"] >> vector & 1, 20000)
        assert bench.memory.read(to, len(text)) == text, "the data are in memory before the interrupt"
    bench.run(bench.quiet, 20000)
    assert not bench.link.counts, bench.link.counts


def test_damaged_frames_are_replayed_and_counted_in_aer(make):
    bench = make()
    copy = with_device(bench)
    hits = {"tlp": 0, "dllp": 0}

    def damage(frame):
        kind = "dllp" if frame.dllp else "tlp"
        hits[kind] += 1
        if hits[kind] % 5 == 3:
            data = bytearray(frame.data)
            data[3] ^= 0x10
            return frame._replace(data=bytes(data))
        return frame

    bench.on_frame = damage
    text = bytes(n * 7 & 0xFF for n in range(700))
    bench.memory.write(RAM, text)
    start_copy(bench, copy, RAM, RAM + 0x2000, len(text))
    bench.run(lambda: bench.out["msi_pending"] >> 5 & 1, 60000)
    assert bench.memory.read(RAM + 0x2000, len(text)) == text
    bench.on_frame = None
    bench.run(bench.quiet, 20000)
    assert bench.link.counts["replay"] > 0
    # Bad TLP and Bad DLLP
    assert bench.config(0, AER + 0x10) & 0xC0 == 0xC0


def test_malformed_tlp_of_the_device_is_reported(make):
    bench = make()
    with_device(bench)
    # Length of three double-words, with data of two.
    bench.link.to_send.append(bytes([0x40, 0, 0, 3, 1, 0, 0, 0xFF]) + RAM.to_bytes(4, "big") + bytes(8))
    bench.run(bench.quiet, 20000)
    bench.step(200)
    assert bench.config(0, AER + 0x04) >> 18 & 1
    assert not [entry for entry in bench.memory.log if entry[0] == "write"]


def test_wire_interrupts_and_bus_errors(make):
    bench = make()
    with_device(bench)
    bench.push("p", message(0x21))
    bench.run(lambda: bench.out["intx"] == 2)
    bench.push("p", message(0x25))
    bench.run(lambda: bench.out["intx"] == 0)
    # The memory bus refuses a read, then a write, of the device.
    for response, status in ((SLVERR, CA), (DECERR, UR)):
        bench.memory.errors = [(RAM, RAM + 0x1000, response)]
        bench.tlps.clear()
        bench.on_tlp = None
        bench.push("np", memory_read(RAM, 64, 7))
        bench.run(lambda: any(Tlp(raw).is_completion for raw in bench.tlps))
        assert [Tlp(raw).status for raw in bench.tlps] == [status]
    bench.push("p", memory_write(RAM, bytes(16)))
    bench.run(bench.quiet, 20000)
    assert bench.events["write_error"] == 1 and bench.events["read_error"] == 2
    # An address that no window has, and a read that the device refuses.
    assert bench.read_burst(0x1000, 2)[1] == [DECERR]
    bench.on_tlp = lambda raw: bench.push("cpl", completion(UR, b"", Tlp(raw).tag, 4))
    assert bench.read_burst(MEMORY32 + 0x100, 2, limit=60000)[1] == [DECERR]


def test_stalled_memory_bus_is_given_up(make):
    bench = make()
    with_device(bench)
    bench.on_tlp = None
    bench.memory.frozen = True
    bench.tlps.clear()
    bench.push("np", memory_read(RAM, 64, 7))
    bench.run(lambda: bench.tlps, 6000)
    assert Tlp(bench.tlps[0]).status == 4 and bench.events["stall"] and bench.events["stall_abort"]
    bench.memory.frozen = False
    bench.run(bench.quiet, 6000)
    bench.memory.write(RAM, bytes(range(64)))
    bench.tlps.clear()
    bench.push("np", memory_read(RAM, 64, 8))
    bench.run(lambda: bench.tlps, 6000)
    assert (Tlp(bench.tlps[0]).status, Tlp(bench.tlps[0]).data) == (SC, bytes(range(64)))


@pytest.mark.parametrize("within", range(1, 9))
def test_no_part_of_a_write_that_the_link_cuts_reaches_memory(make, within):
    bench = make()
    with_device(bench)
    bench.run(bench.quiet, 20000)
    bench.memory.log.clear()
    bench.push("p", memory_write(RAM, bytes(range(1, 129))))
    bench.push("p", memory_write(RAM + 0x1000, bytes(range(128, 256))))
    bench.step(2 * within)
    bench.cut()
    bench.step(400)
    written = sorted({address // 0x1000 * 0x1000 for kind, address, _ in bench.memory.log if kind == "write"})
    for base, data in ((RAM, bytes(range(1, 129))), (RAM + 0x1000, bytes(range(128, 256)))):
        assert base not in written or bench.memory.read(base, 128) == data
    # Requests fail while the link is down, and work again after it.
    assert bench.config(0x100, 0) == 0xFFFF_FFFF
    assert bench.read_burst(MEMORY32, 2)[1] in ([SLVERR], [DECERR])
    bench.reconnect()
    bench.run(lambda: bench.out["dl_up"], 6000)
    bench.on_tlp = lambda raw: bench.push("cpl", completion(SC, (0x1234_5678).to_bytes(4, "little"), Tlp(raw).tag, 4))
    assert bench.config(0x100, 0) == 0x1234_5678


def test_completion_does_not_pass_earlier_writes(make):
    """A CPU that reads a device finds all that the device has written before its completion."""
    bench = make(seed=9)
    with_device(bench)
    bench.run(bench.quiet, 20000)
    bench.memory.delay = 60

    def answer(raw):
        for n in range(6):
            bench.push("p", memory_write(RAM + 0x100 * n, bytes([n + 1] * 128)))
        bench.push("cpl", completion(SC, bytes(4), Tlp(raw).tag, 4))

    bench.on_tlp = answer
    data, responses = bench.read_burst(MEMORY32, 2, limit=60000)
    assert responses == [OKAY]
    assert [bench.memory.read(RAM + 0x100 * n, 128) for n in range(6)] == [bytes([n + 1] * 128) for n in range(6)]


@pytest.mark.parametrize("parameter, message", [
    ("TX_TLPS=8", "TX_TLPS is 8; expected more than READ_SLOTS + 1, so that requests of the CPU never hold up completions"),
    ("RX_CPL_DATA=8", "the buffer of completions is too small for READ_SLOTS reads of READ_BYTES"),
])
@pytest.mark.parametrize("top", ["pcie_root_stack", "pcie_root_stack_tilelink"])
def test_illegal_parameter_stops_elaboration_with_a_message(top, parameter, message):
    assert f"pcie_root_stack: {message}" in refusal(top, parameter)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The endpoint from Python, cycle by cycle: a host that sends and answers TLPs, registers at the AXI4 master, and DMA at the AXI4 slave."""

import collections

import root_complex
from model import Model
from root_complex import AxiChecker
from tlps import SC, Tlp, completion, completions_of, configuration, memory_read, memory_write

BUILDS = {
    "plain": {
        "COMPLETION_TIMEOUT": 400, "BUS_TIMEOUT": 600, "INTERRUPTS": 5, "BAR0_BASE": "64'h4001_0000", "BAR2_SIZE": "64'h10_0000", "BAR2_BASE": "64'h8_0010_0000",
        "BAR_WIDE": "6'h4", "BAR_PREFETCHABLE": "6'h4",
    },
    "small": {
        "DATA_WIDTH": 128, "BUS_WIDTH": 32, "DMA_WIDTH": 128, "DMA_ID": 2, "MAX_PAYLOAD": 128, "READ_SLOTS": 2, "COMPLETION_TIMEOUT": 400, "BUS_TIMEOUT": 600,
        "BAR0_SIZE": "64'h1000", "MSIX_BAR": -1,
    },
    "large": {
        "DATA_WIDTH": 512, "BUS_WIDTH": 512, "DMA_WIDTH": 512, "DMA_ID": 8, "MAX_PAYLOAD": 512, "READ_SLOTS": 16, "READ_BYTES": 512, "COMPLETION_TIMEOUT": 400,
        "BUS_TIMEOUT": 600, "INTERRUPTS": 32, "MSIX_BAR": 1, "COUNTER_WIDTH": 32,
    },
}
DEFAULTS = {"DATA_WIDTH": 256, "BUS_WIDTH": 64, "DMA_WIDTH": 64, "DMA_ID": 4, "MAX_PAYLOAD": 256, "READ_SLOTS": 8, "READ_BYTES": 128, "INTERRUPTS": 1, "MSIX_BAR": 5}
# BARs by their index: bytes and place on the bus of the peripheral.
BARS = {
    "plain": {0: (0x1_0000, 0x4001_0000), 2: (0x10_0000, 0x8_0010_0000), 5: (0x1000, None)},
    "small": {0: (0x1000, 0)},
    "large": {0: (0x1_0000, 0), 1: (0x1000, None)},
}
EVENTS = (
    "unexpected timeout cpl_ur cpl_ca cpl_rrs cpl_poisoned cpl_bad decode burst bus_reset interrupt_lost posted_ur read_ur posted_poisoned malformed "
    "write_error read_error stall stall_drop stall_abort msi function_reset message ignored"
).split()
DEVICE = 0x0300  # bus 3, device 0, function 0
COMMAND, BAR, MSI, EXPRESS, MSIX, AER, COUNTERS = 0x04, 0x10, 0x50, 0x70, 0xB0, 0x100, 0x150
WINDOWS = {0: 0x9000_0000, 1: 0x9010_0000, 2: 0x50_0000_0000, 5: 0x9020_0000}  # where the host puts each BAR


class RegisterChecker(AxiChecker):
    """Judges the AXI4 master: accesses are powers of two in size and aligned to it, and all their strobes are set."""

    def __init__(self, bench):
        super().__init__("m_axi_", True)
        self.bench, self.expected, self.strobes, self.broken = bench, collections.deque(), collections.deque(), False

    def burst(self, cycle, address, length, size, kind):
        super().burst(cycle, address, length, size, kind)
        total = (length + 1) << size
        assert total & total - 1 == 0 and address % total == 0, f"cycle {cycle}: {total} bytes at {address:#x}"
        assert length == 0 or 1 << size == self.bench.bus_bytes, f"cycle {cycle}: a narrow burst"

    def aw(self, cycle, ident, address, length, size, kind):
        super().aw(cycle, ident, address, length, size, kind)
        self.expected.extend([((1 << (1 << size)) - 1) << address % self.bench.bus_bytes] * (length + 1))
        self.compare(cycle)

    def w(self, cycle, data, strobes, last):
        super().w(cycle, data, strobes, last)
        self.strobes.append(strobes)
        self.compare(cycle)

    def compare(self, cycle):
        """The data of a burst may come before its address. `broken`: empty strobes are right after a stall."""
        while self.expected and self.strobes:
            expected, strobes = self.expected.popleft(), self.strobes.popleft()
            assert strobes == expected or self.broken and not strobes, f"cycle {cycle}: strobes {strobes:#x}, expected {expected:#x}"


def check_request(tlp, bench):
    """Rules of §2.2.5, §2.2.7 and §2.6 for a memory request of the endpoint, and the limits that the host has set."""
    assert tlp.requester == DEVICE and not tlp.poisoned and tlp.traffic_class == 0
    assert tlp.is_memory and tlp.wide == (tlp.address >> 32 != 0)
    assert len(tlp.raw) == (16 if tlp.wide else 12) + (4 * tlp.length if tlp.has_data else 0)
    assert tlp.address >> 12 == tlp.address + 4 * tlp.length - 1 >> 12
    assert 4 * tlp.length <= (bench.host.max_payload if tlp.has_data else bench.host.max_read)
    if tlp.length == 1:
        assert tlp.last == 0 and tlp.first != 0
    else:
        assert tlp.first in (8, 12, 14, 15) and tlp.last in (1, 3, 7, 15)


class Host:
    """The endpoint's partner: sends configuration and memory requests, and answers DMA from its memory."""

    def __init__(self, bench):
        self.bench = bench
        self.ram, self.requests, self.messages, self.completions = {}, [], [], collections.defaultdict(list)
        self.status, self.silent, self.limit, self.boundary = SC, False, 128, 64
        self.held = None               # a list to which completions go instead of the link
        self.waiting = set()           # tags of DMA reads
        self.max_payload = self.max_read = 128
        self.tag = 0
        bench.on_tlp = self.receive

    def byte(self, address):
        return self.ram.get(address, address * 37 >> 2 & 0xFF)

    def receive(self, raw):
        tlp = Tlp(raw)
        if tlp.is_completion or tlp.kind == 0b01011:
            self.completions[tlp.tag].append(tlp)
        elif tlp.kind & 0b11000 == 0b10000:
            self.messages.append(raw[7])
            assert tlp.requester == DEVICE and len(raw) == 16 and tlp.kind == (0b10101 if raw[7] == 0x1B else 0b10000)
        else:
            check_request(tlp, self.bench)
            self.requests.append(tlp)
            if tlp.has_data:
                self.ram.update(tlp.enabled())
            elif not self.silent:
                self.answer(tlp)

    def answer(self, tlp):
        parts = [completion(self.status, b"", tlp.tag, 4, requester=tlp.requester)] if self.status != SC else completions_of(tlp, self.byte, self.limit, self.boundary)
        for part in parts:
            if self.held is None:
                self.bench.push("cpl", part)
            else:
                self.held.append(part)

    def interrupts(self, address=0xFEE0_0000):
        """Data of the messages that were written to this address."""
        return [int.from_bytes(tlp.data, "little") for tlp in self.requests if tlp.has_data and tlp.address == address]

    # ---- requests of the host ----

    def next_tag(self):
        self.tag = (self.tag + 1) % 256
        return self.tag

    def wait(self, tag, parts=1, limit=4000):
        self.bench.run(lambda: len(self.completions[tag]) >= parts, limit)
        return self.completions.pop(tag)

    def config_request(self, offset, value=None, first=15, target=DEVICE, type1=False):
        """Sends a configuration request, a write of `value` (bytes) if that is given; returns its completion."""
        tag = self.next_tag()
        word = None if value is None else int.from_bytes(value, "little")
        self.bench.push("np", configuration(target, offset & 0xFFC, tag, word, type1, first, requester=0))
        return self.wait(tag)[0]

    def config(self, offset, value=None, count=4):
        """A configuration access of 1, 2 or 4 bytes that must succeed."""
        first, at = (1 << count) - 1 << offset % 4, offset % 4
        data = None if value is None else (value << 8 * at).to_bytes(4, "little")
        tlp = self.config_request(offset, data, first)
        assert tlp.status == SC and tlp.completer == DEVICE and tlp.byte_count == 4 and tlp.lower == 0
        assert len(tlp.data) == (4 if value is None else 0)
        return int.from_bytes(tlp.data[at:at + count], "little") if value is None else None

    def write(self, address, data, **fields):
        self.bench.push("p", memory_write(address, data, requester=0, **fields))

    def read_request(self, address, count, enables=None, kind=0):
        """Reads; returns all completions."""
        tag = self.next_tag()
        tlp = Tlp(memory_read(address, count, tag, requester=0, enables=enables, kind=kind))
        self.bench.push("np", tlp.raw)
        def complete():
            parts = self.completions[tag]
            return parts and (parts[-1].status != SC or sum(4 * part.length for part in parts if part.has_data) >= 4 * tlp.length)
        self.bench.run(complete, 20000)
        return tlp, self.completions.pop(tag)

    def read(self, address, count):
        """Reads bytes that must be there, and checks the completions by §2.2.9 and §2.3.1.1."""
        tlp, parts = self.read_request(address, count)
        data, left = b"", count
        for n, part in enumerate(parts):
            assert part.status == SC and part.completer == DEVICE and part.requester == 0 and part.byte_count == left
            assert part.lower == (address + len(data)) % 128 and 4 * part.length <= self.max_payload
            piece = part.data[part.lower % 4:][:left]
            data, left = data + piece, left - len(piece)
            assert n == len(parts) - 1 or (address + len(data)) % 128 == 0, "completions end at a multiple of RCB"
        assert left == 0 and len(data) == count
        return data

    def setup(self):
        """Sets the function up as Linux does: BARs, Memory Space, Bus Master, SERR."""
        for n, (size, _) in BARS[self.bench.name].items():
            self.config(BAR + 4 * n, WINDOWS[n] & 0xFFFF_FFFF)
            if WINDOWS[n] >> 32:
                self.config(BAR + 4 * n + 4, WINDOWS[n] >> 32)
        self.config(COMMAND, 0x0106, 2)

    def counter(self, event):
        return self.config(COUNTERS + 8 + 4 * EVENTS.index(event))

    def set_limits(self, payload, read):
        """Max_Payload_Size and Max_Read_Request_Size, in bytes."""
        self.max_payload, self.max_read = min(payload, self.bench.parameters["MAX_PAYLOAD"]), min(read, self.bench.parameters["READ_BYTES"])
        control = self.config(EXPRESS + 8, count=2) & ~0x70E0
        self.config(EXPRESS + 8, control | (payload.bit_length() - 8) << 5 | (read.bit_length() - 8) << 12, 2)


class Bench(root_complex.Bench):
    """The endpoint, its host, its peripheral's registers (`memory`) and its DMA (`start_read`, `read_burst`, ...)."""

    EVENTS = EVENTS

    def build(self, name, seed):
        self.parameters = DEFAULTS | BUILDS[name]
        self.beat, self.bus_bytes, self.cpu_bytes = (self.parameters[width] // 8 for width in ("DATA_WIDTH", "BUS_WIDTH", "DMA_WIDTH"))
        return Model("pcie_endpoint", f"endpoint/{name}", BUILDS[name], ["pcie_endpoint*.sv*", "pcie_a*.sv", "pcie_packetizer*.sv", "pcie_dll_counters.sv", "pcie_root_complex.svh"], seed)

    def __init__(self, name="plain", seed=1, stalls=0.0, setup=True):
        super().__init__(name, seed, stalls)
        self.registers = RegisterChecker(self)
        self.checkers[1] = self.registers
        self.resets = 0
        self.host = Host(self)
        self.step(2)
        # The first configuration write tells the function its number.
        self.host.config_request(0, bytes(4), 0)
        if setup:
            self.host.setup()
            self.host.set_limits(128, 128)

    def observe(self, out):
        self.resets += out["function_reset"]

    def reset_bus(self, cycles=4):
        """A reset of the peripheral: it forgets everything at both ports."""
        self.values["bus_rst"] = 1
        self.forget()
        self.step()
        self.forget()
        for _ in range(cycles - 1):
            self.step()
            assert not any(self.out[port + "valid"] for port in ("s_axi_b", "s_axi_r", "m_axi_aw", "m_axi_w", "m_axi_ar")), "a port is not idle in reset"
        self.values["bus_rst"] = 0

    def forget(self):
        memory = self.memory
        for queue in (memory.aw, memory.w, memory.ar, memory.b, *self.to_cpu.values()):
            queue.clear()
        for port in ("s_axi_aw", "s_axi_w", "s_axi_ar", "m_axi_b", "m_axi_r"):
            self.offered[port] = False
            self.values[port + "valid"] = 0
        self.registers = RegisterChecker(self)
        self.checkers[:] = [AxiChecker("s_axi_", False), self.registers]

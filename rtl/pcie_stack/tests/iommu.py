# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pcie_iommu from Python, cycle by cycle: an AXI4 master, a memory that answers in order, page tables, and checkers of both ports."""

import collections

from root_complex import AxiChecker
from tilelink import Bench, Memory

EVENTS = "translated walk unmapped permission table".split()
BUILDS = {
    "plain": {"DATA_WIDTH": 128, "ID_BITS": 3, "ENTRIES": 4, "LEVELS": 3},
    "narrow": {"DATA_WIDTH": 64, "ID_BITS": 1, "ENTRIES": 1, "LEVELS": 2},
    "wide": {"DATA_WIDTH": 512, "ID_BITS": 4, "ENTRIES": 8, "LEVELS": 3},
}
PAGE = 4096
VALID, READ, WRITE, EXECUTE = 1, 2, 4, 8
ROOT = 0x8000_0000


class PageTables:
    """Sv39 tables in a memory, from ROOT on."""

    def __init__(self, memory, levels):
        self.memory, self.levels, self.next = memory, levels, ROOT + PAGE
        memory.bytes.update(dict.fromkeys(range(ROOT, ROOT + PAGE), 0))

    def entry(self, address):
        return int.from_bytes(self.memory.read(address, 8), "little")

    def set(self, address, value):
        self.memory.bytes.update(enumerate(value.to_bytes(8, "little"), address))

    def place(self, virtual, level=0):
        """Address of the entry for `virtual` in the table of a level; tables above it are made."""
        table = ROOT
        for upper in range(self.levels - 1, level, -1):
            at = table + 8 * (virtual >> 12 + 9 * upper & 511)
            if not self.entry(at) & VALID:
                self.memory.bytes.update(dict.fromkeys(range(self.next, self.next + PAGE), 0))
                self.set(at, self.next >> 12 << 10 | VALID)
                self.next += PAGE
            table = self.entry(at) >> 10 << 12
        return table + 8 * (virtual >> 12 + 9 * level & 511)

    def map(self, virtual, physical, flags=READ | WRITE):
        self.set(self.place(virtual), physical >> 12 << 10 | flags | VALID)


class IommuBench(Bench):
    """pcie_iommu between an AXI4 master and a memory. `latency`: cycles from a request to its answer."""

    def __init__(self, name="plain", seed=1, stalls=0.0, latency=1):
        self.latency, self.memory = latency, Memory()
        self.aw, self.w, self.answers = collections.deque(), collections.deque(), {"b": collections.deque(), "r": collections.deque()}
        self.log = []
        # The memory takes an address after its data only; the root complex takes no answers to reads.
        self.addresses_last = self.hold_reads = False
        super().__init__("pcie_iommu", name, BUILDS[name], seed, stalls)
        self.checkers = [AxiChecker("s_axi_", False), AxiChecker("m_axi_", True)]
        self.written, self.read = collections.defaultdict(list), collections.defaultdict(list)
        self.tables = PageTables(self.memory, self.parameters["LEVELS"])
        self.values["root"] = ROOT >> 12

    def start_read(self, address, beats=1, ident=0):
        size = self.width.bit_length() - 1
        self.queues["s_axi_ar"].append({"id": ident, "addr": address, "len": beats - 1, "size": size, "burst": 1})

    def start_write(self, address, data, ident=0):
        """Queues a burst of whole words."""
        size, beats = self.width.bit_length() - 1, len(data) // self.width
        self.queues["s_axi_aw"].append({"id": ident, "addr": address, "len": beats - 1, "size": size, "burst": 1})
        for n in range(beats):
            part = data[n * self.width:(n + 1) * self.width]
            self.queues["s_axi_w"].append({"data": self.data(part), "strb": (1 << self.width) - 1, "last": int(n == beats - 1)})

    def read_burst(self, address, beats=1, ident=0):
        """Returns the bytes and the set of responses."""
        before = len(self.read[ident])
        self.start_read(address, beats, ident)
        self.run(lambda: len(self.read[ident]) == before + beats)
        got = self.read[ident][before:]
        return b"".join(data for data, _ in got), {response for _, response in got}

    def write_burst(self, address, data, ident=0):
        before = len(self.written[ident])
        self.start_write(address, data, ident)
        self.run(lambda: len(self.written[ident]) > before)
        return self.written[ident][-1]

    def enable(self, on=1):
        self.values["enable"] = on
        self.step()

    def flush(self):
        self.values["flush"] = 1
        self.step()
        self.values["flush"] = 0

    def drive_all(self):
        for channel in ("aw", "w", "ar"):
            self.drive(f"s_axi_{channel}")
            self.values[f"m_axi_{channel}ready"] = int(self.go())
        if self.addresses_last and not self.w:
            self.values["m_axi_awready"] = 0
        for channel, queue in self.answers.items():
            if queue and queue[0][0] <= self.cycle and not self.queues[f"m_axi_{channel}"]:
                self.queues[f"m_axi_{channel}"].append(queue.popleft()[1])
            self.drive(f"m_axi_{channel}")
            self.values[f"s_axi_{channel}ready"] = int(self.go())
        if self.hold_reads:
            self.values["s_axi_rready"] = 0

    def sample(self, out):
        values = self.values
        for channel in ("s_axi_aw", "s_axi_w", "s_axi_ar", "m_axi_b", "m_axi_r"):
            self.taken(channel, out)
        due = self.cycle + self.latency
        if out["m_axi_arvalid"] and values["m_axi_arready"]:
            self.log.append(("read", out["m_axi_araddr"], out["m_axi_arid"]))
            for n in range(out["m_axi_arlen"] + 1):
                at = out["m_axi_araddr"] // self.width * self.width + n * self.width
                beat = {"id": out["m_axi_arid"], "data": self.data(self.memory.read(at, self.width)), "resp": self.memory.response(at), "last": int(n == out["m_axi_arlen"])}
                self.answers["r"].append((due + n, beat))
        if out["m_axi_awvalid"] and values["m_axi_awready"]:
            self.aw.append((out["m_axi_awid"], out["m_axi_awaddr"], out["m_axi_awlen"] + 1))
        if out["m_axi_wvalid"] and values["m_axi_wready"]:
            self.w.append((self.bytes_of(out["m_axi_wdata"]), out["m_axi_wstrb"]))
        while self.aw and len(self.w) >= self.aw[0][2]:
            ident, address, beats = self.aw.popleft()
            self.log.append(("write", address, ident))
            for n in range(beats):
                self.memory.write(address + n * self.width, *self.w.popleft())
            self.answers["b"].append((due, {"id": ident, "resp": self.memory.response(address)}))
        if out["s_axi_bvalid"] and values["s_axi_bready"]:
            self.written[out["s_axi_bid"]].append(out["s_axi_bresp"])
        if out["s_axi_rvalid"] and values["s_axi_rready"]:
            self.read[out["s_axi_rid"]].append((self.bytes_of(out["s_axi_rdata"]), out["s_axi_rresp"]))

    def count(self):
        """The counters in hardware, without zeros."""
        self.step(2)
        counts = int.from_bytes(self.out["counts"], "little")
        found = {event: counts >> 16 * n & 0xFFFF for n, event in enumerate(EVENTS)}
        return {event: count for event, count in found.items() if count}

    def quiet(self):
        return not any(self.queues.values()) and all(checker.idle() for checker in self.checkers)

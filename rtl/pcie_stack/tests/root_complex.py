# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The root complex from Python, cycle by cycle: a CPU and a memory on AXI4, streams of TLPs, and a checker of all AXI channels."""

import collections
import random

from model import Model

BUILDS = {
    "plain": {"COMPLETION_TIMEOUT": 400, "BUS_TIMEOUT": 600},
    "small": {
        "DATA_WIDTH": 128, "CPU_WIDTH": 128, "MAX_PAYLOAD": 128, "READ_SLOTS": 2, "DMA_SLOTS": 2, "MAX_BURST": 2, "CPU_ID": 2, "COMPLETION_TIMEOUT": 400,
        "BUS_TIMEOUT": 600,
    },
    "large": {
        "DATA_WIDTH": 512, "CPU_WIDTH": 512, "MAX_PAYLOAD": 512, "READ_SLOTS": 16, "READ_BYTES": 512, "DMA_SLOTS": 16, "MAX_BURST": 64, "CPU_ID": 8,
        "COMPLETION_TIMEOUT": 400, "BUS_TIMEOUT": 600,
    },
}
# Builds that are joined with transaction layer and data link layer.
STACKS = {
    "stack": {"COMPLETION_TIMEOUT": 20000, "BUS_TIMEOUT": 600, "INIT_FC_CYCLES": 256},
    "narrow_stack": {"DATA_WIDTH": 128, "CPU_WIDTH": 128, "MAX_PAYLOAD": 128, "READ_SLOTS": 2, "DMA_SLOTS": 2, "MAX_BURST": 2, "COMPLETION_TIMEOUT": 20000, "BUS_TIMEOUT": 600},
}
DEFAULTS = {"DATA_WIDTH": 256, "CPU_WIDTH": 64, "CPU_ID": 4, "MAX_PAYLOAD": 256, "READ_SLOTS": 8, "READ_BYTES": 128, "DMA_SLOTS": 8, "MAX_BURST": 16}
REGISTERS, ECAM, MEMORY32, MEMORY64 = 0x2000_0000, 0x3000_0000, 0x4000_0000, 0x40_0000_0000
EVENTS = (
    "unexpected timeout cpl_ur cpl_ca cpl_rrs cpl_poisoned cpl_bad decode burst no_function retry_limit posted_ur read_ur posted_poisoned malformed write_error "
    "read_error stall stall_drop stall_abort msi msi_bad message ignored"
).split()
OKAY, SLVERR, DECERR = 0, 2, 3


def model(name, seed):
    """A root complex of a build, or one joined with the layers below it."""
    if name in STACKS:
        return Model("pcie_root_stack", f"root_complex/{name}", STACKS[name], ["pcie_*.sv*"], seed)
    sources = ["pcie_root_complex*.sv*", "pcie_packetizer*.sv*", "pcie_a*.sv"]
    return Model("pcie_root_complex", f"root_complex/{name}", BUILDS[name], sources, seed)


class AxiChecker:
    """Judges every cycle of an AXI4 port: stable payload, WLAST, 4 KiB, IDs, one response for each request and none without."""

    PAYLOAD = {"aw": "id addr len size burst", "w": "data strb last", "b": "id resp", "ar": "id addr len size burst", "r": "id data resp last"}

    def __init__(self, prefix, design_is_master):
        self.prefix, self.master = prefix, design_is_master
        self.held = {}
        self.writes, self.write_beats, self.last_beats = collections.deque(), collections.deque(), 0
        self.responses = collections.defaultdict(int)
        self.reads = collections.defaultdict(collections.deque)
        self.handshakes = collections.Counter()
        self.channels = [
            (channel, f"{prefix}{channel}valid", f"{prefix}{channel}ready", [f"{prefix}{channel}{field}" for field in fields.split()], getattr(self, channel))
            for channel, fields in self.PAYLOAD.items()
        ]

    def check(self, wires, cycle):
        """`wires` has the value of each wire in this cycle."""
        for channel, valid, ready, fields, taken in self.channels:
            if not wires[valid]:
                assert channel not in self.held, f"cycle {cycle}: {valid} fell"
                continue
            payload = [wires[field] for field in fields]
            held = self.held.pop(channel, None)
            assert held is None or held == payload, f"cycle {cycle}: {self.prefix}{channel} changed while it waited"
            if wires[ready]:
                self.handshakes[channel] += 1
                taken(cycle, *payload)
            else:
                self.held[channel] = payload

    def burst(self, cycle, address, length, size, kind):
        if self.master:
            assert kind == 1 and length < 256, f"cycle {cycle}: burst type {kind}"
            end = (address >> size << size) + (length + 1 << size) - 1
            assert address >> 12 == end >> 12, f"cycle {cycle}: burst at {address:#x} crosses 4 KiB"

    def aw(self, cycle, ident, address, length, size, kind):
        self.burst(cycle, address, length, size, kind)
        self.writes.append((ident, length + 1))
        self.settle(cycle)

    def w(self, cycle, data, strobes, last):
        self.last_beats += 1
        if last:
            self.write_beats.append(self.last_beats)
            self.last_beats = 0
        self.settle(cycle)

    def settle(self, cycle):
        while self.writes and self.write_beats:
            ident, beats = self.writes.popleft()
            got = self.write_beats.popleft()
            assert not self.master or got == beats, f"cycle {cycle}: WLAST after {got} beats of {beats}"
            self.responses[ident] += 1

    def b(self, cycle, ident, response):
        assert self.responses[ident], f"cycle {cycle}: {self.prefix}b without a request"
        self.responses[ident] -= 1

    def ar(self, cycle, ident, address, length, size, kind):
        self.burst(cycle, address, length, size, kind)
        self.reads[ident].append(length + 1)

    def r(self, cycle, ident, data, response, last):
        queue = self.reads[ident]
        assert queue, f"cycle {cycle}: {self.prefix}r without a request"
        queue[0] -= 1
        assert last == (queue[0] == 0), f"cycle {cycle}: {self.prefix}rlast is {last} with {queue[0]} beats left"
        if last:
            queue.popleft()

    def idle(self):
        return not self.writes and not self.write_beats and not self.last_beats and not any(self.responses.values()) and not any(self.reads.values())


class Memory:
    """Memory on the AXI4 master: answers in any order of IDs, interleaves reads, stalls, and fails in chosen ranges."""

    def __init__(self, dice):
        self.dice = dice
        self.bytes = {}
        self.errors = []            # (from, to, response)
        self.frozen = False         # the bus makes no progress
        self.silent = False         # requests are taken, and nothing is answered
        self.aw, self.w, self.ar = collections.deque(), collections.deque(), []
        self.b = collections.deque()
        self.log = []               # ("write" or "read", address, bytes)
        self.delay = 0

    def response(self, address):
        return next((response for low, high, response in self.errors if low <= address < high), OKAY)

    def read(self, address, count):
        return bytes(self.bytes.get(n, n * 167 >> 3 & 0xFF) for n in range(address, address + count))

    def write(self, address, data):
        for n, byte in enumerate(data):
            self.bytes[address + n] = byte


class Bench:
    """The design with its surroundings. A test sets `on_tlp`, which gets each TLP that the design sends."""

    EVENTS = EVENTS

    def build(self, name, seed):
        """Returns the model of a build. Sets its parameters, and the bytes of a beat, of a word at the slave and of a word at the master."""
        self.parameters = DEFAULTS | (BUILDS | STACKS)[name]
        self.beat = self.bus_bytes = self.parameters["DATA_WIDTH"] // 8
        self.cpu_bytes = self.parameters["CPU_WIDTH"] // 8
        return model(name, seed)

    def __init__(self, name, seed=1, stalls=0.0):
        self.name = name
        self.dice = random.Random(seed)
        self.stalls = stalls
        self.model = self.build(name, seed)
        self.values = self.model.values
        self.memory = Memory(random.Random(seed + 1))
        self.checkers = [AxiChecker("s_axi_", False), AxiChecker("m_axi_", True)]
        self.cycle = 0
        self.to_cpu = {"aw": collections.deque(), "w": collections.deque(), "ar": collections.deque()}
        self.written = collections.defaultdict(list)      # responses of each ID
        self.read_beats = collections.defaultdict(list)   # (data, response, last) of each ID
        self.streams = {"p": collections.deque(), "np": collections.deque(), "cpl": collections.deque()}
        self.at = dict.fromkeys(self.streams, 0)
        self.arrived = 0
        self.tlps, self.sending, self.on_tlp = [], None, None
        self.tx_open = True
        self.events = collections.Counter()
        self.pulses = 0
        self.system_errors = 0
        self.later = []
        self.values.update(rst=1, link_speed=3, link_width=8)
        for _ in range(4):
            self.model.tick()
        self.values["rst"] = 0
        self.connect()
        self.offered = dict.fromkeys(["s_axi_aw", "s_axi_w", "s_axi_ar", "m_axi_b", "m_axi_r", "rx_p", "rx_np", "rx_cpl"], False)
        self.reading = None

    def close(self):
        self.model.close()

    # ---- streams of TLPs ----

    def connect(self):
        """The link comes up."""
        self.values["link_up"] = 1

    def drive_link(self):
        for stream in self.streams:
            self.drive_stream(stream)
        self.values["tx_ready"] = int(self.tx_open and self.go())

    def sample_link(self, out):
        for stream in self.streams:
            self.sample_stream(stream, out)
        self.sample_tx(out)

    def push(self, stream, tlp, poisoned=False):
        """Queues a TLP for the design. It is offered after all posted TLPs that were queued before it have been taken."""
        self.arrived += 1
        self.streams[stream].append((tlp, poisoned, self.arrived))

    def go(self, chance=None):
        return self.dice.random() >= (self.stalls if chance is None else chance)

    def drive_stream(self, stream):
        values, prefix, queue = self.values, f"rx_{stream}_", self.streams[stream]
        if self.offered["rx_" + stream]:
            return
        may = bool(queue)
        if may and stream != "p" and self.streams["p"] and self.streams["p"][0][2] < queue[0][2]:
            may = False
        if may and self.go():
            tlp, poisoned, _ = queue[0]
            at = self.at[stream]
            part = tlp[at:at + self.beat]
            last = at + len(part) == len(tlp)
            values[prefix + "valid"], values[prefix + "sop"], values[prefix + "eop"] = 1, int(at == 0), int(last)
            values[prefix + "end"] = len(part) // 4 - 1
            values[prefix + "data"] = part + b"\x5a" * (self.beat - len(part))
            values[prefix + "poisoned"] = int(poisoned and last)
            self.offered["rx_" + stream] = True
        else:
            values[prefix + "valid"] = 0

    def sample_stream(self, stream, out):
        if self.offered["rx_" + stream] and out[f"rx_{stream}_ready"]:
            self.offered["rx_" + stream] = False
            self.at[stream] += self.beat
            if self.values[f"rx_{stream}_eop"]:
                self.streams[stream].popleft()
                self.at[stream] = 0

    def sample_tx(self, out):
        beat = (out["tx_sop"], out["tx_eop"], out["tx_end"], out["tx_data"]) if out["tx_valid"] else None
        if self.held_tx is not None:
            assert beat is not None, f"cycle {self.cycle}: tx_valid fell"
            assert beat[:2] == self.held_tx[:2] and beat[3] == self.held_tx[3], f"cycle {self.cycle}: a beat of tx changed"
        self.held_tx = None
        if beat is None:
            assert self.sending is None, f"cycle {self.cycle}: a pause within a TLP"
            return
        if not self.values["tx_ready"]:
            self.held_tx = beat
            return
        assert bool(beat[0]) == (self.sending is None), f"cycle {self.cycle}: sop"
        if beat[0]:
            self.sending = b""
        self.sending += beat[3][:4 * (beat[2] + 1)] if beat[1] else beat[3]
        if beat[1]:
            tlp, self.sending = self.sending, None
            self.tlps.append(tlp)
            if self.on_tlp:
                self.on_tlp(tlp)

    held_tx = None

    # ---- AXI ----

    def drive_cpu(self):
        values = self.values
        for channel, queue in self.to_cpu.items():
            if self.offered["s_axi_" + channel]:
                continue
            if queue and self.go():
                for field, value in queue[0].items():
                    values[f"s_axi_{channel}{field}"] = value
                values[f"s_axi_{channel}valid"] = 1
                self.offered["s_axi_" + channel] = True
            else:
                values[f"s_axi_{channel}valid"] = 0
        values["s_axi_bready"], values["s_axi_rready"] = int(self.go()), int(self.go())

    def port_value(self, port, data):
        """Bytes as a value of a port."""
        return data if self.model.sizes[port][0] > 64 else int.from_bytes(data, "little")

    @staticmethod
    def port_bytes(value, count):
        return value if isinstance(value, bytes) else value.to_bytes(count, "little")

    def sample_cpu(self, out):
        for channel, queue in self.to_cpu.items():
            if self.offered["s_axi_" + channel] and out[f"s_axi_{channel}ready"]:
                self.offered["s_axi_" + channel] = False
                queue.popleft()
        if out["s_axi_bvalid"] and self.values["s_axi_bready"]:
            self.written[out["s_axi_bid"]].append(out["s_axi_bresp"])
        if out["s_axi_rvalid"] and self.values["s_axi_rready"]:
            data = self.port_bytes(out["s_axi_rdata"], self.cpu_bytes)
            self.read_beats[out["s_axi_rid"]].append((data, out["s_axi_rresp"], out["s_axi_rlast"]))

    def drive_memory(self):
        values, memory = self.values, self.memory
        ready = not memory.frozen
        values["m_axi_awready"], values["m_axi_wready"], values["m_axi_arready"] = (int(ready and self.go()) for _ in range(3))
        answers = not memory.frozen and not memory.silent
        if not self.offered["m_axi_b"]:
            values["m_axi_bvalid"] = 0
            if memory.b and answers and self.cycle >= memory.b[0][0] and self.go():
                values["m_axi_bvalid"], values["m_axi_bid"], values["m_axi_bresp"] = 1, memory.b[0][1], memory.b[0][2]
                self.offered["m_axi_b"] = True
        if not self.offered["m_axi_r"]:
            values["m_axi_rvalid"] = 0
            due = [n for n, entry in enumerate(memory.ar) if self.cycle >= entry["due"]]
            if due and answers and self.go():
                # The oldest burst of some ID gives its next beat.
                first = {}
                for n in due:
                    first.setdefault(memory.ar[n]["id"], n)
                entry = memory.ar[self.dice.choice(sorted(first.values()))]
                values["m_axi_rvalid"], values["m_axi_rid"], values["m_axi_rlast"] = 1, entry["id"], int(entry["left"] == 1)
                values["m_axi_rdata"] = self.port_value("m_axi_rdata", memory.read(entry["address"] & -self.bus_bytes, self.bus_bytes))
                values["m_axi_rresp"] = memory.response(entry["address"])
                self.reading = entry
                self.offered["m_axi_r"] = True

    def sample_memory(self, out):
        values, memory = self.values, self.memory
        if out["m_axi_awvalid"] and values["m_axi_awready"]:
            memory.aw.append((out["m_axi_awid"], out["m_axi_awaddr"], out["m_axi_awlen"] + 1, 1 << out["m_axi_awsize"]))
        if out["m_axi_wvalid"] and values["m_axi_wready"]:
            memory.w.append((self.port_bytes(out["m_axi_wdata"], self.bus_bytes), out["m_axi_wstrb"], out["m_axi_wlast"]))
        if self.offered["m_axi_b"] and out["m_axi_bready"]:
            memory.b.popleft()
            self.offered["m_axi_b"] = False
        if self.offered["m_axi_r"] and out["m_axi_rready"]:
            self.offered["m_axi_r"] = False
            self.reading["left"] -= 1
            self.reading["address"] += self.reading["size"]
            if not self.reading["left"]:
                memory.ar.remove(self.reading)
        if out["m_axi_arvalid"] and values["m_axi_arready"]:
            due = self.cycle + 1 + (self.dice.randrange(memory.delay) if memory.delay else 0)
            size = 1 << out["m_axi_arsize"]
            memory.ar.append({"id": out["m_axi_arid"], "address": out["m_axi_araddr"], "left": out["m_axi_arlen"] + 1, "size": size, "due": due})
            memory.log.append(("read", out["m_axi_araddr"], size * (out["m_axi_arlen"] + 1)))
        while memory.aw and len(memory.w) >= memory.aw[0][2]:
            ident, address, beats, size = memory.aw.popleft()
            bad = OKAY
            for n in range(beats):
                data, strobes, last = memory.w.popleft()
                assert last == (n == beats - 1)
                bad = max(bad, memory.response(address))
                if not memory.response(address):
                    for lane in range(self.bus_bytes):
                        if strobes >> lane & 1:
                            memory.bytes[(address & -self.bus_bytes) + lane] = data[lane]
                memory.log.append(("write", address, strobes))
                address += size
            memory.b.append((self.cycle + 1 + (self.dice.randrange(memory.delay) if memory.delay else 0), ident, bad))

    # ---- time ----

    def step(self, cycles=1):
        for _ in range(cycles):
            self.cycle += 1
            if self.later:
                due = [entry for entry in self.later if entry[0] <= self.cycle]
                self.later = [entry for entry in self.later if entry[0] > self.cycle]
                for _, action in due:
                    action()
            self.drive_link()
            self.drive_cpu()
            self.drive_memory()
            out = self.model.tick()
            wires = self.values | out
            for checker in self.checkers:
                checker.check(wires, self.cycle)
            self.sample_link(out)
            self.sample_cpu(out)
            self.sample_memory(out)
            events = out["events"]
            while events:
                self.events[self.EVENTS[(events & -events).bit_length() - 1]] += 1
                events &= events - 1
            self.observe(out)
            self.out = out

    def observe(self, out):
        """Looks at outputs that only this design has."""
        self.pulses |= out["msi_pulse"]
        self.system_errors += out["system_error"]

    def run(self, condition, limit=3000):
        """Steps until `condition()`."""
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError(f"cycle {self.cycle}: not reached in {limit} cycles")

    def after(self, cycles, action):
        self.later.append((self.cycle + cycles, action))

    # ---- accesses of the CPU ----

    def start_read(self, address, size, beats=1, ident=0, burst=1):
        self.to_cpu["ar"].append({"id": ident, "addr": address, "len": beats - 1, "size": size, "burst": burst})

    def start_write(self, address, size, beats, ident=0, burst=1, last=None):
        """`beats` is a list of (data of a whole beat, strobes)."""
        self.to_cpu["aw"].append({"id": ident, "addr": address, "len": len(beats) - 1, "size": size, "burst": burst})
        for n, (data, strobes) in enumerate(beats):
            is_last = n == len(beats) - 1 if last is None else n == last
            self.to_cpu["w"].append({"data": self.port_value("s_axi_wdata", data), "strb": strobes, "last": int(is_last)})

    def read_burst(self, address, size, beats=1, ident=0, burst=1, limit=6000):
        """Returns the bytes from `address` on and the responses."""
        before = len(self.read_beats[ident])
        self.start_read(address, size, beats, ident, burst)
        self.run(lambda: len(self.read_beats[ident]) >= before + beats, limit)
        return self.collect(address, size, self.read_beats[ident][before:])

    def collect(self, address, size, beats):
        data, at = b"", address
        for beat, _, _ in beats:
            end = (at >> size << size) + (1 << size)
            low = at % self.cpu_bytes
            data += beat[low:low + end - at]
            at = end
        return data, [response for _, response, _ in beats]

    def beats_of(self, address, size, data, strobes=None):
        """Cuts bytes at `address` into beats of an INCR burst."""
        beats, at, done = [], address, 0
        while done < len(data):
            end = (at >> size << size) + (1 << size)
            part = data[done:done + end - at]
            low = at % self.cpu_bytes
            enables = (1 << len(part)) - 1 if strobes is None else strobes >> done & (1 << len(part)) - 1
            beats.append((bytes(low) + part + bytes(self.cpu_bytes - low - len(part)), enables << low))
            done += end - at
            at = end
        return beats

    def write_burst(self, address, size, data, ident=0, strobes=None, limit=6000):
        before = len(self.written[ident])
        self.start_write(address, size, self.beats_of(address, size, data, strobes), ident)
        self.run(lambda: len(self.written[ident]) > before, limit)
        return self.written[ident][-1]

    def read(self, address, count=4, limit=6000):
        """A read of 1, 2, 4 or 8 bytes that must succeed."""
        data, responses = self.read_burst(address, count.bit_length() - 1, limit=limit)
        assert responses == [OKAY], responses
        return int.from_bytes(data, "little")

    def write(self, address, value, count=4, limit=6000):
        assert self.write_burst(address, count.bit_length() - 1, value.to_bytes(count, "little"), limit=limit) == OKAY

    def register(self, offset, value=None):
        return self.read(REGISTERS + offset) if value is None else self.write(REGISTERS + offset, value)

    def config(self, target, offset, value=None, count=4):
        address = ECAM + (target << 12) + offset
        return self.read(address, count, 60000) if value is None else self.write(address, value, count, 60000)

    def counter(self, event):
        return self.register(0x80 + 4 * EVENTS.index(event))

    def setup(self, secondary=1, subordinate=8):
        """Sets the complex up as firmware and Linux do: enable, bus numbers, windows, Memory Space and Bus Master."""
        self.register(0x04, 1)
        self.config(0, 0x18, subordinate << 16 | secondary << 8)
        self.config(0, 0x20, 0x7FF0_4000)
        self.config(0, 0x24, 0xFFF1_0001)
        self.config(0, 0x28, 0x40)
        self.config(0, 0x2C, 0x7F)
        self.config(0, 0x04, 0x0106, 2)

    def quiet(self):
        """No request of the CPU or of a device is in progress."""
        return not any(self.streams.values()) and not any(self.to_cpu.values()) and all(checker.idle() for checker in self.checkers) and not self.later

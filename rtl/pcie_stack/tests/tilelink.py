# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The TileLink bridges from Python, cycle by cycle: clients and managers of TileLink, an AXI4 memory and master, and a checker of channels A and D.
Written from the TileLink specification 1.8.1, not from the RTL."""

import collections
import random

from model import Model
from root_complex import DECERR, OKAY, SLVERR, AxiChecker

PUT_FULL, PUT_PARTIAL, ARITHMETIC, LOGICAL, GET, INTENT = range(6)
ACCESS_ACK, ACCESS_ACK_DATA, HINT_ACK = range(3)
ANSWERS = {PUT_FULL: ACCESS_ACK, PUT_PARTIAL: ACCESS_ACK, ARITHMETIC: ACCESS_ACK_DATA, LOGICAL: ACCESS_ACK_DATA, GET: ACCESS_ACK_DATA, INTENT: HINT_ACK}
EVENTS = "malformed too_long atomic corrupt source decode error stall given_up unexpected".split()
MANAGERS = {
    "tl_uh": {"TIMEOUT": 300},
    "tl_ul": {"DATA_WIDTH": 32, "MAX_BYTES": 4, "SIZE_BITS": 3, "SOURCE_BITS": 3, "SLOTS": 2, "TIMEOUT": 300},
    "tl_wide": {"DATA_WIDTH": 256, "MAX_BYTES": 256, "SOURCE_BITS": 6, "SLOTS": 16, "TIMEOUT": 300},
}
CLIENTS = {
    "tl_uh": {"TIMEOUT": 300},
    "tl_ul": {"DATA_WIDTH": 32, "MAX_BYTES": 4, "SIZE_BITS": 3, "SLOTS": 2, "ID_BITS": 2, "TIMEOUT": 300},
    "tl_wide": {"DATA_WIDTH": 256, "MAX_BYTES": 256, "SLOTS": 16, "ORDERED": 0, "TIMEOUT": 300},
}
DEFAULTS = {"DATA_WIDTH": 64, "SOURCE_BITS": 4, "ID_BITS": 4, "SIZE_BITS": 4, "MAX_BYTES": 64, "SLOTS": 8, "ORDERED": 1}


def beats_of(opcode, size, width):
    """Beats of a message or an answer with data of 2^`size` bytes, on a bus of `width` bytes."""
    return max(1, (1 << size) // width) if opcode in (PUT_FULL, PUT_PARTIAL, ARITHMETIC, LOGICAL) else 1


def answer_beats(opcode, size, width):
    return max(1, (1 << size) // width) if opcode == ACCESS_ACK_DATA else 1


def lanes(address, size, width):
    """The mask of all bytes of a message in one beat."""
    if 1 << size >= width:
        return (1 << width) - 1
    return ((1 << (1 << size)) - 1) << address % width & (1 << width) - 1


class TileLinkChecker:
    """Judges every cycle of channels A and D. `strict` judges A as well, which the design drives."""

    A = "opcode param size source address mask data corrupt".split()
    D = "opcode param size source sink denied data corrupt".split()

    def __init__(self, width, strict, prefix=""):
        self.width, self.strict = width, strict
        self.a = [prefix + "a_" + field for field in self.A]
        self.d = [prefix + "d_" + field for field in self.D]
        self.valid = {channel: (f"{prefix}{channel}_valid", f"{prefix}{channel}_ready") for channel in "ad"}
        self.held = {}
        self.message, self.more = None, 0          # the message on A
        self.answer, self.answer_more = None, 0    # the answer on D
        self.outstanding = {}                      # source: (opcode, size)
        self.messages = self.answers = 0

    def check(self, wires, cycle):
        for channel, fields in (("d", self.d), ("a", self.a)):
            valid, ready = self.valid[channel]
            if not wires[valid]:
                assert channel not in self.held, f"cycle {cycle}: {valid} fell"
                continue
            payload = [wires[field] for field in fields]
            held = self.held.pop(channel, None)
            if channel == "a" and payload[0] == GET:
                payload[6] = None
            assert held is None or held == payload, f"cycle {cycle}: channel {channel} changed while it waited"
            if not wires[ready]:
                self.held[channel] = payload
            elif channel == "a":
                self.take_a(cycle, *payload)
            else:
                self.take_d(cycle, *payload)

    def take_a(self, cycle, opcode, param, size, source, address, mask, data, corrupt):
        control = (opcode, param, size, source, address)
        full = lanes(address, size, self.width)
        if self.more:
            assert not self.strict or control == self.message, f"cycle {cycle}: a message within another"
            self.more -= 1
        else:
            self.message, self.more = control, beats_of(opcode, size, self.width) - 1
            assert source not in self.outstanding, f"cycle {cycle}: source {source} is in use"
            self.outstanding[source] = (opcode, size)
            self.messages += 1
        if self.strict:
            assert opcode in (GET, PUT_FULL, PUT_PARTIAL) and param == 0 and not corrupt, f"cycle {cycle}: opcode {opcode}"
            assert address % (1 << size) == 0, f"cycle {cycle}: {address:#x} is not aligned to 2^{size}"
            assert mask & ~full == 0 and (opcode == PUT_PARTIAL or mask == full), f"cycle {cycle}: mask {mask:#x}"

    def take_d(self, cycle, opcode, param, size, source, sink, denied, data, corrupt):
        control = (opcode, param, size, source, sink, denied)
        if self.answer_more:
            assert control == self.answer, f"cycle {cycle}: an answer within another"
            self.answer_more -= 1
        else:
            assert source in self.outstanding, f"cycle {cycle}: an answer for source {source} without a message"
            asked, asked_size = self.outstanding[source]
            assert (opcode, size, param) == (ANSWERS.get(asked, ACCESS_ACK), asked_size, 0), f"cycle {cycle}: answer {opcode} of 2^{size} to {asked}"
            self.answer, self.answer_more = control, answer_beats(opcode, size, self.width) - 1
        assert opcode == ACCESS_ACK_DATA or not corrupt, f"cycle {cycle}: corrupt without data"
        assert opcode != ACCESS_ACK_DATA or not denied or corrupt, f"cycle {cycle}: denied data that are not corrupt"
        if not self.answer_more:
            del self.outstanding[source]
            self.answers += 1

    def idle(self):
        return not self.outstanding and not self.more and not self.held


class Bench:
    """A bench of a bridge: time, channels, events."""

    def __init__(self, top, name, parameters, seed, stalls):
        self.name = name
        self.parameters = DEFAULTS | parameters
        self.width = self.parameters["DATA_WIDTH"] // 8
        self.longest = self.parameters["MAX_BYTES"].bit_length() - 1
        self.dice, self.stalls = random.Random(seed), stalls
        sources = [f"{top}*.sv", "pcie_tilelink_timer.sv", "pcie_tilelink.svh", "pcie_tl_fifo.sv", "pcie_dll_counters.sv", "pcie_stack_store.sv"]
        self.model = Model(top, f"tilelink/{top}_{name}", parameters, sources, seed)
        self.values, self.cycle, self.events = self.model.values, 0, collections.Counter()
        self.queues, self.offered = collections.defaultdict(collections.deque), set()
        self.values["rst"] = 1
        for _ in range(3):
            self.model.tick()
        self.values["rst"] = 0

    def close(self):
        self.model.close()

    def go(self):
        return self.dice.random() >= self.stalls

    def data(self, value):
        """Bytes as the model takes them."""
        return value if self.width > 8 else int.from_bytes(value, "little")

    def bytes_of(self, value):
        return value if isinstance(value, bytes) else value.to_bytes(self.width, "little")

    def drive(self, channel, open_=True):
        """Offers the first payload of a queue: a dictionary of port fields."""
        if channel in self.offered:
            return
        if self.queues[channel] and open_ and self.go():
            for field, value in self.queues[channel][0].items():
                self.values[channel + field] = value
            self.values[channel + "valid"] = 1
            self.offered.add(channel)
        else:
            self.values[channel + "valid"] = 0

    def taken(self, channel, out):
        """The payload that the design has taken in this cycle, or None."""
        if channel in self.offered and out[channel + "ready"]:
            self.offered.discard(channel)
            return self.queues[channel].popleft()
        return None

    def step(self, cycles=1):
        for _ in range(cycles):
            self.cycle += 1
            self.drive_all()
            out = self.model.tick()
            wires = self.values | out
            for checker in self.checkers:
                checker.check(wires, self.cycle)
            self.sample(out)
            events = out["events"]
            for n, event in enumerate(EVENTS):
                if events >> n & 1:
                    self.events[event] += 1
            self.out = out

    def run(self, condition, limit=4000):
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError(f"cycle {self.cycle}: not reached in {limit} cycles")

    def counter(self, event):
        """The counter in hardware."""
        counts = self.out["counts"]
        counts = counts if isinstance(counts, int) else int.from_bytes(counts, "little")
        return counts >> 16 * EVENTS.index(event) & 0xFFFF


def background(address):
    """The byte at an address that has not been written."""
    return address * 73 >> 2 & 0xFF


class Memory:
    """Bytes, and ranges that fail."""

    def __init__(self):
        self.bytes, self.errors = {}, []

    def read(self, address, count):
        return bytes(self.bytes.get(n, background(n)) for n in range(address, address + count))

    def write(self, address, data, mask):
        for n, byte in enumerate(data):
            if mask >> n & 1:
                self.bytes[address + n] = byte

    def response(self, address):
        return next((response for low, high, response in self.errors if low <= address < high), OKAY)


class ManagerBench(Bench):
    """pcie_tilelink_manager between clients in Python and an AXI4 memory, which answers in any order of IDs and interleaves reads."""

    def __init__(self, name="tl_uh", seed=1, stalls=0.0, delay=0):
        self.memory, self.delay = Memory(), delay
        self.frozen = self.silent = False   # the bus takes nothing; takes requests and does not answer
        self.aw, self.w, self.ar, self.b = collections.deque(), collections.deque(), [], []
        self.log = []
        super().__init__("pcie_tilelink_manager", name, MANAGERS[name], seed, stalls)
        self.tilelink = TileLinkChecker(self.width, False)
        self.checkers = [self.tilelink, AxiChecker("m_axi_", True)]
        self.answers, self.addresses, self.beats = {}, {}, []

    def send(self, opcode, source, address, size, /, data=None, mask=None, **fields):
        """Queues a message. `data` are the bytes of the whole message; `mask` is one mask, or one for each beat."""
        beats = beats_of(opcode, size, self.width)
        full = lanes(address, size, self.width)
        masks = mask if isinstance(mask, list) else [full if mask is None else mask] * beats
        low = address % self.width if 1 << size < self.width else 0
        for n in range(beats):
            part = b"" if data is None else data[n * self.width:(n + 1) * self.width]
            part = (bytes(low) + part).ljust(self.width, b"\xa5")[:self.width]
            beat = {"opcode": opcode, "param": 0, "size": size, "source": source, "address": address, "mask": masks[n], "data": self.data(part), "corrupt": 0}
            for field, value in fields.items():
                beat[field] = value[n] if isinstance(value, list) else value
            self.queues["a_"].append(beat)

    def ask(self, opcode, source, address, size, /, data=None, limit=4000, **fields):
        """Sends a message and returns (denied, data or None, corrupt of each beat)."""
        self.send(opcode, source, address, size, data, **fields)
        return self.answer(source, limit)

    def answer(self, source, limit=4000):
        self.run(lambda: source in self.answers, limit)
        opcode, size, beats, address = self.answers.pop(source)
        data = b"".join(data for data, _, _ in beats)
        low = address % self.width if 1 << size < self.width else 0
        return bool(beats[0][1]), data[low:low + (1 << size)] if opcode == ACCESS_ACK_DATA else None, [corrupt for _, _, corrupt in beats]

    def drive_all(self):
        values, open_ = self.values, not self.frozen
        self.drive("a_")
        values["d_ready"] = int(self.go())
        for channel in ("aw", "w", "ar"):
            values[f"m_axi_{channel}ready"] = int(open_ and self.go())
        answers = open_ and not self.silent
        if "m_axi_b" not in self.offered and not self.queues["m_axi_b"]:
            due = [entry for entry in self.b if entry[0] <= self.cycle]
            if due and answers:
                entry = self.dice.choice(due)
                self.b.remove(entry)
                self.queues["m_axi_b"].append(entry[1])
        if "m_axi_r" not in self.offered and not self.queues["m_axi_r"]:
            due = [entry for entry in self.ar if entry["due"] <= self.cycle]
            if due and answers:
                entry = self.dice.choice(due)
                self.queues["m_axi_r"].append(self.read_beat(entry))
        self.drive("m_axi_b", answers)
        self.drive("m_axi_r", answers)

    def read_beat(self, entry):
        at = entry["at"]
        data = self.memory.read(at // self.width * self.width, self.width)
        entry["left"] -= 1
        entry["at"] += self.width
        if not entry["left"]:
            self.ar.remove(entry)
        return {"id": entry["id"], "data": self.data(data), "resp": self.memory.response(at), "last": int(not entry["left"])}

    def due(self):
        return self.cycle + 1 + (self.dice.randrange(self.delay) if self.delay else 0)

    def sample(self, out):
        values = self.values
        beat = self.taken("a_", out)
        if beat and not self.tilelink.more:
            self.addresses[beat["source"]] = self.tilelink.message[4]
        if out["d_valid"] and values["d_ready"]:
            self.beats.append((self.bytes_of(out["d_data"]), out["d_denied"], out["d_corrupt"]))
            if not self.tilelink.answer_more:
                source = out["d_source"]
                assert source not in self.answers, f"cycle {self.cycle}: a second answer for source {source}"
                self.answers[source] = (out["d_opcode"], out["d_size"], self.beats, self.addresses[source])
                self.beats = []
        self.taken("m_axi_b", out)
        self.taken("m_axi_r", out)
        if out["m_axi_awvalid"] and values["m_axi_awready"]:
            self.aw.append((out["m_axi_awid"], out["m_axi_awaddr"], out["m_axi_awlen"] + 1, out["m_axi_awsize"]))
        if out["m_axi_wvalid"] and values["m_axi_wready"]:
            self.w.append((self.bytes_of(out["m_axi_wdata"]), out["m_axi_wstrb"]))
        if out["m_axi_arvalid"] and values["m_axi_arready"]:
            self.log.append(("read", out["m_axi_araddr"], out["m_axi_arlen"] + 1, out["m_axi_arsize"]))
            self.ar.append({"id": out["m_axi_arid"], "at": out["m_axi_araddr"], "left": out["m_axi_arlen"] + 1, "due": self.due()})
        while self.aw and len(self.w) >= self.aw[0][2]:
            ident, address, beats, size = self.aw.popleft()
            worst, at = OKAY, address // self.width * self.width
            strobes = []
            for _ in range(beats):
                data, strobe = self.w.popleft()
                worst = max(worst, self.memory.response(at))
                if not self.memory.response(at):
                    self.memory.write(at, data, strobe)
                strobes.append(strobe)
                at += self.width
            self.log.append(("write", address, strobes, size))
            self.b.append((self.due(), {"id": ident, "resp": worst}))

    def quiet(self):
        return self.tilelink.idle() and not self.queues["a_"] and self.checkers[1].idle() and not self.checkers[1].held


class Manager:
    """A TileLink manager with a memory on ports with `prefix`: answers in any order, or with `fifo` in that of the messages.

    It may answer a Put after its first beat.
    """

    def __init__(self, bench, prefix, width, memory, delay=0, fifo=False):
        self.bench, self.prefix, self.width, self.memory, self.delay, self.fifo = bench, prefix, width, memory, delay, fifo
        self.put, self.pending, self.log, self.beats = [], [], [], collections.deque()
        self.latency = 0                    # cycles from a message to its answer, more than one
        self.open = True                    # channel A is taken
        self.frozen = self.silent = False   # no message is taken; messages are taken and not answered
        self.waits = False

    def data(self, value):
        return value if self.width > 8 else int.from_bytes(value, "little")

    def drive(self):
        bench, values, answers = self.bench, self.bench.values, not self.frozen and not self.silent
        values[self.prefix + "a_ready"] = int(self.open and not self.frozen and bench.go())
        if not self.beats and answers:
            due = [entry for entry in self.pending if entry["due"] <= bench.cycle]
            if due:
                entry = due[0] if self.fifo else bench.dice.choice(due)
                self.pending.remove(entry)
                self.answer(entry)
        if not self.waits:
            values[self.prefix + "d_valid"] = int(bool(self.beats) and answers and bench.go())
            if values[self.prefix + "d_valid"]:
                self.waits = True
                for field, value in self.beats[0].items():
                    values[self.prefix + "d_" + field] = value

    def answer(self, entry):
        opcode, size, source, address = entry["opcode"], entry["size"], entry["source"], entry["address"]
        responses = [self.memory.response(address + self.width * n) for n in range(max(1, (1 << size) // self.width))]
        denied = int(DECERR in responses)
        base = {"param": 0, "size": size, "source": source, "sink": 0, "denied": denied}
        if opcode != GET:
            self.beats.append(base | {"opcode": ACCESS_ACK, "corrupt": 0, "denied": int(any(responses)), "data": self.data(bytes(self.width))})
            return
        at = address // self.width * self.width
        for response in responses:
            data = self.memory.read(at, self.width)
            self.beats.append(base | {"opcode": ACCESS_ACK_DATA, "corrupt": int(denied or response == SLVERR), "data": self.data(data)})
            at += self.width

    def sample(self, out):
        prefix, bench = self.prefix, self.bench
        if self.waits and out[prefix + "d_ready"]:
            self.waits = False
            self.beats.popleft()
        if not (out[prefix + "a_valid"] and bench.values[prefix + "a_ready"]):
            return
        message = {field: out[prefix + "a_" + field] for field in ("opcode", "size", "source", "address")}
        if not self.put:
            self.log.append((message["opcode"], message["address"], message["size"]))
            message["due"] = bench.cycle + 1 + self.latency + (bench.dice.randrange(self.delay) if self.delay else 0)
            self.pending.append(message)
        if message["opcode"] == GET:
            return
        at = message["address"] // self.width * self.width + self.width * len(self.put)
        if not self.memory.response(at):
            data, mask = out[prefix + "a_data"], out[prefix + "a_mask"]
            data = data if isinstance(data, bytes) else data.to_bytes(self.width, "little")
            self.memory.bytes.update({at + n: byte for n, byte in enumerate(data) if mask >> n & 1})
        self.put.append(message)
        if len(self.put) == beats_of(message["opcode"], message["size"], self.width):
            self.put = []


class ClientBench(Bench):
    """pcie_tilelink_client between an AXI4 master and a manager in Python."""

    def __init__(self, name="tl_uh", seed=1, stalls=0.0, delay=0, fifo=False):
        super().__init__("pcie_tilelink_client", name, CLIENTS[name], seed, stalls)
        self.memory = Memory()
        self.manager = Manager(self, "", self.width, self.memory, delay, fifo)
        self.log = self.manager.log
        self.tilelink = TileLinkChecker(self.width, True)
        self.checkers = [self.tilelink, AxiChecker("s_axi_", False)]
        self.written, self.read = collections.defaultdict(list), collections.defaultdict(list)

    def start_read(self, address, size, beats=1, ident=0, burst=1):
        self.queues["s_axi_ar"].append({"id": ident, "addr": address, "len": beats - 1, "size": size, "burst": burst})

    def start_write(self, address, size, data, strobes=None, ident=0, burst=1, last=None):
        """Queues an INCR burst of `data` at `address`; `strobes` has a bit for each byte."""
        parts, at, done = [], address, 0
        while done < len(data):
            end = (at >> size << size) + (1 << size)
            part = data[done:done + end - at]
            low = at % self.width
            enables = (1 << len(part)) - 1 if strobes is None else strobes >> done & (1 << len(part)) - 1
            parts.append(((bytes(low) + part).ljust(self.width, b"\x5a"), enables << low))
            done, at = done + end - at, end
        self.queues["s_axi_aw"].append({"id": ident, "addr": address, "len": len(parts) - 1, "size": size, "burst": burst})
        for n, (part, enables) in enumerate(parts):
            is_last = n == len(parts) - 1 if last is None else n == last
            self.queues["s_axi_w"].append({"data": self.data(part), "strb": enables, "last": int(is_last)})

    def write_burst(self, address, size, data, limit=4000, ident=0, **options):
        before = len(self.written[ident])
        self.start_write(address, size, data, ident=ident, **options)
        self.run(lambda: len(self.written[ident]) > before, limit)
        return self.written[ident][-1]

    def read_burst(self, address, size, beats=1, limit=4000, ident=0, burst=1):
        before = len(self.read[ident])
        self.start_read(address, size, beats, ident, burst)
        self.run(lambda: len(self.read[ident]) >= before + beats, limit)
        return self.collect(address, size, self.read[ident][before:])

    def collect(self, address, size, beats):
        """The bytes from `address` on and the responses."""
        data, at = b"", address
        for beat, _, _ in beats:
            end = (at >> size << size) + (1 << size)
            data += beat[at % self.width:at % self.width + end - at]
            at = end
        return data, [response for _, response, _ in beats]

    def drive_all(self):
        values = self.values
        for channel in ("aw", "w", "ar"):
            self.drive(f"s_axi_{channel}")
        values["s_axi_bready"], values["s_axi_rready"] = int(self.go()), int(self.go())
        self.manager.drive()

    def sample(self, out):
        values = self.values
        for channel in ("s_axi_aw", "s_axi_w", "s_axi_ar"):
            self.taken(channel, out)
        self.manager.sample(out)
        if out["s_axi_bvalid"] and values["s_axi_bready"]:
            self.written[out["s_axi_bid"]].append(out["s_axi_bresp"])
        if out["s_axi_rvalid"] and values["s_axi_rready"]:
            self.read[out["s_axi_rid"]].append((self.bytes_of(out["s_axi_rdata"]), out["s_axi_rresp"], out["s_axi_rlast"]))

    def quiet(self):
        return self.tilelink.idle() and not any(self.queues[channel] for channel in ("s_axi_aw", "s_axi_w", "s_axi_ar")) and self.checkers[1].idle()

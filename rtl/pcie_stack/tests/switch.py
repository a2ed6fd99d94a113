# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The switch from Python: benches that drive its streams or its links, and an independent model of its routing."""

import collections
import random

from model import Model
from tlps import Tlp, completion, configuration, header_0

P, NP, CPL = 0, 1, 2
CORES = {
    "one": {"DOWNSTREAM": 1},
    "two": {"DOWNSTREAM": 2, "MAX_PAYLOAD": 256},
    "four": {"DOWNSTREAM": 4, "DATA_WIDTH": 128, "MAX_PAYLOAD": 128},
    "wide": {"DOWNSTREAM": 3, "DATA_WIDTH": 512, "MAX_PAYLOAD": 512},
}
LINKS = {"links": {"DOWNSTREAM": 2, "DATA_WIDTH": 128}, "links_wide": {"DOWNSTREAM": 3, "DATA_WIDTH": 256, "RX_P_HEADERS": 32, "RX_P_DATA": 256}}
EVENTS = "posted_ur request_ur unexpected config message marked".split()


def class_of(raw):
    """Returns the flow-control type of a TLP."""
    fmt, kind = raw[0] >> 5, raw[0] & 31
    if kind in (10, 11):
        return CPL
    return P if kind >> 3 == 2 or (kind == 0 and fmt & 2) else NP


class Bench:
    """Common part of both benches: TLPs to send by port and type, and received TLPs by port with their cycles."""

    def __init__(self, model, parameters, seed, stalls):
        self.model, self.values = model, model.values
        self.width = parameters.get("DATA_WIDTH", 256)
        self.beat, self.lane_bits = self.width // 8, (self.width // 32 - 1).bit_length()
        self.count = parameters["DOWNSTREAM"] + 1
        self.dice, self.stalls = random.Random(seed), stalls
        self.cycle, self.arrived = 0, 0
        self.queues = [[collections.deque() for _ in range(3)] for _ in range(self.count)]
        self.received = [[] for _ in range(self.count)]
        self.handed = [[] for _ in range(self.count)]  # TLPs that each port got, with their place in the order that must be kept
        self.events = [collections.Counter() for _ in range(self.count)]
        self.tag = 0

    def send(self, port, *tlps, **marks):
        """Queues TLPs for the switch. A non-posted request or completion is offered after all posted requests that were queued before."""
        for raw in tlps:
            self.arrived += 1
            self.queues[port][class_of(raw)].append((raw, self.arrived, marks))

    def may(self, port, kind):
        """Whether the next TLP of a type may be offered."""
        queue, posted = self.queues[port][kind], self.queues[port][P]
        return bool(queue) and (kind == P or not posted or posted[0][1] > queue[0][1])

    def go(self):
        return self.dice.random() >= self.stalls

    def put(self, **vectors):
        """Sets ports to integers or lists of `bytes`."""
        for name, value in vectors.items():
            bits, size = self.model.sizes[name]
            if isinstance(value, list):
                value = int.from_bytes(b"".join(value), "little")
            self.values[name] = value if bits <= 64 else value.to_bytes(size, "little")

    @staticmethod
    def number(value):
        return int.from_bytes(value, "little") if isinstance(value, bytes) else value

    def take(self, port):
        """Removes and returns the TLPs that have left `port`."""
        taken = [raw for raw, _ in self.received[port]]
        self.received[port].clear()
        return taken

    def run(self, cycles=60):
        for _ in range(cycles):
            self.step()

    def settle(self, limit=20000):
        """Runs until all queued TLPs were handed over and nothing has left for 60 cycles."""
        quiet = 0
        for _ in range(limit):
            before = sum(map(len, self.received))
            self.step()
            idle = not any(queue for queues in self.queues for queue in queues) and before == sum(map(len, self.received)) and not self.within()
            quiet = quiet + 1 if idle else 0
            if quiet > self.patience:
                return
        raise AssertionError(f"cycle {self.cycle}: TLPs do not leave: {[[len(queue) for queue in queues] for queues in self.queues]}")

    def count_events(self, value):
        value = self.number(value)
        for port in range(self.count):
            for n, name in enumerate(EVENTS):
                self.events[port][name] += value >> 6 * port + n & 1

    def config(self, target, register, value=None, type1=True, **fields):
        """A configuration access from above. Returns the completion."""
        self.tag = (self.tag + 1) % 256
        self.send(0, configuration(target, register, self.tag, value, type1, **fields))
        for _ in range(5000):
            self.step()
            for found in self.received[0]:
                if class_of(found[0]) == CPL and Tlp(found[0]).tag == self.tag:
                    self.received[0].remove(found)
                    return Tlp(found[0])
        raise AssertionError(f"no completion for {target:04x} register {register:x}")

    def read(self, target, register, **fields):
        """The value of a configuration register."""
        answer = self.config(target, register, **fields)
        assert answer.status == 0 and len(answer.data) == 4
        return int.from_bytes(answer.data, "little")

    def write(self, target, register, value, **fields):
        answer = self.config(target, register, value, **fields)
        assert answer.status == 0 and not answer.data


class CoreBench(Bench):
    """pcie_switch_core between transaction layers that the bench plays."""

    patience = 60

    def __init__(self, name, seed=1, stalls=0.0):
        parameters = CORES[name]
        model = Model("pcie_switch_core", f"switch/{name}", parameters, ["pcie_switch*.sv*", "pcie_dll_counters.sv"], seed)
        super().__init__(model, parameters, seed, stalls)
        streams = 3 * self.count
        self.full = [[False] * 3 for _ in range(self.count)]  # a type that never has room at a port
        self.offers, self.at = [None] * streams, [0] * streams
        self.partial, self.pieces = [None] * self.count, [bytes(self.beat)] * streams
        self.active = (1 << self.count) - 1
        self.put(rst=1, active=0, link_up=0, tx_room=0)
        self.put(link_speed=int("3" * self.count, 16), link_width=sum(8 << 6 * n for n in range(self.count)))
        self.model.tick()
        self.model.tick()
        self.put(rst=0)
        self.run(3)

    def close(self):
        self.model.close()

    def within(self):
        return any(self.offers) or any(part is not None for part in self.partial)

    def drive(self):
        valid = sop = eop = cut = poisoned = ends = 0
        for port in range(self.count):
            for kind in range(3):
                s = 3 * port + kind
                if self.offers[s] is None and self.may(port, kind) and self.go():
                    raw, _, marks = self.queues[port][kind][0]
                    part = raw[self.at[s]:self.at[s] + self.beat]
                    last = self.at[s] + self.beat >= len(raw)
                    is_cut = self.at[s] and self.at[s] >= marks.get("cut", 1 << 20)
                    self.offers[s] = (self.at[s] == 0, last or is_cut, is_cut, len(part) // 4 - 1, raw[2] >> 6 & 1)
                    self.pieces[s] = part + b"\x5a" * (self.beat - len(part))
                if self.offers[s] is not None:
                    first, last, is_cut, end, mark = self.offers[s]
                    valid |= 1 << s
                    sop |= int(first) << s
                    eop |= int(last) << s
                    cut |= int(is_cut) << s
                    poisoned |= mark << s
                    ends |= end << self.lane_bits * s
        self.room = 0
        for port in range(self.count):
            for kind in range(3):
                if self.active >> port & 1 and not self.full[port][kind] and self.go():
                    self.room |= 1 << 3 * port + kind
        self.put(rx_valid=valid, rx_sop=sop, rx_eop=eop, rx_cut=cut, rx_poisoned=poisoned, rx_end=ends, rx_data=self.pieces, tx_room=self.room,
                 active=self.active, link_up=self.active)

    def step(self):
        self.drive()
        out = self.model.tick()
        ready, ends, data = self.number(out["rx_ready"]), self.number(out["tx_end"]), out["tx_data"]
        for s, offer in enumerate(self.offers):
            if offer is None or not ready >> s & 1:
                continue
            port, kind = divmod(s, 3)
            self.offers[s] = None
            self.at[s] += self.beat
            if offer[1]:
                raw, order, _ = self.queues[port][kind].popleft()
                self.handed[port].append((order, raw))
                self.at[s] = 0
        for port in range(self.count):
            if not out["tx_valid"] >> port & 1:
                continue
            first, last = out["tx_sop"] >> port & 1, out["tx_eop"] >> port & 1
            part = data[self.beat * port:self.beat * (port + 1)]
            assert first == (self.partial[port] is None), f"cycle {self.cycle}: sop of port {port}"
            if first:
                assert self.room >> 3 * port + class_of(part) & 1, f"cycle {self.cycle}: a TLP without room at port {port}"
                self.partial[port] = b""
            self.partial[port] += part[:4 * ((ends >> self.lane_bits * port & (1 << self.lane_bits) - 1) + 1)] if last else part
            if last:
                self.received[port].append((self.partial[port], self.cycle))
                self.partial[port] = None
        self.count_events(out["events"])
        self.out = out
        self.cycle += 1


class LinkBench(Bench):
    """pcie_switch with a complete port at the other end of each link. Frames are damaged at the rate `damage`."""

    patience = 1500

    def __init__(self, name, seed=1, stalls=0.0, damage=0.0):
        parameters = LINKS[name]
        model = Model("switch_bench", f"switch/{name}", parameters, ["pcie_*.sv*", "tests/switch_bench.sv"], seed, "tests/switch_bench.sv")
        super().__init__(model, parameters, seed, stalls)
        self.damage = damage
        self.full = [[False] * 3 for _ in range(self.count)]  # a type that the other end never takes
        self.sending, self.pieces = [None] * self.count, [bytes(self.beat)] * self.count
        self.partial = [None] * (3 * self.count)
        self.up = (1 << self.count) - 1
        self.put(rst=1, phy_link_up=0)
        for _ in range(4):
            self.model.tick()
        self.put(rst=0)
        self.out = {"tx_ready": 0, "tx_room": 0}
        for _ in range(5000):
            self.step()
            if self.out["active"] == self.up:
                break
        else:
            raise AssertionError("links do not come up")
        self.run(100)

    def close(self):
        self.model.close()

    def within(self):
        return any(self.sending) or any(part is not None for part in self.partial)

    def step(self):
        valid = sop = eop = ends = ready = damage_in = damage_out = 0
        room = self.out["tx_room"]
        for port in range(self.count):
            if self.sending[port] is None:
                # The oldest TLP whose type has room. Room is a cycle old, so the port may still stall it.
                choices = [kind for kind in range(3) if self.may(port, kind) and room >> 3 * port + kind & 1]
                if choices and self.go():
                    kind = min(choices, key=lambda each: self.queues[port][each][0][1])
                    self.sending[port] = [self.queues[port][kind].popleft()[0], 0]
            if self.sending[port] is not None:
                raw, at = self.sending[port]
                part = raw[at:at + self.beat]
                valid |= 1 << port
                sop |= int(at == 0) << port
                eop |= int(at + self.beat >= len(raw)) << port
                ends |= len(part) // 4 - 1 << self.lane_bits * port
                self.pieces[port] = part + bytes(self.beat - len(part))
            damage_in |= int(self.dice.random() < self.damage) << port
            damage_out |= int(self.dice.random() < self.damage) << port
            for kind in range(3):
                ready |= int(not self.full[port][kind] and self.go()) << 3 * port + kind
        self.put(tx_valid=valid, tx_sop=sop, tx_eop=eop, tx_end=ends, tx_data=self.pieces, rx_ready=ready, damage_in=damage_in, damage_out=damage_out, phy_link_up=self.up)
        self.out = out = self.model.tick()
        for port in range(self.count):
            if valid & out["tx_ready"] >> port << port & 1 << port:
                self.sending[port][1] += self.beat
                if eop >> port & 1:
                    self.handed[port].append((self.cycle, self.sending[port][0]))
                    self.sending[port] = None
        taken, rx_ends, data = out["rx_valid"] & ready, self.number(out["rx_end"]), out["rx_data"]
        for s in range(3 * self.count):
            if not taken >> s & 1:
                continue
            part = data[self.beat * s:self.beat * (s + 1)]
            if out["rx_sop"] >> s & 1:
                self.partial[s] = b""
            last = out["rx_eop"] >> s & 1
            self.partial[s] += part[:4 * ((rx_ends >> self.lane_bits * s & (1 << self.lane_bits) - 1) + 1)] if last else part
            if last:
                if not out["rx_cut"] >> s & 1:
                    self.received[s // 3].append((self.partial[s], self.cycle))
                self.partial[s] = None
        self.count_events(out["events"])
        self.cycle += 1


class Function:
    """Settings of one port of the switch, for the model."""

    def __init__(self):
        self.secondary = self.subordinate = 0
        self.memory = self.prefetch = None  # (first, last) address
        self.enabled = self.master = True
        self.serr, self.errors = True, True  # SERR# Enable of Bridge Control and of Command
        self.ari = self.block_atomics = False

    def claims(self, address):
        return self.enabled and any(window and window[0] <= address <= window[1] for window in (self.memory, self.prefetch))

    def has(self, bus):
        return self.secondary <= bus <= self.subordinate and self.secondary != 0


class Reference:
    """Routing by PCIe 6.0 §2.2.4, §2.2.8 and §7.3.3, written from the text. Port 0 is the upstream port."""

    def __init__(self, count):
        self.functions = [Function() for _ in range(count)]
        self.bus = self.device = 0

    def completer(self, port):
        return self.bus << 8 | self.device << 3 if port == 0 else self.functions[0].secondary << 8 | port - 1 << 3

    def below(self, claims):
        """The first downstream port for which `claims` holds."""
        return next((n for n in range(1, len(self.functions)) if claims(self.functions[n])), None)

    def of_address(self, port, address):
        top, own = self.functions[0], self.functions[port]
        found = self.below(lambda function: function.claims(address))
        if port == 0:
            return found if top.claims(address) else None
        if not own.master or own.claims(address):
            return None
        if found is not None:
            return found
        return 0 if top.master and not top.claims(address) else None

    def of_bus(self, port, bus):
        top, own = self.functions[0], self.functions[port]
        found = self.below(lambda function: function.has(bus))
        if port == 0:
            return found if top.has(bus) else None
        if own.has(bus):
            return None
        return found if found is not None else None if top.has(bus) else 0

    def route(self, port, raw):
        """Ports at which a TLP leaves, with its bytes there; ("answer", completion); or ("end",)."""
        kind, tlp = class_of(raw), Tlp(raw)
        type_ = raw[0] & 31
        if kind == CPL:
            return self.leave(self.of_bus(port, raw[8]), raw) or [("end",)]
        if kind == P:
            if type_ == 0:
                return self.leave(self.of_address(port, tlp.address), raw) or [("end",)]
            return self.message(port, raw)
        if type_ in (0, 12, 13, 14):
            width = 8 if raw[0] & 0x20 else 4
            target = self.of_address(port, int.from_bytes(raw[8:8 + width], "big") & ~3)
            if target is not None and type_ != 0 and self.functions[target].block_atomics:
                target = None
            return self.leave(target, raw) or self.refuse(port, raw)
        if type_ in (4, 5) and port == 0:
            return self.configuration(raw)
        return self.refuse(port, raw)

    @staticmethod
    def leave(target, raw):
        return [] if target is None else [(target, raw)]

    def refuse(self, port, raw):
        """A completion with UR. Byte Count and Lower Address are those of the whole request (§2.2.9)."""
        tlp, count, lower = Tlp(raw), 4, 0
        type_ = raw[0] & 31
        if type_ in (0, 1):
            enabled = list(Tlp(bytes([raw[0] & 0xE0]) + raw[1:]).enabled())
            address = int.from_bytes(raw[8:16 if raw[0] & 0x20 else 12], "big") & ~3
            start = enabled[0][0] if enabled else address
            count, lower = (enabled[-1][0] - start + 1 if enabled else 1), start & 0x7F
        elif type_ in (12, 13, 14):
            count = 4 * tlp.length // (2 if type_ == 14 else 1)
        answer = completion(1, b"", raw[6], count, lower, int.from_bytes(raw[4:6], "big"), self.completer(port), length=0)
        answer = answer[:1] + bytes([raw[1] & 0xFC, raw[2] & 0x30]) + answer[3:]
        return [("answer", answer)]

    def configuration(self, raw):
        bus, device, function, type1 = raw[8], raw[9] >> 3, raw[9] & 7, raw[0] & 1
        top = self.functions[0]
        if not type1:
            return [("own", 0)] if function == 0 else self.refuse(0, raw)
        if not top.has(bus):
            return self.refuse(0, raw)
        if bus == top.secondary:
            return [("own", device + 1)] if function == 0 and device + 1 < len(self.functions) else self.refuse(0, raw)
        target = self.below(lambda each: each.has(bus))
        if target is None:
            return self.refuse(0, raw)
        if bus != self.functions[target].secondary:
            return [(target, raw)]
        if device and not self.functions[target].ari:
            return self.refuse(0, raw)
        return [(target, bytes([raw[0] & ~1]) + raw[1:])]

    def message(self, port, raw):
        routing, code = raw[0] & 7, raw[7]
        if routing == 0 and port:
            functions = (self.functions[0], self.functions[port])
            open_ = {0x30: all(f.serr for f in functions), 0x31: all(f.serr and f.errors for f in functions), 0x33: all(f.serr and f.errors for f in functions)}
            return [(0, raw)] if open_.get(code, True) else [("end",)]
        if routing == 1:
            return self.leave(self.of_address(port, int.from_bytes(raw[8:16], "big")), raw) or [("end",)]
        if routing == 2:
            return self.leave(self.of_bus(port, raw[8]), raw) or [("end",)]
        if routing == 3 and port == 0:
            return [(n, raw) for n in range(1, len(self.functions))]
        return [("end",)]

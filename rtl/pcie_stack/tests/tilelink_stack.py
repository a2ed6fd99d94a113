# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Root complex and endpoint with TileLink ports, at their frames: TileLink clients and managers in Python, which use a stack through its link."""

import collections

from root_complex import DECERR, OKAY, SLVERR
from test_root_stack import StackBench
from tilelink import ACCESS_ACK_DATA, GET, PUT_FULL, Manager, TileLinkChecker, beats_of, lanes


class TileLinkBench(StackBench):
    """The design with a TileLink client as the CPU and a TileLink manager as the memory. Ports begin with CLIENT and MANAGER."""

    CLIENT, MANAGER = "cpu_", "memory_"

    def __init__(self, name, **options):
        super().__init__(name, **options)
        self.manager = Manager(self, self.MANAGER, self.bus_bytes, self.memory, delay=8, fifo=not self.parameters.get("ORDERED", 1))
        self.cpu = TileLinkChecker(self.cpu_bytes, False, self.CLIENT)
        self.checkers = [self.cpu, TileLinkChecker(self.bus_bytes, True, self.MANAGER)]
        self.messages, self.answers, self.parts, self.waits = collections.deque(), {}, [], False

    def drive_cpu(self):
        values = self.values
        if not self.waits:
            self.waits = bool(self.messages) and self.go()
            values[self.CLIENT + "a_valid"] = int(self.waits)
            if self.waits:
                values.update(self.messages[0])
        values[self.CLIENT + "d_ready"] = int(self.go())

    def sample_cpu(self, out):
        out = {name[len(self.CLIENT):]: value for name, value in out.items() if name.startswith(self.CLIENT)}
        if self.waits and out["a_ready"]:
            self.waits = False
            self.messages.popleft()
        if out["d_valid"] and self.values[self.CLIENT + "d_ready"]:
            data = out["d_data"]
            self.parts.append((data if isinstance(data, bytes) else data.to_bytes(self.cpu_bytes, "little"), out["d_denied"], out["d_corrupt"]))
            if not self.cpu.answer_more:
                self.answers[out["d_source"]] = (out["d_opcode"], self.parts)
                self.parts = []

    def drive_memory(self):
        self.manager.frozen, self.manager.silent = self.memory.frozen, self.memory.silent
        self.manager.drive()

    def sample_memory(self, out):
        self.manager.sample(out)

    def send(self, opcode, source, address, size, data=b""):
        low = address % self.cpu_bytes if 1 << size < self.cpu_bytes else 0
        for n in range(beats_of(opcode, size, self.cpu_bytes)):
            part = (bytes(low) + data[n * self.cpu_bytes:(n + 1) * self.cpu_bytes]).ljust(self.cpu_bytes, b"\x11")[:self.cpu_bytes]
            fields = {"opcode": opcode, "param": 0, "size": size, "source": source, "address": address, "mask": lanes(address, size, self.cpu_bytes), "corrupt": 0}
            fields["data"] = part if self.cpu_bytes > 8 else int.from_bytes(part, "little")
            self.messages.append({self.CLIENT + "a_" + field: value for field, value in fields.items()})

    def ask(self, opcode, address, size, data=b"", source=1, limit=60000):
        """Sends a message and returns (data, [response]), with denied and corrupt as the responses of AXI."""
        self.send(opcode, source, address, size, data)
        self.run(lambda: source in self.answers, limit)
        found, beats = self.answers.pop(source)
        low = address % self.cpu_bytes if 1 << size < self.cpu_bytes else 0
        got = b"".join(part for part, _, _ in beats)[low:low + (1 << size)] if found == ACCESS_ACK_DATA else b""
        return got, [DECERR if denied else SLVERR if corrupt else OKAY for _, denied, corrupt in beats]

    def read_burst(self, address, size, limit=60000):
        return self.ask(GET, address, size, limit=limit)

    def write_burst(self, address, size, data, limit=60000):
        return self.ask(PUT_FULL, address, size, data, limit=limit)[1][0]

    def quiet(self):
        return super().quiet() and not self.messages and not self.manager.pending

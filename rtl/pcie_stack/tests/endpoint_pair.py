# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A root port and an endpoint in RTL, joined by their frames or by physical layers: CPU and memory at one end, registers and DMA at the other."""

import types

import root_complex
from endpoint import EVENTS
from model import Model

BUILDS = {
    "joined": {},
    "joined_narrow": {"DATA_WIDTH": 128, "CPU_WIDTH": 128, "BUS_WIDTH": 32, "DMA_WIDTH": 128, "MAX_PAYLOAD": 128},
    "joined_x8": {"LANES": 8},
}
DEFAULTS = {"DATA_WIDTH": 256, "CPU_WIDTH": 64, "BUS_WIDTH": 64, "DMA_WIDTH": 64}


class Side(root_complex.Bench):
    """The peripheral's end: registers in `memory`, DMA by `read_burst` and `write_burst`. It has the ports of the bench that begin with e_."""

    EVENTS = EVENTS

    def __init__(self, bench, seed, stalls):
        self.bench = bench
        self.values = {}
        self.model = types.SimpleNamespace(sizes={name[2:]: size for name, size in bench.model.sizes.items() if name.startswith("e_")})
        self.beat, self.bus_bytes, self.cpu_bytes = (bench.parameters[width] // 8 for width in ("DATA_WIDTH", "BUS_WIDTH", "DMA_WIDTH"))
        self.start(seed, stalls)

    def step(self, cycles=1):
        self.bench.step(cycles)

    def drive(self):
        self.drive_cpu()
        self.drive_memory()
        self.bench.values.update({f"e_{name}": value for name, value in self.values.items()})

    def sample(self, out):
        self.cycle = self.bench.cycle
        out = {name[2:]: value for name, value in out.items() if name.startswith("e_")}
        wires = self.values | out
        for checker in self.checkers:
            checker.check(wires, self.cycle)
        self.sample_cpu(out)
        self.sample_memory(out)
        for n, event in enumerate(EVENTS):
            self.events[event] += out["events"] >> n & 1
        self.resets = getattr(self, "resets", 0) + out["function_reset"]


class PairBench(root_complex.Bench):
    """Both ends. The CPU's accesses are methods of this object, and what the peripheral does those of `side`."""

    def build(self, name, seed):
        self.parameters = DEFAULTS | BUILDS[name]
        self.beat = self.bus_bytes = self.parameters["DATA_WIDTH"] // 8
        self.cpu_bytes = self.parameters["CPU_WIDTH"] // 8
        return Model("endpoint_bench", f"endpoint/{name}", BUILDS[name], ["pcie_*.sv*", "tests/endpoint_bench.sv"], seed, "tests/endpoint_bench.sv")

    def __init__(self, name="joined", seed=1, stalls=0.0, latency=3):
        self.latency = latency
        super().__init__(name, seed, stalls)
        self.side = Side(self, seed + 2, stalls)
        self.out = {"dl_up": 0}
        self.register(0x04, 1)
        self.wait_for_link()

    def wait_for_link(self):
        self.run(lambda: self.out["dl_up"] == 3, 20000)

    def connect(self):
        self.values.update(link=1, latency=self.latency)

    def drive_link(self):
        self.side.drive()

    def sample_link(self, out):
        self.side.sample(out)

    def quiet(self):
        return super().quiet() and not any(self.side.to_cpu.values()) and all(checker.idle() for checker in self.side.checkers)

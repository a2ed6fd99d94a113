# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The workload of `dma.py` with riser: `riser_dma.py OPERATIONS`."""

import sys

import riser


class Mover(riser.Device):
    base = riser.Register(0, bits=64)

    def __init__(self, operations: int) -> None:
        self.operations = operations

    @base.on_write
    async def move(self, io: riser.Io, base: int) -> None:
        for n in range(self.operations // 2):
            data = await io.dma_read(base, 256)
            await io.dma_write(base + 256 * (1 + n % 255), data)
        await io.interrupt()

    async def driver(self, cpu: riser.Cpu, function: riser.Function) -> None:
        base, pattern = cpu.memory.alloc(1 << 16), bytes(range(256))
        cpu.memory.write(base, pattern)
        await cpu.write_u64(function.address(), base)
        await cpu.interrupt(function.vector())
        if self.operations:
            last = base + 256 * (1 + (self.operations // 2 - 1) % 255)
            assert cpu.memory.read(last, 256) == pattern


lab = riser.Lab()
lab.slot("dut", Mover(int(sys.argv[1])))
lab.run(progress=False)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A device that writes the SHA-256 digest of a buffer of host memory next to it, and its driver."""

import hashlib

import riser


class Digest(riser.Device):
    class_code = 0x108000

    source = riser.Register(0x00, bits=64)
    target = riser.Register(0x08, bits=64)
    length = riser.Register(0x10)
    doorbell = riser.Register(0x14)
    failed = riser.Register(0x18, writable=0)

    @doorbell.on_write
    async def start(self, io, _):
        self.failed = 0
        try:
            data = await io.dma_read(self.source, self.length)
            await io.dma_write(self.target, hashlib.sha256(data).digest())
        except riser.DmaError:
            self.failed = 1
        await io.interrupt()


async def digest(cpu, function, data):
    """Returns the digest of `data` by the device, or None if the device reports a failure."""
    source, target = cpu.memory.alloc(len(data)), cpu.memory.alloc(32)
    cpu.memory.write(source, data)
    base = function.address(bar=0)
    await cpu.write_u64(base + 0x00, source)
    await cpu.write_u64(base + 0x08, target)
    await cpu.write_u32(base + 0x10, len(data))
    await cpu.write_u32(base + 0x14, 1)
    await cpu.interrupt(function.vector(0))
    return None if await cpu.read_u32(base + 0x18) else cpu.memory.read(target, 32)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The workload of `dma.py` with cocotbext-pcie: a cocotb test with its number of operations in OPERATIONS."""

# mypy: ignore-errors

import os

import cocotb
from cocotbext.pcie.core import Device, Endpoint, RootComplex


@cocotb.test()
async def dma(dut):
    operations = int(os.environ["OPERATIONS"])
    root = RootComplex()
    root.max_payload_size = 1  # 256 B
    endpoint = Endpoint()
    device = Device(endpoint)
    root.make_port().connect(device)
    await root.enumerate()
    await root.find_device(endpoint.pcie_id).set_master()
    memory = root.mem_pool.alloc_region(1 << 16)
    base, pattern = memory.get_absolute_address(0), bytes(range(256))
    memory[:256] = pattern
    for n in range(operations // 2):
        data = await endpoint.mem_read(base, 256)
        await endpoint.mem_write(base + 256 * (1 + n % 255), data)
    if operations:
        # Posted: a later read sees it.
        assert await endpoint.mem_read(base + 256 * (1 + (operations // 2 - 1) % 255), 256) == pattern

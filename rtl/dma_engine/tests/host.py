# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine with cocotbext-pcie's model of the UltraScale block, and its driver; offsets come from the register description.

The model has no virtual functions, does not report an engine's MSI-X enable, and answers the host's
reads in order. The bench drives what the model lacks.
"""

import os
import pathlib
import re
from collections import deque

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.caps import PciCapId
from cocotbext.pcie.xilinx.us import UltraScalePcieDevice, UltraScalePlusPcieDevice

HERE = pathlib.Path(__file__).resolve().parent
CONSTANT = re.compile(r"localparam (?:logic \[\d+:0\]|int) (\w+) = (?:\d+'h)?([0-9a-f]+);")
R = {name: int(value, 16) for name, value in CONSTANT.findall((HERE.parent / "dma_engine_registers.svh").read_text())}
OK, SIZE, RANGE, FLAGS, READ, WRITE, DATA, ABORTED, FETCH, RING = range(1, 11)
INTEGERS, PLAIN, LOOP_BACK = range(3)
INTERRUPT, MORE = 1, 2
DEVICE_ENTRIES, FUNCTIONS = 16, 2  # as built
HOLD_READS = int(os.environ.get("HOLD_READS", "0"))


def integers(seed: int, offset: int, count: int) -> bytes:
    """Returns bytes of the stream of incrementing 8-byte words."""
    first = offset // 8
    words = b"".join(((seed + n) & (1 << 64) - 1).to_bytes(8, "little") for n in range(first, (offset + count + 7) // 8))
    return words[offset - 8 * first :][:count]


def request_type(tdata):
    """Returns the Request Type of the descriptor in the first beat of a packet: 0 is a memory read. Other lanes may be undefined."""
    return int(str(tdata.value)[-79:-75], 2)


class Bench:
    def __init__(self, dut, plus=False, read_credits=None):
        """`read_credits`: credits of the root port for non-posted headers, if not the model's 64."""
        self.dut, self.most_shown = dut, 15 if plus else 3
        wide = len(dut.s_axis_rq_tdata) == 512
        self.rc = RootComplex()
        bus = lambda name: AxiStreamBus.from_prefix(dut, name)
        common = dict(
            pcie_generation=3, pcie_link_width=16 if wide else 8, user_clk_frequency=250e6, alignment="dword", max_payload_size=512, enable_client_tag=True,
            pf0_msix_enable=True, pf0_msix_table_size=1, pf0_msix_table_bir=0, pf0_msix_table_offset=R["R_MSIX_TABLE"], pf0_msix_pba_bir=0,
            pf0_msix_pba_offset=R["R_MSIX_PENDING"], user_clk=dut.user_clk, user_reset=dut.user_reset, rq_bus=bus("s_axis_rq"), rc_bus=bus("m_axis_rc"),
            cq_bus=bus("m_axis_cq"), cc_bus=bus("s_axis_cc"), cfg_max_read_req=dut.cfg_max_read_req, cfg_function_status=dut.cfg_function_status,
        )
        if plus:
            common.update(
                pcie_rq_seq_num0=dut.pcie_rq_seq_num0, pcie_rq_seq_num_vld0=dut.pcie_rq_seq_num_vld0, pcie_rq_seq_num1=dut.pcie_rq_seq_num1,
                pcie_rq_seq_num_vld1=dut.pcie_rq_seq_num_vld1,
            )
            self.device = UltraScalePlusPcieDevice(**common, enable_extended_tag=True)
        else:
            common.update(pcie_cq_np_req=dut.pcie_cq_np_req, pcie_rq_seq_num=dut.pcie_rq_seq_num0, pcie_rq_seq_num_vld=dut.pcie_rq_seq_num_vld0)
            self.device = UltraScalePcieDevice(**common)
            dut.pcie_rq_seq_num1.setimmediatevalue(0)
            dut.pcie_rq_seq_num_vld1.setimmediatevalue(0)
        for name in ("cfg_max_payload", "cfg_vf_status", "cfg_interrupt_msix_enable", "cfg_interrupt_msix_mask", "cfg_interrupt_msix_vf_enable", "cfg_interrupt_msix_vf_mask",
                     "cfg_flr_in_process", "cfg_vf_flr_in_process"):
            getattr(dut, name).setimmediatevalue(0)
        # From the first edge.
        dut.user_reset.setimmediatevalue(1)
        self.device.functions[0].configure_bar(0, R["R_BAR_BYTES"], ext=True, prefetch=True)
        port = self.rc.make_port()
        if read_credits is not None:
            headers = port.downstream_port.fc_state[0].nph
            headers.rx_initial_allocation = headers.rx_credits_allocated = read_credits
        port.connect(self.device)
        dut.pcie_tfc_nph_av.setimmediatevalue(0)
        cocotb.start_soon(self._credits())

    async def start(self, payload=256):
        await FallingEdge(self.dut.user_reset)
        await Timer(100, "ns")
        # As in the register: 128 << n bytes.
        self.rc.max_payload_size = (payload // 128).bit_length() - 1
        await self.rc.enumerate()
        function = self.rc.find_device(self.device.functions[0].pcie_id)
        self.function = function
        await function.enable_device()
        await function.set_master()
        # As in Linux: tags above 31 need Extended Tag Field Enable (PCIe 5.0 §7.5.3.4).
        control = await function.capability_read_word(PciCapId.EXP, 8)
        await function.capability_write_word(PciCapId.EXP, 8, control | 1 << 8)
        await function.alloc_irq_vectors(2, 2)
        self.bar = function.bar_window[0]
        self.memory = self.rc.mem_pool
        cocotb.start_soon(self._msix())

    async def _msix(self):
        """Drives the inputs that the model does not drive, or drives with another width."""
        cap = self.device.functions[0].msix_cap
        while True:
            await RisingEdge(self.dut.user_clk)
            self.dut.cfg_max_payload.value = self.device.functions[0].pcie_cap.max_payload_size
            self.dut.cfg_interrupt_msix_enable.value = int(cap.msix_enable)
            self.dut.cfg_interrupt_msix_mask.value = int(cap.msix_function_mask)

    async def _credits(self):
        """Drives pcie_tfc_nph_av, which the model leaves at its maximum: the port's credits, less the accepted reads, two cycles late."""
        dut, accepted, begins, shown = self.dut, 0, True, deque([0] * 3, maxlen=3)
        while True:
            await RisingEdge(dut.user_clk)
            headers = self.device.upstream_port.fc_state[0].nph
            if dut.s_axis_rq_tvalid.value == 1 and dut.s_axis_rq_tready.value == 1:
                accepted += begins and request_type(dut.s_axis_rq_tdata) == 0
                begins = dut.s_axis_rq_tlast.value == 1
            left = headers.tx_credit_limit - accepted & headers.tx_field_mask
            # Without the option, the block accepts reads for which there is no credit.
            shown.append(left if left < headers.tx_field_range // 2 else 0)
            dut.pcie_tfc_nph_av.value = min(self.most_shown, shown[0])

    async def r32(self, at):
        return await self.bar.read_dword(at)

    async def w32(self, at, value):
        await self.bar.write_dword(at, value)

    async def flr(self):
        """Resets the physical function as the block does."""
        self.dut.cfg_flr_in_process.value = 1
        while True:
            await RisingEdge(self.dut.user_clk)
            if int(self.dut.cfg_flr_done.value) & 1:
                break
        self.dut.cfg_flr_in_process.value = 0
        await RisingEdge(self.dut.user_clk)


class Engine:
    """An engine from the view of its driver, with a ring in host memory or in the device."""

    def __init__(self, bench, number, entries=16, host_ring=True, logic=INTEGERS, seed=0, count=0, time=0):
        self.bench, self.number, self.entries, self.host_ring, self.logic, self.seed = bench, number, entries, host_ring, logic, seed
        self.coalescing = time << 16 | count
        self.at = R["R_ENGINE"] + number * R["R_ENGINE_STRIDE"]
        self.ring = bench.memory.alloc_region(32 * entries)
        self.back = bench.memory.alloc_region(8)
        self.posted = 0

    async def get(self, register):
        return await self.bench.r32(self.at + R[f"R_ENGINE_{register}"])

    async def set(self, register, value, bits=32):
        for half in range(bits // 32):
            await self.bench.w32(self.at + R[f"R_ENGINE_{register}"] + 4 * half, value >> 32 * half & 0xFFFFFFFF)

    async def enable(self, status=True):
        address = self.ring.get_absolute_address(0)
        await self.set("RING", address if self.host_ring else 0, 64)
        await self.set("ENTRIES", self.entries)
        await self.set("WRITE_BACK", self.back.get_absolute_address(0), 64)
        await self.set("COALESCING", self.coalescing)
        await self.set("SEED", self.seed, 64)
        self.back[0:8] = bytes(8)
        self.posted = 0
        await self.set("CONTROL", 1 | 2 * self.host_ring | 8 * status | self.logic << 8)

    def place(self, index):
        return (self.number * DEVICE_ENTRIES + index % self.entries) * 32 + R["R_DESCRIPTOR"]

    async def post(self, pieces, ring=True):
        for address, size, flags in pieces:
            words = address.to_bytes(8, "little") + size.to_bytes(8, "little") + flags.to_bytes(4, "little") + bytes(12)
            index = self.posted % self.entries
            if self.host_ring:
                self.ring[32 * index : 32 * index + 32] = words
            else:
                await self.bench.bar.write(self.place(index), words)
            self.posted += 1
        if ring:
            await self.set("POSTED", self.posted)

    def written_back(self):
        return int.from_bytes(self.back[0:4], "little"), int.from_bytes(self.back[4:8], "little")

    async def done(self, count, limit_us=200):
        """Waits until the write-back reports `count` finished descriptors, and returns the number of failures."""
        for _ in range(limit_us * 5):
            if self.written_back()[0] == count:
                return self.written_back()[1]
            await Timer(200, "ns")
        raise AssertionError(f"engine {self.number}: {self.written_back()} written back, not {count}")

    async def status(self, index):
        index %= self.entries
        data = self.ring[32 * index + 0x14 : 32 * index + 0x20] if self.host_ring else await self.bench.bar.read(self.place(index) + 0x14, 12)
        return int.from_bytes(data[:4], "little"), int.from_bytes(data[4:12], "little")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of devices with the fixture `slot`, as a user writes them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import riser
from riser import testing


class Reader(riser.Device):
    """Reads 64 B at a given address, and reports the result with an interrupt."""

    address = riser.Register(0, bits=64)
    result = riser.Register(8, writable=0)

    @address.on_write
    async def read(self, io: riser.Io, address: int) -> None:
        try:
            self.result = sum(await io.dma_read(address, 64))
        except riser.DmaError:
            self.result = 0xDEAD
        await io.interrupt()


async def ask(cpu: riser.Cpu, function: riser.Function) -> int:
    buffer = cpu.memory.alloc(64)
    cpu.memory.write(buffer, bytes([2] * 64))
    await cpu.write_u64(function.address(), buffer)
    await cpu.interrupt(function.vector())
    return await cpu.read_u32(function.address(0, 8))


def test_fault_reaches_the_device(slot: testing.Slot) -> None:
    slot.fault(action="set-status", status="completer-abort", direction="downstream", frames="completion", nth=1)

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        assert await ask(cpu, function) == 0xDEAD
        assert await ask(cpu, function) == 128

    slot.run(Reader(), driver)


def test_assertion_can_wait_for_a_tlp(slot: testing.Slot) -> None:
    slot.configure(link={"gen": 5, "lanes": 4})

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        asked = cpu.spawn(ask(cpu, function))
        read = await cpu.within(cpu.tlp("type=MRd and dir=up"), us=10)
        assert (read["length_dw"], read["requester"]) == (16, function.bdf)
        data = await cpu.tlp("type=CplD and dir=down")
        assert data["data"] == bytes([2] * 64)
        assert data["tag"] == read["tag"]
        assert read["timestamp_ps"] < data["timestamp_ps"] <= cpu.now_ps
        assert await asked == 128
        with pytest.raises(riser.TimedOut):
            await cpu.within(cpu.tlp("type=MRd"), us=10)

    slot.run(Reader(), driver)


def test_invalid_filter_is_an_error(slot: testing.Slot) -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        with pytest.raises(ValueError, match="column 1"):
            cpu.tlp("tipe=MRd")
        with pytest.raises(ValueError, match="whole captures"):
            cpu.tlp("latency > 1us")

    slot.run(riser.Device(), driver)


def test_failed_assertion_is_raised_unchanged(slot: testing.Slot) -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.sleep(ns=10)
        assert await cpu.read_u32(function.address()) == 1

    with pytest.raises(AssertionError) as caught:
        slot.run(Reader(), driver)
    assert "slot `dut`" in caught.value.__notes__[0]


def test_driver_that_waits_forever_fails_the_run(slot: testing.Slot) -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.interrupt(function.vector())

    with pytest.raises(riser.RunFailed) as caught:
        slot.run(Reader(), driver)
    assert caught.value.result.outcome == "no-progress"


def test_run_can_write_a_capture(slot: testing.Slot, tmp_path: Any) -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        assert await ask(cpu, function) == 128

    slot.run(Reader(), driver, capture=tmp_path / "x.pcapng")
    command = [sys.executable, "-m", "riser", "trace", str(tmp_path / "x.pcapng"), "--filter", "type=MRd and dir=up"]
    assert len(subprocess.run(command, capture_output=True, check=True).stdout.splitlines()) == 1


def test_fixture_replaces_its_own_capture_and_no_other_file(slot: testing.Slot, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    slot.run("simple-nic", capture=path)
    first = path.read_bytes()
    path.write_bytes(first[:-8])
    slot.run("simple-nic", capture=path)
    assert path.read_bytes() == first
    path.write_text("notes")
    with pytest.raises(FileExistsError):
        slot.run("simple-nic", capture=path)
    assert path.read_text() == "notes"
    slot.run("simple-nic", capture=path, force=True)
    assert path.read_bytes() == first


# Fields for packets of a file, which TLPs of a run do not have.
OF_PACKETS = {"source", "destination", "source_port", "destination_port", "nettlp_sequence", "nettlp_timestamp"}


def test_tlp_has_the_fields_of_the_trace(slot: testing.Slot, tmp_path: Path) -> None:
    class Interrupts(riser.Device):
        msix = riser.Msix(vectors=3)
        go = riser.Register(0x10)

        @go.on_write
        async def raise_it(self, io: riser.Io, value: int) -> None:
            await io.interrupt(value)

    seen: list[dict[str, Any]] = []

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        for filter in ("type=CfgRd0", "type=MWr and dir=down", "type=MWr and dir=up"):
            waits = cpu.spawn(cpu.tlp(filter))
            await cpu.config_read(function, 0)
            await cpu.write_u32(function.address(0, 0x10), 2)
            await cpu.interrupt(function.vector(2))
            seen.append(await waits)

    slot.run(Interrupts(), driver, capture=tmp_path / "x.pcapng")
    command = [sys.executable, "-m", "riser", "trace", str(tmp_path / "x.pcapng"), "--json", "--hex"]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
    for one in seen:
        traced = json.loads(lines[one["number"] - 1])
        assert {k: v for k, v in one.items() if k != "data"} == {
            k: v for k, v in traced.items() if k not in OF_PACKETS and k != "data"
        }
        assert one["data"] == bytes.fromhex(traced.get("data", ""))
    assert (seen[2]["interrupt"], seen[2]["vector"]) == ("MSI-X", 2)
    assert "means" in seen[0] and "means" in seen[1]


STUCK = """
import riser
from riser import _watchdog
_watchdog.PATIENCE_S = 0.3

class Loops(riser.Device):
    async def run(self, io):
        await io.sleep(ns=3)
        while True:
            pass

    async def driver(self, cpu, function):
        await cpu.sleep(us=1)

lab = riser.Lab()
lab.slot("dut", Loops())
try:
    lab.run()
except riser.RunFailed as failed:
    print(type(failed.__cause__).__name__, "in run" in str(failed), "has not yielded for 0.3 s" in str(failed))
"""


def test_coroutine_that_never_yields_is_reported() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60)
    assert done.stdout == "Stuck True True\n", done.stderr


def test_loop_without_virtual_time_is_ended(slot: testing.Slot) -> None:
    class Spins(riser.Device):
        async def run(self, io: riser.Io) -> None:
            while True:
                await io.sleep(ns=0)

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.sleep(us=1)

    with pytest.raises(riser.Stuck, match="a loop that waits for nothing"):
        slot.run(Spins(), driver)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Devices and drivers in Python."""

import asyncio
import doctest
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy
import pytest
import riser
from hypothesis import given, settings
from hypothesis import strategies as st

np: Any = numpy

Driver = Callable[[riser.Cpu, riser.Function], Coroutine[Any, Any, None]]


class Copier(riser.Device):
    source = riser.Register(0x00, bits=64)
    target = riser.Register(0x08, bits=64)
    length = riser.Register(0x10)
    doorbell = riser.Register(0x14)
    copies = riser.Register(0x18, writable=0)
    virtual_functions = 0

    @doorbell.on_write
    async def copy(self, io: riser.Io, value: int) -> None:
        data = await io.dma_read(self.source, self.length)
        await io.dma_write(self.target, data)
        self.copies += 1
        await io.interrupt()

    def report(self) -> dict[str, Any]:
        return {"copies": self.copies}


async def copy(cpu: riser.Cpu, function: riser.Function, length: int) -> None:
    memory = cpu.memory
    source, target = memory.alloc(length), memory.alloc(length)
    sent = os.urandom(length)
    memory.write(source, sent)
    base = function.address()
    await cpu.write_u64(base, source)
    await cpu.write_u64(base + 8, target)
    await cpu.write_u32(base + 0x10, length)
    await cpu.write_u32(base + 0x14, 1)
    await cpu.interrupt(function.vector())
    assert memory.read(target, length) == sent


def run(device: riser.Device, driver: Driver | None = None, **keys: Any) -> riser.RunResult:
    lab = riser.Lab(**keys)
    if driver is not None:
        device.driver = driver
    lab.slot("dut", device)
    return lab.run()


def cause(error: riser.RunFailed) -> BaseException:
    assert error.__cause__ is not None
    return error.__cause__


def test_copier_copies() -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        for length in (1, 4, 4097, 65536):
            await copy(cpu, function, length)
        assert await cpu.read_u32(function.address(0, 0x18)) == 4

    result = run(Copier(), driver)
    assert result.device("dut")["copies"] == 4
    assert result.device("dut")["dma_reads"] == 4


def test_enumeration_finds_objects_and_their_registers() -> None:
    lab = riser.Lab()
    lab.slot("dut", Copier())
    (bdf,) = [bdf for bdf in lab.enumerate().spaces if bdf.startswith("01:")]
    device = Copier()

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        assert function.bdf == bdf

    assert bdf in run(device, driver).registers.spaces


def test_runs_are_deterministic() -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await copy(cpu, function, 5000)

    first, second = (run(Copier(), driver).report for _ in range(2))
    for report in (first, second):
        report.pop("cpu_seconds")
    assert first == second


def test_virtual_functions_have_separate_registers() -> None:
    class Several(Copier):
        virtual_functions = 3

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        assert len(function.virtual_functions) == 3
        each = [function, *function.virtual_functions]
        await cpu.gather(*(copy(cpu, one, 4096) for one in each))
        await copy(cpu, function, 100)
        counts = [await cpu.read_u32(one.address(0, 0x18)) for one in each]
        assert counts == [2, 1, 1, 1]

    run(Several(), driver)


@pytest.mark.parametrize("where", ["run", "task", "hook", "driver", "report"])
def test_exception_ends_the_run_with_its_traceback(where: str) -> None:
    class Faulty(riser.Device):
        register = riser.Register(0)

        async def run(self, io: riser.Io) -> None:
            await io.sleep(ns=700)
            if where == "run":
                raise ValueError("a fault in run")
            if where == "task":
                io.spawn(self.task(io))
            await super().run(io)

        async def task(self, io: riser.Io) -> None:
            raise ValueError("a fault in task")

        @register.on_read
        def hook(self, io: riser.Io) -> int:
            if where == "hook":
                raise ValueError("a fault in hook")
            return 0

        def report(self) -> dict[str, Any]:
            if where == "report":
                raise ValueError("a fault in report")
            return {}

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.sleep(us=1)
        await cpu.read_u32(function.address())
        if where == "driver":
            raise ValueError("a fault in driver")

    if where == "report":
        assert run(Faulty(), driver).device("dut")["report_error"] == "ValueError: a fault in report"
        return
    with pytest.raises(riser.RunFailed) as caught:
        run(Faulty(), driver)
    assert str(cause(caught.value)) == f"a fault in {where}"
    assert isinstance(cause(caught.value), ValueError)
    if where in ("run", "task"):
        assert "at 700 ns of virtual time" in str(caught.value)
    # The text has the time and the place.
    assert " ns of virtual time: ValueError: a fault in " in str(caught.value)
    assert "test_device.py" in str(caught.value)
    assert caught.value.result.outcome == "failed"


def test_foreign_awaitables_raise_at_their_await() -> None:
    class Awaits(riser.Device):
        async def run(self, io: riser.Io) -> None:
            loop = asyncio.new_event_loop()
            try:
                await loop.create_future()
            finally:
                loop.close()

    with pytest.raises(riser.RunFailed, match="which riser cannot wake") as caught:
        run(Awaits(), lambda cpu, function: sleeping(cpu))
    assert "create_future" in str(caught.value)


async def sleeping(cpu: riser.Cpu) -> None:
    await cpu.sleep(us=1)


def test_run_must_be_a_coroutine() -> None:
    class Plain(riser.Device):
        def run(self, io: riser.Io) -> Any:
            return 42

    with pytest.raises(riser.RunFailed, match=r"the result of run\(\) is of type int"):
        run(Plain(), lambda cpu, function: sleeping(cpu))


def test_report_has_early_returns() -> None:
    class Returns(riser.Device):
        async def run(self, io: riser.Io) -> None:
            await io.sleep(ns=5)

    result = run(Returns(), lambda cpu, function: sleeping(cpu))
    assert result.device("dut")["returned_ns"] == 5


def test_operations_are_awaited_once_and_only_in_runs() -> None:
    kept: list[Any] = []

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        nap = cpu.sleep(ns=1)
        await nap
        with pytest.raises(riser.RiserError, match="awaited twice"):
            await nap
        kept.extend([cpu.sleep(ns=1), cpu, cpu.memory])

    run(riser.Device(), driver)
    with pytest.raises(riser.RiserError, match="outside of a run"):
        kept[0].__await__().__next__()


def test_handles_belong_to_their_thread() -> None:
    seen: list[str] = []

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        def elsewhere() -> None:
            try:
                _ = cpu.now_ps
            except riser.RiserError as error:
                seen.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    run(riser.Device(), driver)
    gc.collect()
    assert "used on another" in seen[0]


def test_gather_within_and_cancel() -> None:
    async def after(cpu: riser.Cpu, ns: int) -> int:
        await cpu.sleep(ns=ns)
        return ns

    async def failing(cpu: riser.Cpu) -> None:
        await cpu.sleep(ns=10)
        raise KeyError("x")

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        begun = cpu.now_ps
        assert await cpu.gather(after(cpu, 30), after(cpu, 10), cpu.sleep(ns=20)) == [30, 10, None]
        assert cpu.now_ps - begun == 30_000
        with pytest.raises(riser.TimedOut):
            await cpu.within(after(cpu, 100), ns=50)
        with pytest.raises(KeyError):
            await cpu.gather(after(cpu, 1000), failing(cpu))
        task = cpu.spawn(after(cpu, 7))
        assert await task == 7
        task = cpu.spawn(after(cpu, 1000))
        task.cancel()
        with pytest.raises(riser.RiserError, match="cancelled"):
            await task
        for bad in ({}, {"ns": 1, "us": 1}, {"ns": -1}, {"ns": float("nan")}):
            with pytest.raises(ValueError):
                cpu.sleep(**bad)

    run(riser.Device(), driver)


def test_driver_sees_refused_requests() -> None:
    class Refuses(riser.Device):
        async def run(self, io: riser.Io) -> None:
            while request := await io.next_request():
                match request:
                    case riser.ReadRequest(bar=0, offset=0):
                        request.fail("completer-abort")
                    case riser.ReadRequest():
                        request.fail()

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        for offset, reason in ((0, "completer-abort"), (8, "unsupported-request")):
            with pytest.raises(riser.HostError) as caught:
                await cpu.read_u32(function.address(0, offset))
            assert caught.value.reason == reason

    run(Refuses(), driver)


def test_dma_to_unmapped_memory_raises_in_the_device() -> None:
    reasons: list[str] = []

    class Lost(riser.Device):
        async def run(self, io: riser.Io) -> None:
            await io.sleep(us=5)
            try:
                await io.dma_read(1 << 50, 64)
            except riser.DmaError as error:
                reasons.append(error.reason)
            await io.interrupt()

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.interrupt(function.vector())

    run(Lost(), driver)
    assert reasons == ["unsupported-request"]


def test_atomics_on_host_memory() -> None:
    olds: list[int] = []

    class Adds(riser.Device):
        go = riser.Register(0, bits=64)

        @go.on_write
        async def add(self, io: riser.Io, address: int) -> None:
            olds.append(await io.fetch_add(address, 5))
            olds.append(await io.swap(address, 7, bits=32))
            olds.append(await io.compare_swap(address, 7, 9))
            await io.interrupt()

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        at = cpu.memory.alloc(8)
        cpu.memory.write_u64(at, 37)
        # AtomicOp Requester Enable: bit 6 of Device Control 2 (PCIe 5.0 §7.5.3.16).
        control_2 = await find(cpu, function, 0x10) + 10
        await cpu.config_write(function, control_2, await cpu.config_read(function, control_2) | 1 << 6)
        await cpu.write_u64(function.address(), at)
        await cpu.interrupt(function.vector())
        assert cpu.memory.read_u64(at) == 9

    run(Adds(), driver)
    assert olds == [37, 42, 7]


def test_reset_restarts_the_device() -> None:
    lives: list[str] = []

    class Lives(riser.Device):
        value = riser.Register(0, reset=3)

        def reset(self, io: riser.Io) -> None:
            lives.append(io.begun_by)

        async def run(self, io: riser.Io) -> None:
            try:
                await super().run(io)
            finally:
                lives.append("closed")

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        await cpu.write_u32(function.address(), 9)
        assert await cpu.read_u32(function.address()) == 9
        capability = await find(cpu, function, 0x10)
        # Initiate Function Level Reset: bit 15 of Device Control (PCIe 5.0 §7.5.3.4).
        control = await cpu.config_read(function, capability + 2)
        saved = [await cpu.config_read(function, dw) for dw in (1, 4, 5)]
        await cpu.config_write(function, capability + 2, control | 1 << 15)
        await cpu.sleep(us=200_000)
        for dw, value in zip((4, 5, 1), (saved[1], saved[2], saved[0]), strict=True):
            await cpu.config_write(function, dw, value)
        assert await cpu.read_u32(function.address()) == 3

    run(Lives(), driver)
    gc.collect()
    assert lives == ["fundamental", "closed", "function-level", "closed"]


async def find(cpu: riser.Cpu, function: riser.Function, wanted: int) -> int:
    """DW number of a capability."""
    at = (await cpu.config_read(function, 0x34 // 4)) & 0xFC
    while at:
        head = await cpu.config_read(function, at // 4)
        if head & 0xFF == wanted:
            return at // 4
        at = head >> 8 & 0xFC
    raise AssertionError(f"no capability {wanted:#x}")


def test_command_runs_class_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "adder.py").write_text(
        "import riser\n"
        "class Adder(riser.Device):\n"
        "    total = riser.Register(0)\n"
        "    def __init__(self, step=1): self.step = step\n"
        "    def report(self): return {'step': self.step}\n"
        "    async def driver(self, cpu, function):\n"
        "        assert await cpu.read_u32(function.address()) == 0\n"
    )
    lab = tmp_path / "lab.toml"
    lab.write_text(
        'version = 1\n[[slot]]\nname = "a"\ndevice = "python"\n'
        '[slot.python]\nclass = "adder.py:Adder"\nsettings = { step = 4 }\n'
    )
    command = [sys.executable, "-m", "riser", "run", os.fspath(lab)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--allow-native" in done.stderr
    done = subprocess.run([*command, "--allow-native"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "step 4" in done.stdout
    check = subprocess.run([sys.executable, "-m", "riser", "check", os.fspath(lab)], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("vendor_id", "x", "vendor_id"),
        ("device_id", 1 << 16, "device_id"),
        ("bars", {0: riser.Bar(100)}, "BAR"),
        ("bars", {9: riser.Bar(4096)}, "BAR"),
        ("bars", {0: riser.Bar(4096, kind="memory16")}, "memory16"),  # type: ignore[arg-type]
        ("bars", 7, "bars"),
        ("msi_vectors", 3, "3"),
        ("msix", riser.Msix(0), "MSI-X"),
        ("virtual_functions", 257, "257"),
        ("messages", [300], "messages"),
        ("class_code", 1 << 24, "24 bits"),
        ("class_code", -1, "class_code"),
    ],
)
def test_errors_name_invalid_attributes(name: str, value: Any, match: str) -> None:
    device = riser.Device()
    setattr(device, name, value)
    with pytest.raises(riser.RiserError, match=match):
        run(device)


def test_errors_name_invalid_registers() -> None:
    with pytest.raises(riser.RiserError, match="multiples of its 4 B"):
        riser.Register(2)
    with pytest.raises(riser.RiserError, match="expected 8, 16, 32 or 64"):
        riser.Register(0, bits=24)
    with pytest.raises(riser.RiserError, match="method of that name"):

        class Shadows(riser.Device):
            go = riser.Register(0)

            @go.on_write
            async def serve(self, io: Any, request: Any) -> None: ...  # type: ignore[override]

    for register, has in ((riser.Register(4096), "it has 4096 B"), (riser.Register(0, bar=3), "no such BAR")):
        with pytest.raises(riser.RiserError, match=f"register at .*{has}"):
            run(type("Beyond", (riser.Device,), {"register": register})())
    with pytest.raises(riser.RiserError, match="overlap"):
        type("Overlapping", (riser.Device,), {"a": riser.Register(0, bits=64), "b": riser.Register(4)})


def test_registers_must_not_overlap_msix() -> None:
    three, many = riser.Msix(3), riser.Msix(65, table_offset=0x400)
    # MSI-X, offset of a register, what it overlaps.
    rows = [
        (three, 0x7FC, None),
        (three, 0x800, "table .BAR 0, 0x800 to 0x82f"),
        (three, 0x82C, "table"),
        (three, 0x830, None),
        (many, 0xC0C, "pending bits .BAR 0, 0xc00 to 0xc0f"),
        (many, 0xC10, None),
    ]
    for msix, offset, overlapped in rows:
        of_class = {"register": riser.Register(offset), "msix": msix}
        if overlapped is None:
            type("Apart", (riser.Device,), of_class)
            continue
        with pytest.raises(riser.RiserError, match=f"register register at {offset:#x} overlaps the MSI-X {overlapped}"):
            type("Overlapping", (riser.Device,), of_class)
    # Another BAR causes no overlap. A class without MSI-X is checked again when an object is plugged in.
    other = {"register": riser.Register(0x800), "bars": {0: riser.Bar(4096), 2: riser.Bar(4096)}}
    type("Apart", (riser.Device,), other | {"msix": riser.Msix(3, bar=2)})
    device = type("Late", (riser.Device,), other)()
    device.msix = riser.Msix(3)
    with pytest.raises(riser.RiserError, match="overlaps the MSI-X table"):
        run(device)


def test_unawaited_operation_warns_with_its_place() -> None:
    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        base = function.address()
        for _ in range(3):
            cpu.write_u32(base, 1)
        kept = cpu.within(
            cpu.read_u32(base),
            us=1,
        )
        await cpu.read_u32(base)
        del kept
        later = cpu.sleep(ns=1)
        await cpu.spawn(cpu.sleep(ns=1))
        await cpu.gather(cpu.sleep(ns=1), cpu.within(cpu.sleep(ns=1), us=1))
        assert isinstance(later, riser.Operation)

    with pytest.warns(RuntimeWarning) as caught:
        run(riser.Device(), driver)
    first = driver.__code__.co_firstlineno
    assert [(Path(w.filename), w.lineno - first) for w in caught] == [(Path(__file__), n) for n in (3, 3, 3, 4, 10)]
    text = str(caught[0].message)
    assert text == f"an operation was never awaited in {driver.__qualname__}(), so it did nothing"

    # If the warning is an error, no caller can catch it, and the run continues.
    command = [sys.executable, "-W", "error", "-c", FORGETS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "RuntimeWarning: an operation was never awaited in driver()" in done.stderr and done.stdout == "finished\n"


FORGETS = """
import riser

async def driver(cpu, function):
    cpu.read_u32(function.address())

device = riser.Device()
device.driver = driver
lab = riser.Lab()
lab.slot("dut", device)
print(lab.run().outcome)
"""


def test_accepts_data_and_numbers_of_numpy() -> None:
    class Reads(riser.Device):
        sum = riser.Register(np.int64(8), bits=np.uint8(32), reset=np.uint16(7), writable=np.uint32(0xFFFF))
        messages = np.array([0x7F])

        async def run(self, io: riser.Io) -> None:
            self.sum = np.uint32(3)
            await super().run(io)

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        assert await cpu.read_u32(np.uint64(function.address(np.int8(0), np.int16(8)))) == 3
        buffer = cpu.memory.alloc(np.int64(64))
        for data in (np.arange(4, dtype=np.uint32), np.arange(16, dtype=np.uint8).reshape(4, 4), np.zeros(0, np.uint8)):
            cpu.memory.write(buffer, data)
            assert cpu.memory.read(buffer, data.nbytes) == data.tobytes()
        with pytest.raises(TypeError, match="contiguous arrays of numpy"):
            cpu.memory.write(buffer, np.arange(8, dtype=np.uint32)[::2])
        await cpu.take_messages(np.array([0x7E]))
        await cpu.sleep(ns=np.float32(1.5))

    run(Reads(), driver)


@settings(max_examples=40, deadline=None)
@given(
    writes=st.lists(st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=64)), max_size=12),
    masks=st.lists(st.integers(0, 2**32 - 1), min_size=16, max_size=16),
)
def test_registers_behave_like_a_byte_array(writes: list[tuple[int, bytes]], masks: list[int]) -> None:
    """Compare with a byte array and a bit mask."""
    names: dict[str, Any] = {f"r{n}": riser.Register(4 * n, writable=mask) for n, mask in enumerate(masks)}
    device = type("Bank", (riser.Device,), names)()
    model = bytearray(64)
    mask = b"".join(m.to_bytes(4, "little") for m in masks)

    async def driver(cpu: riser.Cpu, function: riser.Function) -> None:
        for offset, data in writes:
            data = data[: 64 - offset]
            await cpu.write(function.address(0, offset), data)
            for at, byte in enumerate(data, offset):
                model[at] = model[at] & ~mask[at] & 0xFF | byte & mask[at]
        assert await cpu.read(function.address(), 64) == bytes(model)

    run(device, driver)


def test_examples_of_the_docs_run() -> None:
    import riser._device

    results = doctest.testmod(riser._device)
    assert results.attempted and not results.failed


def test_captures_name_the_registers_of_each_device(tmp_path: Path) -> None:
    """Two devices have the same Vendor and Device ID. The slot of the link identifies their registers."""

    class Motor(riser.Device):
        speed = riser.Register(0x10)

    seen: list[str] = []

    async def noted(cpu: riser.Cpu, address: int) -> None:
        seen.append((await cpu.tlp(f"type=MWr and addr={address:#x}"))["means"])

    async def drive(cpu: riser.Cpu, function: riser.Function) -> None:
        write = cpu.spawn(noted(cpu, function.address(0, 0x10)))
        await cpu.write_u32(function.address(0, 0x10), 5)
        await write

    def recorded(path: Path) -> Path:
        lab = riser.Lab()
        for name, device in (("copier", Copier()), ("motor", Motor())):
            device.driver = drive
            lab.slot(name, device)
        lab.run(capture=path)
        return path

    path = recorded(tmp_path / "named.pcapng")
    assert recorded(tmp_path / "again.pcapng").read_bytes() == path.read_bytes()
    command = [sys.executable, "-m", "riser", "trace", "--filter", "type=MWr and dir=down", os.fspath(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout.splitlines()
    wanted = ["01:00.0 BAR 0 length = 0x5", "02:00.0 BAR 0 speed = 0x5"]
    assert [json.loads(line)["means"] for line in lines if '"means"' in line] == wanted
    assert all(f"; {means}" in text for means in wanted)
    assert sorted(seen[:2]) == wanted

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random calls, attributes, answers, tasks and labs: faults cause exceptions, never a panic or a hang."""

from typing import Any

import pytest
import riser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slots import attempt, nap, run

EDGES = [0, 1, 2, 3, 4, 7, 8, 31, 64, 128, 129, 4092, 4095, 4096, 4097]
EDGES += [sign + (1 << bits) for bits in (16, 31, 32, 40, 63, 64) for sign in (-8, -1, 0, 1)]
ODD: list[Any] = [-1, -(1 << 64), 1.5, float("nan"), float("inf"), None, "x", "\ud800", True, (), [], {}, object()]
ODD += [b"", b"abc", 1j]
BUFFERS = st.one_of(
    st.builds(lambda: memoryview(b"abcdef")[::2]),
    st.builds(lambda: memoryview(bytes(64)).cast("Q")),
    st.builds(bytes, st.sampled_from([4096, 4097])),
    st.builds(bytearray, st.just(130)),
)
ARGUMENTS = st.one_of(st.sampled_from(EDGES), st.integers(), st.sampled_from(ODD), st.binary(max_size=200), BUFFERS)
OPERATIONS = ["dma_read", "dma_read_counted", "dma_write", "dma_write_counted", "interrupt", "intx", "message", "fetch_add"]
OPERATIONS += ["swap", "compare_swap", "sleep", "spawn", "gather", "within"]
ACCESSES = ["read", "read_u32", "read_u64", "write", "write_u32", "write_u64", "write_deferrable", "io_read", "io_write"]
ACCESSES += ["config_read", "config_write", "interrupt", "take_messages", "tlp", "sleep", "spawn", "gather", "within"]
MEMORY = ["alloc", "free", "read", "write", "read_u32", "read_u64", "write_u32", "write_u64"]
NAMES = st.sampled_from(["ns", "us", "ps", "tc", "bits", "pasid", "no_snoop", "align", "low", "data", "vector"])
KEYWORDS = st.dictionaries(NAMES, ARGUMENTS, max_size=2)


def calls(names: list[str]) -> st.SearchStrategy[list[tuple[str, list[Any], dict[str, Any]]]]:
    call = st.tuples(st.sampled_from(names), st.lists(ARGUMENTS, max_size=4), st.one_of(st.just({}), KEYWORDS))
    return st.lists(call, max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(of_device=calls(OPERATIONS), of_driver=calls(ACCESSES), of_memory=calls(MEMORY))
def test_random_calls_raise_errors(of_device: Any, of_driver: Any, of_memory: Any) -> None:
    class Device(riser.Device):
        async def run(self, io: riser.Io) -> None:
            await io.sleep(us=2)
            await attempt(io, io, None, of_device)
            await super().run(io)

    async def driver(cpu: Any, function: Any) -> None:
        await attempt(cpu, cpu, function, of_driver)
        await attempt(cpu, cpu.memory, function, of_memory)
        await cpu.sleep(us=50)

    try:
        run(driver, Device())
    except riser.RunFailed:
        # A task without an awaiting task failed.
        pass


VALUES = st.one_of(st.sampled_from(EDGES), st.sampled_from(ODD))
BARS = st.dictionaries(st.integers(-1, 7), st.builds(riser.Bar, VALUES, st.sampled_from(["memory32", "memory64", "io"])), max_size=3)
MSIX = st.builds(riser.Msix, VALUES, VALUES, VALUES, VALUES)
ATTRIBUTES = ["vendor_id", "device_id", "revision_id", "class_code", "subsystem_vendor_id", "subsystem_id", "bars", "msix"]
ATTRIBUTES += ["msi_vectors", "virtual_functions", "vf_device_id", "vf_bars", "completes_atomics", "messages", "driver"]


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(ATTRIBUTES), st.one_of(VALUES, BARS, MSIX), min_size=1, max_size=3))
def test_random_attributes_raise_errors(attributes: dict[str, Any]) -> None:
    device = riser.Device()
    vars(device).update(attributes)
    try:
        lab = riser.Lab()
        lab.slot("dut", device)
        lab.check()
        lab.run()
    except (riser.RiserError, TypeError):
        pass


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=2), st.dictionaries(st.sampled_from(["bits", "bar", "reset", "writable"]), VALUES, max_size=2))
def test_random_registers_raise_errors(places: list[Any], keywords: dict[str, Any]) -> None:
    try:
        registers = {f"r{n}": riser.Register(place, **keywords) for n, place in enumerate(places)}
        device = type("Some", (riser.Device,), registers)()
        assert device.r0 == registers["r0"].reset
    except riser.RiserError:
        pass


@settings(max_examples=25, deadline=None)
@given(calls(["complete", "complete_counted", "fail", "apply"]), calls(["address", "io_address", "vector"]))
def test_random_answers_raise_errors(answers: Any, places: Any) -> None:
    class Answers(riser.Device):
        async def run(self, io: riser.Io) -> None:
            while request := await io.next_request():
                for name, arguments, keywords in answers:
                    try:
                        getattr(request, name)(*arguments, **keywords)
                    except (riser.RiserError, TypeError, ValueError, OverflowError, AttributeError, BufferError, IndexError):
                        pass

    async def driver(cpu: Any, function: Any) -> None:
        for length in (1, 4, 8, 100):
            await cpu.write(function.address(0, 3), bytes(length))
            try:
                await cpu.within(cpu.read(function.address(0, 3), length), us=1)
            except riser.RiserError:
                pass
        await attempt(cpu, function, function, places)

    run(driver, Answers())


KEYS = st.sampled_from(["link", "host", "slot", "switch", "fault", "limit_us", "seed", "version", "x", "a.b", ""])
TABLES = st.dictionaries(st.sampled_from(["gen", "lanes", "name", "device", "profile", "python"]), VALUES, max_size=3)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(KEYS, st.one_of(VALUES, TABLES, st.lists(TABLES, max_size=2)), max_size=3), st.dictionaries(KEYS, VALUES, max_size=2))
def test_random_labs_raise_errors(keys: dict[str, Any], over: dict[str, Any]) -> None:
    try:
        riser.Lab(**keys).with_settings(over).check()
    except riser.RiserError:
        pass


@settings(max_examples=75, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_are_tlps_or_errors(data: bytes) -> None:
    try:
        fields, text = riser.parse_tlp(data), riser.tlp_text(data)
    except riser.RiserError:
        return
    assert text.startswith("NetTLP: " + fields["type"])


STEPS = st.sampled_from(["sleep", "nap", "read", "tlp", "within", "gather", "spawn", "await", "cancel", "drop", "raise", "pause"])
PROGRAMS = st.lists(st.lists(st.tuples(STEPS, st.integers(0, 9)), max_size=15), min_size=1, max_size=5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=50, deadline=None)
@given(PROGRAMS)
def test_random_tasks_end(programs: list[list[tuple[str, int]]]) -> None:
    """Some tasks make, await, cancel and drop shared objects."""
    ended: list[int] = []

    async def driver(cpu: Any, function: Any) -> None:
        shared: list[Any] = []

        async def task(number: int, program: list[tuple[str, int]]) -> None:
            for what, n in program:
                chosen = shared[n % len(shared)] if shared else cpu.sleep(ns=n)
                try:
                    match what:
                        case "sleep":
                            shared.append(cpu.sleep(ns=n))
                        case "nap":
                            shared.append(nap(cpu))
                        case "read":
                            shared.append(cpu.read_u32(function.address(0, 4 * n)))
                        case "tlp":
                            shared.append(cpu.tlp("type=MRd"))
                        case "within":
                            shared.append(cpu.within(chosen, ns=n))
                        case "gather":
                            shared.append(cpu.gather(chosen, cpu.sleep(ns=n)))
                        case "spawn":
                            shared.append(cpu.spawn(chosen))
                        case "await":
                            await cpu.within(waits(chosen), us=1)
                        case "cancel" if isinstance(chosen, riser.Task):
                            chosen.cancel()
                        case "drop" if shared:
                            del shared[n % len(shared)]
                        case "raise":
                            shared.append(cpu.spawn(raises(n)))
                        case "pause":
                            await cpu.sleep(ns=n)
                except (riser.RiserError, KeyError, RuntimeError):
                    pass
            ended.append(number)

        await cpu.gather(*(task(number, program) for number, program in enumerate(programs)))

    async def waits(awaitable: Any) -> None:
        await awaitable

    async def raises(n: int) -> None:
        raise KeyError(n)

    try:
        run(driver, type("Registers", (riser.Device,), {f"r{n}": riser.Register(4 * n) for n in range(16)})())
    except riser.RunFailed as failed:
        # A task without an awaiting task failed.
        assert failed.__cause__ is not None
        return
    assert sorted(ended) == list(range(len(programs)))

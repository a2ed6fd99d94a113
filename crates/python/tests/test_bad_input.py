# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Invalid programs cause exceptions, never a hang or a panic, which ends the interpreter in a release build."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
import riser
from slots import Program, attempt, nap, run


def cause_of(driver: Program, device: riser.Device | None = None) -> BaseException:
    with pytest.raises(riser.RunFailed) as caught:
        run(driver, device)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


# Wrong use of handles and operations.


def test_operation_is_awaited_by_one_task() -> None:
    async def waits(operation: Awaitable[Any]) -> None:
        await operation

    async def driver(cpu: Any, function: Any) -> None:
        operation = cpu.sleep(ns=100)
        first = cpu.spawn(waits(operation))
        await cpu.sleep(ns=1)
        with pytest.raises(riser.RiserError, match="awaited twice"):
            await operation
        with pytest.raises(riser.RiserError, match="awaited twice"):
            cpu.spawn(operation)
        await cpu.within(first, us=1)

    run(driver)


def test_task_is_awaited_once() -> None:
    async def driver(cpu: Any, function: Any) -> None:
        box: list[Any] = []

        async def selfish() -> None:
            await cpu.sleep(ns=1)
            await box[0]

        task = cpu.spawn(nap(cpu))
        assert await task == 3
        with pytest.raises(riser.RiserError, match="a task was awaited twice"):
            await cpu.within(task, us=1)
        slow = cpu.spawn(cpu.sleep(ns=50))
        with pytest.raises(riser.TimedOut):
            await cpu.within(slow, ns=1)
        await slow
        box.append(cpu.spawn(selfish()))
        with pytest.raises(riser.RiserError, match="a task was awaited twice"):
            await box[0]

    run(driver)


def test_yield_without_await_is_foreign() -> None:
    @types.coroutine
    def only_yields(cpu: Any) -> Generator[Any, Any, None]:
        yield cpu.sleep(ns=1)

    async def driver(cpu: Any, function: Any) -> None:
        await only_yields(cpu)

    assert "riser cannot wake" in str(cause_of(driver))


def test_accepts_generators_but_not_async_generators() -> None:
    class Old(riser.Device):
        def run(self, io: riser.Io) -> Any:
            yield from io.sleep(ns=3)  # type: ignore[misc]
            yield from io.sleep(ns=4)  # type: ignore[misc]

    class Asynchronous(riser.Device):
        async def run(self, io: riser.Io) -> Any:
            yield 1

    async def driver(cpu: Any, function: Any) -> None:
        await cpu.sleep(us=1)

    assert run(driver, Old()).device("dut")["returned_ns"] == 7
    assert "async_generator" in str(cause_of(driver, Asynchronous()))


def test_handles_are_useless_after_the_run() -> None:
    kept: dict[str, Any] = {}

    class Keeps(riser.Device):
        async def run(self, io: riser.Io) -> None:
            kept.update(io=io, read=io.dma_read(0, 64), next=io.next_request())
            while request := await io.next_request():
                kept["request"] = request

    async def driver(cpu: Any, function: Any) -> None:
        kept.update(cpu=cpu, task=cpu.spawn(cpu.sleep(us=9)), group=cpu.gather(nap(cpu)), tlp=cpu.tlp("type=MRd"))
        with pytest.raises(riser.TimedOut):
            await cpu.within(cpu.read_u32(function.address()), ns=500)

    run(driver, Keeps())
    assert kept["cpu"].memory.read(4096, 4) == bytes(4)
    with pytest.raises(riser.RiserError, match="has ended"):
        kept["cpu"].spawn(nap(kept["cpu"]))
    with pytest.raises(riser.RiserError, match="outside of a run"):
        kept["read"].__await__().__next__()
    kept["request"].complete(1)
    kept["task"].cancel()

    async def elsewhere(cpu: Any, function: Any) -> None:
        await attempt(cpu, kept["io"], None, [("dma_write", [0, b"x"], {}), ("sleep", [], {"ns": 1})])
        for name in ("read", "next", "task", "group", "tlp"):
            try:
                await cpu.within(kept[name], us=1)
            except riser.RiserError:
                pass

    run(elsewhere)
    kept.clear()
    gc.collect()


def test_finalizers_may_call_riser() -> None:
    tasks: list[Any] = []

    class Bomb(Exception):
        def __init__(self, cpu: Any) -> None:
            self.cpu, self.cycle = cpu, self

        def __del__(self) -> None:
            cpu = self.cpu
            calls: list[Callable[[], Any]] = [lambda: cpu.spawn(nap(cpu)), lambda: cpu.now_ps, lambda: cpu.memory.alloc(4)]
            for call in calls:
                try:
                    call()
                except riser.RiserError:
                    pass
            for task in tasks:
                _ = task.done
                task.cancel()

    async def fails(cpu: Any) -> None:
        bomb = Bomb(cpu)
        await cpu.sleep(ns=10)
        raise bomb

    async def driver(cpu: Any, function: Any) -> None:
        for _ in range(5):
            tasks.append(cpu.spawn(nap(cpu)))
            with pytest.raises(Bomb):
                await cpu.gather(nap(cpu), fails(cpu), fails(cpu))
            with pytest.raises(riser.TimedOut):
                await cpu.within(fails(cpu), ns=5)
        cpu.spawn(fails(cpu))
        cpu.spawn(fails(cpu))
        await cpu.sleep(us=1)

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with pytest.raises(riser.RunFailed):
            run(driver)
    finally:
        gc.set_threshold(*before)
    gc.collect()


# Coroutines that do not end properly.


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_coroutines_may_ignore_close() -> None:
    seen: list[str] = []

    class Stays(riser.Device):
        async def run(self, io: riser.Io) -> None:
            while True:
                try:
                    await io.sleep(ns=50)
                except GeneratorExit:
                    seen.append("exit")

    async def raises(cpu: Any) -> None:
        try:
            await cpu.sleep(us=9)
        finally:
            cpu.spawn(nap(cpu))
            raise ValueError("on the way out")

    async def stays(cpu: Any) -> None:
        while True:
            try:
                await cpu.sleep(us=9)
            except GeneratorExit:
                await cpu.sleep(us=9)

    async def driver(cpu: Any, function: Any) -> None:
        for coroutine in (raises(cpu), stays(cpu)):
            with pytest.raises(riser.TimedOut):
                await cpu.within(coroutine, ns=5)
        await cpu.sleep(us=1)

    run(driver, Stays())
    gc.collect()
    assert seen == ["exit"]


def test_nesting_is_limited() -> None:
    async def deeper(cpu: Any, levels: int) -> None:
        if levels:
            await cpu.within(deeper(cpu, levels - 1), us=1)

    async def driver(cpu: Any, function: Any) -> None:
        await deeper(cpu, 90)
        with pytest.raises(RecursionError):
            await deeper(cpu, 100_000)
        operation = cpu.sleep(ns=1)
        with pytest.raises(riser.RiserError, match="within one another"):
            for _ in range(100_000):
                operation = cpu.within(operation, us=1)

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        run(driver)
    finally:
        sys.setrecursionlimit(before)
    itself: dict[str, Any] = {}
    itself["x"] = itself
    with pytest.raises(riser.LabError, match="deep"):
        riser.Lab(link=itself).to_toml()

    class Reports(riser.Device):
        def report(self) -> dict[str, Any]:
            return itself

    assert "deep" in run(nothing, Reports()).device("dut")["report_error"]


async def nothing(cpu: Any, function: Any) -> None:
    await cpu.sleep(us=1)


@pytest.mark.parametrize("raised", [StopIteration(3), GeneratorExit(), asyncio.CancelledError(), MemoryError(), BaseException("x")])
def test_exceptions_of_all_kinds_end_the_run(raised: BaseException) -> None:
    async def driver(cpu: Any, function: Any) -> None:
        await cpu.sleep(ns=1)
        raise raised

    assert type(cause_of(driver)) in (type(raised), RuntimeError)


def test_sys_exit_and_ctrl_c_propagate() -> None:
    class Hook(riser.Device):
        register = riser.Register(0)

        @register.on_write
        def leave(self, io: riser.Io, value: int) -> None:
            sys.exit(4)

    async def writes(cpu: Any, function: Any) -> None:
        await cpu.write_u32(function.address(), 1)
        await cpu.sleep(us=1)

    async def interrupted(cpu: Any, function: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await cpu.sleep(us=1)

    with pytest.raises(SystemExit) as left:
        run(writes, Hook())
    assert left.value.code == 4
    with pytest.raises(riser.Interrupted) as stopped:
        run(interrupted)
    assert stopped.value.result.outcome == "interrupted"


# Nested and concurrent runs.


def test_labs_run_within_devices() -> None:
    async def many(cpu: Any, function: Any) -> None:
        for _ in range(70_000):
            await cpu.sleep(ns=1)

    async def driver(cpu: Any, function: Any) -> None:
        assert run(many).outcome == "finished"
        await cpu.sleep(us=1)

    async def again(cpu: Any, function: Any) -> None:
        run(again)

    run(driver)
    assert "labs run within one another" in str(cause_of(again))


def test_labs_run_in_parallel_threads() -> None:
    class Writes(riser.Device):
        go = riser.Register(0)

        @go.on_write
        async def write(self, io: riser.Io, value: int) -> None:
            await io.dma_write(4096, bytes(64))
            await io.interrupt()

        async def driver(self, cpu: riser.Cpu, function: riser.Function) -> None:
            for _ in range(100):
                await cpu.write_u32(function.address(), 1)
                await cpu.interrupt(function.vector())

    lab, ends = riser.Lab(), []
    lab.slot("dut", Writes())
    threads = [threading.Thread(target=lambda: ends.append(lab.run().simulated_ns)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 4 and len(set(ends)) == 1


def in_a_process(program: str) -> str:
    """Return the output of a program that succeeds without text on standard error."""
    head = "import os, sys, threading, riser\n"
    done = subprocess.run([sys.executable, "-c", head + program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


KEPT = """
kept = []
async def half(cpu):
    try:
        await cpu.sleep(us=9999)
    finally:
        cpu.spawn(half(cpu))

class Device(riser.Device):
    async def driver(self, cpu, function):
        async def waits():
            await kept[0]
        kept.append(cpu.within(half(cpu), us=10000))
        task = cpu.spawn(waits())
        await cpu.sleep(ns=10)
        task.cancel()
        await cpu.sleep(ns=10)

def run():
    lab = riser.Lab()
    lab.slot("dut", Device())
    lab.run()
"""


def test_objects_outlive_their_thread() -> None:
    ends = "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\nkept.clear()\nprint('end')"
    assert in_a_process(KEPT + ends) == "end\n"
    assert in_a_process(KEPT + "sys.kept = kept\nrun()\nprint('end')") == "end\n"


FORK = """
class Device(riser.Device):
    async def driver(self, cpu, function):
        self.child = os.fork()
        for _ in range(10):
            await cpu.read_u32(function.address())

device, lab = Device(), riser.Lab()
lab.slot("dut", device)
end = lab.run().simulated_ns
if device.child == 0:
    os._exit(7 if end > 0 else 1)
print(os.waitpid(device.child, 0)[1] >> 8)
"""


def test_run_continues_in_both_processes_of_a_fork() -> None:
    assert in_a_process(FORK) == "7\n"


SECOND = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
second = interpreters.create()
code = f'import sys; sys.path[:0] = {sys.path!r}\\ntry: import riser\\nexcept ImportError as e: print(e)'
interpreters.run_string(second, code)
"""


def test_sub_interpreters_are_rejected() -> None:
    assert "interpreter" in in_a_process(SECOND)

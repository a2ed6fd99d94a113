# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The compiled half of riser."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, Literal, TypeVar, final

__version__: str

class RiserError(Exception):
    """Base class of riser's errors, except `Interrupted`."""

class LabError(RiserError):
    """A lab or another file is invalid; the text names the place and the expected values."""

    errors: list[tuple[str, int | None, int | None, str]]
    """Each error: path, line and column (from 1; None without a place), message."""

class ArgumentError(RiserError, ValueError):
    """An argument is invalid; the text names it and the expected values."""

class CaptureError(RiserError):
    """A capture cannot be read; the text names the file and the place."""

    offset: int | None
    """The place in bytes from the start of the file; None without a place."""

class FilterError(RiserError):
    """A filter is invalid; the text shows the place and what was expected."""

    column: int
    """The place, in characters from 1."""

class RunFailed(RiserError):
    """A run failed or made no progress, or every point of a sweep was refused."""

    result: Any
    """Results so far."""

class Interrupted(KeyboardInterrupt):
    """Ctrl-C interrupted a run."""

    result: Any
    """Results so far."""

class DmaError(RiserError):
    """A DMA read, write or atomic of a device failed."""

    reason: str
    """`unsupported-request`, `completer-abort`, `poisoned`, `completion-timeout`, `malformed`, `bus-master-disabled`, `too-long`,
    `bad-atomic`, `atomics-disabled`, `link-down`, `not-in-d0` or `no-such-vector`."""

class HostError(RiserError):
    """An access of a driver to a device or to memory failed."""

    reason: str
    """`unsupported-request`, `completer-abort`, `retry`, `config-retry`, `completion-timeout`, `bad-completion`, `no-device` or
    `atomics-disabled`; absent for errors of memory."""

class TimedOut(RiserError):
    """An awaitable did not end `within` its duration of virtual time."""

class Stuck(RiserError):
    """A coroutine did not yield for a long time of the wall clock."""

_T = TypeVar("_T")
_Buffer = bytes | bytearray | memoryview

@final
class Operation(Generic[_T]):
    """An operation that takes virtual time.

    `await` an operation once: it starts when it is first awaited, and an operation that is never awaited causes a warning.
    """

    def __await__(self) -> Generator[Any, Any, _T]: ...

@final
class Task(Generic[_T]):
    """A task started by `spawn`. `await` it for its result.

    An exception in the task is raised where the task is awaited. If no task awaits it at that time, the exception ends the run.
    """

    def __await__(self) -> Generator[Any, Any, _T]: ...
    @property
    def done(self) -> bool:
        """Whether the task has ended and its result was not taken yet."""
    def cancel(self) -> None:
        """Cancel the task at its `await`. Tasks that await this task get an error."""

class Tasks:
    """Time and concurrent tasks, for devices and drivers."""

    @property
    def now_ps(self) -> int:
        """Virtual time, in picoseconds."""
    @property
    def now_ns(self) -> float:
        """Virtual time, in nanoseconds."""
    def sleep(
        self, *, ps: int | None = None, ns: float | None = None, us: float | None = None
    ) -> Operation[None]:
        """Wait for a duration of virtual time: one of `ps`, `ns` and `us`."""
    def spawn(self, awaitable: Awaitable[_T]) -> Task[_T]:
        """Start a coroutine or an operation concurrently. `await` the task for its result."""
    def gather(self, *awaitables: Awaitable[_T]) -> Operation[list[_T]]:
        """Run these concurrently, and return their results as a list. The first error cancels the other awaitables."""
    def within(
        self,
        awaitable: Awaitable[_T],
        *,
        ps: int | None = None,
        ns: float | None = None,
        us: float | None = None,
    ) -> Operation[_T]:
        """Return the result of `awaitable` if it ends within a duration of virtual time.

        Otherwise raise `TimedOut` and cancel it.
        """

@final
class Io(Tasks):
    """Operations of a device: DMA, interrupts, messages, time, and tasks. They raise `DmaError`."""

    @property
    def vf(self) -> int | None:
        """Number of the virtual function, from 0; None for the physical function."""
    @property
    def mps_bytes(self) -> int:
        """Max_Payload_Size in bytes, the most data of a write TLP (PCIe 5.0 §7.5.3.4)."""
    @property
    def mrrs_bytes(self) -> int:
        """Max_Read_Request_Size in bytes, the most data of a read request (PCIe 5.0 §7.5.3.4)."""
    @property
    def vectors(self) -> int | None:
        """Number of interrupt vectors of the function: the larger one of MSI and MSI-X; None until it is known."""
    @property
    def is_bus_master(self) -> bool:
        """Whether the function may send requests: Bus Master Enable is set, and the function is in D0."""
    @property
    def begun_by(self) -> str:
        """The reset that began this life: `fundamental`, `hot` or `function-level` (PCIe 5.0 §6.6)."""
    def next_request(
        self,
    ) -> Operation[ReadRequest | WriteRequest | AtomicRequest | ConfigRead | ConfigWrite | Message | None]:
        """Wait for the next request to the function; None when its life has ended."""
    def dma_read(
        self,
        address: int,
        length: int,
        *,
        tc: int = 0,
        no_snoop: bool = False,
        relaxed_ordering: bool = False,
        id_based_ordering: bool = False,
        pasid: int | None = None,
    ) -> Operation[bytes]:
        """Read `length` bytes of host memory at `address`.

        The endpoint splits the read into TLPs and reassembles the data.
        """
    def dma_read_counted(self, address: int, length: int) -> Operation[None]:
        """Like `dma_read`, but without data, for runs that measure only time."""
    def dma_write(
        self,
        address: int,
        data: _Buffer,
        *,
        tc: int = 0,
        no_snoop: bool = False,
        relaxed_ordering: bool = False,
        id_based_ordering: bool = False,
        pasid: int | None = None,
    ) -> Operation[None]:
        """Write `data` to host memory at `address`. The write is posted: the call ends when the endpoint has accepted it."""
    def dma_write_counted(self, address: int, length: int) -> Operation[None]:
        """Like `dma_write`, for this many bytes without data."""
    def interrupt(self, vector: int = 0) -> Operation[None]:
        """Raise interrupt `vector`, counted from 0, by MSI or MSI-X."""
    def intx(self, asserted: bool) -> Operation[None]:
        """Set the level of the function's interrupt pin."""
    def message(self, code: int, data: _Buffer | None = None) -> Operation[None]:
        """Send a message with this Message Code to the root complex; `data` in multiples of 4 B."""
    def fetch_add(self, address: int, value: int, *, bits: Literal[32, 64] = 64) -> Operation[int]:
        """Add to an integer in host memory. Returns the old value."""
    def swap(self, address: int, value: int, *, bits: Literal[32, 64] = 64) -> Operation[int]:
        """Store an integer in host memory. Returns the old value."""
    def compare_swap(self, address: int, compare: int, value: int, *, bits: Literal[32, 64] = 64) -> Operation[int]:
        """Store `value` in host memory if the old value equals `compare`. Returns the old value."""

@final
class ReadRequest:
    """A read of a BAR. Answer the request with `complete` or `fail`, at any later time and from any task.

    If the object is dropped without an answer, the requester gets a completion timeout.
    """

    __match_args__ = ("bar", "offset", "length")
    @property
    def bar(self) -> int: ...
    @property
    def offset(self) -> int:
        """Offset in the BAR of the first byte."""
    @property
    def length(self) -> int:
        """Requested bytes, 1 to 4096."""
    @property
    def is_zero_length(self) -> bool:
        """Whether no byte is enabled, for example for a flush."""
    def complete(self, answer: _Buffer | int) -> None:
        """Answer the request: with bytes, cut or padded with zeros; or with the value of the register that contains the first byte."""
    def complete_counted(self) -> None:
        """Answer the request without data, for runs that measure only time."""
    def fail(self, why: Literal["unsupported-request", "completer-abort"] = "unsupported-request") -> None:
        """Refuse the request."""

@final
class WriteRequest:
    """A write of a BAR.

    A non-posted write (to I/O space, or deferrable) is completed successfully when the object is dropped.
    """

    __match_args__ = ("bar", "offset", "value")
    @property
    def bar(self) -> int: ...
    @property
    def offset(self) -> int:
        """Offset in the BAR of the first byte."""
    @property
    def length(self) -> int:
        """Written bytes, 1 to 4096."""
    @property
    def data(self) -> bytes:
        """The bytes from the first enabled byte to the last enabled byte."""
    @property
    def value(self) -> int:
        """The first eight enabled bytes, little-endian."""
    @property
    def enables(self) -> int:
        """One bit for each of the first 128 bytes of `data`, from bit 0 on: whether it is enabled."""
    @property
    def is_answered(self) -> bool:
        """Whether the write has a completion."""
    def apply(self, bar: bytearray) -> bool:
        """Write the enabled bytes to `bar`, the BAR's bytes from offset 0. Returns whether all were in range."""
    def fail(self, why: Literal["unsupported-request", "completer-abort", "retry"] = "unsupported-request") -> None:
        """Refuse the write, or defer it with `retry`. A posted write is only dropped."""

@final
class AtomicRequest:
    """An AtomicOp on a BAR. Answer the request with `complete` and the old bytes."""

    @property
    def bar(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def op(self) -> Literal["fetch-add", "swap", "compare-swap"]: ...
    @property
    def operands(self) -> bytes:
        """The operands, concatenated, little-endian."""
    @property
    def length(self) -> int:
        """Bytes of one operand: 4, 8 or 16."""
    def complete(self, old: _Buffer) -> None:
        """Answer the request with the old bytes."""
    def fail(self, why: Literal["unsupported-request", "completer-abort"] = "unsupported-request") -> None:
        """Refuse the request."""

@final
class ConfigRead:
    """A read of a configuration register that the function declares as its own."""

    @property
    def register_dw(self) -> int: ...
    def complete(self, value: int) -> None: ...

@final
class ConfigWrite:
    """A write of a configuration register that the function declares as its own."""

    @property
    def register_dw(self) -> int: ...
    def apply(self, old: int) -> int: ...

@final
class Message:
    """A message."""

    @property
    def code(self) -> int:
        """Message Code."""
    @property
    def requester(self) -> str:
        """Requester ID of its sender."""
    @property
    def data(self) -> bytes: ...

@final
class Function:
    """A function that the host has found and enabled."""

    @property
    def bdf(self) -> str:
        """Bus, device and function, such as `01:00.0`."""
    @property
    def vendor_id(self) -> int: ...
    @property
    def device_id(self) -> int: ...
    @property
    def class_code(self) -> int: ...
    @property
    def vectors(self) -> int:
        """Interrupt vectors that the host has assigned to the function."""
    @property
    def virtual_functions(self) -> list[Function]:
        """Its virtual functions, in order."""
    def address(self, bar: int = 0, offset: int = 0) -> int:
        """Host address of byte `offset` in memory BAR `bar`."""
    def io_address(self, bar: int = 0, offset: int = 0) -> int:
        """I/O address of byte `offset` in I/O BAR `bar`."""
    def vector(self, vector: int = 0) -> int:
        """The host's number of interrupt vector `vector` of this function, for `Cpu.interrupt`."""

@final
class Memory:
    """The host's memory, which devices reach by DMA. Accesses by a driver take no time."""

    def alloc(self, length: int, align: int = 4096, *, low: bool = False) -> int:
        """Allocate `length` zeroed bytes at a multiple of `align`, with `low` below 4 GiB. Returns their address."""
    def free(self, address: int) -> None: ...
    def read(self, address: int, length: int) -> bytes: ...
    def write(self, address: int, data: _Buffer) -> None: ...
    def read_u32(self, address: int) -> int: ...
    def read_u64(self, address: int) -> int: ...
    def write_u32(self, address: int, value: int) -> None: ...
    def write_u64(self, address: int, value: int) -> None: ...

@final
class Cpu(Tasks):
    """Operations of a driver on the simulated host. They raise `HostError`."""

    @property
    def memory(self) -> Memory: ...
    def read(self, address: int, length: int) -> Operation[bytes]:
        """Read device memory, with one access for each 4 KiB of addresses."""
    def read_u32(self, address: int) -> Operation[int]: ...
    def read_u64(self, address: int) -> Operation[int]: ...
    def write(self, address: int, data: _Buffer) -> Operation[None]:
        """Write device memory. The write is posted: the call ends when the host has accepted the write, before it arrives."""
    def write_u32(self, address: int, value: int) -> Operation[None]: ...
    def write_u64(self, address: int, value: int) -> Operation[None]: ...
    def write_deferrable(self, address: int, data: _Buffer) -> Operation[None]:
        """Write 1 to 128 bytes that do not cross 4 KiB with a deferrable write, and wait for its completion."""
    def config_read(self, function: Function, register_dw: int) -> Operation[int]:
        """Read configuration register `register_dw`, a DW number from 0 to 1023."""
    def config_write(
        self, function: Function, register_dw: int, value: int, byte_enables: int = 0xF
    ) -> Operation[None]:
        """Write configuration register `register_dw`, and wait for the completion."""
    def io_read(self, address: int, length: int) -> Operation[int]:
        """Read 1 to 4 bytes of I/O space within one DW."""
    def io_write(self, address: int, data: _Buffer) -> Operation[None]:
        """Write 1 to 4 bytes of I/O space within one DW, and wait for the completion."""
    def interrupt(self, vector: int) -> Operation[None]:
        """Wait for an interrupt with this vector number of the host. Earlier interrupts are not lost."""
    def take_messages(self, codes: Sequence[int]) -> Operation[None]:
        """Receive messages with these codes in `next_message` from now on."""
    def next_message(self) -> Operation[Message]:
        """Wait for the next message that a device sends to the root complex."""
    def tlp(self, filter: str) -> Operation[dict[str, Any]]:
        """Wait for the next TLP at the device's end of a link that passes `filter` (`riser trace --filter`).

        Returns its object of `riser trace --json`, with its `data` as bytes. The fields for packets of a file, `source` to
        `nettlp_timestamp`, are absent.
        """

@final
class Polls:
    """The clock of a run's coroutines."""

    def __new__(cls) -> Polls: ...
    def seconds(self) -> float | None: ...

@final
class Table:
    """A table of Arrow columns."""

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_dicts(self) -> list[dict[str, Any]]: ...

@final
class RunResult:
    def report(self) -> dict[str, Any]: ...
    def text(self) -> str: ...
    def links(self) -> Table: ...
    def latencies(self) -> Table: ...
    def transactions(self) -> Table | None: ...

@final
class Capture:
    def __new__(
        cls, path: str, filter: str | None, strict: bool, vc_of_tc: list[int] | None, reading: dict[str, Any], /
    ) -> Capture: ...
    @property
    def frames(self) -> int: ...
    @property
    def read_as(self) -> str: ...
    @property
    def epoch_ps(self) -> int: ...
    def tlps(self) -> Table: ...
    def transactions(self) -> Table: ...
    def credits(self) -> Table: ...
    def errors(self) -> Table: ...
    def stats(self) -> str: ...
    def check(self, given: list[tuple[str, int]], /) -> str: ...
    def series(self, interval_ps: int | None, speed_bps: int | None, /) -> tuple[int, Table, Table, Table]: ...
    def page(self, most: int, /) -> tuple[str, int]: ...

@final
class Lab:
    def __new__(cls, text: str, name: str, set: list[str], objects: Sequence[object], /) -> Lab: ...
    def check(self) -> str: ...
    def enumerate(self) -> tuple[str, list[bytes]]: ...
    def run(
        self,
        *,
        seed: int | None,
        capture: str | None,
        force: bool,
        tap: str,
        dllps: bool,
        transactions: bool,
        allow_native: bool,
        progress: Callable[[str, float | None], None] | None,
        polls: Polls,
    ) -> RunResult: ...

@final
class Sweep:
    def __new__(cls, text: str, name: str, lab: tuple[str, str] | None, allow_native: bool, /) -> Sweep: ...
    def pack(self) -> str: ...

@final
class SweepWorker:
    def __new__(cls, packed: str, /) -> SweepWorker: ...
    def run(self, points: str) -> tuple[str, float, float]: ...

@final
class SweepRun:
    def __new__(cls, sweep: Sweep, journal: str | None, start: str, /) -> SweepRun: ...
    def next_chunk(self, workers: int) -> str | None: ...
    def singly(self, points: str) -> list[str]: ...
    def accept(self, records: str, cpu_seconds: float) -> None: ...
    def crashed(self, points: str, why: str) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def progress(self) -> tuple[int, int, int, int, int, int]: ...
    def by_processes(
        self, command: list[str], count: int, progress: Callable[[str, float | None], None] | None
    ) -> tuple[float, float, int, int]: ...
    def sync(self) -> None: ...
    def table(self) -> Table: ...
    def front(self) -> list[int]: ...
    def refusal(self) -> str | None: ...
    def warnings(self) -> list[str]: ...
    def write_parquet(self, path: str) -> None: ...
    def write_csv(self, path: str) -> None: ...
    def write_page(self, path: str) -> None: ...

_End = tuple[str, str, Any]

def bench(arguments: dict[str, Any], progress: Callable[[str, float | None], None] | None, /) -> tuple[str, str, _End]: ...
def compare(reference: str, other: str, skip: str | None, whole: bool, /) -> str: ...
def fit(
    arguments: dict[str, Any], output: str, work: str, progress: Callable[[str, float | None], None] | None, /
) -> tuple[str, str, _End]: ...
def model_bandwidth(arguments: dict[str, Any], /) -> str: ...
def model_nic(arguments: dict[str, Any], /) -> str: ...
def profile(name: str, /) -> str: ...
def profiles() -> str: ...
def table(rows: list[dict[str, Any]], /) -> Table: ...
def to_toml(value: dict[str, Any], /) -> str: ...
def to_toml_value(value: object, /) -> str: ...
def parse_tlp(data: _Buffer, /) -> dict[str, Any]:
    """Return the fields of a TLP by the names of `riser trace --json`, with its `data` as bytes.

    Raises:
        RiserError: it is truncated, of an unknown type, or malformed.
    """

def tlp_text(data: _Buffer, /) -> str:
    """Return a TLP as a line of `riser trace --verbose`."""

def emit_tlp(data: _Buffer, /) -> bytes: ...
def refuse_others() -> None: ...
def main(itself: list[str], args: list[str], /) -> int: ...

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Devices in Python: their attributes and registers."""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, overload

from riser._riser import AtomicRequest, Cpu, Function, Io, ReadRequest, RiserError, WriteRequest


_F = TypeVar("_F", bound=Callable[..., Any])


class Bar(NamedTuple):
    """A BAR.

    Args:
        size: bytes, a power of two: at least 128 of memory, 4 to 256 of I/O space.
        kind: `memory32`, `memory64` (which occupies two BARs) or `io`.
        prefetchable: reads have no side effects.
    """

    size: int
    kind: Literal["memory32", "memory64", "io"] = "memory64"
    prefetchable: bool = False


class Msix(NamedTuple):
    """MSI-X, with its table and pending bits in a BAR of the function.

    Args:
        vectors: 1 to 2048.
        bar: the BAR.
        table_offset: bytes from its start, a multiple of 8; 16 B for each vector.
        pending_offset: bytes from its start, a multiple of 8.
    """

    vectors: int
    bar: int = 0
    table_offset: int = 0x800
    pending_offset: int = 0xC00


def _integer(what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise RiserError(f"{what}, {value!r}: expected an integer") from None


_REGISTERS_END = 1 << 24
"""Offset limit of registers. A register file has all bytes up to its last register."""


class Register:
    """A register of a device: a little-endian integer in a BAR.

    An attribute of the class declares it. The attribute of an instance is its value:

        >>> class Counter(Device):
        ...     count = Register(0x10)
        >>> counter = Counter()
        >>> counter.count += 1
        >>> counter.count
        1

    Args:
        offset: bytes from the start of the BAR.
        bits: 8, 16, 32 or 64.
        bar: number of the BAR.
        reset: value after a reset.
        writable: the bits that the host can write.
    """

    def __init__(
        self, offset: int, *, bits: int = 32, bar: int = 0, reset: int = 0, writable: int | None = None
    ) -> None:
        offset, bits = _integer("offset of a register", offset), _integer("bits of a register", bits)
        if bits not in (8, 16, 32, 64):
            raise RiserError(f"register at {offset:#x}: bits of {bits}: expected 8, 16, 32 or 64")
        if offset % (bits // 8) or not 0 <= offset < _REGISTERS_END:
            place = f"multiples of its {bits // 8} B, below {_REGISTERS_END:#x}"
            raise RiserError(f"register at {offset:#x}: expected {place}")
        self.offset, self.bits, self.size = offset, bits, bits // 8
        self.bar, self.reset = _integer("bar of a register", bar), _integer("reset of a register", reset)
        self.writable = (1 << bits) - 1 if writable is None else _integer("writable of a register", writable)
        self.name = f"{offset:#x}"
        self._on_write: Callable[..., Any] | None = None
        self._on_read: Callable[..., Any] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, device: None, owner: type) -> Self: ...
    @overload
    def __get__(self, device: Device, owner: type) -> int: ...
    def __get__(self, device: Device | None, owner: type) -> Self | int:
        if device is None:
            return self
        return device._file.value(self)

    def __set__(self, device: Device, value: int) -> None:
        device._file.set(self, value)

    def on_write(self, function: _F) -> _F:
        """Decorate a function that is called as `(self, io, value)` after the host writes the register.

        A coroutine runs as a separate task, so that the device continues to take requests.
        """
        self._on_write = function
        return function

    def on_read(self, function: _F) -> _F:
        """Decorate a function that is called as `(self, io)` before the host reads the register, and returns its value."""
        self._on_read = function
        return function


def _check_msix(owner: type, msix: Msix | None, registers: list[Register]) -> None:
    """Check that no register overlaps the MSI-X table or pending bits, where writes never reach the device."""
    if msix is None:
        return
    vectors = _integer("vectors of Msix", msix.vectors)
    for what, offset, size in (
        ("table", _integer("table_offset of Msix", msix.table_offset), 16 * vectors),
        ("pending bits", _integer("pending_offset of Msix", msix.pending_offset), 8 * -(-vectors // 64)),
    ):
        for register in registers:
            if register.bar == msix.bar and register.offset < offset + size and offset < register.offset + register.size:
                place = f"BAR {register.bar}, {offset:#x} to {offset + size - 1:#x}"
                raise RiserError(
                    f"{owner.__name__}: register {register.name} at {register.offset:#x} overlaps the MSI-X {what} ({place})"
                )


class _RegisterFile:
    """The bytes of the registers of one function, by BAR."""

    def __init__(self, registers: list[Register]) -> None:
        self.registers = registers
        ends: dict[int, int] = {}
        for register in registers:
            ends[register.bar] = max(ends.get(register.bar, 0), register.offset + register.size)
        self._bars = {bar: bytearray(end) for bar, end in ends.items()}
        self.reset()

    def reset(self) -> None:
        for register in self.registers:
            self.set(register, register.reset)

    def value(self, register: Register) -> int:
        bytes_ = self._bars[register.bar][register.offset : register.offset + register.size]
        return int.from_bytes(bytes_, "little")

    def set(self, register: Register, value: int) -> None:
        value = _integer(f"register {register.name}", value)
        if not 0 <= value < 1 << register.bits:
            raise RiserError(f"register {register.name}: {value!r}: expected an integer of {register.bits} bits")
        end = register.offset + register.size
        self._bars[register.bar][register.offset : end] = value.to_bytes(register.size, "little")

    def touched(self, bar: int, offset: int, length: int) -> list[Register]:
        """The registers that an access touches."""
        return [
            register
            for register in self.registers
            if register.bar == bar and register.offset < offset + length and offset < register.offset + register.size
        ]

    def read(self, bar: int, offset: int, length: int) -> bytes:
        return bytes(self._bars.get(bar, b"")[offset : offset + length])

    def write(self, request: WriteRequest) -> list[Register]:
        touched = self.touched(request.bar, request.offset, request.length)
        before = [self.value(register) for register in touched]
        if request.bar in self._bars:
            request.apply(self._bars[request.bar])
        for register, old in zip(touched, before, strict=True):
            new, bits = self.value(register), register.writable
            self.set(register, new & bits | old & ~bits)
        return touched


class Device:
    """A device and its driver: derive from it, set its attributes, and define `run` or registers.

    The object is the physical function; each virtual function is a copy of it (see `for_vf`). Every reset restarts `run`.
    """

    vendor_id: int = 0x7269
    """Vendor ID, 16 bits. The default is not assigned."""
    device_id: int = 0x5059
    """Device ID, 16 bits."""
    revision_id: int = 0
    """Revision ID, 8 bits."""
    class_code: int = 0xFF0000
    """Class Code, 24 bits. The default means no class."""
    subsystem_vendor_id: int = 0
    """Subsystem Vendor ID, 16 bits."""
    subsystem_id: int = 0
    """Subsystem ID, 16 bits."""
    bars: Mapping[int, Bar] = {0: Bar(4096)}
    """Its BARs by number, 0 to 5."""
    msi_vectors: int = 1
    """MSI vectors: 1, 2, 4, 8, 16 or 32; 0 for no MSI."""
    msix: Msix | None = None
    """MSI-X, or None."""
    virtual_functions: int = 0
    """Number of virtual functions (SR-IOV), 0 to 256. A lab enables all of them by default."""
    vf_device_id: int = 0x505A
    """Device ID of its virtual functions."""
    vf_bars: Mapping[int, Bar] = {0: Bar(4096)}
    """BARs of each virtual function."""
    completes_atomics: bool = False
    """Whether it completes AtomicOps. They arrive as `AtomicRequest`."""
    messages: list[int] = []  # noqa: RUF012
    """Message Codes that it accepts. They arrive as `Message`."""

    driver: Callable[[Cpu, Function], Coroutine[Any, Any, None]] | None = None
    """`async def driver(self, cpu, function)`: the driver on the simulated host. The run ends when it ends."""

    _registers: ClassVar[list[Register]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [value for value in vars(cls).values() if isinstance(value, Register)]
        names = {register.name for register in own}
        cls._registers = [*(r for r in cls._registers if r.name not in names), *own]
        for register in own:
            for hook in (register._on_write, register._on_read):
                if (name := getattr(hook, "__name__", None)) in vars(Device):
                    raise RiserError(f"{cls.__name__}.{name}, which {register.name} calls: riser.Device has a method of that name")
        by_place = sorted(cls._registers, key=lambda r: (r.bar, r.offset))
        for one, next_ in zip(by_place, by_place[1:], strict=False):
            if one.bar == next_.bar and one.offset + one.size > next_.offset:
                raise RiserError(f"{cls.__name__}: registers {one.name} and {next_.name} overlap")
        if isinstance(cls.msix, Msix):
            _check_msix(cls, cls.msix, cls._registers)

    @property
    def _file(self) -> _RegisterFile:
        file: _RegisterFile | None = self.__dict__.get("_register_file")
        if file is None:
            file = self.__dict__["_register_file"] = _RegisterFile(type(self)._registers)
        return file

    async def run(self, io: Io) -> None:
        """Run the function from a reset on. The default serves its registers."""
        while (request := await io.next_request()) is not None:
            self.serve(io, request)

    def serve(self, io: Io, request: object) -> None:
        """Serve a request from the registers, and call their decorated functions. For classes with their own `run`."""
        match request:
            case ReadRequest():
                self._serve_read(io, request)
            case WriteRequest():
                for register in self._file.write(request):
                    if register._on_write is not None:
                        begun = register._on_write(self, io, self._file.value(register))
                        if isinstance(begun, Coroutine):
                            io.spawn(begun)
            case AtomicRequest():
                request.fail()

    def _serve_read(self, io: Io, request: ReadRequest) -> None:
        touched = self._file.touched(request.bar, request.offset, request.length)
        for register in touched:
            if register._on_read is not None:
                self._file.set(register, register._on_read(self, io))
        request.complete(self._file.read(request.bar, request.offset, request.length))

    def reset(self, io: Io) -> None:
        """Called before `run` at every reset, after the registers are set to their reset values."""

    def for_vf(self, index: int) -> Device:
        """Return the object for virtual function `index`, from 0. The default is a copy of this one with separate registers."""
        vf = copy.copy(self)
        vf.__dict__.pop("_register_file", None)
        return vf

    def report(self) -> dict[str, Any]:
        """Return counters for the run's report: names, and values that JSON can represent."""
        return {}

    def _check(self) -> None:
        """Check that each register is in a BAR, and not in the MSI-X structures."""
        _check_msix(type(self), self.msix, type(self)._registers)
        for register in type(self)._registers:
            bar = self.bars.get(register.bar)
            if bar is None or register.offset + register.size > bar.size:
                has = "there is no such BAR" if bar is None else f"it has {bar.size} B"
                raise RiserError(
                    f"{type(self).__name__}.{register.name} at {register.offset:#x} of BAR {register.bar}: {has}"
                )

    def _live(self, io: Io) -> Coroutine[Any, Any, None]:
        """Begin a life of the function of `io`."""
        target = self
        if io.vf is not None:
            vfs: dict[int, Device] = self.__dict__.setdefault("_vfs", {})
            target = vfs.get(io.vf) or vfs.setdefault(io.vf, self.for_vf(io.vf))
        target._file.reset()
        target.reset(io)
        return target.run(io)


def load(name: str, folder: Path, settings: Mapping[str, Any]) -> Device:
    """Return an instance of the class `FILE.py:CLASS`, relative to `folder`, or `MODULE:CLASS`."""
    # The import is here to keep `import riser` fast.
    import importlib

    place, _, attribute = name.rpartition(":")
    module = _from_file(Path(folder) / place) if place.endswith(".py") else importlib.import_module(place)
    try:
        made = getattr(module, attribute)
    except AttributeError:
        raise RiserError(f"{place} has no `{attribute}`") from None
    device = made(**settings)
    if not isinstance(device, Device):
        raise RiserError(f"{name} gives a {type(device).__name__}: expected a class derived from riser.Device")
    return device


def _from_file(path: Path) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RiserError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look for the class there.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module

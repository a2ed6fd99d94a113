# SPDX-License-Identifier: MIT
"""The DMA engine from Python: one file that needs no library.

    from riser_dma import Dma, D2H, INTEGERS
    with Dma("/dev/riser_dma0") as dma:
        dma.configure(D2H, 0, logic=INTEGERS, seed=7)
        words = dma.receive(0, 4096)
"""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import time

H2D, D2H, NOP = 0, 1, 2
INTEGERS, PLAIN, LOOP_BACK = 0, 1, 2
BY_HANDLE, IRQ, WRITABLE = 1, 2, 1
_u8, _u16, _u32, _u64, _s32 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


class _Printed(ctypes.Structure):
    def __repr__(self) -> str:
        fields = (name for name, _ in self._fields_ if not name.startswith("reserved"))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in fields)})"


class Info(_Printed):
    _fields_ = [("version", _u32), ("function", _u16), ("functions", _u16), ("h2d_engines", _u16), ("d2h_engines", _u16),
                ("device_entries", _u32), ("ring_entries", _u32), ("payload_bytes", _u16), ("read_bytes", _u16), ("window", _u16),
                ("window_shared", _u16), ("host_ring", _u16), ("interrupts", _u16), ("reserved", _u32 * 4)]


class Transfer(_Printed):
    _fields_ = [("buffer", _u64), ("size", _u64), ("engine", _u32), ("irq", _u8), ("enable", _u8), ("flags", _u16), ("handle", _u32),
                ("code", _u32), ("moved", _u64), ("reserved", _u64)]


class Cpu(_Printed):
    _fields_ = [("bar", _u32), ("reserved", _u32), ("address", _u64), ("data", _u64)]


class Pending(_Printed):
    _fields_ = [("direction", _u32), ("engine", _u32), ("pending", _u32), ("failed", _u32), ("error", _u32), ("code", _u32),
                ("done", _u64), ("moved", _u64), ("reserved", _u64)]


class Configure(_Printed):
    _fields_ = [("direction", _u32), ("engine", _u32), ("logic", _u32), ("coalesce_count", _u16), ("coalesce_us", _u16),
                ("seed", _u64), ("reserved", _u64)]


class Register(_Printed):
    _fields_ = [("buffer", _u64), ("size", _u64), ("flags", _u32), ("handle", _u32), ("reserved", _u64)]


class Import(_Printed):
    _fields_ = [("fd", _s32), ("flags", _u32), ("handle", _u32), ("reserved0", _u32), ("size", _u64), ("reserved", _u64)]


class Submission(_Printed):
    _fields_ = [("op", _u8), ("flags", _u8), ("engine", _u16), ("handle", _u32), ("buffer", _u64), ("size", _u64), ("user_data", _u64)]


class Completion(_Printed):
    _fields_ = [("user_data", _u64), ("moved", _u64), ("result", _s32), ("code", _u32)]


class Rings(_Printed):
    _fields_ = [(name, _u32) for name in ("submission_head", "submission_tail", "completion_head", "completion_tail",
                                          "submission_entries", "completion_entries", "submissions", "completions")]


class Setup(_Printed):
    _fields_ = [("entries", _u32), ("reserved0", _u32), ("bytes", _u64), ("reserved", _u64)]


class Enter(_Printed):
    _fields_ = [("submit", _u32), ("wait", _u32), ("timeout_us", _u64), ("submitted", _u32), ("ready", _u32), ("reserved", _u64)]


def _command(direction: int, number: int, struct: type | None = None) -> int:
    """Returns an ioctl number, as the macros of linux/ioctl.h: direction 1 writes to the driver, 2 reads from it."""
    return direction << 30 | (ctypes.sizeof(struct) if struct else 0) << 16 | 0xD7 << 8 | number


_INFO = _command(2, 0, Info)
_DMA = {H2D: _command(3, 1, Transfer), D2H: _command(3, 2, Transfer)}
_H2D_CPU, _D2H_CPU = _command(1, 3, Cpu), _command(1, 4, Cpu)
_PENDING, _MODE, _CONFIGURE = _command(3, 5, Pending), _command(0, 6), _command(1, 7, Configure)
_REGISTER, _IMPORT, _RELEASE = _command(3, 8, Register), _command(3, 9, Import), _command(0, 10)
_SETUP, _ENTER = _command(3, 11, Setup), _command(3, 12, Enter)


def address(buffer, writable: bool = True) -> int:
    """Returns the address of the first byte of a bytearray, mmap or array, or of bytes if not writable."""
    if not writable and isinstance(buffer, bytes):
        return ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p).value or 0
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Dma:
    """An open function. Failures raise OSError with an errno of riser_dma.h."""

    def __init__(self, path: str = "/dev/riser_dma0", polling: bool = False):
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.polling = polling
        # Buffers that the device may still access.
        self._under_way: dict[tuple[int, int], list] = {}
        if polling:
            fcntl.ioctl(self.fd, _MODE, 1)

    def __enter__(self) -> "Dma":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def _call(self, command: int, argument):
        fcntl.ioctl(self.fd, command, argument)
        return argument

    def info(self) -> Info:
        return self._call(_INFO, Info())

    def configure(self, direction: int, engine: int = 0, logic: int = INTEGERS, seed: int = 0, count: int = 0, us: int = 0) -> None:
        self._call(_CONFIGURE, Configure(direction, engine, logic, count, us, seed))

    def begin(self, direction: int, engine: int, buffer, enable: bool = True) -> Transfer:
        """Starts or queues a transfer. The buffer is kept until `wait` or `pending` finds no running transfer."""
        self._under_way.setdefault((direction, engine), []).append(buffer)
        asked = Transfer(address(buffer, direction == D2H), memoryview(buffer).nbytes, engine, enable and not self.polling, enable)
        return self._call(_DMA[direction], asked)

    def pending(self, direction: int, engine: int = 0) -> Pending:
        now = self._call(_PENDING, Pending(direction, engine))
        if not now.pending:
            self._under_way.pop((direction, engine), None)
        return now

    def wait(self, direction: int, engine: int = 0, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        failure = 0
        while True:
            now = self.pending(direction, engine)
            failure = failure or now.error
            if not now.pending:
                break
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            select.select([self.fd], [], [], left)
        if failure:
            raise OSError(failure, os.strerror(failure))

    def send(self, engine: int, data) -> None:
        self.begin(H2D, engine, data)
        self.wait(H2D, engine)

    def receive(self, engine: int, size: int) -> bytearray:
        data = bytearray(size)
        self.begin(D2H, engine, data)
        self.wait(D2H, engine)
        return data

    def read_register(self, at: int, bar: int = 0) -> int:
        value = _u32()
        self._call(_D2H_CPU, Cpu(bar, 0, at, ctypes.addressof(value)))
        return value.value

    def write_register(self, at: int, value: int, bar: int = 0) -> None:
        data = _u32(value)
        self._call(_H2D_CPU, Cpu(bar, 0, at, ctypes.addressof(data)))

    def register(self, buffer, writable: bool = True) -> int:
        return self._call(_REGISTER, Register(address(buffer, writable), memoryview(buffer).nbytes, WRITABLE if writable else 0)).handle

    def import_dmabuf(self, fd: int, writable: bool = True) -> tuple[int, int]:
        taken = self._call(_IMPORT, Import(fd, WRITABLE if writable else 0))
        return taken.handle, taken.size

    def release(self, handle: int) -> None:
        fcntl.ioctl(self.fd, _RELEASE, handle)

    def batch(self, entries: int) -> "Batch":
        return Batch(self, entries)


class Batch:
    """Rings of submissions and completions; one per open Dma."""

    def __init__(self, dma: Dma, entries: int):
        self.dma = dma
        setup = dma._call(_SETUP, Setup(entries))
        self.memory = mmap.mmap(dma.fd, setup.bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.rings = Rings.from_buffer(self.memory)
        self.submissions = (Submission * entries).from_buffer(self.memory, self.rings.submissions)
        self.completions = (Completion * (2 * entries)).from_buffer(self.memory, self.rings.completions)

    def submit(self, direction: int, engine: int, at: int, size: int, user_data: int = 0, handle: int = 0, irq: bool = False) -> bool:
        """Adds a transfer to the ring; returns False if it is full. `at` is an address, or an offset in the handle's memory."""
        rings = self.rings
        if rings.submission_tail - rings.submission_head & 0xFFFFFFFF == rings.submission_entries:
            return False
        flags = (BY_HANDLE if handle else 0) | (IRQ if irq else 0)
        self.submissions[rings.submission_tail % rings.submission_entries] = Submission(direction, flags, engine, handle, at, size, user_data)
        rings.submission_tail = rings.submission_tail + 1 & 0xFFFFFFFF
        return True

    def enter(self, wait: int = 0, timeout: float = 0) -> int:
        """Submits the ring's entries and waits for `wait` completions, at most `timeout` seconds (0: no limit). Returns the number submitted."""
        count = self.rings.submission_tail - self.rings.submission_head & 0xFFFFFFFF
        return self.dma._call(_ENTER, Enter(count, wait, int(timeout * 1e6))).submitted

    def take(self) -> list[Completion]:
        rings, taken = self.rings, []
        while rings.completion_head != rings.completion_tail:
            taken.append(Completion.from_buffer_copy(self.completions[rings.completion_head % rings.completion_entries]))
            rings.completion_head = rings.completion_head + 1 & 0xFFFFFFFF
        return taken

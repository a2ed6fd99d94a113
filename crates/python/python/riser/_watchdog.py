# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Detects a coroutine that never yields, for which a run would wait forever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from riser._riser import Polls, Stuck

PATIENCE_S = 10.0
"""Seconds of the wall clock after which a coroutine that has not yielded gets a `Stuck` at its current line."""


class _Late(Stuck):
    def __str__(self) -> str:
        return f"a coroutine has not yielded for {PATIENCE_S:g} s of the wall clock"


_Late.__name__ = _Late.__qualname__ = Stuck.__name__


@contextmanager
def watching(polls: Polls, wanted: bool) -> Iterator[None]:
    """Watch the coroutines of this thread, if there are devices in Python."""
    if not wanted:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(polls, threading.get_ident(), done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(polls: Polls, thread: int, done: threading.Event) -> None:
    import ctypes

    waited = 0.0
    while not done.wait(min(1.0, PATIENCE_S / 4)):
        seconds = polls.seconds()
        if seconds is None:
            waited = 0.0
        elif seconds > waited + PATIENCE_S:
            # The coroutine may have caught an earlier exception.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Late))
            waited = seconds

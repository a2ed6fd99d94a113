# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Progress of a long run: a line in a terminal or in a notebook's cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE_S = 2.0
"""Seconds before the progress bar appears."""

Show = Callable[[str, float | None], None]


@contextmanager
def shown(wanted: bool | None) -> Iterator[Show | None]:
    """Yield a function of a text and a share from 0 to 1, or None without a progress bar."""
    notebook = _notebook()
    if wanted is False or (wanted is None and notebook is None and not sys.stderr.isatty()):
        yield None
        return
    line = _Line(notebook)
    try:
        yield line.show
    finally:
        line.close()


class _Line:
    def __init__(self, notebook: Any) -> None:
        self._begun = time.monotonic()
        self._notebook = notebook
        self._handle: Any = None
        self._width = 0

    def show(self, text: str, share: float | None) -> None:
        elapsed = time.monotonic() - self._begun
        if elapsed < _PATIENCE_S:
            return
        percent = "" if share is None else f" {100 * share:5.1f} %"
        self._write(f"{elapsed:5.0f} s{percent}  {text}")

    def _write(self, text: str) -> None:
        if self._notebook is None:
            print(f"\r{text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        elif self._handle is None:
            self._handle = self._notebook({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
        elif self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)


def _notebook() -> Any:
    """Return a function that displays in a notebook's cell, or None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The compiled half of riser."""

from collections.abc import Callable
from typing import Any, final

__version__: str

class RiserError(Exception):
    """An error of riser: the base of all of them but `Interrupted`."""

class LabError(RiserError):
    """A lab or another file says what is not legal; the text names the place and the legal values."""

    errors: list[tuple[str, int | None, int | None, str]]
    """Each error: path, line and column (from 1; None where it has no place), message."""

class CaptureError(RiserError):
    """A capture cannot be read; the text names the file and the place."""

    offset: int | None
    """The place, in bytes from the start of the file; None where it has none."""

class FilterError(RiserError):
    """A filter means nothing; the text shows the place and names what is legal."""

    column: int
    """The place, in characters from 1."""

class RunFailed(RiserError):
    """A run has failed or made no progress."""

    result: Any
    """What it has shown up to there."""

class Interrupted(KeyboardInterrupt):
    """A run was interrupted by Ctrl-C."""

    result: Any
    """What it has shown up to there."""

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
    def __new__(cls, path: str, filter: str | None, strict: bool, vc_of_tc: list[int] | None, /) -> Capture: ...
    @property
    def frames(self) -> int: ...
    @property
    def epoch_ps(self) -> int: ...
    def tlps(self) -> Table: ...
    def transactions(self) -> Table: ...
    def credits(self) -> Table: ...
    def errors(self) -> Table: ...
    def stats(self) -> str: ...
    def series(self, interval_ps: int | None, speed_bps: int | None, /) -> tuple[int, Table, Table, Table]: ...
    def page(self, most: int, /) -> tuple[str, int]: ...

@final
class Lab:
    def __new__(cls, text: str, name: str, set: list[str], /) -> Lab: ...
    def check(self) -> str: ...
    def run(
        self,
        *,
        seed: int | None,
        capture: str | None,
        tap: str,
        dllps: bool,
        transactions: bool,
        allow_native: bool,
        progress: Callable[[str, float | None], None] | None,
    ) -> RunResult: ...

def to_toml(value: dict[str, Any], /) -> str: ...
def to_toml_value(value: object, /) -> str: ...
def main(args: list[str], /) -> int: ...

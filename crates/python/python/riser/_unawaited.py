# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The warning about an operation that was never awaited."""

import warnings
from itertools import islice
from types import CodeType

_seen: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
"""Registries of `warnings` by file, so that each place has one warning."""


def warn(code: CodeType, instruction: int) -> None:
    """Warn about an operation that the instruction at this byte of `code` made."""
    positions = next(islice(code.co_positions(), instruction // 2, None), (None,))
    warnings.warn_explicit(
        f"an operation was never awaited in {code.co_qualname}(), so it did nothing",
        RuntimeWarning,
        code.co_filename,
        positions[0] or code.co_firstlineno,
        registry=_seen.setdefault(code.co_filename, {}),
    )

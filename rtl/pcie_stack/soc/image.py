# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of the SoC for $readmemh."""

import pathlib


def words(contents):
    """Lines of a file in words of 64 bits."""
    padded = contents + bytes(-len(contents) % 8)
    return (f"{int.from_bytes(padded[at : at + 8], 'little'):016x}" for at in range(0, len(padded), 8))


def write(out, parts):
    """Writes `parts`, pairs of offset and bytes."""
    lines = []
    for offset, contents in parts:
        if offset % 8:
            raise ValueError(f"offset {offset:#x} of a part; expected a multiple of 8")
        lines += [f"@{offset // 8:x}", *words(contents)]
    pathlib.Path(out).write_text("\n".join(lines) + "\n")

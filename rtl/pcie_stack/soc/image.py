# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of the SoC for $readmemh: image.py OUT OFFSET=FILE... puts each file at its offset in RAM."""

import pathlib
import sys


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


if __name__ == "__main__":
    named = [argument.split("=", 1) for argument in sys.argv[2:]]
    write(sys.argv[1], [(int(offset, 0), pathlib.Path(name).read_bytes()) for offset, name in named])

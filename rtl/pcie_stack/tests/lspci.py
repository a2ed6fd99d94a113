# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Configuration space as lspci reads and decodes it."""

import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def dump(target, data):
    """The configuration space of one function, as `lspci -xxxx` prints it."""
    lines = "".join(f"{n:02x}: {data[n:n + 16].hex(' ')}\n" for n in range(0, len(data), 16))
    return f"{target >> 8:02x}:{target >> 3 & 31:02x}.{target & 7} \n{lines}\n"


def check_decoded(text, snapshot, tmp_path):
    """Decodes dumps by `lspci -vv` and compares the result with a reviewed snapshot, a path relative to this directory."""
    (tmp_path / "dump").write_text(text)
    if not shutil.which("lspci"):
        pytest.skip("lspci is not installed")
    shown = subprocess.run(["lspci", "-F", tmp_path / "dump", "-n", "-vv"], capture_output=True, text=True, check=True, env={"TZ": "UTC", "PATH": "/usr/bin:/sbin"})
    assert all("libkmod" in line for line in shown.stderr.splitlines()), shown.stderr
    assert shown.stdout == (HERE / snapshot).read_text(), f"lspci decodes another configuration; review it and keep it in {snapshot}"

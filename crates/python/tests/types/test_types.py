# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Type checks of the package and its tests with mypy, and with pyright if node is available."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import riser

PACKAGE = Path(riser.__file__).parent
TESTS = Path("crates/python/tests")


def test_mypy_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", PACKAGE, TESTS],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs node")
def test_pyright_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, PACKAGE],
        capture_output=True,
        text=True,
    )
    if "0 errors" not in done.stdout and ("npm" in done.stderr or "network" in done.stderr.lower()):
        pytest.skip("pyright is not available")
    assert done.returncode == 0, done.stdout + done.stderr

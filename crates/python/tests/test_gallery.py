# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the example of the gallery that is a device in Python."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "gallery/python-device"


def test_python_device_passes_its_tests_and_draws_its_picture(tmp_path: Path) -> None:
    riser = tmp_path / "riser"
    riser.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m riser "$@"\n')
    riser.chmod(0o755)
    # An installed riser registers its pytest fixture itself.
    own = {"RISER": str(riser), "PYTHON": sys.executable, "OUT": str(tmp_path), "PYTEST_ADDOPTS": "-p riser.testing"}
    done = subprocess.run([EXAMPLE / "run"], env=os.environ | own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert (tmp_path / "picture.svg").read_text() == (EXAMPLE / "picture.svg").read_text()

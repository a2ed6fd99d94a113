# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The SoC: a bare-metal program on Rocket enumerates what is below the RTL root port, and checks DMA and MSIs."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "soc"))
import soc

CHECKS = 12


@pytest.fixture(scope="module", params=["plain", "tree"])
def ran(request):
    try:
        return request.param, soc.enumerate_functions(request.param)
    except soc.Missing as missing:
        pytest.skip(str(missing))


def test_program_enumerates_functions_and_checks_dma_and_msis(ran):
    build, result = ran
    assert result.returncode == 0, result.stdout + result.stderr
    functions = dict(re.findall(r"^function (\w+) (\w+)", result.stdout, re.MULTILINE))
    bridges = {"0000": "52431234", "0100": "50011234", "0200": "50021234", "0208": "50021234", "0400": "4e491234"} if build == "tree" else {"0000": "52431234"}
    device = "0300" if build == "tree" else "0100"
    assert functions == {**bridges, device: "b500104c"}
    assert f"function {device} b500104c BAR 0 4096 bytes at 4" in result.stdout
    assert len(re.findall(r": good$", result.stdout, re.MULTILINE)) == CHECKS
    assert "FAILED" not in result.stdout


def test_device_moved_the_bytes_that_the_program_asked_for(ran):
    _, result = ran
    # Two READs and a COPY read 600 bytes each, a WRITE and the COPY write as many; each of the four commands ends with an MSI.
    assert "1800 bytes read, 1200 written, 4 interrupts" in result.stderr

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Linux on the SoC. Minutes to hours: `.ci/long riscv` runs it."""

import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import linux
import lspci
import soc

SNAPSHOT = HERE / "linux_lspci.txt"


@pytest.fixture(scope="module")
def console():
    try:
        result = linux.boot("tree")
    except soc.Missing as missing:
        pytest.skip(str(missing))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.replace("\r", "")


def test_driver_of_endpoint_test_moves_data_and_takes_msis(console):
    tests = re.findall(r"^(BAR 0|MSI 1|device \w+ \d+): (-?\d+)$", console, re.MULTILINE)
    assert len(tests) == 17 and all(result == "1" for _, result in tests), tests
    taken = re.search(r"^ *\d+: +(\d+) +riser-msi .*pci-endpoint-test", console, re.MULTILINE)
    # One for the test of MSIs, and one for each command.
    assert taken and int(taken[1]) == 16


def test_configuration_space_is_that_of_the_snapshot(console, tmp_path):
    lspci.check_decoded(linux.configuration_spaces(console), SNAPSHOT, tmp_path)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The SoC as the host of a lab: riser's devices are below its RTL root port. `.ci/long riscv` runs it."""

import json
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import lab
import linux
import lspci
import soc

SNAPSHOT = HERE / "lab_lspci.txt"
CHECKS = 12


def ran(program):
    """Runs the lab of a program. Returns the console and riser's report."""
    try:
        lab.build()
        result = lab.run(program)
    except soc.Missing as missing:
        pytest.skip(str(missing))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr.replace("\r", ""), json.loads(result.stdout)


def counters(report, slot):
    """Counters of the device in `slot`."""
    return next(device["counters"] for device in report["devices"] if device["slot"] == slot)


def test_program_enumerates_device_of_riser_and_checks_dma_and_msis():
    console, report = ran("enumerate")
    assert re.findall(r"^function (\w+) (\w+)", console, re.MULTILINE) == [("0000", "52431234"), ("0100", "b500104c")]
    assert "function 0100 b500104c BAR 0 4096 bytes at 40000000" in console
    assert len(re.findall(r": good$", console, re.MULTILINE)) == CHECKS and "FAILED" not in console
    test = counters(report, "test")
    # Each of the four commands ends with an MSI. A READ without Bus Master Enable fails before them, and one has a wrong checksum.
    assert [test.get(name, 0) for name in ("reads", "writes", "copies", "failed_transfers", "interrupts_raised")] == [3, 1, 1, 2, 4]


@pytest.fixture(scope="module")
def booted():
    return ran("linux")


def test_stock_driver_moves_data_and_takes_msis(booted):
    console, report = booted
    tests = re.findall(r"^(BAR 0|MSI 1|device \w+ \d+): (-?\d+)$", console, re.MULTILINE)
    assert len(tests) == 17 and all(result == "1" for _, result in tests), tests
    taken = re.search(r"^ *\d+: +(\d+) +riser-msi .*pci-endpoint-test", console, re.MULTILINE)
    # One for the test of MSIs, and one for each command.
    assert taken and int(taken[1]) == 16
    test = counters(report, "test")
    assert [test.get(name, 0) for name in ("reads", "writes", "copies", "failed_transfers", "interrupts_raised")] == [5, 5, 5, 0, 16]


def test_configuration_space_is_that_of_the_snapshot(booted, tmp_path):
    console, _ = booted
    lspci.check_decoded(linux.configuration_spaces(console), SNAPSHOT, tmp_path)

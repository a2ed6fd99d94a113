# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two complete ports back to back, through the timing model."""

import subprocess

import pytest
from dut_pair import program


def run(name, *arguments):
    result = subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["pair_x8", "pair_gen1"])
@pytest.mark.parametrize("errors, drops, marks", [(0, 0, 0), (500, 100, 0), (500, 100, 1), (5000, 500, 0)])
def test_every_tlp_arrives_once_and_in_order(name, errors, drops, marks):
    report = run(name, "soak", 1000, 3, errors, drops, marks)
    assert "pair: 2000 TLPs" in report
    if not errors:
        assert "recovery" not in report and "replay timeout" not in report and "overflow" not in report
    elif name == "pair_x8":
        assert "recovery" in report and "replay" in report


def test_same_seed_gives_same_result():
    first, again, other = (run("pair_x8", "replay", seed) for seed in (5, 5, 6))
    assert first == again != other

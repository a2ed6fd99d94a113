# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Properties of Figures 9 and 10 that do not depend on the design's exact cycles."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "soc"))
import nic
import soc


def figure(number):
    try:
        _, rows = nic.write_figure(number)
    except soc.Missing as missing:
        pytest.skip(str(missing))
    return rows


def test_frame_takes_longer_with_each_delay_of_the_line():
    rows = figure(9)
    for size in (1500, 64):
        core, *pcie = [row for row in rows if row["frame_bytes"] == size]
        assert core["attached"] == "core" and [row["delay_cycles"] for row in pcie] == nic.DELAYS
        cycles = [core["frame_cycles"], *(row["frame_cycles"] for row in pcie)]
        assert all(a < b for a, b in zip(cycles, cycles[1:], strict=False))
        # A frame crosses the link both ways at least for the send request with the first read, for the last data, and for two completions.
        assert pcie[-1]["frame_cycles"] > 6 * nic.DELAYS[-1]
        # Three round trips or more grow with the delay, and fewer than ten.
        growth = (pcie[-1]["frame_cycles"] - pcie[-2]["frame_cycles"]) / (nic.DELAYS[-1] - nic.DELAYS[-2])
        assert 6 <= growth <= 20


def test_lanes_have_no_effect_and_nic_waits_for_control():
    rows = figure(10)
    for size in (1500, 64):
        cycles = {row["lanes"]: row["frame_cycles"] for row in rows if row["frame_bytes"] == size}
        assert list(cycles) == [0, *nic.LANES]
        assert cycles[16] < cycles[8] < cycles[4] < 1.1 * cycles[16]
    waiting = {row["frame_bytes"]: row["waiting_percent"] for row in rows if row["lanes"] == 16}
    assert abs(waiting[1500] - nic.PAPER_WAITING_PERCENT) < 10 and waiting[64] > waiting[1500]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Properties of the NIC's figures that do not depend on the design's exact cycles."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "soc"))
import nic
import soc


def figure(name):
    try:
        _, rows = nic.write_figure(name)
    except soc.Missing as missing:
        pytest.skip(str(missing))
    return rows


SIZES = (1500, 64)
EACH = [(ports, size) for ports in nic.PORTS for size in SIZES]


def test_frame_takes_longer_with_each_delay_of_the_line():
    rows = figure("figure9")
    for ports, size in EACH:
        core, *pcie = [row for row in rows if (row["ports"], row["frame_bytes"]) == (ports, size)]
        assert core["attached"] == "core" and [row["delay_cycles"] for row in pcie] == nic.DELAYS
        cycles = [core["frame_cycles"], *(row["frame_cycles"] for row in pcie)]
        assert all(a < b for a, b in zip(cycles, cycles[1:], strict=False))
        # A frame crosses the link both ways at least for the send request with the first read, for the last data, and for two completions.
        assert pcie[-1]["frame_cycles"] > 6 * nic.DELAYS[-1]
        # Three round trips or more grow with the delay, and fewer than ten.
        growth = (pcie[-1]["frame_cycles"] - pcie[-2]["frame_cycles"]) / (nic.DELAYS[-1] - nic.DELAYS[-2])
        assert 6 <= growth <= 20


def test_lanes_from_four_have_no_effect_and_nic_waits_for_control():
    rows = figure("figure10")
    for ports, size in EACH:
        cycles = {row["lanes"]: row["frame_cycles"] for row in rows if (row["ports"], row["frame_bytes"]) == (ports, size)}
        assert list(cycles) == [0, *nic.LANES]
        assert cycles[16] < cycles[8] < cycles[4] < 1.1 * cycles[16]
        # Half the lanes add the time in which one lane carries its half of the frame. Both directions overlap in part.
        assert cycles[1] - cycles[2] > size / 2 and cycles[2] - cycles[4] > size / 4
    waiting = {row["frame_bytes"]: row["waiting_percent"] for row in rows if row["lanes"] == 16 and row["ports"] == "axi"}
    assert abs(waiting[1500] - nic.PAPER_WAITING_PERCENT) < 10 and waiting[64] > waiting[1500]


def test_tilelink_ports_change_the_time_of_a_frame_little():
    rows = figure("figure9")
    by = {(row["ports"], row["attached"], row["delay_cycles"], row["frame_bytes"]): row["frame_cycles"] for row in rows}
    for (ports, attached, delay, size), cycles in by.items():
        # The bridges add cycles to each access. On the core's bus they also have several IDs, so that its reads overlap.
        if ports == "tilelink":
            axi = by["axi", attached, delay, size]
            assert 0.7 * axi < cycles < 1.1 * axi + 120


def test_batches_remove_most_of_the_wait_for_control():
    rows = figure("batching")
    by = {(row["attached"], row["batch"], row["frame_bytes"]): row for row in rows}
    for size in SIZES:
        pcie = [by["pcie", batch, size]["frame_cycles"] for batch in nic.BATCHES]
        assert all(a > b for a, b in zip(pcie, pcie[1:], strict=False))
        # A batch shares its polls and completions, which take most of a frame's time.
        assert pcie[-1] < pcie[0] / 2
        assert by["pcie", 16, size]["waiting_percent"] < by["pcie", 0, size]["waiting_percent"]
        assert by["core", 16, size]["frame_cycles"] < by["core", 0, size]["frame_cycles"] < pcie[0]


def test_more_requests_in_flight_help_where_frames_are_long_or_batched():
    rows = figure("outstanding")
    cycles = {(row["batch"], row["in_flight"], row["frame_bytes"]): row["frame_cycles"] for row in rows}
    for batch, size in ((0, 1500), (16, 1500), (16, 64)):
        line = [cycles[batch, in_flight, size] for in_flight in nic.REQUESTS]
        assert all(a > b for a, b in zip(line, line[1:], strict=False)) and line[0] > 2 * line[-1]
    # One frame of 64 bytes is one read.
    alone = [cycles[0, in_flight, 64] for in_flight in nic.REQUESTS]
    assert max(alone) < 1.02 * min(alone)


def test_translation_costs_time_only_where_it_misses():
    rows = figure("iommu")
    by = {(row["delay_cycles"], row["batch"], row["iommu"], row["frame_bytes"]): row for row in rows}
    for (delay, batch, iommu, size), row in by.items():
        off, cycles, walks = by[delay, batch, "off", size]["frame_cycles"], row["frame_cycles"], row["walks"]
        if iommu != "misses":
            assert walks == 0 and abs(cycles - off) < 0.01 * off + 5
            continue
        # The buffers of one frame are on one or two pages. Those of a batch are on seven, the frame that is sent on one of them.
        assert walks == 7 if batch else row["frames"] <= walks <= 2 * row["frames"]
        # Software polls. The NIC may be ready up to one poll earlier.
        assert 0.98 * off < cycles < 1.2 * off
    for size in SIZES:
        assert by[3, 0, "misses", size]["frame_cycles"] > by[3, 0, "off", size]["frame_cycles"] + 10

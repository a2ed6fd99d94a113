# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the benches under Icarus, against cocotbext-pcie's model of the UltraScale and UltraScale+ blocks: pytest rtl/dma_engine/tests."""

import pathlib

import pytest
from cocotb.runner import get_runner

HERE = pathlib.Path(__file__).resolve().parent
RTL = HERE.parent
BLOCKS = {
    "us": {},
    "usp": {"RQ_USER": 62, "CQ_USER": 88, "NUMBER": 6, "VFS": 252, "FIRST_VF": 4},
    "usp-512": {"DATA_WIDTH": 512, "RQ_USER": 137, "RC_USER": 161, "CQ_USER": 183, "CC_USER": 81, "NUMBER": 6, "VFS": 252, "FIRST_VF": 4},
}


@pytest.mark.parametrize("block", BLOCKS)
def test_engine(block):
    runner = get_runner("icarus")
    build = HERE / "build" / block
    runner.build(
        verilog_sources=sorted(RTL.glob("dma_engine_[a-z]*.sv")), includes=[RTL], hdl_toplevel="dma_engine_user", parameters=BLOCKS[block],
        build_args=["-g2012"], build_dir=build, always=True, timescale=("1ns", "1ps"),
    )
    kind = "usp" if block.startswith("usp") else "us"
    # What no lane of a beat has is undefined, and must not matter.
    results = runner.test(hdl_toplevel="dma_engine_user", test_module="benches", build_dir=build, test_dir=HERE, extra_env={"BLOCK": kind, "COCOTB_RESOLVE_X": "RANDOM"})
    assert "<failure" not in pathlib.Path(results).read_text()

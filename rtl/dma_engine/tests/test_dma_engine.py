# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the benches under Icarus with cocotbext-pcie's model of the UltraScale and UltraScale+ blocks: pytest rtl/dma_engine/tests."""

import pathlib
import subprocess

import pytest
from cocotb.runner import get_runner

HERE = pathlib.Path(__file__).resolve().parent
RTL = HERE.parent
BLOCKS = {
    "us": {"DEVICE_ENTRIES": 16},
    "us-hold": {"DEVICE_ENTRIES": 16, "HOLD_READS": 1},
    "usp": {"DEVICE_ENTRIES": 16, "RQ_USER": 62, "CQ_USER": 88, "NUMBER": 6, "VFS": 252, "FIRST_VF": 4},
    "usp-hold": {"DEVICE_ENTRIES": 16, "HOLD_READS": 1, "RQ_USER": 62, "CQ_USER": 88, "NUMBER": 6, "VFS": 252, "FIRST_VF": 4},
    "usp-512": {"DEVICE_ENTRIES": 16, "DATA_WIDTH": 512, "RQ_USER": 137, "RC_USER": 161, "CQ_USER": 183, "CC_USER": 81, "NUMBER": 6, "VFS": 252, "FIRST_VF": 4},
}


def lower(build, parameters):
    """Converts the sources to plain Verilog with Yosys, because in Icarus 11 always_comb blocks can wake each other without end."""
    build.mkdir(parents=True, exist_ok=True)
    lowered = build / "lowered.v"
    set_all = " ".join(f"-set {name} {value}" for name, value in parameters.items())
    sources = " ".join(str(path) for path in sorted(RTL.glob("dma_engine_*.sv")))
    change = f"chparam {set_all} dma_engine_user;" if set_all else ""
    script = f"read_verilog -sv -I{RTL} {sources}; {change} hierarchy -check -top dma_engine_user; proc; check -assert; write_verilog {lowered}"
    subprocess.run(["yosys", "-q", "-p", script], check=True)
    return lowered


def run(block, module):
    runner = get_runner("icarus")
    build = HERE / "build" / f"{block}-{module}"
    lowered = lower(build, BLOCKS[block])
    runner.build(
        verilog_sources=[lowered], hdl_toplevel="dma_engine_user", build_args=["-g2012"], build_dir=build, always=True, timescale=("1ns", "1ps")
    )
    kind = "usp" if block.startswith("usp") else "us"
    # Lanes outside a packet are undefined, and must not matter.
    environment = {"BLOCK": kind, "HOLD_READS": str(BLOCKS[block].get("HOLD_READS", 0)), "COCOTB_RESOLVE_X": "RANDOM"}
    results = runner.test(hdl_toplevel="dma_engine_user", test_module=module, build_dir=build, test_dir=build, extra_env=environment)
    assert "<failure" not in pathlib.Path(results).read_text()


with_option = pytest.mark.parametrize("block", ["us", "us-hold"], ids=["plain", "hold"])


@pytest.mark.parametrize("block", [block for block in BLOCKS if block != "us-hold"])
def test_engine(block):
    run(block, "benches")


@with_option
def test_functions(block):
    run(block, "functions")


@with_option
def test_rates(block):
    run(block, "rates")


@with_option
def test_credits(block):
    run(block, "credits")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a port under Icarus with the port of cocotbext-pcie at the other end of the link."""

import pathlib
import subprocess

from cocotb.runner import get_runner
from tl_dut import SMALL

RTL = pathlib.Path(__file__).resolve().parent.parent
PARAMETERS = SMALL | {
    "DATA_WIDTH": 64, "MAX_TLP_BYTES": 160, "MAX_PAYLOAD": 128, "TX_BYTES": 2048, "TX_TLPS": 8, "REPLAY_BYTES": 2048, "REPLAY_TLPS": 16, "INFINITE_COMPLETIONS": 0,
    "FEATURE_EXCHANGE": 0, "INIT_FC_CYCLES": 64,
}


def lower(build):
    """Converts the sources to plain Verilog with Yosys, because in Icarus 11 always_comb blocks can wake each other without end."""
    build.mkdir(parents=True, exist_ok=True)
    lowered = build / "lowered.v"
    sources = " ".join(str(path) for pattern in ("pcie_dll*.sv", "pcie_tl*.sv", "pcie_ram.sv", "pcie_port.sv") for path in sorted(RTL.glob(pattern)))
    parameters = " ".join(f"-set {name} {value}" for name, value in PARAMETERS.items())
    script = f"read_verilog -sv -I{RTL} {sources}; chparam {parameters} pcie_port; hierarchy -check -top pcie_port; proc; opt_clean; write_verilog -noattr {lowered}"
    subprocess.run(["yosys", "-q", "-p", script], check=True)
    return lowered


def test_exchanges_tlps_with_cocotbext():
    build = RTL / "build" / "tests" / "cocotbext"
    runner = get_runner("icarus")
    runner.build(verilog_sources=[lower(build)], hdl_toplevel="pcie_port", build_args=["-g2012"], build_dir=build, always=True, timescale=("1ns", "1ps"))
    # Lanes outside a frame are undefined, and must not matter.
    results = runner.test(hdl_toplevel="pcie_port", test_module="cocotbext_partner", build_dir=build, test_dir=build, extra_env={"COCOTB_RESOLVE_X": "RANDOM"})
    assert "<failure" not in pathlib.Path(results).read_text()

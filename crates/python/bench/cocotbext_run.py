# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs `cocotbext_dma.py` under Icarus Verilog: `cocotbext_run.py OPERATIONS BUILD_FOLDER`."""

import os
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

from cocotb.runner import get_runner

here, build = Path(__file__).parent, Path(sys.argv[2])
runner = get_runner("icarus")
runner.build(sources=[here / "empty.v"], hdl_toplevel="empty", build_dir=build, timescale=("1ps", "1ps"))
os.environ["PYTHONPATH"] = os.fspath(here)
results = runner.test(
    hdl_toplevel="empty",
    test_module="cocotbext_dma",
    build_dir=build,
    extra_env={"OPERATIONS": sys.argv[1], "COCOTB_LOG_LEVEL": "WARNING"},
)
failed = [case for case in xml.parse(results).iter("testcase") if case.find("failure") is not None]
sys.exit(len(failed))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds two complete ports back to back: dut_pair.py NAME..."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = {
    "pair_x8": {"DATA_WIDTH": 256, "LANES": 8, "SYMBOLS": 4, "GENERATION": 3},
    "pair_gen1": {"DATA_WIDTH": 128, "LANES": 4, "SYMBOLS": 2, "GENERATION": 1},
    "pair_x8_wide": {"DATA_WIDTH": 512, "LANES": 8, "SYMBOLS": 4, "GENERATION": 3},
    "pair_x16": {"DATA_WIDTH": 512, "LANES": 16, "SYMBOLS": 2, "GENERATION": 3},
    "figures_x8": {"DATA_WIDTH": 256, "LANES": 8, "SYMBOLS": 4},
    "figures_x8_fast": {"DATA_WIDTH": 256, "LANES": 8, "SYMBOLS": 4},
    "figures_x8_narrow_fast": {"DATA_WIDTH": 128, "LANES": 8, "SYMBOLS": 2},
    "figures_x16": {"DATA_WIDTH": 512, "LANES": 16, "SYMBOLS": 2},
}


def program(name):
    """Returns the path of a build, and builds it first if a source is newer. A name that ends in _fast has the flags for measurements of speed."""
    parameters = [f"{key}={value}" for key, value in BUILDS[name].items()]
    top = name.split("_")[0]
    flags = {"CXXFLAGS": "-O3 -march=native", "VERILATOR_X": "fast"} if name.endswith("_fast") else {}
    subprocess.run([HERE / "build_pair.sh", top, name, *parameters], check=True, env={**os.environ, **flags})
    return HERE.parent / "build" / "tests" / name / top


if __name__ == "__main__":
    for build in sys.argv[1:]:
        program(build)

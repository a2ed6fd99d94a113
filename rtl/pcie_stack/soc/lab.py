# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the SoC as the host of a lab, with riser's devices below its root port: lab.py [enumerate|linux]. RISER names the command riser; the default is the one in PATH.

Writes the console to build/soc/lab/console.txt, riser's report to build/soc/lab/report.json and, with Linux, the configuration space to build/soc/lab/lspci.dump."""

import os
import subprocess

import linux
from image import write
from soc import BUILD, HERE, enumeration, main, need, rocket

OUT = BUILD / "lab"
LABS = HERE.parent / "lab"
RISER = os.environ.get("RISER", "riser")
# The lab and the contents of memory of each program.
PROGRAMS = {"enumerate": ("soc.toml", enumeration), "linux": ("soc_linux.toml", linux.memory)}


def build():
    """Builds the design for riser."""
    need(RISER, "verilator", "g++", "make")
    rocket()
    subprocess.run([RISER, "rtl", "build", LABS / "soc_system.toml"], check=True, stdout=subprocess.DEVNULL)


def run(program):
    """Runs the lab of a program. Returns the finished process: its standard error is the console, its standard output riser's report."""
    lab, memory = PROGRAMS[program]
    OUT.mkdir(parents=True, exist_ok=True)
    write(OUT / "memory.hex", memory())
    command = [RISER, "run", LABS / lab, "--allow-native", "--no-latencies", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    console = result.stderr.replace("\r", "")
    (OUT / "console.txt").write_text(console)
    (OUT / "report.json").write_text(result.stdout)
    (OUT / "lspci.dump").write_text(linux.configuration_spaces(console))
    return result


def show(program):
    """Builds the design, runs the lab and prints console and report. Returns the status."""
    build()
    result = run(program)
    print(result.stderr + result.stdout, end="")
    return result.returncode


if __name__ == "__main__":
    main(show, tuple(PROGRAMS), "enumerate")

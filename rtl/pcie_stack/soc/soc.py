# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the SoC and runs the program that enumerates: soc.py [plain|tree]. ROCKET_WHEEL names the wheel of pythondata-cpu-rocket; without it, pip downloads the wheel."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

from image import write

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "soc"
CONFIGURATION = "freechips.rocketchip.system.LitexLinuxConfig"
SOURCES = [
    f"generated-src/{CONFIGURATION}.v", f"generated-src/{CONFIGURATION}.behav_srams.v", "vsrc/plusarg_reader.v", "vsrc/EICG_wrapper.v", "vsrc/AsyncResetReg.v",
]
CROSS = "riscv64-linux-gnu-"
FLAGS = [
    "-O1", "-Wall", "-Wextra", "-march=rv64imac_zicsr_zifencei", "-mabi=lp64", "-mcmodel=medany", "-mno-relax", "-fno-pie", "-no-pie", "-ffreestanding", "-fno-stack-protector",
    "-nostdlib", "-static", "-Wl,--build-id=none,--no-warn-rwx-segments",
]
# Parameters of soc_test, and the compiler's optimization: -O2 pays off only in a boot of Linux.
BUILDS = {"plain": ({"KIND": 0}, "-O1"), "tree": ({"KIND": 1}, "-O2"), "nic": ({"KIND": 2}, "-O1"), "nic-tilelink": ({"KIND": 3}, "-O1")}


class Missing(Exception):
    """A tool or package that the SoC needs is not here."""


def wheel():
    """Path of the wheel with Rocket's Verilog."""
    if "ROCKET_WHEEL" in os.environ:
        return pathlib.Path(os.environ["ROCKET_WHEEL"])
    folder = BUILD / "wheel"
    if not list(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", folder, "--requirement", HERE / "requirements.txt"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Missing(f"Rocket's package cannot be downloaded: {result.stderr.strip().splitlines()[-1:]}")
    return next(folder.glob("*.whl"))


def rocket():
    """Folder of Rocket's Verilog."""
    folder = BUILD / "rocket"
    if not folder.exists():
        with zipfile.ZipFile(wheel()) as package:
            contents = {name: package.read(f"pythondata_cpu_rocket/verilog/{name}") for name in SOURCES}
        folder.mkdir(parents=True)
        for name, text in contents.items():
            (folder / pathlib.Path(name).name).write_bytes(text)
    return folder


def need(*tools):
    """Raises `Missing` for the first tool that is not installed."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not installed")


def model(name):
    """The simulator of a build; it is built if a source is newer."""
    need("verilator", "g++")
    parameters, optimization = BUILDS[name]
    command = [HERE / "build.sh", rocket(), name, *(f"{key}={value}" for key, value in parameters.items())]
    subprocess.run(command, check=True, env={"CXXFLAGS": optimization, **os.environ})
    return BUILD / name / "soc"


def firmware(name, *sources, defines=()):
    """The bytes of a program for the core, linked at the beginning of RAM."""
    need(f"{CROSS}gcc")
    BUILD.mkdir(parents=True, exist_ok=True)
    folder, program, binary = HERE / "firmware", BUILD / f"{name}.elf", BUILD / f"{name}.bin"
    files = [folder / source for source in sources]
    subprocess.run([f"{CROSS}gcc", *FLAGS, *(f"-D{each}" for each in defines), "-T", folder / "link.ld", *files, "-o", program], check=True)
    subprocess.run([f"{CROSS}objcopy", "-O", "binary", program, binary], check=True)
    return binary.read_bytes()


def run(build, name, parts, cycles, line=(0, 0, 3)):
    """Runs the SoC with `parts` of memory, pairs of offset and bytes, and `line`: the inputs nic_near, width and latency. Returns the finished process."""
    simulator, image = model(build), BUILD / f"{name}.hex"
    write(image, parts)
    return subprocess.run([simulator, str(cycles), *map(str, line), f"+ram={image}"], capture_output=True, text=True, check=False)


def enumeration():
    """The contents of memory for the bare-metal program that enumerates the hierarchy and tests DMA and MSIs."""
    return [(0, firmware("enumerate", "start.S", "soc.c", "pci.c", "enumerate.c"))]


def enumerate_functions(build):
    """Runs the bare-metal program that enumerates the hierarchy and tests DMA and MSIs."""
    return run(build, f"enumerate-{build}", enumeration(), 2_000_000)


def main(command, choices, default=None):
    """Calls `command` with the argument of the command line, one of `choices`, and ends with the status that it returns, or with the reason if something is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=choices, nargs="?" if default else None, default=default)
    try:
        sys.exit(command(parser.parse_args().what))
    except Missing as missing:
        sys.exit(f"{parser.prog}: {missing}")


def show(build):
    """Runs `enumerate_functions` and prints its output. Returns its status."""
    result = enumerate_functions(build)
    print(result.stdout + result.stderr, end="")
    return result.returncode


if __name__ == "__main__":
    main(show, ("plain", "tree"), "plain")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Boots Linux on the SoC: linux.py [BUILD]. LINUX_SOURCE names the archive of Debian's linux-source-6.1; the default is where the package puts it.

Writes the console to build/soc/linux/console.txt, the simulator's cycles and speed to build/soc/linux/speed.txt, and the configuration space that the kernel sees to
build/soc/linux/lspci.dump, for `lspci -F`."""

import os
import pathlib
import re
import subprocess

from soc import BUILD, CROSS, HERE, Missing, firmware, main, need, run

SOURCE = pathlib.Path(os.environ.get("LINUX_SOURCE", "/usr/src/linux-source-6.1.tar.xz"))
OUT = BUILD / "linux"
KERNEL, TREE = 0x0020_0000, 0x01e0_0000  # offsets in RAM
LIMIT = 2_000_000_000
BASE = 0x8000_0000


def kernel():
    """The kernel's image; it is built if a file of soc/linux is newer."""
    need("make", "flex", "bison", "bc", f"{CROSS}gcc")
    image = OUT / "Image"
    inputs = (HERE / "linux").iterdir()
    if not image.exists() or any(file.stat().st_mtime > image.stat().st_mtime for file in inputs):
        if not SOURCE.exists():
            raise Missing(f"{SOURCE} does not exist; install linux-source-6.1 or set LINUX_SOURCE")
        tree = OUT / "source"
        if not tree.exists():
            tree.mkdir(parents=True)
            subprocess.run(["tar", "xf", SOURCE, "--strip-components=1", "-C", tree], check=True)
        subprocess.run([HERE / "linux" / "config.sh", tree, OUT], check=True)
    return image.read_bytes()


def device_tree():
    """The device tree of the SoC."""
    need("dtc")
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dtc", "-q", "-I", "dts", "-O", "dtb", HERE / "linux" / "soc.dts", "-o", OUT / "soc.dtb"], check=True)
    return (OUT / "soc.dtb").read_bytes()


def memory():
    """The contents of memory that boot the kernel: pairs of offset and bytes."""
    machine = firmware("sbi", "sbi_start.S", "soc.c", "sbi.c", defines=[f"KERNEL={BASE + KERNEL:#x}", f"TREE={BASE + TREE:#x}"])
    return [(0, machine), (KERNEL, kernel()), (TREE, device_tree())]


def boot(build):
    """Boots the kernel. Returns the finished process of the simulator."""
    need("lspci")
    result = run(build, f"linux-{build}", memory(), LIMIT)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "console.txt").write_text(result.stdout)
    (OUT / "speed.txt").write_text(result.stderr)
    (OUT / "lspci.dump").write_text(configuration_spaces(result.stdout))
    return result


def configuration_spaces(console):
    """Returns the dumps of configuration space on the console in the format of `lspci -xxxx`. Missing lines are zeros."""
    text = ""
    for name, size, body in re.findall(r"^config [0-9a-f]{4}:(\S+) (\d+)\n((?:[0-9a-f]+:(?: [0-9a-f]{2}){16}\n)*)", console.replace("\r", ""), re.MULTILINE):
        lines = {int(line.split(":")[0], 16): line.split(":")[1] for line in body.splitlines()}
        text += f"{name} function\n"
        text += "".join(f"{at:02x}:{lines.get(at, ' 00' * 16)}\n" for at in range(0, int(size), 16)) + "\n"
    return text


def decoded():
    """The dump as `lspci -vv` decodes it."""
    return subprocess.run(["lspci", "-F", OUT / "lspci.dump", "-n", "-vv"], capture_output=True, text=True, check=True).stdout


def show(build):
    """Boots the kernel, and prints the console and the decoded configuration space. Returns the status."""
    finished = boot(build)
    print(finished.stdout + finished.stderr, end="")
    print(decoded(), end="")
    return finished.returncode


if __name__ == "__main__":
    main(show, ("plain", "tree"), "tree")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures 9 and 10 of the Chipyard PCIe study (2022), cycle by cycle: nic.py 9|10 writes build/figures/figureN.csv and prints it.

A program on Rocket sends one frame at a time through a NIC with a looped-back cable: on the core's bus, and behind root complex, link and endpoint."""

import csv
import sys

from soc import BUILD, firmware, main, run

DELAYS = [3, 100, 250, 500, 1000]  # cycles of the line, each way; 3 is its shortest
LANES = [4, 8, 16]
FIGURE_10_DELAY = 500
PAPER_WAITING_PERCENT = 50.0  # "almost 50%", §6.2
LIMIT = 20_000_000


def measure(near, lanes, delay):
    """Rows of numbers of the program for each size of frames."""
    name = "nic-near" if near else "nic"
    program = firmware(name, "start.S", "soc.c", "pci.c", "nic.c", defines=[f"NEAR={int(near)}"])
    result = run("nic", name, [(0, program)], LIMIT, (int(near), LANES.index(lanes), delay))
    if result.returncode:
        raise RuntimeError(f"x{lanes}, {delay} cycles: status {result.returncode}: {result.stdout}{result.stderr}")
    return [tuple(map(int, line.split()[1:])) for line in result.stdout.splitlines() if line.startswith("frames ")]


def rows(near, lanes, delay, paper=None):
    """Rows of a figure."""
    for size, frames, cycles, sending, receiving, either in measure(near, lanes, delay):
        yield {
            "attached": "core" if near else "pcie", "lanes": 0 if near else lanes, "delay_cycles": 0 if near else delay, "frame_bytes": size, "frames": frames,
            "frame_cycles": cycles / frames, "sending_percent": round(100 * sending / cycles, 2), "receiving_percent": round(100 * receiving / cycles, 2),
            "waiting_percent": round(100 * (1 - either / cycles), 2), "paper_waiting_percent": paper,
        }


def figure_9():
    """The NIC on the core's bus, and over PCIe at x16 for each delay of the line."""
    yield from rows(True, 16, DELAYS[0])
    for delay in DELAYS:
        yield from rows(False, 16, delay)


def figure_10():
    """The NIC on the core's bus, and over PCIe for each width."""
    yield from rows(True, 16, DELAYS[0])
    for lanes in LANES:
        yield from rows(False, lanes, FIGURE_10_DELAY, PAPER_WAITING_PERCENT)


def write_figure(number):
    """Writes build/figures/figureN.csv and returns its path and rows."""
    made = list({9: figure_9, 10: figure_10}[number]())
    path = BUILD.parent / "figures" / f"figure{number}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, made[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)
    return path, made


def show(number):
    """Writes a figure and prints it."""
    made, _ = write_figure(int(number))
    print(made.read_text(), end="")
    print(f"nic: {made.relative_to(made.parents[2])}", file=sys.stderr)


if __name__ == "__main__":
    main(show, ("9", "10"))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NIC with a looped-back cable on the core's bus, and behind root complex, link and endpoint, cycle by cycle: nic.py FIGURE writes build/figures/FIGURE.csv and prints it.

A program on Rocket drives the NIC. Figures 9 and 10 are those of the Chipyard PCIe study (2022). The other figures are its future work (§6.2), and an IOMMU."""

import functools
import pathlib
import sys

from soc import firmware, main, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import figure_csv

DELAYS = [3, 100, 250, 500, 1000]  # cycles of the line, each way; 3 is its shortest
LANES = [1, 2, 4, 8, 16]
PORTS = {"axi": "nic", "tilelink": "nic-tilelink"}
DELAY = 500  # of Figure 10, and of all figures after it
PAPER_WAITING_PERCENT = 50.0  # "almost 50%", §6.2
FRAMES, IN_FLIGHT = 8, 8
BATCHES = [0, 1, 2, 4, 8, 16]  # 0: no batches
REQUESTS = [1, 2, 4, 8, 16]
IOMMU = ["off", "hits", "misses"]
LIMIT = 20_000_000


@functools.cache
def measure(ports="axi", near=False, lanes=16, delay=DELAY, frames=FRAMES, batch=0, in_flight=IN_FLIGHT, iommu="off"):
    """Rows of numbers of the program for each size of frames."""
    settings = {"NEAR": int(near), "FRAMES": frames, "BATCH": batch, "IN_FLIGHT": in_flight, "TRANSLATE": IOMMU.index(iommu)}
    program = firmware("nic", "start.S", "soc.c", "pci.c", "nic.c", defines=[f"{key}={value}" for key, value in settings.items()])
    result = run(PORTS[ports], "nic", [(0, program)], LIMIT, (int(near), LANES.index(lanes), delay))
    if result.returncode:
        raise RuntimeError(f"x{lanes}, {delay} cycles, {settings}: status {result.returncode}: {result.stdout}{result.stderr}")
    return [tuple(map(int, line.split()[1:])) for line in result.stdout.splitlines() if line.startswith("frames ")]


def times(line):
    """Columns of one line of the program."""
    size, frames, cycles, sending, receiving, either, _ = line
    return {
        "frame_bytes": size, "frames": frames, "frame_cycles": cycles / frames, "sending_percent": round(100 * sending / cycles, 2),
        "receiving_percent": round(100 * receiving / cycles, 2), "waiting_percent": round(100 * (1 - either / cycles), 2),
    }


def rows(ports, near, lanes, delay, paper=None):
    """Rows of Figures 9 and 10."""
    for line in measure(ports, near, lanes, delay):
        place = {"attached": "core" if near else "pcie", "ports": ports, "lanes": 0 if near else lanes, "delay_cycles": 0 if near else delay}
        yield place | times(line) | {"paper_waiting_percent": paper}


def figure_9():
    """The NIC on the core's bus, and over PCIe at x16 for each delay of the line."""
    for ports in PORTS:
        yield from rows(ports, True, 16, DELAYS[0])
        for delay in DELAYS:
            yield from rows(ports, False, 16, delay)


def figure_10():
    """The NIC on the core's bus, and over PCIe for each width."""
    for ports in PORTS:
        yield from rows(ports, True, 16, DELAYS[0])
        for lanes in LANES:
            yield from rows(ports, False, lanes, DELAY, PAPER_WAITING_PERCENT)


def batching():
    """Control messages for each frame, and for batches of frames."""
    for near in (True, False):
        for batch in BATCHES:
            for line in measure(near=near, delay=DELAYS[0] if near else DELAY, frames=16, batch=batch):
                yield {"attached": "core" if near else "pcie", "batch": batch} | times(line)


def outstanding():
    """More requests of the NIC in flight, without batches and with batches of 16 frames."""
    for batch in (0, 16):
        for in_flight in REQUESTS:
            for line in measure(frames=16, batch=batch, in_flight=in_flight):
                yield {"batch": batch, "in_flight": in_flight} | times(line)


def translation():
    """The IOMMU off, on, and on with all translations forgotten before each frame or batch."""
    for delay in (DELAYS[0], DELAY):
        for batch in (0, 16):
            for iommu in IOMMU:
                for line in measure(delay=delay, frames=16, batch=batch, in_flight=16, iommu=iommu):
                    yield {"delay_cycles": delay, "batch": batch, "iommu": iommu, "walks": line[6]} | times(line)


FIGURES = {"figure9": figure_9, "figure10": figure_10, "batching": batching, "outstanding": outstanding, "iommu": translation}


def write_figure(name):
    """Writes build/figures/NAME.csv and returns its path and rows."""
    made = list(FIGURES[name]())
    return figure_csv.write(name, made), made


def show(name):
    """Writes a figure and prints it."""
    path, _ = write_figure(name)
    print(path.read_text(), end="")
    print(f"nic: {path.relative_to(path.parents[2])}", file=sys.stderr)


if __name__ == "__main__":
    main(show, tuple(FIGURES))

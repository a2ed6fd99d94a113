# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures 6 and 7 of the Chipyard PCIe study (2022), measured in the RTL cycle by cycle: figures.py 6|7 writes build/figures/figureN.csv and prints it.

The latency of the line is chosen as the study chose its own: a read of one double-word over x8 takes 1 us. All else follows from the RTL."""

import fractions
import subprocess
import sys

import figure_csv
from dut_pair import BUILDS, program

LATENCY_BYTES = [1, 4, 8, 16, 32, 64, 128, 256, 384, 512]
# On both sides of each multiple of the payload size.
BANDWIDTH_BYTES = [64, 128, 192, 252, 256, 260, 320, 384, 448, 508, 512, 516, 640, 768, 772, 1024, 1028]
TRANSFERS = 1000
WIDTHS = {8: "figures_x8", 16: "figures_x16"}
# From the text of the study, §6.1, at x8; its plots print no numbers. For hosts: what it cites as measured.
STUDY_PS = {1: 1_000_000, 4: 1_000_000, 512: 1_350_000}
HOSTS_PS = {1: 1_000_000, 4: 1_000_000, 512: 1_250_000}
STUDY_FACTOR = 2.0  # bandwidth of x16 over that of x8
SHORTEST_LINE = 3


def clock_ps(lanes):
    """Picoseconds per cycle: SYMBOLS symbols of 8 bits at 8 GT/s, without the sync headers of 128b/130b."""
    return fractions.Fraction(BUILDS[WIDTHS[lanes]]["SYMBOLS"] * 8 * 130, 128) * 125


def measure(lanes, *arguments):
    """Rows of numbers that the harness prints."""
    result = subprocess.run([program(WIDTHS[lanes]), *map(str, arguments)], capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in result.stdout.splitlines()]


def line_cycles():
    """Latency of the line at each width: the same time, for which a read of one double-word at x8 is nearest to 1 us."""
    shortest = measure(8, "latency", SHORTEST_LINE, 4)[0][1]
    at_x8 = SHORTEST_LINE + round((STUDY_PS[4] / clock_ps(8) - shortest) / 2)
    return {lanes: round(at_x8 * clock_ps(8) / clock_ps(lanes)) for lanes in WIDTHS}


def figure_6():
    """Round-trip latency of reads."""
    for lanes, line in line_cycles().items():
        clock = clock_ps(lanes)
        for payload, cycles, least, most in measure(lanes, "latency", line, *LATENCY_BYTES):
            study = STUDY_PS.get(payload) if lanes == 8 else None
            yield {
                "lanes": lanes, "payload_bytes": payload, "latency_ps": round(cycles * clock), "cycles": cycles, "cycles_min": least, "cycles_max": most,
                "clock_ps": float(clock), "line_cycles": line, "paper_ps": study, "difference_ps": study and round(cycles * clock) - study,
                "paper_hosts_ps": HOSTS_PS.get(payload) if lanes == 8 else None,
            }


def figure_7():
    """Effective and total bandwidth of writes with ECRC, payloads of at most 256 bytes."""
    effective = {}
    for lanes, line in line_cycles().items():
        clock = clock_ps(lanes)
        for size, cycles, tlps, tlp_bytes, framing, up, down in measure(lanes, "bandwidth", line, TRANSFERS, *BANDWIDTH_BYTES):
            gbps = 8000 / float(cycles * clock)
            effective[lanes, size] = TRANSFERS * size * gbps
            factor = effective[16, size] / effective[8, size] if lanes == 16 else None
            yield {
                "lanes": lanes, "payload_bytes": size, "effective_gbps": round(effective[lanes, size], 3), "total_gbps": round((tlp_bytes + framing + up + down) * gbps, 3),
                "transfers": TRANSFERS, "cycles": cycles, "clock_ps": float(clock), "tlps": tlps, "header_and_ecrc_bytes": 16 * tlps, "framing_bytes": framing,
                "dllp_bytes": up, "returned_dllp_bytes": down, "factor_to_x8": factor and round(factor, 3), "paper_factor_to_x8": STUDY_FACTOR if factor else None,
                "factor_difference": factor and round(factor - STUDY_FACTOR, 3),
            }


def write(number):
    """Writes build/figures/figureN.csv and returns its path and rows."""
    rows = list({6: figure_6, 7: figure_7}[number]())
    return figure_csv.write(f"figure{number}", rows), rows


if __name__ == "__main__":
    made, _ = write(int(sys.argv[1]))
    print(made.read_text(), end="")
    print(f"figures: {made.relative_to(made.parents[2])}", file=sys.stderr)

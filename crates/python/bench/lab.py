# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Overhead of Python for a lab without Python devices: CPU seconds of the command in Rust, of the same command from the package, and of
`riser.Lab.run`; and the CPU time of `import riser`.

    cargo build --release -p riser-cli
    python crates/python/bench/lab.py target/release/riser

The CPU seconds of a run of a single transfer, mostly the start of Python, are subtracted. Rounds alternate; medians are printed.
"""

import argparse
import statistics
import subprocess
import sys

from dma import cpu_seconds

LAB = "labs/speed/write.toml"
IN_PYTHON = "import sys, riser; riser.Lab.from_toml(sys.argv[1], set={'slot.card.pcie-bench.transfers': int(sys.argv[2])}).run(progress=False)"
IMPORT = "import time; begun = time.process_time(); import riser; print(time.process_time() - begun)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", help="the command in Rust, a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transfers", type=int, default=4_000_000)
    asked = parser.parse_args()

    def by_command(*command: str) -> float:
        def run(transfers: int) -> float:
            return cpu_seconds([*command, "run", LAB, "--set", f"slot.card.pcie-bench.transfers={transfers}"])

        return run(asked.transfers) - run(1)

    def in_python() -> float:
        return cpu_seconds([sys.executable, "-c", IN_PYTHON, LAB, str(asked.transfers)]) - cpu_seconds(
            [sys.executable, "-c", IN_PYTHON, LAB, "1"]
        )

    ways = {
        "riser run": lambda: by_command(asked.command),
        "python -m riser run": lambda: by_command(sys.executable, "-m", "riser"),
        "riser.Lab.run": in_python,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        for name, way in ways.items():
            seconds[name].append(way())
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        print(f"{name}: {median:.3f} CPU-seconds, {median / medians['riser run'] - 1:+.1%}")
    imports = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(20)]
    print(f"import riser: {statistics.median(imports) * 1e3:.1f} ms of CPU")


if __name__ == "__main__":
    main()

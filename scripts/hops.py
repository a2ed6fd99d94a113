#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where a TLP-hop's instructions go: runs the labs of labs/speed under cachegrind and writes docs/speed.md.

Each lab runs twice, short and long: what the second does beyond the first, divided by its further hops, is the cost of a hop, and start and
end of a run are none of it. Counts of instructions do not depend on the machine's load.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/speed.md"
BEGIN, END = "<!-- table: scripts/hops.py -->", "<!-- end -->"

#: Name, lab, further arguments, and the key that sets its length, with a short and a long one.
LABS = [
    ("writes", "write", [], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("writes, payload carried", "write", ["slot.card.pcie-bench.carry=true"], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads", "read", [], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads, payload carried", "read", ["slot.card.pcie-bench.carry=true"], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads, host of a profile", "read", ['host.profile="xeon-e5-2637v3"'], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("tree of 8 devices", "tree", [], "limit_us", (100, 300)),
]

#: Parts by the beginning of a source file's path below crates/, the first that fits.
PARTS = [
    ("link: transmit", ("link/src/port/transmit", "link/src/tx", "link/src/arbiter", "link/src/timing", "link/src/queue", "link/src/order")),
    ("link: receive", ("link/src/port/receive", "link/src/rx")),
    ("link: Ack and replay", ("link/src/replay", "link/src/store", "link/src/sequence")),
    ("link: credits", ("link/src/update", "link/src/credit", "link/src/stall", "link/src/channel", "link/src/init")),
    ("link: port", ("link/src",)),
    ("event queue", ("fabric/src/queue",)),
    ("ledger", ("fabric/src/ledger", "fabric/src/stages", "fabric/src/breakdown")),
    ("root complex and memory", ("fabric/src/root", "fabric/src/memory_system", "fabric/src/profile")),
    ("switch", ("fabric/src/switch",)),
    ("fabric", ("fabric/src",)),
    ("endpoint", ("endpoint/src", "config/src")),
    ("device and its executor", ("devices/src", "device/src", "exec/src", "plug/src", "host/src")),
    ("TLPs", ("tlp/src",)),
]
REST = "allocator and rest"


def part_of(file: str, function: str) -> str:
    """The part that a source file belongs to; what the standard library's own files hold belongs to the function that it stands in."""
    below = file.split("/crates/")[-1] if file.startswith(f"{ROOT}/crates/") else ""
    if not below and (own := re.search(r"riser_(\w+?)((?:::[a-z_0-9]+)*)\b", function)):
        below = f"{own[1]}/src{own[2].replace('::', '/')}"
    return next((name for name, begins in PARTS if below.startswith(begins)), REST)


def counted(riser: str, lab: str, settings: list[str]) -> tuple[int, int, dict[str, Counter[str]]]:
    """Hops and events of a run, and what cachegrind counts in each part."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", f"--cachegrind-out-file={out}", riser]
        command += ["run", f"labs/speed/{lab}.toml", "--json"] + [word for one in settings for word in ("--set", one)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"hops: {' '.join(command)}: {ran.stderr}")
        report = json.loads(ran.stdout)
        return report["tlp_hops"], report["events"], parts(Path(out).read_text())


def parts(text: str) -> dict[str, Counter[str]]:
    """What stands in cachegrind's file, by part."""
    found: dict[str, Counter[str]] = {}
    names: list[str] = []
    file = function = ""
    for line in text.splitlines():
        if line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith("fl="):
            file = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdigit():
            counts = [int(count) for count in line.split()[1:]]
            found.setdefault(part_of(file, function), Counter()).update(dict(zip(names, counts)))
    return found


def measure(riser: str, name: str, lab: str, settings: list[str], key: str, lengths: tuple[int, int]) -> dict:
    """The cost of a hop of a lab, by part."""
    short, long = (counted(riser, lab, [*settings, f"{key}={length}"]) for length in lengths)
    hops = long[0] - short[0]
    cost = {part: {event: (count - short[2].get(part, Counter())[event]) / hops for event, count in all_.items()} for part, all_ in long[2].items()}
    print(f"hops: {name}: {sum(part['Ir'] for part in cost.values()):.0f} instructions a hop", file=sys.stderr)
    return {"name": name, "hops": hops, "events": (long[1] - short[1]) / hops, "cost": cost}


def table(labs: list[dict]) -> str:
    """Two tables: sums of each lab, and instructions by part."""

    def total(lab: dict, *events: str) -> float:
        return sum(part.get(event, 0.0) for part in lab["cost"].values() for event in events)

    lines = ["| lab | instructions a hop | events a hop | data accesses | first-level misses | mispredicted branches |", "|---|---:|---:|---:|---:|---:|"]
    for lab in labs:
        figures = (total(lab, "Ir"), lab["events"], total(lab, "Dr", "Dw"), total(lab, "D1mr", "D1mw"), total(lab, "Bcm", "Bim"))
        lines.append(f"| {lab['name']} | {figures[0]:.0f} | {figures[1]:.2f} | {figures[2]:.0f} | {figures[3]:.1f} | {figures[4]:.1f} |")
    lines += ["", "Instructions a hop, by the source file that they come from:", "", "| part | " + " | ".join(lab["name"] for lab in labs) + " |"]
    lines.append("|---|" + "---:|" * len(labs))
    for part in [name for name, _ in PARTS] + [REST]:
        row = [lab["cost"].get(part, {}).get("Ir", 0.0) for lab in labs]
        lines.append(f"| {part} | " + " | ".join(f"{count:.0f}" for count in row) + " |")
    return "\n".join(lines)


def built() -> str:
    """A riser that valgrind runs."""
    environment = os.environ | {"RUSTFLAGS": "--cfg rustix_use_libc", "CARGO_TARGET_DIR": str(ROOT / "target/hops")}
    subprocess.run(["cargo", "build", "--release", "-p", "riser-cli"], cwd=ROOT, env=environment, check=True)
    return str(ROOT / "target/hops/release/riser")


def check(labs: list[dict], page: str) -> None:
    """Fail where a lab costs more than the page says."""
    worse = []
    for lab in labs:
        said = re.search(rf"^\| {re.escape(lab['name'])} \| (\d+) ", page, re.MULTILINE)
        now = sum(part["Ir"] for part in lab["cost"].values())
        if said is None or now > 1.02 * int(said[1]):
            worse.append(f"{lab['name']}: {now:.0f} instructions a hop, {said[1] if said else 'nothing'} in docs/speed.md")
    if worse:
        sys.exit("hops: " + "; ".join(worse))


def main() -> None:
    """Measure, and write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "riser",
        nargs="?",
        help='a release build with RUSTFLAGS="--cfg rustix_use_libc", as valgrind does not know the vDSO of some kernels; without it, '
        "one is built into target/hops",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing, and fail where a lab's instructions a hop are over those in docs/speed.md by more than 2 %%",
    )
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("hops: valgrind is missing (Debian: apt-get install valgrind)")
    riser = arguments.riser or built()
    labs = [measure(riser, *lab) for lab in LABS]
    page = PAGE.read_text()
    if arguments.check:
        return check(labs, page)
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table(labs)}\n{END}{after}")


if __name__ == "__main__":
    main()

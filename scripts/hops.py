#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the instructions per TLP-hop by part of riser: runs the labs of labs/speed under cachegrind and writes docs/speed.md.

Each lab runs twice, short and long. The cost of a hop is the difference of the two counts divided by the difference of their hops, so it
excludes the start and end of a run. Instruction counts do not depend on the machine's load.
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

#: Name, lab, further arguments, the key that sets the length of a run, and a short and a long length.
LABS = [
    ("writes", "labs/speed/write.toml", [], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("writes, without latencies", "labs/speed/write.toml", ["--no-latencies"], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("writes, payload carried", "labs/speed/write.toml", ["slot.card.pcie-bench.carry=true"], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads", "labs/speed/read.toml", [], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads, payload carried", "labs/speed/read.toml", ["slot.card.pcie-bench.carry=true"], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("reads, host of a profile", "labs/speed/read.toml", ['host.profile="xeon-e5-2637v3"'], "slot.card.pcie-bench.transfers", (20_000, 60_000)),
    ("tree of 8 devices", "labs/speed/tree.toml", [], "limit_us", (100, 300)),
]

WRITES = """
[[slot]]
name = "card-{n}"
device = "pcie-bench"
[slot.pcie-bench]
test = "BW_WR"
size_bytes = 256
outstanding = 32
transfers = 100_000_000
carry = false
"""
HEAD = "version = 1\n[link]\ngen = 3\nlanes = 16\nmps_bytes = 256\n"


def flow(name: str, kind: str, count: int, more: str = "") -> str:
    """Returns the TOML of a flow of a traffic generator's slot."""
    return f'[[slot.traffic.flow]]\nname = "{name}"\nkind = "{kind}"\nsize_bytes = 256\ncount = {count}\n{more}'


def writers(count: int) -> str:
    """Returns a lab of cards that write, each at its own root port."""
    return HEAD + "".join(WRITES.format(n=n) for n in range(count))


def idle(count: int) -> str:
    """Returns the TOML of slots whose devices write once."""
    return "".join(f'[[slot]]\nname = "idle-{n}"\ndevice = "traffic"\n{flow("once", "write", 1)}' for n in range(count))


def forest(switches: int, devices: int) -> str:
    """Returns a lab of one switch with switches below it, each with `devices` devices that write and read as in labs/speed/tree.toml."""
    text = HEAD + '[[switch]]\nname = "top"\n'
    for switch in range(switches):
        text += f'[[switch]]\nname = "switch-{switch}"\nparent = "top"\n'
        for n in range(devices):
            text += f'[[slot]]\nname = "device-{switch}-{n}"\ndevice = "traffic"\nparent = "switch-{switch}"\n'
            text += flow("writes", "write", 250_000) + flow("reads", "read", 250_000, "outstanding = 32\n")
    return text


#: Labs of growing size: name, lab as text, the key that sets the length of a run, and a short and a long length.
GROWTH = [
    ("one card that writes", writers(1), "limit_us", (300, 700)),
    ("the same, ten times as far into the run", writers(1), "limit_us", (3_000, 3_400)),
    ("eight cards, each at its root port", writers(8), "limit_us", (300, 350)),
    ("one card and 30 idle slots", writers(1) + idle(30), "limit_us", (600, 1_000)),
    ("two switches below a switch, 8 devices each", forest(2, 8), "limit_us", (500, 700)),
    ("eight switches below a switch, 8 devices each", forest(8, 8), "limit_us", (2_500, 2_700)),
]

#: Parts, by the prefix of a source file's path below crates/; the first match counts.
PARTS = [
    ("link: transmit", ("link/src/port/transmit", "link/src/tx", "link/src/arbiter", "link/src/timing", "link/src/order")),
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
    """Returns the part that a source file belongs to. Code from the standard library's files belongs to the function that it was inlined into."""
    below = file.split("/crates/")[-1] if file.startswith(f"{ROOT}/crates/") else ""
    if not below and (own := re.search(r"riser_(\w+?)((?:::[a-z_0-9]+)*)\b", function)):
        below = f"{own[1]}/src{own[2].replace('::', '/')}"
    return next((name for name, begins in PARTS if below.startswith(begins)), REST)


def counted(riser: str, lab: str, settings: list[str]) -> tuple[int, int, dict[str, Counter[str]]]:
    """Returns hops and events of a run with these options and settings, and cachegrind's counts for each part."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", f"--cachegrind-out-file={out}", riser]
        command += ["run", lab, "--json"] + [word for one in settings for word in ((one,) if one.startswith("--") else ("--set", one))]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"hops: {' '.join(command)}: {ran.stderr}")
        report = json.loads(ran.stdout)
        return report["tlp_hops"], report["events"], parts(Path(out).read_text())


def parts(text: str) -> dict[str, Counter[str]]:
    """Returns the counts in cachegrind's file, by part."""
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
    """Returns the cost of a hop of a lab, by part."""
    short, long = (counted(riser, lab, [*settings, f"{key}={length}"]) for length in lengths)
    hops = long[0] - short[0]
    cost = {part: {event: (count - short[2].get(part, Counter())[event]) / hops for event, count in all_.items()} for part, all_ in long[2].items()}
    print(f"hops: {name}: {sum(part['Ir'] for part in cost.values()):.0f} instructions per hop", file=sys.stderr)
    return {"name": name, "hops": hops, "events": (long[1] - short[1]) / hops, "cost": cost}


def grown(riser: str, name: str, lab: str, key: str, lengths: tuple[int, int]) -> dict:
    """Returns the cost of a hop of a lab given as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.toml"
        path.write_text(lab)
        return measure(riser, name, str(path), [], key, lengths)


def peak_mb(riser: str, transfers: int) -> float:
    """Returns the peak memory of a run of `transfers` writes, in MB."""
    command = [riser, "run", "labs/speed/write.toml", "--set", f"slot.card.pcie-bench.transfers={transfers}"]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"hops: {' '.join(command)}: exit code {child.returncode}")
    return usage.ru_maxrss / 1e3


def table(labs: list[dict]) -> str:
    """Returns the table of the totals of each lab."""

    def total(lab: dict, *events: str) -> float:
        return sum(part.get(event, 0.0) for part in lab["cost"].values() for event in events)

    lines = ["| lab | instructions per hop | events per hop | data accesses | first-level misses | mispredicted branches |", "|---|---:|---:|---:|---:|---:|"]
    for lab in labs:
        figures = (total(lab, "Ir"), lab["events"], total(lab, "Dr", "Dw"), total(lab, "D1mr", "D1mw"), total(lab, "Bcm", "Bim"))
        lines.append(f"| {lab['name']} | {figures[0]:.0f} | {figures[1]:.2f} | {figures[2]:.0f} | {figures[3]:.1f} | {figures[4]:.1f} |")
    return "\n".join(lines)


def table_of_parts(labs: list[dict]) -> str:
    """Returns the table of the instructions of each lab by part."""
    lines = ["| part | " + " | ".join(lab["name"] for lab in labs) + " |", "|---|" + "---:|" * len(labs)]
    for part in [name for name, _ in PARTS] + [REST]:
        row = [lab["cost"].get(part, {}).get("Ir", 0.0) for lab in labs]
        lines.append(f"| {part} | " + " | ".join(f"{count:.0f}" for count in row) + " |")
    return "\n".join(lines)


def built() -> str:
    """Builds a riser that runs under valgrind, and returns its path."""
    environment = os.environ | {"RUSTFLAGS": "--cfg rustix_use_libc", "CARGO_TARGET_DIR": str(ROOT / "target/hops")}
    command = ["scripts/built.sh", "riser", "--release", "-p", "riser-cli"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def check(labs: list[dict], page: str) -> None:
    """Fails if a lab costs more than 2 % above the page's figure."""
    worse = []
    for lab in labs:
        said = re.search(rf"^\| {re.escape(lab['name'])} \| (\d+) ", page, re.MULTILINE)
        now = sum(part["Ir"] for part in lab["cost"].values())
        if said is None or now > 1.02 * int(said[1]):
            worse.append(f"{lab['name']}: {now:.0f} instructions per hop, {said[1] if said else 'nothing'} in docs/speed.md")
    if worse:
        sys.exit("hops: " + "; ".join(worse))


def main() -> None:
    """Measures, and writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "riser",
        nargs="?",
        help='a release build with RUSTFLAGS="--cfg rustix_use_libc", because valgrind does not know the vDSO of some kernels; by default '
        "one is built into target/hops",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a lab's instructions per hop exceed those in docs/speed.md by more than 2 %%",
    )
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("hops: valgrind is missing (Debian: apt-get install valgrind)")
    riser = arguments.riser or built()
    labs = [measure(riser, *lab) for lab in LABS]
    growth = [grown(riser, *lab) for lab in GROWTH]
    page = PAGE.read_text()
    if arguments.check:
        return check(labs + growth, page)
    short, long = (peak_mb(riser, transfers) for transfers in (100_000, 1_000_000))
    text = [table(labs), "Instructions per hop, by part. A part is one or several source files; the fast path of a port counts for \"link: port\":", table_of_parts(labs)]
    text += ["Cost of a hop as the lab grows:", table(growth)]
    text.append(f"Peak memory is {short:.0f} MB for a run of 100,000 writes and {long:.0f} MB for one of 1,000,000.")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n\n".join(text) + f"\n{END}{after}")


if __name__ == "__main__":
    main()

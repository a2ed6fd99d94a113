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
    """A flow of a traffic generator's slot."""
    return f'[[slot.traffic.flow]]\nname = "{name}"\nkind = "{kind}"\nsize_bytes = 256\ncount = {count}\n{more}'


def writers(count: int) -> str:
    """A lab of cards that write, each at a root port of its own."""
    return HEAD + "".join(WRITES.format(n=n) for n in range(count))


def idle(count: int) -> str:
    """Slots whose devices write once."""
    return "".join(f'[[slot]]\nname = "idle-{n}"\ndevice = "traffic"\n{flow("once", "write", 1)}' for n in range(count))


def forest(switches: int, devices: int) -> str:
    """A lab of one switch with switches below it, each with as many devices, which write and read as in labs/speed/tree.toml."""
    text = HEAD + '[[switch]]\nname = "top"\n'
    for switch in range(switches):
        text += f'[[switch]]\nname = "switch-{switch}"\nparent = "top"\n'
        for n in range(devices):
            text += f'[[slot]]\nname = "device-{switch}-{n}"\ndevice = "traffic"\nparent = "switch-{switch}"\n'
            text += flow("writes", "write", 250_000) + flow("reads", "read", 250_000, "outstanding = 32\n")
    return text


#: What grows: name, lab as text, the key that sets its length, and a short and a long one.
GROWTH = [
    ("one card that writes", writers(1), "limit_us", (300, 700)),
    ("the same, ten times as far into the run", writers(1), "limit_us", (3_000, 3_400)),
    ("eight cards, each at its root port", writers(8), "limit_us", (300, 350)),
    ("one card beside 30 idle slots", writers(1) + idle(30), "limit_us", (600, 1_000)),
    ("two switches below a switch, 8 devices each", forest(2, 8), "limit_us", (500, 700)),
    ("eight switches below a switch, 8 devices each", forest(8, 8), "limit_us", (2_500, 2_700)),
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
    """Hops and events of a run with these options and settings, and what cachegrind counts in each part."""
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


def grown(riser: str, name: str, lab: str, key: str, lengths: tuple[int, int]) -> dict:
    """The cost of a hop of a lab that is given as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.toml"
        path.write_text(lab)
        return measure(riser, name, str(path), [], key, lengths)


def peak_mb(riser: str, transfers: int) -> float:
    """The most memory that a run of so many writes has, in MB."""
    command = [riser, "run", "labs/speed/write.toml", "--set", f"slot.card.pcie-bench.transfers={transfers}"]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"hops: {' '.join(command)}: exit code {child.returncode}")
    return usage.ru_maxrss / 1e3


def table(labs: list[dict]) -> str:
    """Sums of each lab."""

    def total(lab: dict, *events: str) -> float:
        return sum(part.get(event, 0.0) for part in lab["cost"].values() for event in events)

    lines = ["| lab | instructions a hop | events a hop | data accesses | first-level misses | mispredicted branches |", "|---|---:|---:|---:|---:|---:|"]
    for lab in labs:
        figures = (total(lab, "Ir"), lab["events"], total(lab, "Dr", "Dw"), total(lab, "D1mr", "D1mw"), total(lab, "Bcm", "Bim"))
        lines.append(f"| {lab['name']} | {figures[0]:.0f} | {figures[1]:.2f} | {figures[2]:.0f} | {figures[3]:.1f} | {figures[4]:.1f} |")
    return "\n".join(lines)


def table_of_parts(labs: list[dict]) -> str:
    """Instructions of each lab by part."""
    lines = ["| part | " + " | ".join(lab["name"] for lab in labs) + " |", "|---|" + "---:|" * len(labs)]
    for part in [name for name, _ in PARTS] + [REST]:
        row = [lab["cost"].get(part, {}).get("Ir", 0.0) for lab in labs]
        lines.append(f"| {part} | " + " | ".join(f"{count:.0f}" for count in row) + " |")
    return "\n".join(lines)


def built() -> str:
    """A riser that valgrind runs."""
    environment = os.environ | {"RUSTFLAGS": "--cfg rustix_use_libc", "CARGO_TARGET_DIR": str(ROOT / "target/hops")}
    command = ["scripts/built.sh", "riser", "--release", "-p", "riser-cli"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


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
    growth = [grown(riser, *lab) for lab in GROWTH]
    page = PAGE.read_text()
    if arguments.check:
        return check(labs + growth, page)
    short, long = (peak_mb(riser, transfers) for transfers in (100_000, 1_000_000))
    text = [table(labs), "Instructions a hop, by the source file that they come from:", table_of_parts(labs)]
    text += ["What grows, and what a hop then costs:", table(growth)]
    text.append(f"The most memory of a run of 100,000 writes is {short:.0f} MB, of 1,000,000 {long:.0f} MB.")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n\n".join(text) + f"\n{END}{after}")


if __name__ == "__main__":
    main()

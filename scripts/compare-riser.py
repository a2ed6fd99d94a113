#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares the results of two builds of riser on every lab of labs/: captures, JSON objects, drawings and error texts.

Usage: scripts/compare-riser.py OLD NEW [LABS-FOLDER]

Runs end after 300 us of virtual time. Prints one line for each result that differs, then a summary. Exits with 1 if any result differs.
Fields that depend on the speed of the machine, and riser's version, are ignored.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Fields that differ from run to run or from build to build.
MACHINE_FIELDS = ("cpu_seconds", "events_per_cpu_second", "hops_per_cpu_second", "wall_seconds", "riser_version", "riser")
SECONDS = 300
LIMIT = "limit_us=300"
# Invalid settings. The error text names the place and the value.
WRONG_KEYS = [
    "seed=x",
    "nonsense=1",
    "slot.0.device=\"no-such-model\"",
    "slot.0.link.gen=9",
    "slot.0.link.lanes=3",
    "slot.0.link.mps=100",
    "slot.0.name=\"\"",
    "host.profile=\"no-such-profile\"",
    "host.low_memory_mib=0",
    "limit_us=\"soon\"",
]


def without_machine(value):
    """Returns the JSON value without the fields that depend on the machine."""
    if isinstance(value, dict):
        return {key: without_machine(inner) for key, inner in value.items() if key not in MACHINE_FIELDS}
    if isinstance(value, list):
        return [without_machine(inner) for inner in value]
    return value


def printed(text):
    """Returns standard output or error in comparable form: JSON objects without MACHINE_FIELDS, texts without speeds."""
    try:
        return json.dumps(without_machine(json.loads(text)), sort_keys=True)
    except ValueError:
        return re.sub(r"[0-9.]+ (CPU )?s(econds)?\b|[0-9.]+ [Mk]? ?(events|hops)(/s| per ).*", "", text)


def run(riser, args, folder):
    """Returns exit status, standard output and standard error of one command."""
    try:
        done = subprocess.run([riser, *args], capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return ("timeout", "", "")
    clean = lambda text: printed(text.replace(str(folder), "FOLDER").replace(pathlib.Path(riser).name, "riser"))
    return (done.returncode, clean(done.stdout), clean(done.stderr))


def results(riser, lab):
    """Yields every result of one lab as a name and a comparable value."""
    with tempfile.TemporaryDirectory() as folder:
        capture, lines = pathlib.Path(folder, "c.pcapng"), pathlib.Path(folder, "t.jsonl")
        lab = str(lab)
        run_args = ["run", lab, "--set", LIMIT, "--json", "--dllps", "--capture", str(capture), "--transactions-json", str(lines)]
        yield "run --json", run(riser, run_args, folder)
        for name, path in (("capture", capture), ("transactions", lines)):
            yield name, hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
        yield "run", run(riser, ["run", lab, "--set", LIMIT], folder)
        for command in (["check"], ["check", "--json"], ["lspci", "-vvv"], ["lspci", "--json"], ["lspci", "-xxxx"], ["sizes"]):
            yield " ".join(command), run(riser, [command[0], lab, *command[1:]], folder)
        for key in WRONG_KEYS:
            yield f"check --set {key}", run(riser, ["check", lab, "--set", key], folder)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    old, new = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    labs = pathlib.Path(sys.argv[3] if len(sys.argv) == 4 else pathlib.Path(__file__).parent.parent / "labs").resolve()
    compared, different = 0, 0
    for lab in sorted(labs.rglob("*.toml")):
        for (name, before), (_, after) in zip(results(old, lab), results(new, lab)):
            compared += 1
            if before != after:
                different += 1
                print(f"{lab.relative_to(labs)}: {name} differs")
                if not isinstance(before, (str, type(None))):
                    print(f"  old: {before}"[:1000])
                    print(f"  new: {after}"[:1000])
    print(f"{compared} results compared, {different} differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks captures with `riser trace --check`: those of every lab in labs/, with taps at both ends and with DLLPs, and those of real devices.

Usage: scripts/check-labs.py RISER [FOLDER-OF-CAPTURES]

Runs end after LIMIT_US of virtual time, so requests may be outstanding at the end. Prints one line for each capture with findings. Exits with
1 if a capture breaks a rule that EXPECTED does not name for it, or does not break one that EXPECTED names.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

LIMIT_US = 2000
SECONDS = 600
# Rules that each capture is expected to break.
EXPECTED = {
    # The lab flips the Last DW Byte Enables of a read on its way to the root port.
    "labs/refused/aer.toml at the root": {"byte-enables"},
    # The lab flips a bit of the Lower Address of a completion on its way to the device.
    "labs/refused/completion.toml at the device": {"lower-address"},
    # Captured at a mirroring switch, which reorders packets of the two directions. A read precedes the last completion
    # of an earlier read with the same tag, and a completion precedes its read.
    "p4600/p4600-write-64blk.pcap": {"tag-in-use"},
    "x520/x520-1024B-16pkt.pcap": {"unexpected-completion", "byte-count"},
}


def rules_broken(riser, capture):
    """Returns the number of TLPs, and the number of violations by rule, from the summary."""
    done = subprocess.run([riser, "trace", "--check", "--json", capture], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode not in (0, 1):
        sys.exit(f"{capture}: exit status {done.returncode}: {done.stderr}")
    summary = json.loads(done.stdout.splitlines()[-1])["summary"]
    return summary["tlps"], {found["rule"]: found["count"] for found in summary["by_rule"]}


def captures_of(riser, lab, folder):
    """Runs a lab with a tap at each end, and yields the captures."""
    for tap in ("root", "device"):
        path = folder / f"{lab.stem}-{tap}.pcapng"
        args = [lab, "--set", f"limit_us={LIMIT_US}", "--capture", path, "--capture-at", tap, "--dllps", "--no-latencies", "--json"]
        done = subprocess.run([riser, "run", *args], capture_output=True, text=True, timeout=SECONDS)
        if not path.exists():
            print(f"{lab}: no capture: {done.stderr.strip()}")
            continue
        yield f"{lab} at the {tap}", path
        path.unlink()


def judge(riser, name, path):
    """Prints the rules that a capture breaks. Returns its number of TLPs, and whether the rules differ from the expected ones."""
    tlps, broken = rules_broken(riser, path)
    expected = EXPECTED.get(name, set())
    wrong = set(broken) != expected
    if broken or wrong:
        print(f"{name}: {tlps} TLPs, violations {broken}, expected {sorted(expected)}{': wrong' if wrong else ''}")
    return tlps, wrong


def main():
    riser, *captures = sys.argv[1:]
    labs = sorted(lab for lab in pathlib.Path("labs").rglob("*.toml") if "[over]" not in lab.read_text())
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for lab in labs:
            results += [judge(riser, name, path) for name, path in captures_of(riser, lab, pathlib.Path(folder))]
    for folder in captures:
        files = sorted(pathlib.Path(folder).rglob("*.pcap"))
        results += [judge(riser, path.relative_to(folder).as_posix(), path) for path in files]
    print(f"{len(labs)} labs, {len(results)} captures, {sum(tlps for tlps, _ in results)} TLPs")
    sys.exit(any(wrong for _, wrong in results))


if __name__ == "__main__":
    main()

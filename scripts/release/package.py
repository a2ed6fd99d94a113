#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packs built binaries: a tarball, Debian packages, the bill of materials and the licences of all components.

    scripts/release/package.py --built FOLDER --out FOLDER [--version VERSION] [--quick]

The folder of --built has riser, libtlp.a and libtlp.so for this machine's processor. Times of all files are SOURCE_DATE_EPOCH, by default
the time of the commit, so the same binaries give the same bytes.
"""

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import debian
import licences
import sbom
from components import ROOT, components, library_notices

SHELLS = {
    "bash": "share/bash-completion/completions/riser",
    "fish": "share/fish/vendor_completions.d/riser.fish",
    "zsh": "share/zsh/site-functions/_riser",
}

#: Folders of examples, by their place below share/doc/riser/examples.
EXAMPLES = {"labs": "labs", "native": "crates/native/examples", "rtl": "crates/rtl/examples", "drivers/linux": "drivers/linux"}


def run(*command, **options):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, **options).stdout


def commit_time():
    """Returns the time that all files get, in seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "log", "-1", "--format=%ct"))


def this_version():
    """Returns the version of Cargo.toml; for a commit without the tag of that version, with the commit's date and hash."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    tags = run("git", "tag", "--points-at", "HEAD", text=True).split()
    if f"v{version}" in tags:
        return version
    date = run("git", "log", "-1", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd.%h", "--abbrev=12", text=True, env={**os.environ, "TZ": "UTC"})
    return f"{version}+git{date.strip()}"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def install(built, prefix):
    """Installs the command, its manual pages and completions, both C interfaces and the examples below `prefix`, which ends with /usr."""
    prefix.mkdir(parents=True)
    riser = built / "riser"
    (prefix / "bin").mkdir()
    shutil.copy(riser, prefix / "bin/riser")
    (prefix / "share/man/man1").mkdir(parents=True)
    run(riser, "man", "-o", prefix / "share/man/man1")
    for shell, path in SHELLS.items():
        write(prefix / path, run(riser, "completions", shell))
    environment = {**os.environ, "DESTDIR": str(prefix.parent)}
    run("crates/native/install.sh", "/usr", env=environment, stderr=subprocess.DEVNULL)
    run("crates/libtlp/install.sh", "--no-build", built, "/usr", env=environment, stderr=subprocess.DEVNULL)
    for place, folder in EXAMPLES.items():
        for file in map(Path, run("git", "ls-files", folder, text=True).splitlines()):
            if file.name != ".gitignore":
                copy = prefix / "share/doc/riser/examples" / place / file.relative_to(folder)
                write(copy, (ROOT / file).read_bytes())
                copy.chmod((ROOT / file).stat().st_mode)


def documents(found, version, target, epoch):
    """Returns the files that state what a release contains and under which licences, by name."""
    texts = {name: (ROOT / name).read_text() for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"]}
    return texts | {
        "third-party-licences.txt": licences.third_party(found, version, "rust-library.html"),
        "rust-library.html": library_notices().read_text(),
        "riser.cdx.json": sbom.bill(found, version, target, epoch),
    }


def tarball(tree, out, top, epoch, level):
    """Writes the files below `tree` to a tarball with one folder, `top`."""

    def neutral(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = epoch
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with open(out, "wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, f"{top}/{path.relative_to(tree)}", recursive=False, filter=neutral)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--built", type=Path, required=True, help="folder with riser, libtlp.a and libtlp.so")
    parser.add_argument("--out", type=Path, required=True, help="folder for the packages")
    parser.add_argument("--version", help="version of the packages [default: that of the commit]")
    parser.add_argument("--quick", action="store_true", help="do not compress, for tests")
    options = parser.parse_args()
    epoch, version, target = commit_time(), options.version or this_version(), platform.machine()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    found = components(target)
    texts = documents(found, version, target, epoch)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        install(options.built.resolve(), root / "usr")
        debian.packages(root, out, version, target, epoch, texts, licences.debian_copyright(found, version), options.quick)
        for pc in root.rglob("*.pc"):
            # The tarball may be unpacked anywhere.
            pc.write_text(pc.read_text().replace("prefix=/usr\n", "prefix=${pcfiledir}/../..\n"))
        for name, text in texts.items():
            write(root / "usr/share/doc/riser" / name, text)
        name = f"riser-{version}-{target}-linux"
        tarball(root / "usr", out / f"{name}.tar.gz", name, epoch, 0 if options.quick else 9)
    write(out / f"{name}.cdx.json", texts["riser.cdx.json"])
    write(out / f"{name}.licences.txt", texts["third-party-licences.txt"])


if __name__ == "__main__":
    main()

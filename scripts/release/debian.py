# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian packages of an installed tree: riser, libtlp0 and libtlp-dev."""

import email.utils
import gzip
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "The riser developers <riser-pcie@users.noreply.github.com>"
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""Libraries of the package libc6."""


@dataclass
class Package:
    """A package: its name and description, and the files of the tree that are its own, as patterns below /usr."""

    name: str
    section: str
    summary: str
    description: str
    files: list[str]
    depends: str = ""
    suggests: str = ""


PACKAGES = [
    Package(
        name="riser",
        section="electronics",
        summary="PCI Express slot in software",
        description="""Write a PCI Express device in Rust or C and run it below a
simulated host or a real Linux kernel. Watch each transaction layer packet
(TLP), and measure latency and bandwidth on a timed model of the links.
.
This package has the command riser, its manual pages and completions, the
header riser_device.h for devices in C and C++, and examples.""",
        files=["bin/*", "share/man/man1/*", "share/bash-completion/**/*", "share/fish/**/*", "share/zsh/**/*", "share/doc/riser/**/*",
               "include/riser_device.h", "lib/pkgconfig/riser-device.pc"],
        suggests="debian-archive-keyring, verilator, wireshark",
    ),
    Package(
        name="libtlp0",
        section="libs",
        summary="PCI Express transaction layer over UDP (shared library)",
        description="""LibTLP sends and receives PCI Express TLPs over UDP, as NetTLP does: a
program is a PCI Express device of a host with a NetTLP adapter.""",
        files=["lib/libtlp.so.0"],
    ),
    Package(
        name="libtlp-dev",
        section="libdevel",
        summary="PCI Express transaction layer over UDP (development files)",
        description="""LibTLP sends and receives PCI Express TLPs over UDP, as NetTLP does: a
program is a PCI Express device of a host with a NetTLP adapter.
.
This package has the headers, the static library and libtlp.pc.""",
        files=["lib/libtlp.so", "lib/libtlp.a", "include/libtlp.h", "include/tlp.h", "lib/pkgconfig/libtlp.pc"],
        depends="libtlp0 (= {version}), libc6-dev",
    ),
]


def readelf(option, file):
    return subprocess.run(["readelf", "--wide", option, str(file)], check=True, stdout=subprocess.PIPE, text=True).stdout


def glibc_dependency(file):
    """Returns the dependency on libc6 of an executable or shared library, which may use no other library."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", file))
    others = sorted(set(needed) - GLIBC)
    gcc = ["libgcc-s1"] if "libgcc_s.so.1" in others else []
    if others and others != ["libgcc_s.so.1"]:
        raise SystemExit(f"debian.py: {file.name} needs {', '.join(others)}; expected only libraries of libc6 and libgcc-s1")
    versions = re.findall(r"GLIBC_([0-9.]+)", readelf("--version-info", file))
    newest = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    return ", ".join([f"libc6 (>= {newest})", *gcc])


def packed(text):
    return gzip.compress(text if isinstance(text, bytes) else text.encode(), 9, mtime=0)


def place(path, machine):
    """Returns the path of a file of the tree in a Debian system."""
    for ours, theirs in [
        ("share/zsh/site-functions/", "share/zsh/vendor-completions/"),
        ("lib/pkgconfig/riser-device.pc", "share/pkgconfig/riser-device.pc"),
        ("lib/pkgconfig/", f"lib/{machine}-linux-gnu/pkgconfig/"),
    ]:
        path = path.replace(ours, theirs)
    return path


def copy_files(package, usr, to, machine):
    """Copies the package's files, and compresses manual pages."""
    for file in sorted({file for pattern in package.files for file in usr.glob(pattern) if not file.is_dir()}):
        path = to / "usr" / place(str(file.relative_to(usr)), machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "man1":
            path.with_name(f"{path.name}.gz").write_bytes(packed(file.read_bytes()))
        else:
            shutil.copy(file, path, follow_symlinks=False)


def write_documents(package, to, version, epoch, texts, copyright):
    folder = to / "usr/share/doc" / package.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "copyright").write_text(copyright)
    date = email.utils.formatdate(epoch)
    news = f"{package.name} ({version}) unstable; urgency=medium\n\n  * A build of riser {version}.\n\n -- {MAINTAINER}  {date}\n"
    (folder / "changelog.gz").write_bytes(packed(news))
    if package.name == "riser":
        (folder / "rust-library.html").write_text(texts["rust-library.html"])
        (folder / "README.md").write_text(texts["README.md"])
        (folder / "NEWS.md.gz").write_bytes(packed(texts["CHANGELOG.md"]))
        (folder / "riser.cdx.json.gz").write_bytes(packed(texts["riser.cdx.json"]))


def control(package, to, version, architecture):
    """Returns the package's control file."""
    binaries = [file for file in to.rglob("*") if file.name in ("riser", "libtlp.so.0") and file.is_file() and file.parent.name in ("bin", "lib")]
    depends = [package.depends.format(version=version)] + [glibc_dependency(file) for file in binaries]
    size = sum(file.lstat().st_size for file in to.rglob("*") if not file.is_dir())
    fields = {
        "Package": package.name,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(-(-size // 1024)),
        "Depends": ", ".join(filter(None, depends)),
        "Suggests": package.suggests,
        "Section": package.section,
        "Priority": "optional",
        "Homepage": "https://github.com/riser-pcie/riser",
        "Description": "\n ".join([package.summary, *package.description.split("\n")]),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def write_control(package, to, version, architecture):
    files = sorted(file for file in to.rglob("*") if file.is_file() and not file.is_symlink())
    sums = "".join(f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(to)}\n" for file in files)
    text = control(package, to, version, architecture)
    folder = to / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(text)
    (folder / "md5sums").write_text(sums)
    if package.name == "libtlp0":
        (folder / "shlibs").write_text(f"libtlp 0 libtlp0 (>= {version.partition('+')[0]})\n")
        (folder / "triggers").write_text("activate-noawait ldconfig\n")


def set_modes(to):
    for path in to.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def packages(root, out, version, machine, epoch, texts, copyright, quick):
    """Writes the Debian packages of the tree `root`/usr to `out`."""
    architecture = ARCHITECTURES[machine]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "DPKG_DEB_THREADS_MAX": "1"}
    for package in PACKAGES:
        to = root / "debian" / package.name
        copy_files(package, root / "usr", to, machine)
        write_documents(package, to, version, epoch, texts, copyright)
        write_control(package, to, version, architecture)
        set_modes(to)
        file = out / f"{package.name}_{version}_{architecture}.deb"
        compression = ["-Znone"] if quick else ["-Zxz"]
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", str(to), str(file)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

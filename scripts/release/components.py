# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The parts of riser's binaries: crates of the workspace, crates of others, Rust's standard library and plotly.js, with their licences."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = ["riser-cli", "riser-libtlp", "riser-python"]
"""Crates whose binaries are in a release: the command, the C library and the Python module."""

LICENCE_FILE = re.compile(r"(licen[cs]e|copying|unlicense|notice|copyright)", re.IGNORECASE)
MIT = """MIT License

Copyright (c) {authors}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
"""Text for crates whose package has no licence file."""


@dataclass
class Component:
    """A crate, Rust's standard library or plotly.js."""

    name: str
    version: str
    licence: str
    """SPDX expression."""
    description: str
    purl: str
    is_ours: bool
    checksum: str | None = None
    """SHA-256 of the crate's package, from Cargo.lock."""
    needs: list[str] = field(default_factory=list)
    """Keys of the components that it uses."""
    texts: list[str] = field(default_factory=list)
    """Its licence files. Those of the standard library are in a page of their own: `library_notices`."""

    @property
    def key(self):
        return f"{self.name}@{self.version}"


def cargo_metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", f"{target}-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def checksums():
    """Returns the checksum of each package in Cargo.lock by its name and version."""
    packages = (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]
    fields = [dict(re.findall(r'^(name|version|checksum) = "(.*)"$', package, re.MULTILINE)) for package in packages]
    return {f"{package['name']}@{package['version']}": package.get("checksum") for package in fields}


def linked(metadata):
    """Returns the packages that the products use, each with the packages that it uses itself. Tests' dependencies are left out."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in packages.values() if package["name"] in PRODUCTS and package["source"] is None]
    found = {}
    while waiting:
        current = waiting.pop()
        if current not in found:
            dependencies = nodes[current]["deps"]
            found[current] = [dep["pkg"] for dep in dependencies if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
            waiting += found[current]
    return [(packages[this], [packages[other] for other in needs]) for this, needs in found.items()]


def licence_texts(package):
    """Returns the licence files of a package, or the text of the MIT licence if it has none and is under this licence."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and LICENCE_FILE.match(file.name))
    if files:
        return [file.read_text(errors="replace") for file in files]
    if "MIT" not in package["license"]:
        raise SystemExit(f"components.py: {package['name']} {package['version']} ({package['license']}): no licence file")
    return [MIT.format(authors=", ".join(package["authors"]) or f"the authors of {package['name']}")]


def crate(package, needs, sums):
    key = "{name}@{version}".format
    is_ours = package["source"] is None
    return Component(
        name=package["name"],
        version=package["version"],
        # Old crates separate alternatives with a slash.
        licence=re.sub(r"\s*/\s*", " OR ", package["license"]),
        description=" ".join((package["description"] or "").split()),
        purl=f"pkg:cargo/{package['name']}@{package['version']}",
        is_ours=is_ours,
        checksum=sums[key(**package)],
        needs=sorted(key(**other) for other in needs),
        texts=[] if is_ours else licence_texts(package),
    )


def rustc(*arguments):
    return subprocess.run(["rustc", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def library_notices():
    """Returns the path of the page with the licences of Rust's standard library, which is a part of the toolchain."""
    page = Path(rustc("--print", "sysroot").strip()) / "share/doc/rust/COPYRIGHT-library.html"
    if not page.is_file():
        raise SystemExit(f"components.py: {page} is missing: expected a toolchain of rustup")
    return page


def standard_library():
    version = re.search(r"^release: (.*)$", rustc("-vV"), re.MULTILINE)[1]
    return Component(
        name="rust-std",
        version=version,
        licence="MIT OR Apache-2.0",
        description="Rust's standard library",
        purl=f"pkg:github/rust-lang/rust@{version}",
        is_ours=False,
    )


def plotly_js(package):
    """Returns plotly.js, which the build script of riser-view takes from the crate plotly."""
    head = (Path(package["manifest_path"]).parent / "resource/plotly.min.js").read_text()[:300]
    version = re.search(r"plotly\.js v([0-9.]+)", head)[1]
    holders = re.search(r"Copyright (.*)", head)[1].rstrip(". ")
    return Component(
        name="plotly.js",
        version=version,
        licence="MIT",
        description="Plots in HTML pages",
        purl=f"pkg:npm/plotly.js@{version}",
        is_ours=False,
        texts=[MIT.format(authors=holders)],
    )


def components(target):
    """Returns all components of the binaries for `target`, sorted by key."""
    sums = checksums()
    packages = linked(cargo_metadata(target))
    std, plots = standard_library(), plotly_js(next(package for package, _ in packages if package["name"] == "plotly"))
    found = [crate(package, needs, sums) for package, needs in packages]
    for component in found:
        if component.name in PRODUCTS:
            component.needs.append(std.key)
        elif component.name == "plotly":
            component.needs.append(plots.key)
    return sorted([*found, std, plots], key=lambda component: component.key)

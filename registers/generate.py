#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes what stands in other languages from a register description in SystemRDL (Accellera SystemRDL 2.0).

    generate.py            writes all files anew
    generate.py --check    says which of them are not as they would be written; exit status 1 if any

Needs the wheel systemrdl-compiler (requirements.txt). What is written: constants for Rust, a header for C, constants for SystemVerilog,
tables in Markdown.
"""

import argparse
import pathlib
import subprocess
import sys
import textwrap

from systemrdl import RDLCompiler
from systemrdl.node import FieldNode, MemNode, Node, RegfileNode, RegNode

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCE = "registers/dma_engine.rdl"
WRITTEN = f"Written by registers/generate.py from {SOURCE}: change that."
# Engines, of those that there may be, whose registers have names in listings.
NAMED = 4


class Place:
    """A register, or a range of what is not told apart: its path, offset and bytes from the beginning of its parent."""

    def __init__(self, node: Node):
        self.node = node
        self.name = node.inst_name
        self.offset = node.raw_address_offset
        self.count = node.array_dimensions[0] if node.is_array else 1
        self.stride = node.array_stride if node.is_array else node.size
        self.bytes = node.size

    @property
    def title(self) -> str:
        return self.node.get_property("name")

    @property
    def description(self) -> str:
        return " ".join((self.node.get_property("desc") or "").split())

    @property
    def fields(self) -> list[FieldNode]:
        return list(self.node.fields()) if isinstance(self.node, RegNode) else []


def places(node: Node) -> list[Place]:
    return [Place(child) for child in node.children(unroll=False) if not isinstance(child, FieldNode)]


def registers(top: Node) -> list[Place]:
    return [place for place in places(top) if isinstance(place.node, RegNode)]


def groups(top: Node) -> list[Place]:
    return [place for place in places(top) if isinstance(place.node, RegfileNode)]


def enums(top: Node) -> list[type]:
    found = {}
    for field in [f for g in [top, *(p.node for p in groups(top))] for r in registers(g) for f in r.fields]:
        encode = field.get_property("encode")
        if encode is not None:
            found[encode.type_name] = encode
    return list(found.values())


def mask(field: FieldNode) -> int:
    return ((1 << field.width) - 1) << field.low


def is_whole(place: Place) -> bool:
    return len(place.fields) == 1 and place.fields[0].width == 8 * place.bytes


def title_of(field: FieldNode) -> str:
    return field.get_property("name")


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


# ---- Rust ----


def constant(place: Place) -> int | None:
    """What it always reads as, where that is one number."""
    if any(f.get_property("sw").name != "r" or f.get_property("hw").name != "na" for f in place.fields):
        return None
    return sum(f.get_property("reset") << f.low for f in place.fields)


def rust_register(place: Place, indent: str) -> list[str]:
    kind = "u64" if place.bytes == 8 else "u32"
    value = constant(place) if place.fields else None
    value_lines = [] if value is None else [f"{indent}/// What [`{place.name}`] reads as.", f"{indent}pub const {place.name}_VALUE: {kind} = {value:#x};"]
    lines = [f"{indent}/// {place.title}; {kind}.", f"{indent}pub const {place.name}: u64 = {place.offset:#x};"]
    if place.count > 1:
        lines += [f"{indent}/// How many there are, {place.stride} B apart.", f"{indent}pub const {place.name}_COUNT: u64 = {place.count};"]
    if not is_whole(place):
        lines += [f"{indent}/// Fields of [`{place.name}`].", f"{indent}pub mod {place.name.lower()} {{"]
        for field in place.fields:
            lines += [f"{indent}    /// {title_of(field)}.", f"{indent}    pub const {field.inst_name}: u32 = {mask(field):#x};"]
        lines += [f"{indent}}}"]
    return lines + value_lines


def rust_writable(listed: list[Place], indent: str) -> list[str]:
    words = []
    for place in listed:
        bits = sum(mask(f) for f in place.fields if f.get_property("sw").name == "rw")
        words += [(place.offset + at, bits >> 8 * at & 0xFFFFFFFF) for at in range(0, place.bytes, 4) if place.count == 1]
    lines = [f"{indent}/// What software may write: offset of a DW, and its bits.", f"{indent}pub const WRITABLE: &[(u64, u32)] = &["]
    return [*lines, *(f"{indent}    ({at:#x}, {bits:#x})," for at, bits in words if bits), f"{indent}];"]


def rust_enum(encode: type) -> list[str]:
    name = camel(encode.type_name)
    lines = [f"/// Values of fields of the kind `{encode.type_name}`.", "#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]", f"pub enum {name} {{"]
    for value in encode:
        lines += [f"    /// {value.rdl_desc}", f"    {camel(value.name)} = {value.value},"]
    lines += ["}", "", f"impl {name} {{", "    /// All, in the order of their values, which are those from zero on.", f"    pub const ALL: [{name}; {len(encode)}] = ["]
    lines += [f"        {name}::{camel(value.name)}," for value in encode]
    return lines + ["    ];", "}"]


def rust_names(top: Node) -> list[str]:
    lines = ["/// The registers by their names, as listings and captures show them.", "pub(super) const NAMES: &[DeviceRegister] = &["]

    def add(offset: int, count: int, name: str) -> None:
        lines.append(f'    named(Some(0), {offset:#x}, {count}, "{name}"),')

    for place in places(top):
        if isinstance(place.node, RegfileNode) and place.count <= 16:
            for n in range(NAMED):
                for register in registers(place.node):
                    add(place.offset + n * place.stride + register.offset, register.bytes, f"{place.title} {n}: {register.title}")
            add(place.offset + NAMED * place.stride, (place.count - NAMED) * place.stride, f"{place.title}s {NAMED} to {place.count - 1}")
        elif isinstance(place.node, MemNode) or place.count > 1:
            size = place.bytes if isinstance(place.node, MemNode) else place.count * place.stride
            add(place.offset, size, place.title if isinstance(place.node, (MemNode, RegNode)) else f"{place.title}s")
        else:
            add(place.offset, place.bytes, place.title)
    return lines + ["];"]


def rust(top: Node) -> str:
    lines = ["// SPDX-License-Identifier: Apache-2.0 OR MIT", f"//! {top.get_property('name')}: offsets and fields. {WRITTEN}", ""]
    lines += ["use capture::DeviceRegister;", "use plug::named;", "", "/// Bytes of the BAR.", f"pub const BAR_BYTES: u64 = {top.size:#x};"]
    for place in registers(top):
        lines += rust_register(place, "")
    lines += rust_writable(registers(top), "")
    for place in places(top):
        if isinstance(place.node, MemNode):
            lines += [f"/// {place.title}; {place.bytes} B.", f"pub const {place.name}: u64 = {place.offset:#x};"]
    for group in groups(top):
        lines += [f"/// The first {group.title.lower()}.", f"pub const {group.name}: u64 = {group.offset:#x};"]
        lines += ["/// How many there are at most.", f"pub const {group.name}_COUNT: u64 = {group.count};"]
        lines += ["/// Bytes from one to the next.", f"pub const {group.name}_STRIDE: u64 = {group.stride:#x};"]
        lines += [f"/// In one {group.title.lower()}.", f"pub mod {group.name.lower()} {{"]
        for place in registers(group.node):
            lines += rust_register(place, "    ")
        lines += [*rust_writable(registers(group.node), "    "), "}"]
    for encode in enums(top):
        lines += ["", *rust_enum(encode)]
    text = "\n".join([*lines, "", *rust_names(top)]) + "\n"
    return subprocess.run(["rustfmt", "--edition", "2024", "--config-path", str(ROOT)], input=text, text=True, capture_output=True, check=True).stdout


# ---- C ----


def c_register(place: Place, prefix: str) -> list[str]:
    lines = [f"/* {place.title}; {8 * place.bytes} bits */", f"#define {prefix}{place.name} {place.offset:#x}"]
    if place.count > 1:
        lines[-1] = f"#define {prefix}{place.name}(n) ({place.offset:#x} + (n) * {place.stride:#x})"
        lines.append(f"#define {prefix}{place.name}_COUNT {place.count}")
    value = constant(place)
    if value is not None:
        lines.append(f"#define {prefix}{place.name}_VALUE {value:#x}U")
    if not is_whole(place):
        for field in place.fields:
            lines.append(f"#define {prefix}{place.name}_{field.inst_name} {mask(field):#x}U")
    return lines


def c_comment(text: str) -> list[str]:
    if len(text) <= 80:
        return [f"/* {text} */"]
    return ["/*", *(f" * {line}" for line in textwrap.wrap(text, 77)), " */"]


def c(top: Node) -> str:
    guard = "RISER_DMA_REGISTERS_H"
    lines = ["/* SPDX-License-Identifier: GPL-2.0 OR MIT */", "/*", f" * {top.get_property('name')}: offsets, and masks of fields.", f" * {WRITTEN}", " */"]
    lines += [f"#ifndef {guard}", f"#define {guard}", "", f"#define RISER_DMA_BAR_BYTES {top.size:#x}"]
    for place in registers(top):
        lines += ["", *c_register(place, "RISER_DMA_")]
    for place in places(top):
        if isinstance(place.node, MemNode):
            lines += ["", f"/* {place.title}; {place.bytes} bytes */", f"#define RISER_DMA_{place.name} {place.offset:#x}"]
            lines += [f"#define RISER_DMA_{place.name}_BYTES {place.bytes:#x}"]
    for group in groups(top):
        lines += ["", f"/* {group.title}: one of {group.count} */"]
        lines += [f"#define RISER_DMA_{group.name}(n) ({group.offset:#x} + (n) * {group.stride:#x})"]
        lines += [f"#define RISER_DMA_{group.name}_COUNT {group.count}", f"#define RISER_DMA_{group.name}_STRIDE {group.stride:#x}"]
        for place in registers(group.node):
            lines += c_register(place, f"RISER_DMA_{group.name}_")
    for encode in enums(top):
        lines += ["", f"/* {encode.type_name.replace('_', ' ')} */"]
        for value in encode:
            lines += [*c_comment(value.rdl_desc), f"#define RISER_DMA_{encode.type_name.upper()}_{value.name} {value.value}"]
    return "\n".join([*lines, "", f"#endif /* {guard} */"]) + "\n"


# ---- SystemVerilog ----


def sv_constant(name: str, bits: int, value: int, comment: str) -> str:
    return f"localparam logic [{bits - 1}:0] {name} = {bits}'h{value:x}; // {comment}"


def sv_register(place: Place, prefix: str) -> list[str]:
    name = prefix + place.name
    lines = [sv_constant(name, 16, place.offset, f"{place.title}; {8 * place.bytes} bits")]
    if place.count > 1:
        lines.append(sv_constant(f"{name}_COUNT", 16, place.count, f"so many, {place.stride} B apart"))
    value = constant(place)
    if value is not None:
        lines.append(sv_constant(f"{name}_VALUE", 8 * place.bytes, value, "what it reads as"))
    writable = sum(mask(f) for f in place.fields if f.get_property("sw").name == "rw")
    if writable:
        lines.append(sv_constant(f"{name}_WRITABLE", 8 * place.bytes, writable, "bits that software may write"))
    if not is_whole(place):
        for field in place.fields:
            lines.append(f"localparam int {name}_{field.inst_name}_LOW = {field.low}; // {title_of(field)}: {field.width} bit{'s' if field.width > 1 else ''} from there on")
    return lines


def systemverilog(top: Node) -> str:
    lines = ["// SPDX-License-Identifier: Apache-2.0 OR MIT", f"// {top.get_property('name')}: offsets, fields, and what software may write.", f"// {WRITTEN}"]
    lines += ["// A module that includes this uses what it needs of it.", "/* verilator lint_off UNUSEDPARAM */"]
    lines.append(sv_constant("R_BAR_BYTES", 32, top.size, "bytes of the BAR"))
    for place in registers(top):
        lines += sv_register(place, "R_")
    for place in places(top):
        if isinstance(place.node, MemNode):
            lines.append(sv_constant(f"R_{place.name}", 16, place.offset, f"{place.title}; {place.bytes} B"))
            lines.append(sv_constant(f"R_{place.name}_BYTES", 16, place.bytes, "its bytes"))
    for group in groups(top):
        lines.append(sv_constant(f"R_{group.name}", 16, group.offset, f"the first {group.title.lower()}"))
        lines.append(sv_constant(f"R_{group.name}_COUNT", 16, group.count, "how many there are at most"))
        lines.append(sv_constant(f"R_{group.name}_STRIDE", 16, group.stride, "bytes from one to the next"))
        for place in registers(group.node):
            lines += sv_register(place, f"R_{group.name}_")
    for encode in enums(top):
        bits = max(value.value for value in encode).bit_length()
        lines += [sv_constant(f"{encode.type_name.upper()}_{value.name}", bits, value.value, value.rdl_desc) for value in encode]
    return "\n".join([*lines, "/* verilator lint_on UNUSEDPARAM */"]) + "\n"


# ---- Markdown ----


def access(field: FieldNode) -> str:
    if field.get_property("onwrite") is not None:
        return "read, ones clear"
    software = field.get_property("sw").name
    return {"r": "read", "rw": "read, write"}[software]


def md_registers(listed: list[Place]) -> list[str]:
    lines = []
    for place in listed:
        at = f"{place.offset:#x}" if place.count == 1 else f"{place.offset:#x} + {place.stride} n, n < {place.count}"
        lines += [f"### {place.name}: {place.title.lower()}", "", f"At {at}, {8 * place.bytes} bits. {place.description}", ""]
        lines += ["| bits | field | access | after reset | meaning |", "|---|---|---|---|---|"]
        for field in place.fields:
            bits = f"{field.high}:{field.low}" if field.width > 1 else f"{field.low}"
            reset = field.get_property("reset")
            encode = field.get_property("encode")
            kind = f" A [{encode.type_name.replace('_', ' ')}](#{encode.type_name.replace('_', '-')})." if encode else ""
            meaning = " ".join(field.get_property("desc").split())
            lines.append(f"| {bits} | {field.inst_name} | {access(field)} | {'as built' if reset is None else f'{reset:#x}'} | {meaning}{kind} |")
        lines.append("")
    return lines


def markdown(top: Node) -> str:
    about = " ".join(top.get_property("desc").split())
    lines = ["# Registers of the DMA engine", "", f"<!-- {WRITTEN} -->", ""]
    lines += [f"{about} BAR 0 has {top.size // 1024} KiB; the physical function and each virtual one have the same.", "All values are little-endian. What no field names reads as zero, and is not written."]
    lines += ["[The data sheet](../dma-engine.md) says how they work together."]
    lines += ["", "| at | bytes | |", "|---|---|---|"]
    for place in places(top):
        size = place.bytes if isinstance(place.node, MemNode) else place.count * place.stride
        many = f", {place.count} of {place.stride} B" if place.count > 1 else ""
        lines.append(f"| {place.offset:#x} | {size} | {place.name}: {place.title}{many} |")
    lines += ["", "## The function", "", *md_registers(registers(top))]
    for group in groups(top):
        lines += [f"## {group.title}", "", f"{group.name} n is at {group.offset:#x} + {group.stride} n, n < {group.count}. {group.description}", ""]
        lines += md_registers(registers(group.node))
    lines += ["## Values", ""]
    for encode in enums(top):
        lines += [f"### {encode.type_name.replace('_', ' ')}", "", "| value | name | meaning |", "|---|---|---|"]
        lines += [f"| {value.value} | {value.name} | {value.rdl_desc} |" for value in encode]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


OUTPUTS = {
    "crates/devices/src/dma_engine/registers.rs": rust,
    "drivers/linux/riser_dma_registers.h": c,
    "rtl/dma_engine/dma_engine_registers.svh": systemverilog,
    "docs/reference/dma-engine.md": markdown,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    compiler = RDLCompiler()
    compiler.compile_file(str(ROOT / SOURCE))
    top = compiler.elaborate().top
    stale = 0
    for name, write in OUTPUTS.items():
        path, text = ROOT / name, write(top)
        if path.exists() and path.read_text() == text:
            continue
        if check:
            print(f"{name}: not as {SOURCE} says; make registers writes it")
            stale = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{name}: written")
    return stale


if __name__ == "__main__":
    sys.exit(main())

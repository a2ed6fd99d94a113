# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Chisel wrapper has the parameters, defaults and ports of the Verilog module. Needs no Scala: `make chisel` compiles and elaborates it."""

import pathlib
import re

RTL = pathlib.Path(__file__).resolve().parent.parent
SCALA = (RTL / "chisel/src/RootStack.scala").read_text()
PINS = (RTL / "chisel/src/TileLink.scala").read_text().split("class TileLinkPins")[1]
HEADER, PORTS = (RTL / "pcie_root_stack_tilelink.sv").read_text().split("\n);")[0].split(") (", 1)


def number(text):
    """A constant of Verilog or Scala."""
    digits = re.fullmatch(r"(?:\d+'h|0x|BigInt\(\"|BigInt\(0x)([0-9a-f_]+)(?:\", 16\)|\))?", text)
    return int(digits[1], 16) if digits else int(text)


def test_parameters_and_defaults_are_those_of_the_module():
    verilog = {name: number(value) for name, value in re.findall(r"parameter (?:int|logic \[\d+:0\]) (\w+) = ([\w']+)", HEADER)}
    fields = {name: number(value) for name, value in re.findall(r"^    (\w+): (?:Int|BigInt) = (.*),$", SCALA, re.M)}
    names = dict(re.findall(r'^    "(\w+)" -> (?:bits64\()?(\w+)', SCALA, re.M))
    assert len(verilog) > 40 and set(names) == set(verilog)
    assert {name: fields[field] for name, field in names.items()} == verilog


def test_ports_are_those_of_the_module():
    verilog = {name: kind for kind, name in re.findall(r"^    (input|output) logic (?:\[.*?\] )?(\w+),?$", PORTS, re.M)}
    scala = {"clk": "input", "rst": "input"}
    scala |= {name: kind.lower() for name, kind in re.findall(r"^  val (\w+) = (Input|Output)\(", SCALA, re.M)}
    other = {"input": "output", "output": "input"}
    for name, kind in re.findall(r"^  val (\w+) = (Input|Output)\(", PINS, re.M):
        scala |= {f"memory_{name}": kind.lower(), f"cpu_{name}": other[kind.lower()]}
    assert len(verilog) > 80 and scala == verilog

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A design compiled by Verilator, from Python cycle by cycle: ports by name."""

import ctypes
import pathlib
import re
import struct
import subprocess

RTL = pathlib.Path(__file__).resolve().parent.parent
LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def ports(header):
    """(direction, name, bits, bytes) of the ports of a model, from its C++ header."""
    for kind, wide, name, msb in re.findall(r"VL_(IN|OUT)(8|16|64|W|)\(&(\w+),(\d+),", header):
        bits = int(msb) + 1
        size = {"8": 1, "16": 2, "": 4, "64": 8}.get(wide) or (bits + 31) // 32 * 4
        yield kind, name, bits, size


def build(top, folder, parameters, sources, file=None):
    """Builds a model in build/`folder`, if one of `sources` (patterns) is newer, and returns its library and ports."""
    out = RTL / "build" / folder
    library = out / "libmodel.so"
    newest = max(path.stat().st_mtime for pattern in sources for path in RTL.glob(pattern))
    if not library.exists() or newest > library.stat().st_mtime:
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("*.cpp"):
            old.unlink()
        subprocess.run(
            ["verilator", "--cc", "-O3", "--x-assign", "unique", "--x-initial", "unique", "--noassert", "-y", ".", "-I.", *(f"-G{key}={value}" for key, value in parameters.items()),
             "--Mdir", out, "--top-module", top, file or f"{top}.sv"], cwd=RTL, check=True)
        copies = {"IN": "", "OUT": ""}
        offsets = {"IN": 0, "OUT": 0}
        for kind, port, _, size in ports((out / f"V{top}.h").read_text()):
            source, target = (f"in + {offsets[kind]}", f"&top->{port}") if kind == "IN" else (f"&top->{port}", f"out + {offsets[kind]}")
            if port != "clk":
                copies[kind] += f"    memcpy({target}, {source}, {size});\n"
                offsets[kind] += size
        (out / "shim.cpp").write_text(
            f'#include <cstring>\n#include <verilated.h>\n#include "V{top}.h"\ndouble sc_time_stamp() {{ return 0; }}\n'
            f"struct Model {{ VerilatedContext context; V{top} *top; }};\n"
            'extern "C" Model *model_new(int seed) {\n    auto *model = new Model;\n    model->context.randReset(2);\n    model->context.randSeed(seed);\n'
            f"    model->top = new V{top}(&model->context);\n    return model;\n}}\n"
            'extern "C" void model_free(Model *model) { delete model->top; delete model; }\n'
            'extern "C" void model_tick(Model *model, const char *in, char *out) {\n    auto *top = model->top;\n    top->clk = 0;\n' + copies["IN"]
            + "    top->eval();\n" + copies["OUT"] + "    top->clk = 1;\n    top->eval();\n}\n")
        include = subprocess.run(["verilator", "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True).stdout.strip() + "/include"
        flags = ["-O1", "-std=c++17", "-fPIC", "-w", f"-I{out}", f"-I{include}", f"-I{include}/vltstd", "-DVM_TRACE=0"]
        runtime = []
        for name in ("verilated", "verilated_threads"):
            runtime.append(out.parent / f"{name}.o")
            if not runtime[-1].exists():
                subprocess.run(["g++", *flags, "-c", f"{include}/{name}.cpp", "-o", runtime[-1]], check=True)
        subprocess.run(["g++", *flags, "-shared", *out.glob("*.cpp"), *runtime, "-o", library, "-lpthread"], check=True)
    return library, list(ports((out / f"V{top}.h").read_text()))


def refusal(top, *parameters):
    """Elaborates `top` with illegal parameters (NAME=VALUE), which must fail. Returns the messages."""
    command = ["verilator", "--lint-only", "-Wall", "-y", ".", "-I.", *(f"-G{each}" for each in parameters), "--top-module", top, f"{top}.sv"]
    result = subprocess.run(command, cwd=RTL, capture_output=True, text=True, check=False)
    assert result.returncode != 0, f"{top} with {parameters} elaborates"
    return result.stderr


class Model:
    """The compiled design. `tick` gives inputs by name and returns the outputs before the clock edge."""

    def __init__(self, top, folder, parameters, sources, seed=1, file=None):
        library, found = build(top, folder, parameters, sources, file)
        self.library = ctypes.CDLL(str(library))
        self.library.model_new.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.library.model_new(seed))
        self.inputs = [(port, bits, size) for kind, port, bits, size in found if kind == "IN" and port != "clk"]
        outputs = [(port, bits, size) for kind, port, bits, size in found if kind == "OUT"]
        self.pack = struct.Struct("<" + "".join(f"{size}s" if bits > 64 else LETTERS[size] for _, bits, size in self.inputs))
        unpack = struct.Struct("<" + "".join(f"{size}s" if bits > 64 else LETTERS[size] for _, bits, size in outputs))
        self.unpack, self.names = unpack.unpack, [port for port, _, _ in outputs]
        self.values = {port: bytes(size) if bits > 64 else 0 for port, bits, size in self.inputs}
        self.sizes = {port: (bits, size) for _, port, bits, size in found}
        self.out = (ctypes.c_char * unpack.size)()

    def tick(self):
        self.library.model_tick(self.handle, self.pack.pack(*self.values.values()), self.out)
        return dict(zip(self.names, self.unpack(self.out.raw)))

    def close(self):
        self.library.model_free(self.handle)

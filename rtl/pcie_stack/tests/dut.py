# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The RTL from Python: libdll.so by ctypes, frame by frame."""

import ctypes
import pathlib
import subprocess
import sys

from reference import Frame

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = {
    "wide": {"DATA_WIDTH": 256, "INIT_FC_CYCLES": 256},
    "narrow": {"DATA_WIDTH": 64, "NUM_VCS": 8, "MAX_TLP_BYTES": 160, "REPLAY_BYTES": 1024, "REPLAY_TLPS": 8, "INIT_FC_CYCLES": 64},
    "stored": {
        "DATA_WIDTH": 128, "NUM_VCS": 2, "MAX_TLP_BYTES": 288, "REPLAY_BYTES": 2048, "REPLAY_TLPS": 32, "CUT_THROUGH": 0, "REPLAY_BLOCK_RAM": 0,
        "FEATURE_EXCHANGE": 0, "INIT_FC_CYCLES": 128,
    },
    "widest": {"DATA_WIDTH": 512, "MAX_TLP_BYTES": 1056, "REPLAY_BYTES": 262144, "REPLAY_TLPS": 2048, "INIT_FC_CYCLES": 256},
}
EVENTS = (
    "bad_lcrc sequence_gap duplicate nullified receiver_error bad_dllp unknown_dllp protocol_error replay_timeout replay_rollover nak_received replay ack_sent "
    "nak_sent tx_nullified tx_overlong"
).split()


def folder(name):
    """Returns the directory of a build, and builds it first if a source is newer."""
    parameters = [f"{key}={value}" for key, value in BUILDS[name].items()]
    subprocess.run([HERE / "build.sh", "pcie_dll", name, *parameters], check=True)
    return HERE.parent / "build" / "tests" / name


class Dut:
    """One data link layer in RTL."""

    def __init__(self, name, seed=1):
        self.parameters = {"NUM_VCS": 1, "CUT_THROUGH": 1, "MAX_TLP_BYTES": 544, "REPLAY_TLPS": 128, "FEATURE_EXCHANGE": 1, "REPLAY_BYTES": 8192} | BUILDS[name]
        self.beat = self.parameters["DATA_WIDTH"] // 8
        self.library = library = ctypes.CDLL(str(folder(name) / "libdll.so"))
        library.dut_new.restype = ctypes.c_void_p
        library.dut_step.restype = library.dut_run.restype = ctypes.c_char_p
        library.dut_cycles.restype = library.dut_dropped.restype = ctypes.c_uint64
        library.dut_get.restype = library.dut_count.restype = library.dut_pop_fc.restype = ctypes.c_uint32
        self.handle = ctypes.c_void_p(library.dut_new(ctypes.c_uint64(seed)))
        self.buffer = (ctypes.c_uint8 * 8192)()

    def close(self):
        self.library.dut_free(self.handle)

    @property
    def now(self):
        return self.library.dut_cycles(self.handle)

    @property
    def dropped(self):
        return self.library.dut_dropped(self.handle)

    def step(self, cycles=1):
        failure = self.library.dut_step(self.handle, cycles)
        assert not failure, failure.decode()

    def run(self, cycles):
        failure = self.library.dut_run(self.handle, cycles)
        assert not failure, failure.decode()

    def gaps(self, link=0, tlp=0, ready=0):
        self.library.dut_gaps(self.handle, link, tlp, ready)

    def set(self, **ports):
        for name, value in ports.items():
            self.library.dut_set(self.handle, name.encode(), value)

    def get(self, name):
        return self.library.dut_get(self.handle, name.encode())

    def count(self, event):
        return self.library.dut_count(self.handle, EVENTS.index(event))

    def counts(self):
        """The events that have happened."""
        return {name: self.count(name) for name in EVENTS if self.count(name)}

    def init_fc(self, vc, kind_type, value):
        self.library.dut_init_fc(self.handle, 3 * vc + kind_type, value)

    def push(self, frame):
        self.library.dut_push_frame(self.handle, frame.data, len(frame.data), frame.dllp, frame.nullify, frame.error)

    def frames(self):
        """The frames sent since the last call."""
        out, flags, time = [], ctypes.c_int(), ctypes.c_uint64()
        while True:
            length = self.library.dut_pop_frame(self.handle, self.buffer, ctypes.byref(flags), ctypes.byref(time))
            if length < 0:
                return out
            out.append(Frame(bytes(self.buffer[:length]), bool(flags.value & 1), bool(flags.value & 2), False, time.value))

    def send(self, tlp, nullify=False):
        self.library.dut_push_tlp(self.handle, tlp, len(tlp), nullify)

    def received(self):
        """The TLPs received since the last call."""
        out = []
        while True:
            length = self.library.dut_pop_tlp(self.handle, self.buffer)
            if length < 0:
                return out
            out.append(bytes(self.buffer[:length]))

    def update(self, kind_type, vc, value, urgent=True):
        self.library.dut_push_update(self.handle, kind_type, vc, value, urgent)

    def learned(self):
        """Flow-control DLLPs for the transaction layer: (kind, type, VC, value)."""
        out = []
        while (word := self.library.dut_pop_fc(self.handle)) != 0xFFFFFFFF:
            out.append((word >> 30, word >> 28 & 3, word >> 24 & 7, word & 0xFFFFFF))
        return out

    def send_other(self, four):
        self.library.dut_push_other(self.handle, int.from_bytes(four, "little"))

    def other(self):
        """DLLPs that the data link layer passes on."""
        out, word = [], ctypes.c_uint32()
        while self.library.dut_pop_other(self.handle, ctypes.byref(word)):
            out.append(word.value.to_bytes(4, "little"))
        return out


if __name__ == "__main__":
    for build in sys.argv[1:]:
        folder(build)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The transaction layer in RTL from Python: libtl.so by ctypes, with a log of all that happens at its edges; and the builds of whole ports."""

import collections
import ctypes
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Small buffers make each limit occur often.
SMALL = {"RX_P_HEADERS": 6, "RX_P_DATA": 24, "RX_NP_HEADERS": 4, "RX_NP_DATA": 3, "RX_CPL_HEADERS": 5, "RX_CPL_DATA": 20}
TL_BUILDS = {
    "tl_wide": {"DATA_WIDTH": 256},
    "tl_narrow": {"DATA_WIDTH": 64, "NUM_VCS": 8, "MAX_TLP_BYTES": 160, "MAX_PAYLOAD": 128, "TX_TLPS": 4, "INFINITE_COMPLETIONS": 0} | SMALL,
    "tl_small": {
        "DATA_WIDTH": 128, "NUM_VCS": 2, "MAX_TLP_BYTES": 288, "MAX_PAYLOAD": 256, "TX_TLPS": 8, "BLOCK_RAM": 0, "INFINITE_COMPLETIONS": 0, "VC_PHASES": 8,
    } | SMALL,
    "tl_widest": {
        "DATA_WIDTH": 512, "MAX_TLP_BYTES": 1056, "MAX_PAYLOAD": 1024, "TX_BYTES": 8192, "RX_P_HEADERS": 600, "RX_P_DATA": 9000, "RX_NP_HEADERS": 130, "RX_NP_DATA": 2100,
        "INFINITE_COMPLETIONS": 0,
    },
}
PORT_BUILDS = {
    "port_wide": {"DATA_WIDTH": 256, "INFINITE_COMPLETIONS": 0, "INIT_FC_CYCLES": 256},
    "port_narrow": {
        "DATA_WIDTH": 128, "NUM_VCS": 3, "MAX_TLP_BYTES": 160, "MAX_PAYLOAD": 128, "TX_BYTES": 2048, "TX_TLPS": 8, "REPLAY_BYTES": 2048, "REPLAY_TLPS": 16,
        "INFINITE_COMPLETIONS": 0, "CUT_THROUGH": 0, "INIT_FC_CYCLES": 64, "FEATURE_EXCHANGE": 0,
    } | SMALL,
    "port_ecrc": {"DATA_WIDTH": 128, "MAX_TLP_BYTES": 160, "MAX_PAYLOAD": 128, "TX_BYTES": 2048, "INFINITE_COMPLETIONS": 0, "INIT_FC_CYCLES": 64, "ECRC": 1} | SMALL,
}
EVENTS = (
    "format length payload byte_enables traffic_class boundary operand overflow poisoned bad_update bad_init refused update_sent sent received".split()
)
KINDS = (None, "accepted", "leaves", "left", "offered", "taken", "update", "arrived", "learned", "dropped")
Record = collections.namedtuple("Record", "time kind type vc flags data")
HEAD = struct.Struct("<QBBBBI")


def folder(name):
    """Returns the directory of a build, and builds it first if a source is newer."""
    top, values = ("pcie_port", PORT_BUILDS[name]) if name in PORT_BUILDS else ("pcie_tl", TL_BUILDS[name])
    subprocess.run([HERE / "build.sh", top, name, *(f"{key}={value}" for key, value in values.items())], check=True)
    return HERE.parent / "build" / "tests" / name


class Tl:
    """One transaction layer in RTL."""

    def __init__(self, name, seed=1):
        self.parameters = {
            "NUM_VCS": 1, "MAX_TLP_BYTES": 544, "MAX_PAYLOAD": 512, "TX_TLPS": 16, "RX_P_HEADERS": 96, "RX_P_DATA": 736, "RX_NP_HEADERS": 64, "RX_NP_DATA": 32,
            "RX_CPL_HEADERS": 96, "RX_CPL_DATA": 736, "INFINITE_COMPLETIONS": 1, "VC_PHASES": 32,
        } | TL_BUILDS[name]
        self.vcs = self.parameters["NUM_VCS"]
        self.beat = self.parameters["DATA_WIDTH"] // 8
        self.library = library = ctypes.CDLL(str(folder(name) / "libtl.so"))
        library.tl_new.restype = ctypes.c_void_p
        library.tl_step.restype = ctypes.c_char_p
        library.tl_cycles.restype = library.tl_log.restype = library.tl_beats.restype = library.tl_events.restype = ctypes.c_uint64
        library.tl_get.restype = library.tl_count.restype = library.tl_init_fc.restype = ctypes.c_uint32
        self.handle = ctypes.c_void_p(library.tl_new(ctypes.c_uint64(seed)))
        self.buffer = (ctypes.c_uint8 * (1 << 22))()

    def close(self):
        self.library.tl_free(self.handle)

    @property
    def now(self):
        return self.library.tl_cycles(self.handle)

    def step(self, cycles=1):
        failure = self.library.tl_step(self.handle, cycles)
        assert not failure, failure.decode()

    def set(self, **ports):
        for name, value in ports.items():
            self.library.tl_set(self.handle, name.encode(), value)

    def get(self, name):
        return self.library.tl_get(self.handle, name.encode())

    def count(self, event):
        return self.library.tl_count(self.handle, EVENTS.index(event))

    def counts(self):
        """The errors that have happened."""
        return {name: self.count(name) for name in EVENTS[:12] if self.count(name)}

    def beats(self, stream):
        """Beats so far: of received P, NP and Cpl (0 to 2), and to the data link layer (3)."""
        return self.library.tl_beats(self.handle, stream)

    def init_fc(self, vc, kind_class):
        return self.library.tl_init_fc(self.handle, 3 * vc + kind_class)

    def set_phases(self, phases):
        for n, vc in enumerate(phases):
            self.library.tl_set_phase(self.handle, n, vc)

    def send(self, kind_class, tlp, vc=0, queue_vc=None):
        """Queues a TLP of the user."""
        self.library.tl_send(self.handle, vc, kind_class, min(vc, self.vcs - 1) if queue_vc is None else queue_vc, tlp, len(tlp))

    def receive(self, tlp, good=True):
        """Queues a TLP from the data link layer."""
        self.library.tl_receive(self.handle, tlp, len(tlp), good)

    def learn(self, kind, kind_class, vc, value):
        """Queues a received flow-control DLLP."""
        self.library.tl_learn(self.handle, kind, kind_class, vc, value)

    def log(self):
        """All that has happened since the last call, in order."""
        length = self.library.tl_log(self.handle, self.buffer, len(self.buffer))
        assert length <= len(self.buffer)
        data, at, out = bytes(memoryview(self.buffer)[:length]), 0, []
        while at < length:
            time, kind, kind_type, vc, flags, size = HEAD.unpack_from(data, at)
            at += 16
            out.append(Record(time, KINDS[kind], kind_type, vc, flags, data[at : at + size]))
            at += size
        return out


if __name__ == "__main__":
    for build in sys.argv[1:]:
        folder(build)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The physical layer in RTL from Python: libphy.so by ctypes, frames at one edge and words of the lanes at the other."""

import ctypes
import pathlib
import subprocess

from reference import Frame
from reference_phy import Word

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = {
    # The link is half as wide as the frame interface, so that frames can follow each other without gaps.
    "phy_x8": {"DATA_WIDTH": 512, "LANES": 8, "SYMBOLS": 4, "GENERATION": 3},
    "phy_x8_equal": {"DATA_WIDTH": 256, "LANES": 8, "SYMBOLS": 4, "GENERATION": 4},
    "phy_x16": {"DATA_WIDTH": 512, "LANES": 16, "SYMBOLS": 4, "GENERATION": 5},
    "phy_x4": {"DATA_WIDTH": 256, "LANES": 4, "SYMBOLS": 4, "GENERATION": 3},
    "phy_x2": {"DATA_WIDTH": 128, "LANES": 2, "SYMBOLS": 8, "GENERATION": 4},
    "phy_x1": {"DATA_WIDTH": 64, "LANES": 1, "SYMBOLS": 4, "GENERATION": 3},
    "phy_x1_block": {"DATA_WIDTH": 256, "LANES": 1, "SYMBOLS": 16, "GENERATION": 5},
    "phy_gen1_x8": {"DATA_WIDTH": 256, "LANES": 8, "SYMBOLS": 2, "GENERATION": 1},
    "phy_gen1_x1": {"DATA_WIDTH": 64, "LANES": 1, "SYMBOLS": 4, "GENERATION": 1},
    "phy_gen2_x16": {"DATA_WIDTH": 512, "LANES": 16, "SYMBOLS": 2, "GENERATION": 2},
    "phy_gen2_x4": {"DATA_WIDTH": 64, "LANES": 4, "SYMBOLS": 1, "GENERATION": 2},
    "phy_gen2_x2": {"DATA_WIDTH": 128, "LANES": 2, "SYMBOLS": 4, "GENERATION": 2},
}
EVENTS = (
    "bad_token bad_stp bad_block bad_symbol bad_frame rx_overflow tx_underrun tx_length skp_sent skp_received recovery link_down train_timeout "
    "tx_frame rx_frame rx_error"
).split()


def folder(name):
    """Returns the directory of a build, and builds it first if a source is newer."""
    parameters = [f"{key}={value}" for key, value in (BUILDS[name] | {"TRAIN_CYCLES": 256}).items()]
    subprocess.run([HERE / "build_phy.sh", name, *parameters], check=True)
    return HERE.parent / "build" / "tests" / name


class Phy:
    """One physical layer in RTL. It receives what it sends until `detach`."""

    def __init__(self, name):
        self.parameters = BUILDS[name]
        self.lanes, self.symbols, self.generation = (self.parameters[key] for key in ("LANES", "SYMBOLS", "GENERATION"))
        self.blocks = self.generation >= 3
        self.link = self.lanes * self.symbols
        self.beat = self.parameters["DATA_WIDTH"] // 8
        self.library = ctypes.CDLL(str(folder(name) / "libphy.so"))
        self.library.phy_new.restype = ctypes.c_void_p
        self.library.phy_step.restype = self.library.phy_detach.restype = ctypes.c_char_p
        self.library.phy_cycles.restype = ctypes.c_uint64
        self.handle = ctypes.c_void_p(self.library.phy_new())
        self.buffer = (ctypes.c_uint8 * 8192)()

    def close(self):
        self.library.phy_free(self.handle)

    def step(self, cycles=1):
        failure = self.library.phy_step(self.handle, cycles)
        assert not failure, failure.decode()

    def up(self):
        """Steps until the link is up."""
        for _ in range(100):
            self.step(16)
            if self.state == "L0" and self.library.phy_state(self.handle) & 8:
                self.step(64)
                return
        raise AssertionError("the link does not come up")

    @property
    def state(self):
        return ("down", "TS1", "TS2", "SDS", "L0")[self.library.phy_state(self.handle) & 7]

    @property
    def link_up(self):
        return bool(self.library.phy_state(self.handle) & 8)

    @property
    def recovery(self):
        return bool(self.library.phy_state(self.handle) & 16)

    @property
    def now(self):
        return self.library.phy_cycles(self.handle)

    def set(self, enable=1, retrain=0):
        self.library.phy_set(self.handle, enable, retrain)

    def keep(self, keeps=True):
        self.library.phy_keep(self.handle, keeps)

    def disturb(self, pause_at=0, pause=0, cut_at=0):
        self.library.phy_disturb(self.handle, pause_at, pause, cut_at)

    def detach(self):
        failure = self.library.phy_detach(self.handle)
        assert not failure, failure.decode()

    def attach(self):
        self.library.phy_attach(self.handle)

    def count(self, event):
        return self.library.phy_count(self.handle, EVENTS.index(event))

    def counts(self):
        """The events that have happened."""
        return {name: self.count(name) for name in EVENTS if self.count(name)}

    def send(self, packet):
        self.library.phy_send(self.handle, packet.data, len(packet.data), packet.dllp, packet.nullify)

    @property
    def unsent(self):
        return self.library.phy_unsent(self.handle)

    def frames(self):
        """The frames received since the last call."""
        out, flags, time = [], ctypes.c_int(), ctypes.c_uint64()
        while True:
            length = self.library.phy_received(self.handle, self.buffer, ctypes.byref(flags), ctypes.byref(time))
            if length < 0:
                return out
            out.append(Frame(bytes(self.buffer[:length]), bool(flags.value & 1), bool(flags.value & 2), bool(flags.value & 4), time.value))

    def words(self):
        """The words of the lanes since `keep`."""
        out = []
        while self.library.phy_sent(self.handle, self.buffer):
            control = int.from_bytes(bytes(self.buffer[4:12]), "little")
            bits = [bool(control >> n & 1) for n in range(self.link)]
            out.append(Word(bool(self.buffer[0]), bool(self.buffer[1]), 0, bits, bytes(self.buffer[12 : 12 + self.link])))
        return out

    def inject(self, words):
        """Words for the receiver."""
        for word in words:
            control = sum(bit << n for n, bit in enumerate(word.control))
            raw = bytes([word.valid, word.start]) + word.bad.to_bytes(2, "little") + control.to_bytes(8, "little") + word.data
            self.library.phy_word(self.handle, raw)

    @property
    def unreceived(self):
        return self.library.phy_unreceived(self.handle)

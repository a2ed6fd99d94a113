# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ECRC: the generator and the checker against two other computations, a shift register bit by bit and Python's zlib."""

import random
import zlib

import pytest
from model import Model
from reference import bits_of, field, shift
from tlps import completion, memory_read, memory_write, message

WIDTHS = [64, 256]
SOURCES = ["pcie_tl_ecrc_*.sv", "pcie_dll_lcrc.sv", "pcie_crc.svh"]


def counted(raw):
    """The bytes that the ECRC covers: Type[0] and EP are 1 (PCIe 6.0 §2.7.1)."""
    return bytes([raw[0] | 1, raw[1], raw[2] | 0x40]) + raw[3:]


def with_digest(raw):
    """A TLP with TD and its ECRC."""
    raw = raw[:2] + bytes([raw[2] | 0x80]) + raw[3:]
    return raw + zlib.crc32(counted(raw)).to_bytes(4, "little")


def samples(dice):
    """TLPs of all lengths around the ends of beats."""
    yield memory_read(0x1000, 4, 1)
    yield memory_read(0x1_0000_0000, 4, 2)
    yield message(0x20)
    for size in range(4, 140, 4):
        yield memory_write(0x1000, dice.randbytes(size), poisoned=dice.randrange(2))
        yield memory_write(0x1_0000_0000, dice.randbytes(size), traffic_class=3)
        yield completion(0, dice.randbytes(size), 3, size)


class Generator:
    def __init__(self, width, stalls):
        self.model = Model("pcie_tl_ecrc_generate", f"ecrc/generate_{width}", {"DATA_WIDTH": width}, SOURCES)
        self.beat, self.dice, self.stalls = width // 8, random.Random(width), stalls
        self.values, self.out, self.partial = self.model.values, [], None
        self.values.update(rst=1, clear=0, in_valid=0, out_ready=1)
        self.model.tick()
        self.values["rst"] = 0
        self.values["enable"] = 1

    def step(self, **inputs):
        self.values.update(inputs, out_ready=int(self.dice.random() >= self.stalls))
        out = self.model.tick()
        if out["out_valid"] and self.values["out_ready"]:
            data = out["out_data"] if isinstance(out["out_data"], bytes) else out["out_data"].to_bytes(8, "little")
            assert out["out_sop"] == (self.partial is None)
            self.partial = (self.partial or b"") + (data[:4 * (out["out_end"] + 1)] if out["out_eop"] else data)
            if out["out_eop"]:
                self.out.append((self.partial, out["out_nullify"]))
                self.partial = None
        return out

    def send(self, raw, nullify=0, beats=None):
        """Sends a TLP, or its first `beats` beats."""
        for at in range(0, len(raw) if beats is None else self.beat * beats, self.beat):
            while self.dice.random() < self.stalls:
                self.step(in_valid=0)
            part = raw[at:at + self.beat]
            data = part + b"\xa5" * (self.beat - len(part))
            last = int(at + self.beat >= len(raw))
            while not self.step(in_valid=1, in_sop=int(at == 0), in_eop=last, in_nullify=nullify * last, in_end=len(part) // 4 - 1,
                                in_data=data if self.beat > 8 else int.from_bytes(data, "little"))["in_ready"]:
                pass
        self.values["in_valid"] = 0

    def finish(self):
        for _ in range(40):
            self.step(in_valid=0)
        out = self.out
        self.out = []
        return out


def test_shift_register_and_zlib_agree(dice):
    for raw in samples(dice):
        assert field(shift(0xFFFFFFFF, bits_of(counted(raw)), 0x04C11DB7, 32), 32) == zlib.crc32(counted(raw)).to_bytes(4, "little")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_tlps_get_td_and_the_digest(dice, width, stalls):
    generator = Generator(width, stalls)
    tlps = list(samples(dice))
    for raw in tlps:
        generator.send(raw)
    assert generator.finish() == [(with_digest(raw), 0) for raw in tlps]


@pytest.mark.parametrize("width", WIDTHS)
def test_tlp_keeps_its_own_digest_and_none_gets_one_unless_enabled(width):
    generator = Generator(width, 0.3)
    own = memory_write(0x1000, bytes(36), digest=1)
    generator.send(own)
    generator.values["enable"] = 0
    bare = memory_write(0x1000, bytes(40))
    generator.send(bare)
    assert generator.finish() == [(own, 0), (bare, 0)]


@pytest.mark.parametrize("width", WIDTHS)
def test_nullified_tlp_stays_nullified(width):
    generator = Generator(width, 0.3)
    for size in range(4, 80, 4):
        generator.send(memory_write(0x1000, bytes(size)), nullify=1)
    assert [mark for _, mark in generator.finish()] == [1] * 19


@pytest.mark.parametrize("width", WIDTHS)
def test_link_down_ends_a_tlp_that_has_begun_and_drops_the_others(width):
    generator = Generator(width, 0.0)
    generator.send(memory_write(0x1000, bytes(128)), beats=4)
    assert generator.partial
    for _ in range(4):
        assert generator.step(clear=1, in_valid=0)["in_ready"]
    generator.step(clear=0)
    assert [mark for _, mark in generator.finish()] == [1]
    raw = memory_write(0x1000, bytes(32))
    generator.send(raw)
    assert generator.finish() == [(with_digest(raw), 0)]


class Checker:
    def __init__(self, width):
        self.model = Model("pcie_tl_ecrc_check", f"ecrc/check_{width}", {"DATA_WIDTH": width}, SOURCES)
        self.beat = width // 8
        self.model.values.update(rst=1, tlp_valid=0, enable=1)
        self.model.tick()
        self.model.values["rst"] = 0

    def errors(self, raw, good=1):
        """Sends a TLP. Returns the headers of the errors that are reported."""
        out = []
        for at in range(0, len(raw) + 4 * self.beat, self.beat):
            part = raw[at:at + self.beat]
            data = part + b"\xa5" * (self.beat - len(part))
            self.model.values.update(tlp_valid=int(bool(part)), tlp_sop=int(at == 0), tlp_eop=int(at + self.beat >= len(raw)), tlp_good=good,
                                     tlp_end=max(len(part) // 4 - 1, 0), tlp_data=data if self.beat > 8 else int.from_bytes(data, "little"))
            seen = self.model.tick()
            if seen["error"]:
                out.append(seen["header"])
        return out


@pytest.mark.parametrize("width", WIDTHS)
def test_right_digests_pass_the_check(dice, width):
    checker = Checker(width)
    assert not any(checker.errors(with_digest(raw)) for raw in samples(dice))
    assert not any(checker.errors(raw) for raw in samples(dice))


@pytest.mark.parametrize("width", WIDTHS)
def test_each_wrong_bit_is_found_but_type_0_and_ep(dice, width):
    checker = Checker(width)
    raw = with_digest(memory_write(0x1000, dice.randbytes(20)))
    for bit in range(8 * len(raw)):
        wrong = bytearray(raw)
        wrong[bit // 8] ^= 1 << bit % 8
        # Without TD there is no digest to check.
        assert checker.errors(bytes(wrong)) == ([] if bit in (0, 22, 23) else [bytes(wrong[:16])]), bit


@pytest.mark.parametrize("width", WIDTHS)
def test_check_reports_nothing_if_it_is_off_or_the_frame_was_bad(width):
    checker = Checker(width)
    raw = memory_write(0x1000, bytes(20), digest=1)
    assert len(checker.errors(raw)) == 1 and not checker.errors(raw, good=0)
    checker.model.values["enable"] = 0
    assert not checker.errors(raw)

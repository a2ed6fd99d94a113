# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The root complex with a whole device tree, and with random requests of CPU and devices at once."""

import pytest
from device_tree import COPY_LENGTH, COPY_SOURCE, COPY_START, COPY_TARGET, Bridge, Endpoint, Enumeration, Tree
from lspci import check_decoded, dump
from root_complex import DECERR, ECAM, MEMORY32, MEMORY64, OKAY, SLVERR, Bench
from tlps import CA, SC, UR, Tlp, completion, completions_of, memory_read, memory_write, message

RAM = 0x8000_0000
MSI_TARGET = 0xFEE0_0000


def dump_of(bench, targets):
    """Configuration space of functions: all of the root port, 256 bytes of the others."""
    out = ""
    for target in sorted(targets):
        data, responses = b"", []
        for start in range(0, 4096 if target == 0 else 256, 256):
            part, answers = bench.read_burst(ECAM + (target << 12) + start, 3, 32, limit=60000)
            data, responses = data + part, responses + answers
        assert set(responses) == {OKAY}
        out += dump(target, data)
    return out


def test_enumeration_of_a_switch_and_two_devices(tmp_path):
    bench = Bench("plain", seed=3, stalls=0.05)
    copy, wide = Endpoint(0xD001, 0x1_0000, False), Endpoint(0xD002, 0x10_0000, True)
    tree = Tree(bench, Bridge(0x5001, 5, {0: Bridge(0x5002, 6, {0: copy}), 1: Bridge(0x5002, 6, {0: wide})}))
    bench.register(0x04, 1)
    bench.register(0x14, 4000)
    found = Enumeration(bench, MEMORY32, MEMORY64)
    assert set(found.found) == {0x000, 0x100, 0x200, 0x208, 0x300, 0x400}
    assert [(size, is_wide) for _, size, is_wide, _ in found.found[0x300] + found.found[0x400]] == [(0x1_0000, False), (0x10_0000, True)]
    assert tree.find(0x300) is copy and copy.base() == MEMORY32 and wide.base() == MEMORY64

    # Reads and writes of both BARs, by any byte
    for base in (copy.base(), wide.base()):
        bench.write(base + 0x100, 0x0123_4567_89AB_CDEF, 8)
        bench.write(base + 0x102, 0x77, 1)
        assert bench.read(base + 0x100, 8) == 0x0123_4567_8977_CDEF and bench.read(base + 0x106, 2) == 0x0123
    assert bench.read_burst(MEMORY32 + 0x5_0000, 2)[1] == [DECERR], "no device has this address"

    # DMA both ways, with an MSI each: the vectors are 4 and 9
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    bench.register(0x30, 1 << 4 | 1 << 9)
    text = bytes(range(256)) * 3
    bench.memory.write(RAM + 5, text)
    for target, function, vector in ((0x300, copy, 4), (0x400, wide, 9)):
        bench.config(target, 0x54, MSI_TARGET)
        bench.config(target, 0x5C, vector, 2)
        bench.config(target, 0x52, 1, 2)
        to = RAM + 0x1_0003 * vector
        bench.write(function.base() + COPY_SOURCE, RAM + 5, 8)
        bench.write(function.base() + COPY_TARGET, to, 8)
        bench.write(function.base() + COPY_LENGTH, len(text))
        bench.write(function.base() + COPY_START, 1)
        bench.run(lambda vector=vector: bench.out["msi_pending"] >> vector & 1, 6000)
        assert bench.memory.read(to, len(text)) == text, "the data are in memory before the interrupt"
    bench.run(bench.quiet)
    assert bench.register(0x2C) == 1 << 4 | 1 << 9 and bench.out["msi_interrupt"]

    text = dump_of(bench, found.found)
    bench.close()
    check_decoded(text, "root_complex_lspci.txt", tmp_path)


class RandomDevice:
    """Device memory with bad ranges, and random requests to the host. Addresses are written once, so that each read has one right answer."""

    def __init__(self, bench):
        self.bench, self.dice, self.memory = bench, bench.dice, {}
        self.held, self.sent, self.vectors, self.next = [], [], [], RAM + 0x10_0000
        self.expected_ram = {}
        bench.on_tlp = self.receive

    def byte(self, address):
        return self.memory.get(address, address * 73 >> 3 & 0xFF)

    @staticmethod
    def status(address):
        return {0xE: UR, 0xF: CA}.get(address >> 16 & 0xF, SC)

    def receive(self, raw):
        tlp = Tlp(raw)
        if tlp.is_completion:
            self.sent.append(tlp)
        elif tlp.is_memory and tlp.has_data:
            self.memory.update(tlp.enabled())
        elif tlp.is_config:
            data = b"" if tlp.has_data else (tlp.target << 16 | tlp.register).to_bytes(4, "little")
            self.held.append([completion(SC, data, tlp.tag, 4)])
        elif self.status(tlp.address) != SC:
            self.held.append([completion(self.status(tlp.address), b"", tlp.tag, 4)])
        else:
            self.held.append(completions_of(tlp, self.byte, self.dice.choice([64, 128]), 64))

    def answer(self):
        """Sends the next completion of some request."""
        if self.held and self.dice.random() < 0.2:
            parts = self.dice.choice(self.held)
            self.bench.push("cpl", parts.pop(0))
            if not parts:
                self.held.remove(parts)

    def place(self, count):
        """An address that was not used, for `count` bytes."""
        address = self.next + self.dice.randrange(64)
        if address // 4096 != (address + count - 1) // 4096:
            address = (address + count) // 4096 * 4096
        self.next = address + count
        return address


@pytest.mark.parametrize("name, seed, stalls", [("plain", 1, 0.0), ("plain", 2, 0.5), ("small", 3, 0.3), ("large", 4, 0.3), ("small", 5, 0.7)])
def test_random_requests_of_cpu_and_devices(name, seed, stalls):
    bench = Bench(name, seed, stalls)
    bench.setup()
    bench.register(0x14, 1_000_000)
    bench.register(0x1C, 1_000_000)
    bench.register(0x20, MSI_TARGET)
    bench.register(0x28, 1)
    bench.memory.delay = 30
    device, dice = RandomDevice(bench), bench.dice
    widest = bench.cpu_bytes.bit_length() - 1
    mps = bench.parameters["MAX_PAYLOAD"]
    reads, writes, requests, idents = [], [], [], range(4)
    bench.read_beats.clear()
    bench.written.clear()
    cpu_next = {MEMORY32: MEMORY32 + 0x10_0000, MEMORY64: MEMORY64 + 0x10_0000}
    expected_device, wires = {}, 0
    for _ in range(250):
        kind = dice.randrange(9)
        ident = dice.choice(idents)
        base = dice.choice([MEMORY32, MEMORY64])
        if kind in (0, 1):  # read of constant device memory, or of a failing range
            size, beats = dice.randrange(widest + 1), dice.choice([1, 1, 2, 7])
            address = base + dice.randrange(16) * 0x1_0000 + dice.randrange(4096 - beats * bench.cpu_bytes)
            bench.start_read(address, size, beats, ident)
            reads.append((ident, address, size, beats))
        elif kind == 2:
            count = dice.randrange(1, 4 * bench.cpu_bytes)
            address = cpu_next[base] + dice.randrange(64)
            if address // 4096 != (address + count - 1) // 4096:
                address = (address + count) // 4096 * 4096
            cpu_next[base] = address + count
            data, strobes = dice.randbytes(count), dice.getrandbits(count) | dice.getrandbits(count)
            expected_device.update({address + n: data[n] for n in range(count) if strobes >> n & 1})
            bench.start_write(address, widest, bench.beats_of(address, widest, data, strobes), ident)
            writes.append(ident)
        elif kind == 3:  # configuration read
            target, offset = dice.choice([0x100, 0x107, 0x210, 0x8FF]), 4 * dice.randrange(1, 1024)
            bench.start_read(ECAM + (target << 12) + offset, 2, 1, ident)
            reads.append((ident, ECAM + (target << 12) + offset, 2, 1))
        elif kind in (4, 5):
            count = dice.choice([1, 4, 64, mps - 64, dice.randrange(1, mps - 3)])
            address = device.place(count)
            data = dice.randbytes(count)
            device.expected_ram.update({address + n: data[n] for n in range(count)})
            bench.push("p", memory_write(address, data))
        elif kind in (6, 7):  # read of constant memory, or of an earlier write
            count = dice.randrange(1, 600)
            address = RAM + dice.randrange(4096 - count)
            if device.expected_ram and dice.random() < 0.5:
                address, count = dice.choice(list(device.expected_ram)[-200:]), 1
            requests.append(Tlp(memory_read(address, count, len(requests) % 256)))
            bench.push("np", requests[-1].raw)
        elif dice.random() < 0.5:
            vector = dice.randrange(32)
            device.vectors.append(vector)
            bench.push("p", memory_write(MSI_TARGET, vector.to_bytes(4, "little")))
        else:
            code = dice.choice([0x20, 0x21, 0x24, 0x25])
            wires = wires | 1 << code % 4 if code < 0x24 else wires & ~(1 << code % 4)
            bench.push("p", message(code))
        for _ in range(dice.choice([0, 3, 20])):
            device.answer()
            bench.step()
    for _ in range(40000):
        if bench.quiet() and not device.held:
            break
        device.answer()
        bench.step()
    else:
        raise AssertionError("requests without an answer")
    bench.step(1000)  # the last completions leave

    # Reads of the CPU
    at = dict.fromkeys(idents, 0)
    for ident, address, size, beats in reads:
        got = bench.read_beats[ident][at[ident]:at[ident] + beats]
        at[ident] += beats
        data, responses = bench.collect(address, size, got)
        if address < MEMORY32:
            target, offset = address - ECAM >> 12, address & 0xFFF
            assert int.from_bytes(data, "little") == target << 16 | offset and responses == [OKAY]
        elif RandomDevice.status(address) == SC:
            assert responses == [OKAY] * beats and data == bytes(n * 73 >> 3 & 0xFF for n in range(address, address + len(data)))
        else:
            assert responses == [DECERR if RandomDevice.status(address) == UR else SLVERR] * beats and set(data) == {0xFF}
    assert all(at[ident] == len(bench.read_beats[ident]) for ident in idents)
    # Writes of the CPU, writes and reads of the devices, interrupts
    assert {ident: len(found) for ident, found in bench.written.items() if found} == {ident: writes.count(ident) for ident in set(writes)}
    assert all(set(found) == {OKAY} for found in bench.written.values())
    assert {address: device.memory.get(address) for address in expected_device} == expected_device and len(device.memory) == len(expected_device)
    assert bench.memory.bytes == device.expected_ram
    sent = list(device.sent)
    for request in requests:
        addresses = [address for address, _ in request.enabled()]
        data = b""
        while len(data) < len(addresses):
            tlp = sent.pop(0)
            assert (tlp.status, tlp.tag, tlp.byte_count) == (SC, request.tag, len(addresses) - len(data))
            data += tlp.data[(addresses[0] + len(data)) % 4:]
        assert data[:len(addresses)] == bytes(device.expected_ram.get(n, n * 167 >> 3 & 0xFF) for n in addresses)
    assert not sent
    assert bench.out["intx"] == wires and bench.events["msi"] == len(device.vectors)
    assert bench.out["msi_pending"] == sum({1 << vector for vector in device.vectors})
    bad = {event for event in bench.events if event not in ("msi", "cpl_ur", "cpl_ca")}
    assert not bad, bad

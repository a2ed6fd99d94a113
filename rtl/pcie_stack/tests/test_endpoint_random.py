# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random requests of host and peripheral at once, against a reference that is written from the specification."""

import os

import pytest
from endpoint import BARS, DEVICE, EXPRESS, MSI, WINDOWS, Bench
from root_complex import DECERR, OKAY, SLVERR
from tlps import CA, SC, UR, Tlp, completion, completions_of, configuration, memory_read, memory_write

ROUNDS = int(os.environ.get("RANDOM_REQUESTS", "300"))
RAM = 0x8000_0000
CONSTANT, FAILING_CA, FAILING_UR, WRITTEN = 0x0, 0x400, 0x500, 0x800  # parts of BAR 0, which has at least 4 KiB
VECTOR = 0xFEE0_0000


class Reference:
    """The answers that the host must get, by the text of §2.2.9 and §2.3.1."""

    def __init__(self, bench):
        self.bench, self.expected = bench, []
        self.base, self.bus = WINDOWS[0], BARS[bench.name][0][1]

    def status(self, address):
        offset = address - self.base
        return CA if FAILING_CA <= offset < FAILING_CA + 64 else UR if FAILING_UR <= offset < FAILING_UR + 64 else SC

    def read(self, tlp):
        """Completions end at multiples of Max_Payload_Size, and a failed one is the last."""
        addresses = [address for address, _ in tlp.enabled()]
        if not addresses:
            self.expected.append((tlp.tag, SC, 1, tlp.address & 0x7F, bytes(4)))
            return
        first, end = addresses[0], addresses[-1] + 1
        at, limit = first, self.bench.host.max_payload
        while at < end:
            stop = min(end, at // limit * limit + limit)
            failed = [self.status(address) for address in addresses if at <= address < stop and self.status(address) != SC]
            if failed:
                self.expected.append((tlp.tag, failed[0], end - at, at & 0x7F, b""))
                return
            low, high = at & ~3, stop + -stop % 4
            data = bytes(self.constant(n) if n in addresses else 0 for n in range(low, high))
            self.expected.append((tlp.tag, SC, end - at, at & 0x7F, data))
            at = stop

    def constant(self, address):
        at = address - self.base + self.bus
        return at * 167 >> 3 & 0xFF


class RandomHost:
    """Answers DMA reads late, in any order of requests, and in pieces that the rules allow."""

    def __init__(self, bench):
        self.bench, self.dice, self.held = bench, bench.dice, []
        bench.host.answer = self.receive

    @staticmethod
    def status(address):
        return {0xE: UR, 0xF: CA}.get(address >> 16 & 0xF, SC)

    def receive(self, tlp):
        status = self.status(tlp.address)
        if status != SC:
            self.held.append([completion(status, b"", tlp.tag, 4, requester=DEVICE)])
        else:
            self.held.append(completions_of(tlp, self.bench.host.byte, self.dice.choice([64, 128]), 64))

    def answer(self):
        if self.held and self.dice.random() < 0.2:
            parts = self.dice.choice(self.held)
            self.bench.push("cpl", parts.pop(0))
            if not parts:
                self.held.remove(parts)


def enables_of(dice, dwords):
    """Byte enables that §2.2.5 allows."""
    if dwords == 1:
        return dice.randrange(16), 0
    return dice.choice([8, 12, 14, 15]), dice.choice([1, 3, 7, 15])


@pytest.mark.parametrize("name, seed, stalls", [("plain", 1, 0.0), ("plain", 2, 0.5), ("small", 3, 0.3), ("large", 4, 0.3), ("small", 5, 0.7)])
def test_random_requests_of_host_and_peripheral(name, seed, stalls):
    bench = Bench(name, seed=seed, stalls=stalls)
    host, dice, reference, answers = bench.host, bench.dice, Reference(bench), RandomHost(bench)
    host.config(EXPRESS + 0x28, 0x10)  # late answers are no timeouts here
    host.set_limits(dice.choice([128, 256, 512]), dice.choice([128, 256, 512]))
    lines = bench.parameters["INTERRUPTS"]
    host.config(MSI + 4, VECTOR)
    host.config(MSI + 12, 0x4100, 2)
    host.config(MSI + 2, 0x51, 2)
    bench.memory.delay = 8
    bench.memory.errors += [(reference.bus + FAILING_CA, reference.bus + FAILING_CA + 64, SLVERR), (reference.bus + FAILING_UR, reference.bus + FAILING_UR + 64, DECERR)]
    received = []
    bench.on_tlp = lambda raw: received.append(Tlp(raw)) if Tlp(raw).is_completion else host.receive(raw)

    widest, most = bench.cpu_bytes.bit_length() - 1, host.max_payload
    registers, reads, writes, ram, raised = {}, [], [], {}, [0] * lines
    next_register, next_ram, was = WRITTEN, RAM + 0x10_0000, 0
    for _ in range(ROUNDS):
        kind = dice.randrange(8)
        if kind in (0, 1) and next_register < 0x1000 - most:
            dwords = dice.choice([1, 1, 2, dice.randrange(1, most // 4)])
            at = next_register + 4 * dice.randrange(4)
            if at % 8 == 0 and dwords == 2 and dice.random() < 0.5:
                enables = dice.randrange(1, 16), dice.randrange(1, 16)
            else:
                enables = enables_of(dice, dwords)
            tlp = Tlp(memory_write(WINDOWS[0] + at, dice.randbytes(4 * dwords), enables=enables))
            registers.update({address - WINDOWS[0] + reference.bus: byte for address, byte in tlp.enabled()})
            next_register = at + 4 * dwords if dice.random() < 0.8 else at
            bench.push("p", tlp.raw)
        elif kind in (2, 3):
            dwords = dice.choice([1, 1, 2, dice.randrange(1, 200)])
            at = CONSTANT + 4 * dice.randrange(0x200 - dwords)
            tlp = Tlp(memory_read(WINDOWS[0] + at, 4 * dwords, dice.randrange(256), requester=0, enables=enables_of(dice, dwords)))
            reference.read(tlp)
            bench.push("np", tlp.raw)
        elif kind == 4:
            tag = dice.randrange(256)
            reference.expected.append((tag, SC, 4, 0, (0x4550_1234).to_bytes(4, "little")))
            bench.push("np", configuration(DEVICE, 0, tag, type1=False, requester=0))
        elif kind == 5:
            size, beats, ident = dice.randrange(widest + 1), dice.choice([1, 1, 2, 7, 16]), dice.randrange(4)
            address = RAM + dice.randrange(16) * 0x1_0000 + dice.randrange(4096 - beats * bench.cpu_bytes)
            bench.start_read(address, size, beats, ident)
            reads.append((ident, address, size, beats))
        elif kind == 6:
            count = dice.randrange(1, 12 * bench.cpu_bytes)
            address = next_ram + dice.randrange(64)
            if address // 4096 != (address + count - 1) // 4096:
                address = (address + count) // 4096 * 4096
            next_ram = address + count
            data, strobes = dice.randbytes(count), dice.getrandbits(count) | dice.getrandbits(count)
            ram.update({address + n: data[n] for n in range(count) if strobes >> n & 1})
            writes.append(dice.randrange(4))
            bench.start_write(address, widest, bench.beats_of(address, widest, data, strobes), writes[-1])
        else:
            now = dice.getrandbits(lines)
            bench.values["interrupts"] = now
            rises = now & ~was
            for n in range(lines):
                raised[n] += rises >> n & 1
            was = now
            # A line that rises twice before its message leaves makes one message, so each gets its time.
            for _ in range(40 * lines if rises else 0):
                answers.answer()
                bench.step()
        for _ in range(dice.choice([0, 3, 20])):
            answers.answer()
            bench.step()
    for _ in range(60000):
        if bench.quiet() and not answers.held and len(received) == len(reference.expected):
            break
        answers.answer()
        bench.step()
    bench.step(300)
    bench.close()

    # Completions to the host, in the order of its requests
    got = [(tlp.tag, tlp.status, tlp.byte_count, tlp.lower, tlp.data) for tlp in received]
    assert got == reference.expected
    assert {tlp.completer for tlp in received} == {DEVICE} and all(4 * tlp.length <= most for tlp in received if tlp.has_data)
    assert bench.memory.bytes == registers
    # DMA and interrupts
    assert {address: host.ram.get(address) for address in ram} == ram
    assert sum(1 for address in host.ram if address >= RAM) == len(ram) + (4 if any(raised) else 0)
    at = dict.fromkeys(range(4), 0)
    for ident, address, size, beats in reads:
        found = bench.read_beats[ident][at[ident]:at[ident] + beats]
        at[ident] += beats
        data, responses = bench.collect(address, size, found)
        status = RandomHost.status(address)
        assert responses == [{SC: OKAY, UR: DECERR, CA: SLVERR}[status]] * beats
        assert data == (bytes(n * 37 >> 2 & 0xFF for n in range(address, address + len(data))) if status == SC else b"\xff" * len(data))
    assert all(at[ident] == len(bench.read_beats[ident]) for ident in at)
    assert all(bench.written[ident] == [OKAY] * writes.count(ident) for ident in range(4))
    sent = host.interrupts(VECTOR)
    vectors = 2 ** min(5, (lines - 1).bit_length())
    assert len(sent) == sum(raised) and all(sent.count(0x4100 | n) == raised[n] for n in range(min(lines, vectors)))
    assert not {event for event in bench.events if event not in ("msi", "cpl_ur", "cpl_ca", "read_error")}, bench.events

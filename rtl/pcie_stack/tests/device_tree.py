# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small tree of devices below the root port, and an enumeration by the steps that Linux takes on pci-host-generic."""

from tlps import SC, UR, Tlp, completion, completions_of, memory_read, memory_write

COPY_SOURCE, COPY_TARGET, COPY_LENGTH, COPY_START = 0x00, 0x08, 0x10, 0x14  # registers of the copy device


class Space:
    """A configuration space with a mask of writable bits."""

    def __init__(self):
        self.bytes, self.mask = bytearray(4096), bytearray(4096)

    def put(self, offset, value, size=4, mask=0):
        self.bytes[offset:offset + size] = value.to_bytes(size, "little")
        self.mask[offset:offset + size] = mask.to_bytes(size, "little")

    def get(self, offset, size=4):
        return int.from_bytes(self.bytes[offset:offset + size], "little")

    def write(self, offset, enables, data):
        for n in range(4):
            if enables >> n & 1:
                mask = self.mask[offset + n]
                self.bytes[offset + n] = self.bytes[offset + n] & ~mask | data[n] & mask


class Endpoint:
    """A function with one BAR, which copies host memory on request and then sends an MSI."""

    def __init__(self, device, size, wide):
        self.space, self.size, self.wide, self.memory, self.bdf, self.reads = Space(), size, wide, {}, 0, {}
        space = self.space
        space.put(0x00, device << 16 | 0x1AB4)
        space.put(0x04, 0x0010_0000, mask=0x0406)
        space.put(0x08, 0x0880_0001)
        space.put(0x10, 0xC if wide else 0, mask=0xFFFF_FFFF & -size)
        if wide:
            space.put(0x14, 0, mask=0xFFFF_FFFF)
        space.put(0x2C, 0x0001_1AB4)
        space.put(0x34, 0x50)
        space.put(0x3C, 0x100, mask=0xFF)
        space.put(0x50, 0x0080_7005, mask=0x0001_0000)
        for offset, mask in ((0x54, 0xFFFF_FFFC), (0x58, 0xFFFF_FFFF), (0x5C, 0xFFFF)):
            space.put(offset, 0, mask=mask)
        space.put(0x70, 0x0002_0010)
        space.put(0x74, 0x0000_8021)
        space.put(0x78, 0x2810, mask=0x7FEF)
        space.put(0x7C, 0x0000_0083)
        space.put(0x80, 0x0083_0000)

    def base(self):
        return self.space.get(0x10, 8 if self.wide else 4) & -self.size

    def claims(self, address):
        return self.space.get(4) & 2 and self.base() <= address < self.base() + self.size

    def byte(self, address):
        return self.memory.get(address - self.base(), 0)

    def register(self, offset, size):
        return int.from_bytes(bytes(self.memory.get(offset + n, 0) for n in range(size)), "little")

    def request(self, tree, tlp):
        if tlp.has_data:
            base = self.base()
            self.memory.update((address - base, byte) for address, byte in tlp.enabled())
            if any(address - base == COPY_START for address, _ in tlp.enabled()):
                self.start(tree)
        else:
            for part in completions_of(tlp, self.byte):
                tree.push("cpl", part)

    def start(self, tree):
        """Reads the source; `completed` writes the target."""
        assert self.space.get(4) & 4, "Bus Master is not enabled"
        source, length = self.register(COPY_SOURCE, 8), self.register(COPY_LENGTH, 4)
        self.done, self.left = 0, length
        tree.waiting[1] = self
        tree.push("np", memory_read(source, length, 1, self.bdf))

    def completed(self, tree, tlp):
        assert tlp.status == SC and tlp.requester == self.bdf
        data = tlp.data[tlp.lower % 4:][:tlp.byte_count]
        # At an address that is not aligned, 128 bytes would be 33 double-words: above Max_Payload_Size.
        for at in range(0, len(data), 64):
            tree.push("p", memory_write(self.register(COPY_TARGET, 8) + self.done + at, data[at:at + 64], self.bdf))
        self.done += len(data)
        if self.done == self.left:
            address = self.space.get(0x54, 8)
            assert self.space.get(0x52, 2) & 1, "MSI is not enabled"
            tree.push("p", memory_write(address, self.space.get(0x5C).to_bytes(4, "little"), self.bdf))


class Bridge:
    """A port of a switch: type 1 configuration space, and the functions on its secondary bus by device number."""

    def __init__(self, device, port_type, children):
        self.space, self.children, self.bdf = Space(), children, 0
        space = self.space
        space.put(0x00, device << 16 | 0x1AB4)
        space.put(0x04, 0x0010_0000, mask=0x0106)
        space.put(0x08, 0x0604_0000)
        space.put(0x0C, 0x0001_0000)
        space.put(0x18, 0, mask=0xFF_FFFF)
        space.put(0x20, 0, mask=0xFFF0_FFF0)
        space.put(0x24, 0x0001_0001, mask=0xFFF0_FFF0)
        space.put(0x28, 0, mask=0xFFFF_FFFF)
        space.put(0x2C, 0, mask=0xFFFF_FFFF)
        space.put(0x34, 0x40)
        space.put(0x3C, 0, mask=0x0002_0000)
        space.put(0x40, 0x0002_0010 | port_type << 20)
        space.put(0x44, 0x0000_8001)
        space.put(0x48, 0x0010, mask=0x70EF)
        space.put(0x4C, 0x0000_0083)
        space.put(0x50, 0x0083_0000)

    def buses(self):
        return self.space.get(0x19, 1), self.space.get(0x1A, 1)

    def claims(self, address):
        get = self.space.get
        low, high = (get(0x20, 2) & 0xFFF0) << 16, (get(0x22, 2) & 0xFFF0) << 16 | 0xFFFFF
        wide_low = get(0x28) << 32 | (get(0x24, 2) & 0xFFF0) << 16
        wide_high = get(0x2C) << 32 | (get(0x26, 2) & 0xFFF0) << 16 | 0xFFFFF
        return get(4) & 2 and (low <= address <= high or wide_low <= address <= wide_high)

    def request(self, tree, tlp):
        for child in self.children.values():
            if child.claims(tlp.address):
                return child.request(tree, tlp)
        return tree.refuse(tlp)


class Tree:
    """The function at the root port's link, with all functions below it."""

    def __init__(self, bench, top):
        self.bench, self.top, self.waiting = bench, top, {}
        bench.on_tlp = self.receive

    def push(self, stream, tlp):
        self.bench.push(stream, tlp)

    def refuse(self, tlp):
        if not (tlp.is_memory and tlp.has_data):
            self.push("cpl", completion(UR, b"", tlp.tag, 4))

    def find(self, target):
        """The function with this bus, device and function number."""
        bus, device, function = target >> 8, target >> 3 & 31, target & 7
        here = self.top
        while isinstance(here, Bridge):
            secondary, subordinate = here.buses()
            if bus == secondary:
                return here.children.get(device) if function == 0 else None
            here = next((child for child in here.children.values() if isinstance(child, Bridge) and child.buses()[0] <= bus <= child.buses()[1]), None)
        return None

    def receive(self, raw):
        tlp = Tlp(raw)
        if tlp.is_completion:
            self.waiting[tlp.tag].completed(self, tlp)
        elif tlp.is_config:
            function = self.find(tlp.target) if tlp.type1 else self.top if tlp.target & 0xFF == 0 else None
            if function is None:
                return self.refuse(tlp)
            function.bdf = tlp.target
            if tlp.has_data:
                function.space.write(tlp.register, tlp.first, tlp.data)
            data = b"" if tlp.has_data else bytes(function.space.bytes[tlp.register:tlp.register + 4])
            self.push("cpl", completion(SC, data, tlp.tag, 4, completer=tlp.target))
        elif self.top.claims(tlp.address):
            self.top.request(self, tlp)
        else:
            self.refuse(tlp)


class Enumeration:
    """Finds all functions, sizes and assigns BARs, buses and windows, and enables them, in the order of drivers/pci/probe.c and setup-bus.c."""

    def __init__(self, bench, window32, window64):
        self.bench, self.next_bus = bench, 1
        self.next32, self.next64 = window32, window64
        self.found = {}  # target: list of (BAR index, size, wide, address)
        self.bridges = []
        bench.config(0, 0x5C, 0x10, 2)  # pci_enable_crs
        self.scan(0)
        self.assign(0)

    def scan(self, bus):
        for device in range(32):
            self.probe(bus << 8 | device << 3)

    def probe(self, target):
        config = self.bench.config
        if config(target, 0) in (0xFFFF_FFFF, 0, 0x0000_FFFF, 0xFFFF_0000):
            return
        kind = config(target, 0x0E, count=1) & 0x7F
        self.found[target] = []
        index, bars = 0, 2 if kind else 6
        command = config(target, 4, count=2)
        config(target, 4, command & ~3, 2)
        while index < bars:
            index += self.size(target, index)
        config(target, 4, command, 2)
        if kind == 1:
            secondary = self.next_bus
            self.next_bus += 1
            config(target, 0x18, 0xFF << 16 | secondary << 8 | target >> 8)
            bridge_control = config(target, 0x3E, count=2)
            config(target, 0x3E, bridge_control | 2, 2)
            self.bridges.append((target, secondary))
            self.scan(secondary)
            config(target, 0x1A, self.next_bus - 1, 1)

    def size(self, target, index):
        """Sizes a BAR as __pci_read_base does; returns the number of registers it takes."""
        config, offset = self.bench.config, 0x10 + 4 * index
        was = config(target, offset)
        config(target, offset, 0xFFFF_FFFF)
        low = config(target, offset)
        config(target, offset, was)
        if low in (0, 0xFFFF_FFFF):
            return 1
        wide = low & 6 == 4
        mask = low & ~0xF
        if wide:
            was = config(target, offset + 4)
            config(target, offset + 4, 0xFFFF_FFFF)
            mask |= config(target, offset + 4) << 32
            config(target, offset + 4, was)
        size = (-mask & (2**64 - 1 if wide else 2**32 - 1))
        self.found[target].append([index, size, wide, None])
        return 2 if wide else 1

    def assign(self, bus):
        config = self.bench.config
        for target, bars in self.found.items():
            if target >> 8 != bus:
                continue
            for bar in bars:
                index, size, wide, _ = bar
                at = self.next64 if wide else self.next32
                at = (at + size - 1) // size * size
                bar[3] = at
                if wide:
                    self.next64 = at + size
                    config(target, 0x14 + 4 * index, at >> 32)
                else:
                    self.next32 = at + size
                config(target, 0x10 + 4 * index, at & 0xFFFF_FFFF)
            for bridge, secondary in self.bridges:
                if bridge == target:
                    low32, low64 = self.next32, self.next64
                    self.assign(secondary)
                    self.next32 = (self.next32 + 0xFFFFF) & ~0xFFFFF
                    self.next64 = (self.next64 + 0xFFFFF) & ~0xFFFFF
                    config(target, 0x20, self.next32 - 1 >> 16 << 16 & 0xFFF0_0000 | low32 >> 16 & 0xFFF0 if self.next32 > low32 else 0xFFF0)
                    config(target, 0x28, 0xFFFF_FFFF)  # the window is closed while its parts change
                    wide = self.next64 > low64
                    config(target, 0x24, self.next64 - 1 >> 16 << 16 & 0xFFF0_0000 | low64 >> 16 & 0xFFF0 if wide else 0xFFF0)
                    config(target, 0x2C, self.next64 - 1 >> 32 if wide else 0)
                    config(target, 0x28, low64 >> 32 if wide else 0)
            config(target, 4, 0x0106 if config(target, 0x0E, count=1) & 0x7F else 0x0006, 2)

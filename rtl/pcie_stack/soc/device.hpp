// SPDX-License-Identifier: Apache-2.0 OR MIT
// The function of the device: the registers that the kernel's driver pci_endpoint_test uses (PCI/endpoint/pci-test-function.rst), one MSI vector, and DMA with
// checksums. TLPs are bytes in the order of the specification.
#pragma once
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

using Bytes = std::vector<uint8_t>;

class Device {
  public:
    std::deque<Bytes> to_send;
    uint64_t requests = 0, interrupts = 0, read_bytes = 0, written_bytes = 0;

    Device() { reset(); }

    void reset() {
        memset(config, 0, sizeof config);
        memset(writable, 0, sizeof writable);
        memset(registers, 0, sizeof registers);
        reads.clear(), to_send.clear(), step = IDLE, bus = 0;
        set(0x00, 0xb500104c, 0);
        set(0x04, 0x00100000, 0x0000'0546);  // memory space, bus master, parity, SERR#, no INTx
        set(0x08, 0xff000000, 0);
        set(0x0c, 0, 0xff);
        set(0x10, 0, ~uint32_t(BAR - 1));
        set(0x2c, 0xb500104c, 0);
        set(0x34, MSI, 0);
        set(0x3c, 0, 0xff);
        set(MSI, 0x0080'0005 | PCIE << 8, 0x0001'0000);
        set(MSI + 4, 0, ~3u);
        set(MSI + 8, 0, ~0u);
        set(MSI + 12, 0, 0xffff);
        set(PCIE, 0x0002'0010, 0);
        set(PCIE + 4, 0x0000'8001, 0);           // Max_Payload_Size 256, role-based errors
        set(PCIE + 8, 0x0000'2810, 0x0000'7fff);
        set(PCIE + 12, 0x0000'0083, 0);          // 8 GT/s, x8
        set(PCIE + 16, 0x0083'0000, 0x0000'00cb);
        set(PCIE + 40, 0, 0x0000'001f);
        set(PCIE + 48, 0x0000'0003, 0x0000'000f);
    }

    void receive(int stream, const Bytes &tlp) {
        requests++;
        if (stream == 2) return completion(tlp);
        switch (tlp[0]) {
            case 0x04: case 0x44: return configuration(tlp);
            case 0x00: case 0x20: return memory_read(tlp);
            case 0x40: case 0x60: return memory_write(tlp);
            default: if (stream == 1) answer(tlp, UR, {}, 0, 4);
        }
    }

    void tick() {
        switch (step) {
            case IDLE: return;
            case READING: return request_more();
            case WRITING: return write_more();
        }
    }

  private:
    enum { BAR = 4096, MSI = 0x50, PCIE = 0x70, OUTSTANDING = 8, SC = 0, UR = 1 };
    enum { COMMAND = 4, STATUS = 8, SOURCE = 12, DESTINATION = 20, SIZE = 28, CHECKSUM = 32 };
    enum { RAISE_MSI = 2, READ = 8, WRITE = 16, COPY = 32 };
    enum Step { IDLE, READING, WRITING };
    struct Piece { uint32_t at, bytes; };

    uint8_t config[256], writable[256], registers[BAR], bus;
    Step step = IDLE;
    uint32_t command = 0, asked = 0, arrived = 0, sent = 0, random = 1;
    bool failed = false;
    Bytes data;
    std::map<uint8_t, Piece> reads;
    uint8_t next_tag = 0;

    static uint32_t get(const uint8_t *from) { uint32_t v; return memcpy(&v, from, 4), v; }
    static uint64_t get64(const uint8_t *from) { uint64_t v; return memcpy(&v, from, 8), v; }
    static void put(uint8_t *to, uint32_t value) { memcpy(to, &value, 4); }
    void set(unsigned at, uint32_t value, uint32_t mask) { put(config + at, value), put(writable + at, mask); }
    unsigned payload() const { return 128u << (config[PCIE + 8] >> 5 & 7); }
    unsigned read_size() const { return 128u << (config[PCIE + 9] >> 4 & 7); }

    // ---- requests of the host ----
    void answer(const Bytes &request, unsigned status, const Bytes &payload, unsigned lower, unsigned count) {
        unsigned dwords = payload.size() / 4;
        Bytes tlp{uint8_t(dwords ? 0x4a : 0x0a), 0, uint8_t(dwords >> 8), uint8_t(dwords), bus, 0, uint8_t(status << 5 | count >> 8), uint8_t(count), request[4], request[5], request[6], uint8_t(lower)};
        tlp.insert(tlp.end(), payload.begin(), payload.end());
        to_send.push_back(std::move(tlp));
    }

    void configuration(const Bytes &tlp) {
        unsigned at = (tlp[10] & 15) << 8 | (tlp[11] & 0xfc);
        bool write = tlp[0] & 0x40;
        if (tlp[9]) return answer(tlp, UR, {}, 0, 4);
        if (!write) {
            Bytes value(4, 0);
            if (at < sizeof config) memcpy(value.data(), config + at, 4);
            return answer(tlp, SC, value, 0, 4);
        }
        bus = tlp[8];
        for (unsigned k = 0; k < 4 && at < sizeof config; k++)
            if (tlp[7] >> k & 1) config[at + k] = (config[at + k] & ~writable[at + k]) | (tlp[12 + k] & writable[at + k]);
        answer(tlp, SC, {}, 0, 4);
    }

    // Offset in BAR 0 and place of the data, or an offset beyond the BAR.
    unsigned decode(const Bytes &tlp, unsigned &header) const {
        bool wide = tlp[0] & 0x20;
        header = wide ? 16 : 12;
        const uint8_t *low = &tlp[wide ? 12 : 8];
        uint32_t address = uint32_t(low[0]) << 24 | low[1] << 16 | low[2] << 8 | (low[3] & 0xfc);
        bool high = wide && (tlp[8] | tlp[9] | tlp[10] | tlp[11]);
        bool enabled = config[4] & 2;
        return enabled && !high ? address - (get(config + 0x10) & ~15u) : unsigned(BAR);
    }
    static unsigned dwords(const Bytes &tlp) {
        unsigned length = (tlp[2] & 3) << 8 | tlp[3];
        return length ? length : 1024;
    }

    void memory_read(const Bytes &tlp) {
        unsigned header, at = decode(tlp, header), length = dwords(tlp), first = tlp[7] & 15, last = length == 1 ? first : tlp[7] >> 4;
        if (at >= BAR || at + 4 * length > BAR || 4 * length > 128) return answer(tlp, UR, {}, 0, 4);
        unsigned skip = first ? __builtin_ctz(first) : 0, tail = last ? __builtin_clz(last) - 28 : 3;
        unsigned count = first || length > 1 ? 4 * length - skip - tail : 1;
        answer(tlp, SC, Bytes(registers + at, registers + at + 4 * length), (at + skip) & 0x7f, count);
    }

    void memory_write(const Bytes &tlp) {
        unsigned header, at = decode(tlp, header), length = dwords(tlp);
        if (at >= BAR || at + 4 * length > BAR) return;
        for (unsigned n = 0; n < 4 * length; n++) {
            unsigned enables = n < 4 ? tlp[7] & 15 : n / 4 == length - 1 ? tlp[7] >> 4 : 15;
            if (enables >> n % 4 & 1) registers[at + n] = tlp[header + n];
        }
        if (at <= COMMAND && at + 4 * length > COMMAND && get(registers + COMMAND)) start();
    }

    // ---- commands ----
    void start() {
        if (step != IDLE) return;
        command = get(registers + COMMAND);
        put(registers + COMMAND, 0), put(registers + STATUS, 0);
        failed = !(config[4] & 4);
        asked = arrived = sent = 0;
        data.assign(get(registers + SIZE), 0);
        if (command == RAISE_MSI) return interrupt(0);
        if (failed || (command != READ && command != WRITE && command != COPY)) return finish();
        if (command != WRITE) return void(step = READING);
        for (uint8_t &byte : data) random = random * 1103515245 + 12345, byte = random >> 16;
        put(registers + CHECKSUM, checksum());
        step = WRITING;
    }

    uint32_t checksum() const {
        uint32_t crc = ~0u;
        for (uint8_t byte : data) {
            crc ^= byte;
            for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        return crc;
    }

    void finish() {
        step = IDLE;
        uint32_t shift = command == READ ? 0 : command == WRITE ? 2 : 4;
        if (command == READ && checksum() != get(registers + CHECKSUM)) failed = true;
        interrupt(failed ? 2 << shift : 1 << shift);
    }

    void interrupt(uint32_t status) {
        bool enabled = config[MSI + 2] & 1 && config[4] & 4;
        put(registers + STATUS, status | (enabled ? 1 << 6 : 0));
        if (!enabled) return;
        interrupts++;
        Bytes value(4);
        put(value.data(), get(config + MSI + 12) & 0xffff);
        to_send.push_back(request(0x40, get64(config + MSI + 4), value, 4, 0));
    }

    // ---- DMA ----
    // A request for `size` bytes at `address`. `payload` begins at that byte.
    Bytes request(unsigned type, uint64_t address, const Bytes &payload, unsigned size, uint8_t tag) const {
        unsigned skip = address & 3, length = (skip + size + 3) / 4, first = 0xf << skip & 0xf, last = 0xf >> (3 - (skip + size - 1) % 4);
        unsigned enables = length == 1 ? first & last : last << 4 | first;
        bool wide = address >> 32;
        Bytes tlp{uint8_t(type | (wide ? 0x20 : 0)), 0, uint8_t(length >> 8 & 3), uint8_t(length), bus, 0, tag, uint8_t(enables)};
        for (int shift = wide ? 56 : 24; shift >= 0; shift -= 8) tlp.push_back((address & ~3ull) >> shift);
        if (type & 0x40) {
            tlp.insert(tlp.end(), skip, 0);
            tlp.insert(tlp.end(), payload.begin(), payload.end());
            tlp.resize((tlp.size() + 3) / 4 * 4);
        }
        return tlp;
    }
    static unsigned piece(uint64_t address, unsigned left, unsigned limit) {
        unsigned size = limit - address % limit;
        return size < left ? size : left;
    }

    void request_more() {
        if (arrived == data.size() || (failed && reads.empty())) {
            if (failed || command == READ) return finish();
            return void(step = WRITING);
        }
        if (failed || asked == data.size() || reads.size() == OUTSTANDING || to_send.size() > 4) return;
        uint64_t address = get64(registers + SOURCE) + asked;
        unsigned size = piece(address, data.size() - asked, read_size());
        while (reads.count(next_tag)) next_tag = (next_tag + 1) % 32;
        reads[next_tag] = {asked, size};
        to_send.push_back(request(0x00, address, {}, size, next_tag));
        next_tag = (next_tag + 1) % 32;
        asked += size;
    }

    void completion(const Bytes &tlp) {
        auto found = reads.find(tlp[10]);
        if (found == reads.end()) return;
        Piece &of = found->second;
        if (tlp[6] >> 5 || !(tlp[0] & 0x40)) {
            failed = true;
            return void(reads.erase(found));
        }
        unsigned left = (tlp[6] & 15) << 8 | tlp[7], skip = tlp[11] & 3, size = 4 * dwords(tlp) - skip;
        if (size > left) size = left;
        memcpy(data.data() + of.at + of.bytes - left, &tlp[12 + skip], size);
        arrived += size, read_bytes += size;
        if (size == left) reads.erase(found);
    }

    void write_more() {
        if (sent == data.size()) return finish();
        if (to_send.size() > 4) return;
        uint64_t address = get64(registers + DESTINATION) + sent;
        unsigned size = piece(address, data.size() - sent, payload());
        to_send.push_back(request(0x40, address, Bytes(data.begin() + sent, data.begin() + sent + size), size, 0));
        sent += size, written_bytes += size;
    }
};

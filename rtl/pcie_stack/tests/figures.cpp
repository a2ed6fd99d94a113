// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads and writes of an endpoint through two complete ports, cycle by cycle: the measurements of Figures 6 and 7 of the Chipyard study (2022). Each mode prints one
// line of numbers per measurement.
//   figures latency LINE PAYLOAD...           cycles of one read at a time of PAYLOAD bytes; LINE is the latency of the line in cycles
//   figures bandwidth LINE TRANSFERS SIZE...  cycles and bytes of TRANSFERS writes of SIZE bytes at full rate, after as many for warm-up
//   figures speed CYCLES                      TLPs, CPU seconds and million cycles per CPU-second of the simulation for CYCLES
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include "Vfigures.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;
constexpr unsigned BEAT = DATA_WIDTH / 8;
constexpr unsigned MAX_PAYLOAD = 256;
constexpr unsigned FRAMING = 8, DLLP = 8;  // STP token with sequence number, and LCRC; SDP token, contents and CRC

struct Bench {
    VerilatedContext context;
    Vfigures top;
    uint64_t cycles = 0, dllps[2] = {}, tlps = 0, tlp_bytes = 0, written = 0, completed = 0, last = 0;
    std::deque<Bytes> to_send[2];
    size_t at[2] = {};
    Bytes receiving[6];

    explicit Bench(unsigned line) : top(&context) {
        top.clk = 0, top.rst = 1, top.latency = line, top.tx_valid = 0;
        for (int n = 0; n < 4; n++) top.eval(), edge();
        top.rst = 0;
        while (top.active != 3 && cycles < 100000) tick();
        if (top.active != 3) fail("the link does not come up");
        for (int n = 0; n < 4000; n++) tick();
    }
    ~Bench() { top.final(); }
    void edge() {
        top.clk = 1, top.eval();
        top.clk = 0;  // the next evaluation sees the falling edge
    }
    [[noreturn]] void fail(const char *what) {
        fprintf(stderr, "figures: cycle %lu: %s\n", cycles, what);
        exit(1);
    }

    void tick() {
        uint8_t data[2 * BEAT] = {};
        unsigned valid = 0, sop = 0, eop = 0, end = 0;
        for (int n = 0; n < 2; n++) {
            if (to_send[n].empty()) continue;
            const Bytes &tlp = to_send[n].front();
            size_t length = tlp.size() - at[n] < BEAT ? tlp.size() - at[n] : BEAT;
            memcpy(data + n * BEAT, tlp.data() + at[n], length);
            valid |= 1 << n, sop |= (at[n] == 0) << n, eop |= (at[n] + length == tlp.size()) << n, end |= unsigned(length / 4 - 1) << 8 * n;
        }
        top.tx_valid = valid, top.tx_sop = sop, top.tx_eop = eop, top.tx_end = end;
        memcpy(&top.tx_data, data, 2 * BEAT);
        top.eval();
        for (int n = 0; n < 2; n++) {
            if (top.ecrc_error >> n & 1) fail("an ECRC is wrong");
            dllps[n] += top.dllp_sent >> n & 1;
            if (!(valid >> n & top.tx_ready >> n & 1)) continue;
            at[n] += BEAT;
            if (eop >> n & 1) to_send[n].pop_front(), at[n] = 0;
        }
        for (int s = 0; s < 6; s++) {
            if (!(top.rx_valid >> s & 1)) continue;
            if (top.rx_sop >> s & 1) receiving[s].clear();
            bool ends = top.rx_eop >> s & 1;
            size_t length = ends ? (reinterpret_cast<const uint8_t *>(&top.rx_end)[s] + 1u) * 4 : BEAT;
            const uint8_t *from = reinterpret_cast<const uint8_t *>(&top.rx_data) + s * BEAT;
            receiving[s].insert(receiving[s].end(), from, from + length);
            if (ends) received(s, receiving[s]);
        }
        edge();
        cycles++;
    }

    // The memory of the root complex answers in the next cycle, and cuts at Max_Payload_Size.
    void received(int stream, const Bytes &tlp) {
        if (!(tlp[2] & 0x80)) fail("a TLP without ECRC");
        unsigned dwords = (tlp[2] & 3) << 8 | tlp[3];
        if (stream % 3 == 0) {
            tlps++, tlp_bytes += tlp.size(), written += 4 * dwords, last = cycles;
        } else if (stream == 4) {
            for (unsigned done = 0; done < 4 * dwords; done += MAX_PAYLOAD) {
                unsigned left = 4 * dwords - done, size = left < MAX_PAYLOAD ? left : MAX_PAYLOAD;
                Bytes completion{0x4a, 0, uint8_t(size / 4 >> 8), uint8_t(size / 4), 0, 0, uint8_t(left >> 8 & 15), uint8_t(left), tlp[4], tlp[5], tlp[6], uint8_t(done & 0x7f)};
                completion.resize(12 + size, 0x5a);
                to_send[1].push_back(std::move(completion));
            }
        } else if (stream == 2) {
            completed += 4 * dwords, last = cycles;
        } else {
            fail("a TLP of a type that was never sent");
        }
    }

    // Header of three double-words; the last byte enables leave out what is beyond `size`.
    Bytes request(bool write, unsigned size, uint32_t address) {
        unsigned dwords = (size + 3) / 4, last = 0xf >> (4 - (size - 1) % 4 - 1);
        unsigned enables = dwords == 1 ? last : last << 4 | 0xf;
        Bytes tlp{uint8_t(write ? 0x40 : 0), 0, uint8_t(dwords >> 8 & 3), uint8_t(dwords), 1, 0, 7, uint8_t(enables), uint8_t(address >> 24), uint8_t(address >> 16),
                  uint8_t(address >> 8), uint8_t(address)};
        if (write) tlp.resize(12 + 4 * dwords, 0xc3);
        return tlp;
    }
};

static void latency(unsigned line, unsigned payload) {
    Bench bench(line);
    // The median of 9 reads at different places of the link's SKP interval.
    std::vector<uint64_t> all;
    for (int n = 0; n < 9; n++) {
        for (int wait = 0; wait < 167; wait++) bench.tick();
        uint64_t before = bench.completed, start = bench.cycles;
        bench.to_send[0].push_back(bench.request(false, payload, 0x1000));
        while (bench.completed - before < (payload + 3) / 4 * 4) {
            bench.tick();
            if (bench.cycles - start > 100000) bench.fail("no completion");
        }
        // From the edge at which the first beat of the request is taken to the edge at which the last beat of the data is.
        all.push_back(bench.last - start);
    }
    std::vector<uint64_t> sorted = all;
    for (size_t n = 0; n < sorted.size(); n++)
        for (size_t m = n + 1; m < sorted.size(); m++)
            if (sorted[m] < sorted[n]) std::swap(sorted[n], sorted[m]);
    printf("%u %lu %lu %lu\n", payload, sorted[sorted.size() / 2], sorted.front(), sorted.back());
}

static void bandwidth(unsigned line, unsigned transfers, unsigned size) {
    Bench bench(line);
    uint64_t each = 0, from = 0, tlps = 0, bytes = 0, up = 0, down = 0;
    for (unsigned left = size; left; left -= left < MAX_PAYLOAD ? left : MAX_PAYLOAD) each += ((left < MAX_PAYLOAD ? left : MAX_PAYLOAD) + 3) / 4 * 4;
    while (bench.written < 2 * transfers * each) {
        if (bench.to_send[0].size() < 8)
            for (unsigned done = 0; done < size; done += MAX_PAYLOAD) bench.to_send[0].push_back(bench.request(true, size - done < MAX_PAYLOAD ? size - done : MAX_PAYLOAD, done));
        bench.tick();
        if (!from && bench.written >= transfers * each)
            from = bench.last, tlps = bench.tlps, bytes = bench.tlp_bytes, up = bench.dllps[0], down = bench.dllps[1];
    }
    printf("%u %lu %lu %lu %lu %lu %lu\n", size, bench.last - from, bench.tlps - tlps, bench.tlp_bytes - bytes, FRAMING * (bench.tlps - tlps), DLLP * (bench.dllps[0] - up),
           DLLP * (bench.dllps[1] - down));
}

// Speed of the simulation: an idle link, then writes of both ends at full rate.
static void speed(unsigned cycles) {
    Bench bench(20);
    for (bool writes : {false, true}) {
        clock_t started = 0;
        for (unsigned warm_up = 4000, n = 0; n < warm_up + cycles; n++) {
            if (n == warm_up) bench.tlps = 0, started = clock();
            for (int side = 0; writes && side < 2; side++)
                while (bench.to_send[side].size() < 2) bench.to_send[side].push_back(bench.request(true, MAX_PAYLOAD, 0));
            bench.tick();
        }
        double seconds = double(clock() - started) / CLOCKS_PER_SEC;
        printf("%s %u %lu %.3f %.3f\n", writes ? "writes" : "idle", cycles, bench.tlps, seconds, cycles / seconds / 1e6);
    }
}

int main(int count, char **arguments) {
    std::string mode = count > 1 ? arguments[1] : "";
    auto number = [&](int n) { return unsigned(strtoul(arguments[n], nullptr, 0)); };
    if (mode == "latency" && count > 3)
        for (int n = 3; n < count; n++) latency(number(2), number(n));
    else if (mode == "bandwidth" && count > 4)
        for (int n = 4; n < count; n++) bandwidth(number(2), number(3), number(n));
    else if (mode == "speed" && count == 3)
        speed(number(2));
    else
        return fprintf(stderr, "usage: figures latency LINE PAYLOAD... | figures bandwidth LINE TRANSFERS SIZE... | figures speed CYCLES\n"), 2;
    return 0;
}

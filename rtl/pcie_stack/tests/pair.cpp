// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two complete ports back to back. Each TLP must arrive exactly once, in order, with every byte, whatever the line does.
//   pair soak TLPS SEED [ERRORS DROPS MARKS]   both ways over a bad line; ERRORS and DROPS per million cycles
//   pair figures                               latency and bandwidth of writes without errors, one way
//   pair replay SEED                           a checksum of all received TLPs and their times: the same for the same seed
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include "Vpair.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;
constexpr unsigned BEAT = DATA_WIDTH / 8;

struct Dice {
    uint64_t state;
    explicit Dice(uint64_t seed) : state(seed * 2685821657736338717ull + 88172645463325252ull) {}
    uint32_t bits() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return uint32_t((state * 2685821657736338717ull) >> 32);
    }
    uint32_t below(uint32_t limit) { return uint32_t((uint64_t(bits()) * limit) >> 32); }
};

struct Tlp {
    Bytes bytes;
    bool nullify;
};

struct Side {
    std::deque<Tlp> to_send;
    std::deque<Bytes> expected;
    Bytes receiving;
    size_t at = 0;
    unsigned updates = 0, beats = 0;
    uint64_t arrived = 0, last = 0, first_sent = 0;
};

struct Pair {
    VerilatedContext context;
    Vpair top;
    Side sides[2];
    uint64_t cycles = 0, errors = 0, drops = 0, check = 0, nullified = 0;

    explicit Pair(uint64_t seed, unsigned latency) : top(&context) {
        top.clk = 0, top.rst = 1, top.enable = 3, top.latency = latency, top.seed = seed;
        top.error_rate = top.drop_rate = top.mark_errors = 0;
        top.tx_tlp_valid = top.tx_fc_valid = 0;
        for (int n = 0; n < 4; n++) edge();
        top.rst = 0;
    }
    ~Pair() { top.final(); }
    void edge() {
        top.clk = 1, top.eval();
        top.clk = 0, top.eval();
    }
    [[noreturn]] void fail(const char *what, int side) {
        printf("pair: cycle %lu: port %d: %s\n", cycles, side, what);
        for (int n = 0; n < 2; n++) report(n);
        exit(1);
    }
    unsigned count(const void *counts, int side, unsigned event) const {
        uint16_t value;
        memcpy(&value, static_cast<const char *>(counts) + 32 * side + 2 * event, 2);
        return value;
    }
    void report(int side) const {
        static const char *dll[] = {"bad LCRC", "gap", "duplicate", "nullified", "receiver error", "bad DLLP", "unknown DLLP", "protocol error",
                                    "replay timeout", "rollover", "Nak received", "replay", "Ack sent", "Nak sent", "TX nullified", "TX overlong"};
        static const char *phy[] = {"bad token", "bad STP", "bad block", "bad symbol", "bad frame", "overflow", "underrun", "TX length", "SKP sent", "SKP received",
                                    "recovery", "link down", "train timeout", "TX frame", "RX frame", "RX error"};
        printf("pair: port %d:", side);
        for (unsigned n = 0; n < 16; n++) if (unsigned value = count(&top.dll_counts, side, n)) printf(" %s %u,", dll[n], value);
        for (unsigned n = 0; n < 16; n++) if (unsigned value = count(&top.phy_counts, side, n)) printf(" %s %u%s", phy[n], value, n < 15 ? "," : "");
        printf("\n");
    }

    void tick() {
        uint8_t data[2 * BEAT] = {};
        unsigned valid = 0, sop = 0, eop = 0, nullify = 0, end = 0, updates = 0;
        for (int n = 0; n < 2; n++) {
            Side &side = sides[n];
            if (side.updates) updates |= 1 << n;
            if (side.to_send.empty()) continue;
            const Tlp &tlp = side.to_send.front();
            size_t length = tlp.bytes.size() - side.at < BEAT ? tlp.bytes.size() - side.at : BEAT;
            memcpy(data + n * BEAT, tlp.bytes.data() + side.at, length);
            valid |= 1 << n;
            sop |= (side.at == 0) << n;
            bool last = side.at + length == tlp.bytes.size();
            eop |= last << n;
            nullify |= (last && tlp.nullify) << n;
            end |= unsigned(length / 4 - 1) << 8 * n;
        }
        top.tx_tlp_valid = valid, top.tx_tlp_sop = sop, top.tx_tlp_eop = eop, top.tx_tlp_nullify = nullify, top.tx_tlp_end = end, top.tx_fc_valid = updates;
        memcpy(&top.tx_tlp_data, data, 2 * BEAT);
        top.eval();
        errors += (top.bit_error & 1) + (top.bit_error >> 1), drops += (top.drop & 1) + (top.drop >> 1);
        for (int n = 0; n < 2; n++) {
            Side &side = sides[n];
            if (valid >> n & 1 && top.tx_tlp_ready >> n & 1) {
                if (side.at == 0) side.first_sent = cycles;
                side.at += BEAT;
                if (eop >> n & 1) side.to_send.pop_front(), side.at = 0;
            }
            if (updates >> n & 1 && top.tx_fc_ready >> n & 1) side.updates--;
            // The transaction layer answers InitFC2 of a channel that is ready by UpdateFC.
            if (top.rx_init2 >> n & 1 && top.active >> n & 1 && side.updates < 3) side.updates++;
            if (!(top.rx_tlp_valid >> n & 1)) continue;
            if (top.rx_tlp_sop >> n & 1) side.receiving.clear();
            const uint8_t *from = reinterpret_cast<const uint8_t *>(&top.rx_tlp_data) + n * BEAT;
            size_t length = top.rx_tlp_eop >> n & 1 ? ((top.rx_tlp_end >> 8 * n & 0xff) + 1) * 4 : BEAT;
            side.receiving.insert(side.receiving.end(), from, from + length);
            if (!(top.rx_tlp_eop >> n & 1) || !(top.rx_tlp_good >> n & 1)) continue;
            std::deque<Bytes> &expected = sides[1 - n].expected;
            if (expected.empty()) fail("a TLP arrives that was never sent", n);
            if (expected.front() != side.receiving) fail("another TLP arrives than was sent", n);
            for (uint8_t byte : side.receiving) check = check * 1099511628211ull + byte + cycles;
            expected.pop_front();
            side.arrived++;
            side.last = cycles;
        }
        edge();
        cycles++;
    }

    // A TLP with a header that agrees with its length.
    void write(int side, Dice &dice, unsigned dwords, bool four, bool digest, bool nullify, unsigned sent_dwords = 0) {
        Bytes bytes{uint8_t((dwords ? 0x40 : 0) | (four ? 0x20 : 0)), 0, uint8_t(digest << 7 | (dwords >> 8 & 3)), uint8_t(dwords)};
        unsigned total = 3 + four + dwords + digest;
        while (bytes.size() < 4 * total) bytes.push_back(uint8_t(dice.bits()));
        // A nullified TLP may end early.
        if (sent_dwords && sent_dwords < total) bytes.resize(4 * sent_dwords);
        if (nullify) nullified++;
        else sides[side].expected.push_back(bytes);
        sides[side].to_send.push_back({std::move(bytes), nullify});
    }
    void until_active() {
        while (top.active != 3 && cycles < 100000) tick();
        if (top.active != 3) fail("the link does not come up", 0);
    }
};

static int soak(int count, char **arguments) {
    uint64_t tlps = strtoull(arguments[2], nullptr, 0), seed = strtoull(arguments[3], nullptr, 0);
    double errors = count > 4 ? atof(arguments[4]) : 300, drops = count > 5 ? atof(arguments[5]) : 50;
    Pair pair(seed, 3 + seed % 60);
    pair.top.mark_errors = count > 6 ? atoi(arguments[6]) : 0;
    Dice dice(seed);
    auto begin = clock();
    pair.until_active();
    pair.top.error_rate = uint32_t(errors * 4294.967296), pair.top.drop_rate = uint32_t(drops * 4294.967296);
    uint64_t sent[2] = {}, seen = 0, seen_at = pair.cycles;
    unsigned pace = 0;
    while (pair.sides[0].arrived < tlps || pair.sides[1].arrived < tlps) {
        if (pair.cycles % 2048 == 0) pace = dice.below(3) ? 0 : dice.below(64);
        for (int n = 0; n < 2; n++)
            if (sent[n] < tlps && pair.sides[n].to_send.size() < 4 && (!pace || dice.below(pace + 1) == 0)) {
                bool nullify = dice.below(64) == 0;
                pair.write(n, dice, dice.below(3) ? dice.below(9) : dice.below(129), dice.below(2), dice.below(4) == 0, nullify, nullify && dice.below(2) ? 3 + dice.below(20) : 0);
                if (!nullify) sent[n]++;
            }
        pair.tick();
        if (uint64_t now = pair.sides[0].arrived + pair.sides[1].arrived; now != seen) seen = now, seen_at = pair.cycles;
        if (pair.cycles - seen_at > 200000) pair.fail("no TLP arrives for 200000 cycles", 0);
        if (pair.top.link_up != 3) pair.fail("the link went down", 0);
    }
    double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
    printf("pair: %lu TLPs both ways in %lu cycles, %lu bit errors, %lu drops, %lu nullified, %.3f million cycles per CPU-second\n", seen, pair.cycles, pair.errors, pair.drops,
           pair.nullified, double(pair.cycles) / seconds / 1e6);
    for (int n = 0; n < 2; n++) pair.report(n);
    return 0;
}

static int figures() {
    printf("| payload | latency of one write, cycles | cycles per write | bytes per cycle | of the link |\n|---|---|---|---|---|\n");
    for (unsigned payload : {64u, 128u, 256u, 512u}) {
        Pair pair(1, 3);
        Dice dice(1);
        pair.until_active();
        for (int n = 0; n < 2000; n++) pair.tick();
        pair.write(0, dice, payload / 4, true, false, false);
        while (!pair.sides[0].expected.empty()) pair.tick();
        uint64_t latency = pair.sides[1].last - pair.sides[0].first_sent;
        // From the first to the last of 2000 after 200 at full rate.
        uint64_t from = 0, arrived = pair.sides[1].arrived;
        while (pair.sides[1].arrived - arrived < 2200) {
            if (pair.sides[0].to_send.size() < 4) pair.write(0, dice, payload / 4, true, false, false);
            pair.tick();
            if (!from && pair.sides[1].arrived - arrived == 200) from = pair.cycles;
        }
        double each = double(pair.cycles - from) / 2000;
        printf("| %u B | %lu | %.3f | %.2f | %.2f %% |\n", payload, latency, each, payload / each, 100 * (payload + 24) / each / (LANES * SYMBOLS));
    }
    return 0;
}

static int replay(uint64_t seed) {
    Pair pair(seed, 20);
    Dice dice(3);
    pair.until_active();
    pair.top.error_rate = 4000000, pair.top.drop_rate = 1000000;
    while (pair.cycles < 20000) {
        for (int n = 0; n < 2; n++) if (pair.sides[n].to_send.size() < 4) pair.write(n, dice, dice.below(40), false, false, false);
        pair.tick();
    }
    printf("pair: %lu errors, %lu drops, checksum %016lx\n", pair.errors, pair.drops, pair.check);
    return 0;
}

int main(int count, char **arguments) {
    std::string mode = count > 1 ? arguments[1] : "";
    if (mode == "soak" && count > 3) return soak(count, arguments);
    if (mode == "figures") return figures();
    if (mode == "replay" && count > 2) return replay(strtoull(arguments[2], nullptr, 0));
    return fprintf(stderr, "usage: pair soak TLPS SEED [ERRORS DROPS MARKS] | figures | replay SEED\n"), 2;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives one transaction layer (Verilator's Vpcie_tl) a clock cycle at a time: the user above it, and the data link layer below. All that happens
// at its edges goes into a log, in order.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vpcie_tl.h"
#include "dice.hpp"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

enum Kind : uint8_t {
    ACCEPTED = 1,    // the last beat of a TLP of the user
    LEAVES = 2,      // the first beat of a TLP to the data link layer
    LEFT = 3,        // its last beat, with bytes; flags: 1 nullified
    OFFERED = 4,     // the first beat of a received TLP is taken by the user
    TAKEN = 5,       // its last beat, with bytes; flags: 1 cut, 2 poisoned
    UPDATE = 6,      // an UpdateFC to send; its three bytes; flags: 1 urgent
    ARRIVED = 7,     // the last beat of a TLP from the data link layer; flags: 1 good
    LEARNED = 8,     // a received flow-control DLLP; its three bytes; flags: kind
    DROPPED = 9,     // a TLP that was received with an error; syndrome in two bytes, header in 16
};

struct Tlp {
    Bytes bytes;
    uint8_t vc = 0;
    bool good = true;
};

struct FlowControl {
    uint8_t kind, type, vc;
    uint32_t value;
};

class Tl {
  public:
    static constexpr unsigned BEAT = DATA_WIDTH / 8;
    static constexpr unsigned QUEUES = 3 * NUM_VCS;

    std::deque<Tlp> to_send[QUEUES];  // by VC and type
    std::deque<Tlp> to_receive;
    std::deque<FlowControl> to_learn;
    Bytes log;
    uint64_t cycles = 0;
    uint64_t events[16] = {};
    uint64_t beats_out = 0, beats_taken[3] = {};
    // Per million: pauses of the user within and between TLPs, of the link, of `ready` to TLPs and UpdateFC, and of the receiving user per stream.
    uint32_t user_gaps = 0, link_gaps = 0, ready_gaps = 0, update_gaps = 0, stream_gaps[3] = {};
    bool insists = false;  // offers TLPs even without room
    std::string failure;

    explicit Tl(uint64_t seed) : dice(seed), context(new VerilatedContext), top(new Vpcie_tl(context.get())) {
        top->clk = 0;
        top->rst = 1;
        top->tc_map = 0;
        top->vc_enable = 1;
        top->vc_arbitration = 1;
        memset(&top->vc_phases, 0, sizeof top->vc_phases);
        top->max_payload = 0;
        top->update_fc_latency_limit = 64;
        top->update_fc_period = 0;
        top->local_features = 1;
        top->remote_features = 0;
        top->vc_init2 = 0;
        top->vc_ready = 0;
        top->dl_state = 0;
        idle();
        for (int n = 0; n < 4; n++) top->eval(), edge();
        top->rst = 0;
    }
    ~Tl() { top->final(); }

    Vpcie_tl &ports() { return *top; }
    uint32_t count(unsigned event) const {
        uint16_t value;
        memcpy(&value, reinterpret_cast<const char *>(&top->counts) + 2 * event, 2);
        return value;
    }

    void tick() {
        drive();
        top->eval();
        sample();
        edge();
        cycles++;
    }

  private:
    struct Stream {
        const uint8_t *valid, *sop, *eop, *cut, *poisoned, *vc, *end;
        const void *data;
        uint8_t *ready;
        Bytes bytes;
        bool within = false;
    };
    Dice dice;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vpcie_tl> top;
    size_t sent = 0, received = 0;
    unsigned queue = 0;
    bool held = false, was_waiting = false, leaving = false;
    Bytes out, before;
    bool stream_waits[3] = {};
    Bytes stream_before[3];
    Stream streams[3] = {
        {&top->rx_p_valid, &top->rx_p_sop, &top->rx_p_eop, &top->rx_p_cut, &top->rx_p_poisoned, &top->rx_p_vc, &top->rx_p_end, &top->rx_p_data, &top->rx_p_ready},
        {&top->rx_np_valid, &top->rx_np_sop, &top->rx_np_eop, &top->rx_np_cut, &top->rx_np_poisoned, &top->rx_np_vc, &top->rx_np_end, &top->rx_np_data, &top->rx_np_ready},
        {&top->rx_cpl_valid, &top->rx_cpl_sop, &top->rx_cpl_eop, &top->rx_cpl_cut, &top->rx_cpl_poisoned, &top->rx_cpl_vc, &top->rx_cpl_end, &top->rx_cpl_data,
         &top->rx_cpl_ready},
    };

    void fail(const std::string &what) {
        if (failure.empty()) failure = "cycle " + std::to_string(cycles) + ": " + what;
    }

    void note(Kind kind, unsigned type, unsigned vc, unsigned flags, const uint8_t *data = nullptr, uint32_t length = 0) {
        uint8_t record[16] = {};
        memcpy(record, &cycles, 8);
        record[8] = kind, record[9] = uint8_t(type), record[10] = uint8_t(vc), record[11] = uint8_t(flags);
        memcpy(record + 12, &length, 4);
        log.insert(log.end(), record, record + 16);
        log.insert(log.end(), data, data + length);
    }

    void idle() {
        top->tx_valid = 0;
        top->rx_tlp_valid = 0;
        top->rx_fc_valid = 0;
        top->tx_tlp_ready = 1;
        top->tx_fc_ready = 1;
        for (Stream &stream : streams) *stream.ready = 1;
    }

    void edge() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
    }

    // One beat of a TLP; returns whether it is the last.
    static bool beat_of(const Tlp &tlp, size_t at, uint8_t *to, uint8_t fill, unsigned &end) {
        size_t length = tlp.bytes.size() - at < BEAT ? tlp.bytes.size() - at : BEAT;
        memset(to, fill, BEAT);
        memcpy(to, tlp.bytes.data() + at, length);
        end = unsigned(length / 4 - 1);
        return at + length == tlp.bytes.size();
    }

    void drive() {
        idle();
        uint8_t beat[BEAT];
        unsigned end;
        if (!sent) {
            // The user selects a queue that has room.
            unsigned first = dice.below(QUEUES);
            held = false;
            for (unsigned n = 0; n < QUEUES; n++) {
                unsigned each = (first + n) % QUEUES;
                if (to_send[each].empty() || (!insists && !(top->tx_room >> each & 1))) continue;
                queue = each, held = true;
                break;
            }
        }
        if (held && !dice.chance(user_gaps)) {
            const Tlp &tlp = to_send[queue].front();
            top->tx_valid = 1;
            top->tx_sop = sent == 0;
            top->tx_eop = beat_of(tlp, sent, beat, 0x5a, end);
            top->tx_end = end;
            top->tx_vc = tlp.vc;
            memcpy(&top->tx_data, beat, BEAT);
        }
        if (!to_receive.empty() && !dice.chance(link_gaps)) {
            const Tlp &tlp = to_receive.front();
            top->rx_tlp_valid = 1;
            top->rx_tlp_sop = received == 0;
            top->rx_tlp_eop = beat_of(tlp, received, beat, 0xa5, end);
            top->rx_tlp_end = end;
            top->rx_tlp_good = top->rx_tlp_eop && tlp.good;
            memcpy(&top->rx_tlp_data, beat, BEAT);
        }
        if (!to_learn.empty()) {
            const FlowControl &fc = to_learn.front();
            top->rx_fc_valid = 1;
            top->rx_fc_kind = fc.kind;
            top->rx_fc_type = fc.type;
            top->rx_fc_vc = fc.vc;
            top->rx_fc_value = fc.value;
        }
        top->tx_tlp_ready = !dice.chance(ready_gaps);
        top->tx_fc_ready = !dice.chance(update_gaps);
        for (int n = 0; n < 3; n++) *streams[n].ready = !dice.chance(stream_gaps[n]);
    }

    void sample() {
        if (top->tx_valid && top->tx_ready) {
            const Tlp &tlp = to_send[queue].front();
            sent += BEAT;
            if (top->tx_eop) {
                note(ACCEPTED, queue % 3, tlp.vc, 0, tlp.bytes.data(), uint32_t(tlp.bytes.size()));
                to_send[queue].pop_front();
                sent = 0;
            }
        }
        if (top->rx_fc_valid) {
            const FlowControl &fc = to_learn.front();
            note(LEARNED, fc.type, fc.vc, fc.kind, reinterpret_cast<const uint8_t *>(&fc.value), 3);
            to_learn.pop_front();
        }
        sample_leaving();
        for (int n = 0; n < 3; n++) sample_stream(n);
        if (top->rx_tlp_valid) {
            received += BEAT;
            if (top->rx_tlp_eop) {
                note(ARRIVED, 0, 0, to_receive.front().good);
                to_receive.pop_front();
                received = 0;
            }
        }
        if (top->tx_fc_valid && top->tx_fc_ready)
            note(UPDATE, top->tx_fc_type, top->tx_fc_vc, top->tx_fc_urgent, reinterpret_cast<const uint8_t *>(&top->tx_fc_value), 3);
        if (top->error_valid) {
            uint8_t record[18] = {uint8_t(top->error_syndrome)};
            memcpy(record + 2, &top->error_header, 16);
            note(DROPPED, 0, 0, 0, record, 18);
        }
        for (unsigned bits = top->events; bits; bits &= bits - 1) events[__builtin_ctz(bits)]++;
    }

    void sample_leaving() {
        // A beat stays until it is taken, unless the link goes down.
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top->tx_tlp_data);
        if (was_waiting && top->dl_state >= 2 && (!top->tx_tlp_valid || memcmp(before.data(), data, BEAT))) fail("a beat to the data link layer changes while it waits");
        was_waiting = top->tx_tlp_valid && !top->tx_tlp_ready && top->dl_state >= 2;
        before.assign(data, data + BEAT);
        if (leaving && !top->tx_tlp_valid) fail("a TLP pauses");
        if (!top->tx_tlp_valid || !top->tx_tlp_ready) return;
        beats_out++;
        if (top->tx_tlp_sop == leaving) fail(leaving ? "a TLP begins within another" : "a TLP has no begin");
        if (!leaving) out.clear(), note(LEAVES, 0, 0, 0, data, 4);
        size_t length = top->tx_tlp_eop ? (top->tx_tlp_end + 1) * 4 : BEAT;
        out.insert(out.end(), data, data + length);
        leaving = !top->tx_tlp_eop;
        if (top->tx_tlp_eop) note(LEFT, 0, 0, top->tx_tlp_nullify, out.data(), uint32_t(out.size()));
    }

    void sample_stream(int n) {
        Stream &stream = streams[n];
        const uint8_t *data = static_cast<const uint8_t *>(stream.data);
        if (stream_waits[n] && top->dl_state >= 2 && (!*stream.valid || memcmp(stream_before[n].data(), data, BEAT))) fail("a beat to the user changes while it waits");
        stream_waits[n] = *stream.valid && !*stream.ready && top->dl_state >= 2;
        stream_before[n].assign(data, data + BEAT);
        if (!*stream.valid || !*stream.ready) return;
        beats_taken[n]++;
        if (*stream.sop == stream.within) fail(stream.within ? "a received TLP begins within another" : "a received TLP has no begin");
        if (!stream.within) stream.bytes.clear(), note(OFFERED, n, *stream.vc, 0, data, 4);
        size_t length = *stream.eop ? (*stream.end + 1) * 4 : BEAT;
        stream.bytes.insert(stream.bytes.end(), data, data + length);
        stream.within = !*stream.eop;
        if (*stream.eop) note(TAKEN, n, *stream.vc, unsigned(*stream.cut | *stream.poisoned << 1), stream.bytes.data(), uint32_t(stream.bytes.size()));
    }
};

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives one data link layer (Verilator's Vpcie_dll) a clock cycle at a time, with queues of whole frames and TLPs at its edges.
#pragma once

#include <memory>

#include "Vpcie_dll.h"
#include "frames.hpp"
#include "verilated.h"

struct Tlp {
    Bytes bytes;
    bool nullify = false;
};

struct FlowControl {
    uint8_t kind, type, vc;
    uint32_t value;
    bool urgent;
};

class Dut : public FrameEdge<Vpcie_dll> {
  public:
    std::deque<Tlp> to_send;         // TLPs from the transaction layer
    std::deque<Bytes> received;      // TLPs for the transaction layer
    std::deque<FlowControl> to_update;
    std::deque<FlowControl> learned;
    std::deque<uint32_t> other_to_send, other_received;
    uint64_t dropped = 0, stalled = 0;
    uint64_t events[16] = {};
    uint32_t tlp_gaps = 0;  // per million
    uint32_t tlp_pause = 0;  // per million, between TLPs

    explicit Dut(uint64_t seed = 1) : FrameEdge(seed), context(new VerilatedContext), top(new Vpcie_dll(context.get())) {
        top->clk = 0;
        top->rst = 1;
        top->replay_timer_limit = 1000;
        top->ack_latency_limit = 32;
        top->ack_count_limit = 0;
        top->local_features = 1;
        top->phy_link_up = 0;
        top->phy_recovery = 0;
        top->vc_enable = 1;
        top->vc_tlp_seen = 0;
        memset(&top->init_fc, 0, sizeof top->init_fc);
        idle();
        for (int n = 0; n < 4; n++) top->eval(), edge();
        top->rst = 0;
    }
    ~Dut() { top->final(); }

    Vpcie_dll &ports() { return *top; }
    // The design's own counter of an event.
    uint32_t count(unsigned event) const {
        uint16_t value;
        memcpy(&value, reinterpret_cast<const char *>(&top->counts) + 2 * event, 2);
        return value;
    }

    // The link goes down: frames that were half transferred are gone. A TLP of the transaction layer stays, to be dropped whole.
    bool to_send_is_at_begin() const { return tlp_at == 0; }
    void reset_edges() {
        reset_frames();
        in_receiving = false;
    }

    void tick() {
        drive();
        top->eval();
        sample();
        edge();
        cycles++;
    }

  private:
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vpcie_dll> top;
    size_t tlp_at = 0;
    Bytes receiving;
    bool in_receiving = false;
    uint8_t beat[BEAT];

    void idle() {
        idle_frames(*top);
        top->tx_tlp_valid = 0;
        top->tx_fc_valid = 0;
        top->tx_dllp_valid = 0;
    }

    void edge() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
    }

    void drive() {
        idle();
        drive_frames(*top);
        if (!to_send.empty() && !(tlp_at ? tlp_gaps && dice.chance(tlp_gaps) : tlp_pause && dice.chance(tlp_pause))) {
            const Tlp &tlp = to_send.front();
            size_t length = tlp.bytes.size() - tlp_at < BEAT ? tlp.bytes.size() - tlp_at : BEAT;
            memset(beat, 0x5a, BEAT);
            memcpy(beat, tlp.bytes.data() + tlp_at, length);
            bool eop = tlp_at + length == tlp.bytes.size();
            top->tx_tlp_valid = 1;
            top->tx_tlp_sop = tlp_at == 0;
            top->tx_tlp_eop = eop;
            top->tx_tlp_nullify = eop && tlp.nullify;
            top->tx_tlp_end = length / 4 - 1;
            memcpy(&top->tx_tlp_data, beat, BEAT);
        }
        if (!to_update.empty()) {
            const FlowControl &update = to_update.front();
            top->tx_fc_valid = 1;
            top->tx_fc_urgent = update.urgent;
            top->tx_fc_type = update.type;
            top->tx_fc_vc = update.vc;
            top->tx_fc_value = update.value;
        }
        if (!other_to_send.empty()) {
            top->tx_dllp_valid = 1;
            top->tx_dllp_bytes = other_to_send.front();
        }
    }

    void sample() {
        if (top->tx_tlp_valid && top->tx_tlp_ready) {
            tlp_at += BEAT;
            if (top->tx_tlp_eop) to_send.pop_front(), tlp_at = 0;
        } else if (top->tx_tlp_valid) stalled++;
        if (top->tx_fc_valid && top->tx_fc_ready) to_update.pop_front();
        if (top->tx_dllp_valid && top->tx_dllp_ready) other_to_send.pop_front();
        sample_frames(*top);
        if (top->phy_link_up && top->rx_tlp_valid) sample_tlp();
        if (top->rx_fc_valid) learned.push_back({top->rx_fc_kind, top->rx_fc_type, top->rx_fc_vc, top->rx_fc_value, false});
        if (top->rx_dllp_valid) other_received.push_back(top->rx_dllp_bytes);
        for (unsigned bits = top->events; bits; bits &= bits - 1) events[__builtin_ctz(bits)]++;
        if (!top->phy_link_up) in_receiving = false;
    }

    void sample_tlp() {
        if (top->rx_tlp_sop == in_receiving) fail(in_receiving ? "a received TLP begins within another" : "a received TLP has no begin");
        if (!in_receiving) receiving.clear();
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top->rx_tlp_data);
        size_t length = top->rx_tlp_eop ? (top->rx_tlp_end + 1) * 4 : BEAT;
        receiving.insert(receiving.end(), data, data + length);
        in_receiving = !top->rx_tlp_eop;
        if (in_receiving) return;
        if (top->rx_tlp_good) received.push_back(receiving);
        else dropped++;
    }
};

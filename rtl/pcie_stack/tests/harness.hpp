// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives one data link layer (Verilator's Vpcie_dll) a clock cycle at a time, with queues of whole frames and TLPs at its edges. It also
// checks the stream to the physical layer: frames begin and end properly and are never mixed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vpcie_dll.h"
#include "dice.hpp"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

// A frame as the physical layer carries it. `bytes` begins with the sequence number, or with byte 0 of the DLLP.
struct Frame {
    Bytes bytes;
    bool dllp = false;
    bool nullify = false;
    bool error = false;
    uint64_t time = 0;
};

struct Tlp {
    Bytes bytes;
    bool nullify = false;
};

struct FlowControl {
    uint8_t kind, type, vc;
    uint32_t value;
    bool urgent;
};

class Dut {
  public:
    static constexpr unsigned BEAT = DATA_WIDTH / 8;

    std::deque<Frame> to_link;       // frames for the receiver
    std::deque<Frame> from_link;     // frames that were sent
    std::deque<Tlp> to_send;         // TLPs from the transaction layer
    std::deque<Bytes> received;      // TLPs for the transaction layer
    std::deque<FlowControl> to_update;
    std::deque<FlowControl> learned;
    std::deque<uint32_t> other_to_send, other_received;
    uint64_t cycles = 0, dropped = 0, stalled = 0;
    uint64_t events[16] = {};
    uint32_t link_gaps = 0, tlp_gaps = 0, ready_gaps = 0;  // per million
    uint32_t tlp_pause = 0;                                // per million, between TLPs
    std::string failure;

    explicit Dut(uint64_t seed = 1) : dice(seed), context(new VerilatedContext), top(new Vpcie_dll(context.get())) {
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
        to_link.clear();
        link_at = 0;
        in_frame = in_receiving = false;
    }

    void tick() {
        drive();
        top->eval();
        sample();
        edge();
        cycles++;
    }

  private:
    Dice dice;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vpcie_dll> top;
    size_t link_at = 0, tlp_at = 0;
    Frame sending;
    Bytes receiving;
    bool in_frame = false, in_receiving = false;
    uint8_t beat[BEAT];

    void fail(const char *what) {
        if (failure.empty()) failure = "cycle " + std::to_string(cycles) + ": " + what;
    }

    void idle() {
        top->phy_rx_valid = 0;
        top->phy_tx_ready = 1;
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
        if (ready_gaps && dice.chance(ready_gaps)) top->phy_tx_ready = 0;
        if (!to_link.empty() && !(link_gaps && dice.chance(link_gaps))) {
            // Two bytes for the physical layer come first; the receiver must not look at them.
            const Frame &frame = to_link.front();
            size_t total = frame.bytes.size() + 2, length = total - link_at < BEAT ? total - link_at : BEAT;
            memset(beat, 0xa5, BEAT);
            if (link_at == 0) memcpy(beat + 2, frame.bytes.data(), length - 2);
            else memcpy(beat, frame.bytes.data() + link_at - 2, length);
            bool eop = link_at + length == total;
            top->phy_rx_valid = 1;
            top->phy_rx_sop = link_at == 0;
            top->phy_rx_eop = eop;
            top->phy_rx_dllp = frame.dllp;
            top->phy_rx_nullify = eop && frame.nullify;
            top->phy_rx_error = eop && frame.error;
            top->phy_rx_end = (length + 3) / 4 - 1;
            memcpy(&top->phy_rx_data, beat, BEAT);
        }
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
        if (top->phy_rx_valid) {
            link_at += BEAT;
            if (top->phy_rx_eop) to_link.pop_front(), link_at = 0;
        }
        if (top->tx_tlp_valid && top->tx_tlp_ready) {
            tlp_at += BEAT;
            if (top->tx_tlp_eop) to_send.pop_front(), tlp_at = 0;
        } else if (top->tx_tlp_valid) stalled++;
        if (top->tx_fc_valid && top->tx_fc_ready) to_update.pop_front();
        if (top->tx_dllp_valid && top->tx_dllp_ready) other_to_send.pop_front();
        // What is sent and received in the cycle in which the link goes down is lost.
        if (top->phy_link_up && top->phy_tx_valid && top->phy_tx_ready) sample_link();
        if (top->phy_link_up && top->rx_tlp_valid) sample_tlp();
        if (top->rx_fc_valid) learned.push_back({top->rx_fc_kind, top->rx_fc_type, top->rx_fc_vc, top->rx_fc_value, false});
        if (top->rx_dllp_valid) other_received.push_back(top->rx_dllp_bytes);
        for (unsigned bits = top->events; bits; bits &= bits - 1) events[__builtin_ctz(bits)]++;
        if (!top->phy_link_up) in_frame = in_receiving = false;
    }

    void sample_link() {
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top->phy_tx_data);
        if (top->phy_tx_sop == in_frame) fail(in_frame ? "a frame begins within another" : "a frame has no begin");
        if (!in_frame) {
            sending = Frame();
            sending.dllp = top->phy_tx_dllp;
            if (data[0] || data[1]) fail("the bytes of the physical layer are not 0");
        } else if (sending.dllp != bool(top->phy_tx_dllp)) fail("a DLLP and a TLP are mixed");
        size_t length = top->phy_tx_eop ? (top->phy_tx_end + 1) * 4 : BEAT, from = in_frame ? 0 : 2;
        sending.bytes.insert(sending.bytes.end(), data + from, data + length);
        in_frame = !top->phy_tx_eop;
        if (in_frame) return;
        if (sending.dllp && sending.bytes.size() != 6) fail("a DLLP is not 6 bytes long");
        sending.nullify = top->phy_tx_nullify;
        sending.time = cycles;
        from_link.push_back(std::move(sending));
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

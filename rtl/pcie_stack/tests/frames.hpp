// SPDX-License-Identifier: Apache-2.0 OR MIT
// The edge of a port towards the physical layer, for any top module with these ports: queues of whole frames. It also checks the stream that
// leaves: frames begin and end properly and are never mixed. And a lossy channel between two ports.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "dice.hpp"

using Bytes = std::vector<uint8_t>;

// A frame as the physical layer carries it. `bytes` begins with the sequence number, or with byte 0 of the DLLP.
struct Frame {
    Bytes bytes;
    bool dllp = false;
    bool nullify = false;
    bool error = false;
    uint64_t time = 0;
};

template <class Top> class FrameEdge {
  public:
    static constexpr unsigned BEAT = DATA_WIDTH / 8;

    std::deque<Frame> to_link;    // frames for the receiver
    std::deque<Frame> from_link;  // frames that were sent
    uint64_t cycles = 0;
    uint32_t link_gaps = 0, ready_gaps = 0;  // per million
    std::string failure;

  protected:
    Dice dice;

    explicit FrameEdge(uint64_t seed) : dice(seed) {}

    void fail(const char *what) {
        if (failure.empty()) failure = "cycle " + std::to_string(cycles) + ": " + what;
    }

    void reset_frames() {
        to_link.clear();
        link_at = 0;
        in_frame = false;
    }

    void idle_frames(Top &top) {
        top.phy_rx_valid = 0;
        top.phy_tx_ready = 1;
    }

    void drive_frames(Top &top) {
        uint8_t beat[BEAT];
        if (ready_gaps && dice.chance(ready_gaps)) top.phy_tx_ready = 0;
        if (!to_link.empty() && !(link_gaps && dice.chance(link_gaps))) {
            // Two bytes for the physical layer come first; the receiver must not look at them.
            const Frame &frame = to_link.front();
            size_t total = frame.bytes.size() + 2, length = total - link_at < BEAT ? total - link_at : BEAT;
            memset(beat, 0xa5, BEAT);
            if (link_at == 0) memcpy(beat + 2, frame.bytes.data(), length - 2);
            else memcpy(beat, frame.bytes.data() + link_at - 2, length);
            bool eop = link_at + length == total;
            top.phy_rx_valid = 1;
            top.phy_rx_sop = link_at == 0;
            top.phy_rx_eop = eop;
            top.phy_rx_dllp = frame.dllp;
            top.phy_rx_nullify = eop && frame.nullify;
            top.phy_rx_error = eop && frame.error;
            top.phy_rx_end = (length + 3) / 4 - 1;
            memcpy(&top.phy_rx_data, beat, BEAT);
        }
    }

    void sample_frames(const Top &top) {
        if (top.phy_rx_valid) {
            link_at += BEAT;
            if (top.phy_rx_eop) to_link.pop_front(), link_at = 0;
        }
        // What is sent in the cycle in which the link goes down is lost.
        if (top.phy_link_up && top.phy_tx_valid && top.phy_tx_ready) sample_frame(top);
        if (!top.phy_link_up) in_frame = false;
    }

  private:
    size_t link_at = 0;
    Frame sending;
    bool in_frame = false;

    void sample_frame(const Top &top) {
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top.phy_tx_data);
        if (top.phy_tx_sop == in_frame) fail(in_frame ? "a frame begins within another" : "a frame has no begin");
        if (!in_frame) {
            sending = Frame();
            sending.dllp = top.phy_tx_dllp;
            if (data[0] || data[1]) fail("the bytes of the physical layer are not 0");
        } else if (sending.dllp != bool(top.phy_tx_dllp)) fail("a DLLP and a TLP are mixed");
        size_t length = top.phy_tx_eop ? (top.phy_tx_end + 1) * 4 : BEAT, from = in_frame ? 0 : 2;
        sending.bytes.insert(sending.bytes.end(), data + from, data + length);
        in_frame = !top.phy_tx_eop;
        if (in_frame) return;
        if (sending.dllp && sending.bytes.size() != 6) fail("a DLLP is not 6 bytes long");
        sending.nullify = top.phy_tx_nullify;
        sending.time = cycles;
        from_link.push_back(std::move(sending));
    }
};

// Loses, doubles, marks and damages frames of one direction.
struct Channel {
    Dice dice;
    uint32_t errors;
    unsigned latency;
    uint64_t lost = 0, doubled = 0, damaged = 0, marked = 0, carried = 0;
    std::deque<Frame> way;

    Channel(uint64_t seed, uint32_t errors, unsigned latency) : dice(seed), errors(errors), latency(latency) {}

    template <class Port> void move(Port &from, Port &to) {
        while (!from.from_link.empty()) {
            Frame frame = std::move(from.from_link.front());
            from.from_link.pop_front();
            carried++;
            if (!dice.chance(errors)) {
                way.push_back(std::move(frame));
                continue;
            }
            switch (dice.below(5)) {
            case 0: lost++; continue;
            case 1: doubled++, way.push_back(frame), way.push_back(std::move(frame)); continue;
            case 2: marked++, frame.error = true; break;
            default: damage(frame);
            }
            way.push_back(std::move(frame));
        }
        while (!way.empty() && way.front().time + latency <= from.cycles) {
            to.to_link.push_back(std::move(way.front()));
            way.pop_front();
        }
    }

    // One or two bits, or a burst that is no longer than the shorter CRC. Both CRCs find each of these.
    void damage(Frame &frame) {
        damaged++;
        uint32_t bits = uint32_t(frame.bytes.size()) * 8;
        // The upper four bits of the sequence number are reserved, and under the LCRC.
        if (dice.below(2)) {
            uint32_t first = dice.below(bits), second = dice.below(bits);
            frame.bytes[first / 8] ^= 1 << first % 8;
            if (dice.below(2) && second != first) frame.bytes[second / 8] ^= 1 << second % 8;
        } else {
            uint32_t length = 2 + dice.below(15), first = dice.below(bits - length);
            for (uint32_t n = 0; n < length; n++)
                if (n == 0 || n == length - 1 || dice.below(2)) frame.bytes[(first + n) / 8] ^= 1 << (first + n) % 8;
        }
    }
};

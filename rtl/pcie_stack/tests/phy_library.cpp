// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives one physical layer (Verilator's Vpcie_phy) a clock cycle at a time, for ctypes in Python: queues of whole frames at one edge,
// and words of the lanes at the other. It checks that received frames begin and end properly.
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vpcie_phy.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;
constexpr unsigned BEAT = DATA_WIDTH / 8, LINK = LANES * SYMBOLS;

struct Frame {
    Bytes bytes;
    bool dllp, nullify, error;
    uint64_t time;
};

// A word of the lanes: valid, start, marks of bad lanes, control bits, data.
struct Word {
    uint8_t valid, start;
    uint16_t bad;
    uint64_t control;
    uint8_t data[LINK];
};

class Phy {
  public:
    std::deque<Frame> to_send, received;
    std::deque<Word> sent, to_receive;
    bool loops = true, keeps = false;
    unsigned pause_at = 0, pause = 0;  // stop for `pause` cycles before beat `pause_at` of each TLP
    unsigned cut_at = 0;               // end nullified TLPs after this many beats
    uint64_t cycles = 0;
    std::string failure;

    Phy() : context(new VerilatedContext), top(new Vpcie_phy(context.get())) {
        top->rst = 1;
        top->enable = 1;
        top->retrain_request = 0;
        top->clk = 0;
        top->phy_tx_valid = 0;
        top->link_rx_valid = 0;
        for (int n = 0; n < 4; n++) edge();
        top->rst = 0;
    }
    ~Phy() { top->final(); }
    Vpcie_phy &ports() { return *top; }

    void tick() {
        drive();
        top->eval();
        if (top->phy_tx_valid && top->phy_tx_ready) {
            at += BEAT;
            waited = 0;
            if (top->phy_tx_eop) to_send.pop_front(), at = 0;
        } else {
            waited++;
        }
        Word word = {};
        word.valid = top->link_tx_valid;
        word.start = top->link_tx_start;
        memcpy(&word.control, &top->link_tx_control, (LINK + 7) / 8);
        memcpy(word.data, &top->link_tx_data, LINK);
        if (keeps) sent.push_back(word);
        if (loops) put(word);
        else if (!to_receive.empty()) put(to_receive.front()), to_receive.pop_front();
        else idle();
        top->eval();
        receive();
        edge();
        cycles++;
    }

  private:
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vpcie_phy> top;
    size_t at = 0;
    unsigned waited = 0, block = 0;
    bool in_frame = false;
    Bytes receiving;

    void edge() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
    }
    void put(const Word &word) {
        top->link_rx_valid = word.valid;
        top->link_rx_start = word.start;
        top->link_rx_bad = word.bad;
        memcpy(&top->link_rx_control, &word.control, (LINK + 7) / 8);
        memcpy(&top->link_rx_data, word.data, LINK);
        if (word.start) block = 0;
        block = (block + 1) % (16 / SYMBOLS);
    }
    void idle() {
        Word word = {1, block == 0, 0, 0, {}};
        put(word);
    }
    void drive() {
        top->phy_tx_valid = 0;
        if (to_send.empty()) return;
        if (at && pause && at / BEAT == pause_at && waited < pause) return;
        uint8_t beat[BEAT];
        const Frame &frame = to_send.front();
        size_t total = frame.bytes.size() + 2, length = total - at < BEAT ? total - at : BEAT;
        memset(beat, 0x5a, BEAT);
        if (at == 0) memset(beat, 0, 2), memcpy(beat + 2, frame.bytes.data(), length - 2);
        else memcpy(beat, frame.bytes.data() + at - 2, length);
        top->phy_tx_valid = 1;
        top->phy_tx_sop = at == 0;
        top->phy_tx_eop = at + length == total || (frame.nullify && cut_at && at / BEAT + 1 >= cut_at);
        top->phy_tx_dllp = frame.dllp;
        top->phy_tx_nullify = top->phy_tx_eop && frame.nullify;
        top->phy_tx_end = (length + 3) / 4 - 1;
        memcpy(&top->phy_tx_data, beat, BEAT);
    }
    void fail(const char *what) {
        if (failure.empty()) failure = "cycle " + std::to_string(cycles) + ": " + what;
    }
    void receive() {
        if (!top->phy_rx_valid) return;
        if (top->phy_rx_sop == in_frame) fail(in_frame ? "a frame begins within a frame" : "a beat without a begin");
        if (!top->phy_rx_eop && top->phy_rx_dllp) fail("a DLLP of more than a beat");
        if (top->phy_rx_sop) receiving.clear();
        const uint8_t *data = reinterpret_cast<const uint8_t *>(&top->phy_rx_data);
        size_t length = top->phy_rx_eop ? (top->phy_rx_end + 1) * 4 : BEAT;
        receiving.insert(receiving.end(), data, data + length);
        in_frame = !top->phy_rx_eop;
        if (in_frame) return;
        received.push_back({Bytes(receiving.begin() + 2, receiving.end()), bool(top->phy_rx_dllp), bool(top->phy_rx_nullify), bool(top->phy_rx_error), cycles});
    }
};

extern "C" {
Phy *phy_new() { return new Phy; }
void phy_free(Phy *phy) { delete phy; }
const char *phy_step(Phy *phy, uint32_t cycles) {
    for (uint32_t n = 0; n < cycles && phy->failure.empty(); n++) phy->tick();
    return phy->failure.c_str();
}
// Feeds the receiver from `phy_word` and idle words instead of its own transmitter, from the begin of a block.
const char *phy_detach(Phy *phy) {
    while (phy->failure.empty() && phy->ports().link_tx_start == 0) phy->tick();
    phy->loops = false;
    return phy->failure.c_str();
}
void phy_attach(Phy *phy) { phy->loops = true; }
void phy_set(Phy *phy, int enable, int retrain) { phy->ports().enable = enable, phy->ports().retrain_request = retrain; }
void phy_keep(Phy *phy, int keeps) { phy->keeps = keeps; }
void phy_disturb(Phy *phy, uint32_t pause_at, uint32_t pause, uint32_t cut_at) { phy->pause_at = pause_at, phy->pause = pause, phy->cut_at = cut_at; }
uint64_t phy_cycles(Phy *phy) { return phy->cycles; }
// State in bits 2:0, LinkUp in bit 3, Recovery in bit 4.
uint32_t phy_state(Phy *phy) { return phy->ports().phy_state | phy->ports().phy_link_up << 3 | phy->ports().phy_recovery << 4; }
uint32_t phy_unsent(Phy *phy) { return phy->to_send.size(); }
uint32_t phy_unreceived(Phy *phy) { return phy->to_receive.size(); }
uint32_t phy_count(Phy *phy, unsigned event) {
    uint16_t value;
    memcpy(&value, reinterpret_cast<const char *>(&phy->ports().phy_counts) + 2 * event, 2);
    return value;
}
void phy_send(Phy *phy, const uint8_t *bytes, uint32_t length, int dllp, int nullify) {
    phy->to_send.push_back({Bytes(bytes, bytes + length), dllp != 0, nullify != 0, false, 0});
}
int phy_received(Phy *phy, uint8_t *bytes, int *flags, uint64_t *time) {
    if (phy->received.empty()) return -1;
    Frame frame = std::move(phy->received.front());
    phy->received.pop_front();
    memcpy(bytes, frame.bytes.data(), frame.bytes.size());
    *flags = frame.dllp | frame.nullify << 1 | frame.error << 2;
    *time = frame.time;
    return int(frame.bytes.size());
}
// Words of the lanes, each as valid, start, 2 bytes of bad lanes, 8 of control, data.
void phy_word(Phy *phy, const uint8_t *bytes) {
    Word word = {};
    word.valid = bytes[0], word.start = bytes[1];
    memcpy(&word.bad, bytes + 2, 2);
    memcpy(&word.control, bytes + 4, 8);
    memcpy(word.data, bytes + 12, LINK);
    phy->to_receive.push_back(word);
}
int phy_sent(Phy *phy, uint8_t *bytes) {
    if (phy->sent.empty()) return 0;
    const Word &word = phy->sent.front();
    bytes[0] = word.valid, bytes[1] = word.start;
    memcpy(bytes + 2, &word.bad, 2);
    memcpy(bytes + 4, &word.control, 8);
    memcpy(bytes + 12, word.data, LINK);
    phy->sent.pop_front();
    return 1;
}
}

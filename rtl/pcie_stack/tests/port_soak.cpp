// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two ports (transaction layer and data link layer) back to back over a lossy channel, both ways: port_soak TLPS SEED [ERRORS_PER_MILLION].
// Each TLP must arrive exactly once, in order within its class and VC, with every byte. A non-posted request or completion without Relaxed Ordering
// arrives after all posted requests that were sent before it. Users stall at random. Now and then the link goes down.
#include <ctime>
#include <memory>

#include "Vpcie_port.h"
#include "frames.hpp"
#include "verilated.h"

constexpr unsigned QUEUES = 3 * NUM_VCS;

struct Tlp {
    Bytes bytes;
    bool relaxed;
    uint64_t posted_before;  // posted requests of this VC that were accepted earlier
};

class Port : public FrameEdge<Vpcie_port> {
  public:
    std::deque<Tlp> to_send[QUEUES];
    std::deque<Tlp> on_the_way[QUEUES];  // accepted from the user, and not yet taken by the other user
    uint64_t posted_accepted[NUM_VCS] = {}, posted_taken[NUM_VCS] = {};
    uint64_t sent = 0, arrived = 0, bytes = 0, cut = 0;
    uint64_t dll_events[16] = {}, tl_events[16] = {};
    uint32_t user_gaps = 0, stream_gaps[3] = {};
    Port *other = nullptr;

    explicit Port(uint64_t seed) : FrameEdge(seed), context(new VerilatedContext), top(new Vpcie_port(context.get())) {
        top->clk = 0;
        top->rst = 1;
        top->replay_timer_limit = 600;
        top->ack_latency_limit = 40;
        top->ack_count_limit = 0;
        top->local_features = 1;
        top->phy_link_up = 0;
        top->phy_recovery = 0;
        top->vc_enable = (1 << NUM_VCS) - 1;
        top->tc_map = 0;
        for (unsigned tc = 0; tc < 8; tc++) top->tc_map |= (tc % NUM_VCS) << 3 * tc;
        top->vc_arbitration = 1;
        memset(&top->vc_phases, 0, sizeof top->vc_phases);
        top->max_payload = 0;
        top->update_fc_latency_limit = 64;
        top->update_fc_period = 5000;
        top->tx_dllp_valid = 0;
        top->ecrc_generate = top->ecrc_check = ECRC;
        top->tx_valid = 0;
        idle_frames(*top);
        for (int n = 0; n < 4; n++) top->eval(), edge();
        top->rst = 0;
    }
    ~Port() { top->final(); }

    Vpcie_port &ports() { return *top; }
    bool is_at_begin() const { return at == 0; }

    void tick() {
        drive();
        top->eval();
        sample();
        edge();
        cycles++;
    }

    // A legal TLP with random contents; its class and VC select the queue.
    void make() {
        unsigned vc = dice.below(NUM_VCS), type = dice.below(4) % 3, dwords = 1 + dice.below(dice.below(2) ? 4 : 32);
        unsigned tc = vc + NUM_VCS * dice.below(8 / NUM_VCS);
        bool relaxed = dice.below(4) == 0, four = dice.below(2) != 0, has_data = type == 0 || dice.below(2);
        uint8_t fmt = uint8_t(has_data << 1 | (four && type != 2)), kind = type == 2 ? 0x0a : type == 1 && has_data ? 0x0c : 0x00;
        if (kind == 0x0c) dwords = 1;
        Bytes tlp(4 * (fmt & 1 ? 4 : 3) + (has_data ? 4 * dwords : 0));
        for (uint8_t &byte : tlp) byte = uint8_t(dice.bits());
        tlp[0] = uint8_t(fmt << 5 | kind), tlp[1] = uint8_t(tc << 4), tlp[2] = uint8_t(relaxed << 5), tlp[3] = uint8_t(dwords);
        if (type != 2) {
            tlp[7] = dwords == 1 ? 0x0f : 0xff;
            // An address that is aligned to 128 bytes: no TLP crosses 4 KiB.
            tlp[4 * (fmt & 1 ? 4 : 3) - 1] &= 0x80;
        }
        to_send[3 * vc + type].push_back({tlp, relaxed && (type == 2 || has_data), 0});
    }

    // The link goes down: all that is on its way is lost.
    void forget() {
        for (auto &queue : to_send) queue.clear();
        for (auto &queue : on_the_way) queue.clear();
        memset(posted_accepted, 0, sizeof posted_accepted);
        memset(posted_taken, 0, sizeof posted_taken);
        from_link.clear();
    }
    using FrameEdge::reset_frames;

  private:
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vpcie_port> top;
    size_t at = 0;
    unsigned queue = 0;
    bool held = false;
    Bytes receiving[3];
    struct Stream {
        const uint8_t *valid, *sop, *eop, *cut, *vc, *end;
        const void *data;
        uint8_t *ready;
    };
    Stream streams[3] = {
        {&top->rx_p_valid, &top->rx_p_sop, &top->rx_p_eop, &top->rx_p_cut, &top->rx_p_vc, &top->rx_p_end, &top->rx_p_data, &top->rx_p_ready},
        {&top->rx_np_valid, &top->rx_np_sop, &top->rx_np_eop, &top->rx_np_cut, &top->rx_np_vc, &top->rx_np_end, &top->rx_np_data, &top->rx_np_ready},
        {&top->rx_cpl_valid, &top->rx_cpl_sop, &top->rx_cpl_eop, &top->rx_cpl_cut, &top->rx_cpl_vc, &top->rx_cpl_end, &top->rx_cpl_data, &top->rx_cpl_ready},
    };

    void edge() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
    }

    void drive() {
        idle_frames(*top);
        drive_frames(*top);
        top->tx_valid = 0;
        if (!at) {
            unsigned first = dice.below(QUEUES);
            held = false;
            for (unsigned n = 0; n < QUEUES && !held; n++) {
                queue = (first + n) % QUEUES;
                held = !to_send[queue].empty() && (top->tx_room >> queue & 1);
            }
        }
        if (held && !dice.chance(user_gaps)) {
            const Bytes &tlp = to_send[queue].front().bytes;
            size_t length = tlp.size() - at < BEAT ? tlp.size() - at : BEAT;
            top->tx_valid = 1;
            top->tx_sop = at == 0;
            top->tx_eop = at + length == tlp.size();
            top->tx_end = length / 4 - 1;
            top->tx_vc = queue / 3;
            memcpy(&top->tx_data, tlp.data() + at, length);
        }
        for (int n = 0; n < 3; n++) *streams[n].ready = !dice.chance(stream_gaps[n]);
    }

    void sample() {
        sample_frames(*top);
        if (top->tx_valid && top->tx_ready) {
            at += BEAT;
            if (top->tx_eop) {
                Tlp &tlp = to_send[queue].front();
                tlp.posted_before = posted_accepted[queue / 3];
                if (queue % 3 == 0) posted_accepted[queue / 3]++;
                on_the_way[queue].push_back(std::move(tlp));
                to_send[queue].pop_front();
                at = 0;
                sent++;
            }
        }
        for (unsigned n = 0; n < 3; n++) sample_stream(n);
        if (top->ecrc_error) fail("a wrong ECRC");
        for (unsigned bits = top->events; bits; bits &= bits - 1) dll_events[__builtin_ctz(bits)]++;
        for (unsigned bits = top->tl_events; bits; bits &= bits - 1) tl_events[__builtin_ctz(bits)]++;
    }

    void sample_stream(unsigned n) {
        Stream &stream = streams[n];
        if (!*stream.valid || !*stream.ready) return;
        if (*stream.sop) receiving[n].clear();
        unsigned vc = *stream.vc;
        auto &expected = other->on_the_way[3 * vc + n];
        if (*stream.cut) {
            cut++;
            return;
        }
        if (*stream.sop && n != 0 && !expected.empty() && !expected.front().relaxed && posted_taken[vc] < expected.front().posted_before)
            fail("a TLP passes an older posted request");
        const uint8_t *data = static_cast<const uint8_t *>(stream.data);
        receiving[n].insert(receiving[n].end(), data, data + (*stream.eop ? (*stream.end + 1) * 4 : BEAT));
        if (!*stream.eop) return;
        if (expected.empty()) return fail("a TLP arrives that was never sent");
        if (ECRC) {
            if (!(receiving[n][2] & 0x80)) return fail("a TLP without ECRC");
            receiving[n][2] &= 0x7f;
            receiving[n].resize(receiving[n].size() - 4);
        }
        if (expected.front().bytes != receiving[n]) return fail("a TLP arrives that is not the oldest of its class");
        if (n == 0) posted_taken[vc]++;
        expected.pop_front();
        arrived++;
        bytes += receiving[n].size();
    }
};

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: port_soak TLPS SEED [ERRORS_PER_MILLION]\n"), 2;
    uint64_t tlps = strtoull(arguments[1], nullptr, 0), seed = strtoull(arguments[2], nullptr, 0);
    uint32_t errors = count > 3 ? uint32_t(strtoul(arguments[3], nullptr, 0)) : 10000;
    Port a(seed), b(seed + 1);
    a.other = &b, b.other = &a;
    Channel forth(seed + 2, errors, 20), back(seed + 3, errors, 20);
    Dice dice(seed + 4);
    uint64_t downs = 0, retrains = 0, lost_at_down = 0, recovery_until = 0, last = 0, last_at = 0;
    auto begin = clock();
    a.ports().phy_link_up = b.ports().phy_link_up = 1;
    while (a.arrived < tlps || b.arrived < tlps) {
        uint64_t now = a.cycles;
        if (now % 4096 == 0) {
            // All parties change their pace.
            for (Port *port : {&a, &b}) {
                port->link_gaps = dice.below(3) ? 0 : dice.below(500000);
                port->user_gaps = dice.below(3) ? 0 : dice.below(500000);
                port->ready_gaps = dice.below(3) ? 0 : dice.below(500000);
                for (uint32_t &gaps : port->stream_gaps) gaps = dice.below(3) ? 0 : dice.below(2) ? 1000000 : dice.below(900000);
                port->ports().vc_arbitration = dice.below(3);
                for (size_t n = 0; n < sizeof port->ports().vc_phases; n++) reinterpret_cast<uint8_t *>(&port->ports().vc_phases)[n] = uint8_t(dice.bits());
                port->ports().ack_count_limit = dice.below(2) ? 0 : 1 + dice.below(20);
            }
            forth.latency = 2 + dice.below(60);
            back.latency = 2 + dice.below(60);
        }
        for (Port *port : {&a, &b})
            for (int n = 0; n < 4 && port->to_send[dice.below(QUEUES)].size() < 4; n++) port->make();
        a.tick();
        b.tick();
        forth.move(a, b);
        back.move(b, a);
        for (Port *port : {&a, &b})
            if (!port->failure.empty()) return printf("port_soak: %s\n", port->failure.c_str()), 1;
        bool asks = a.ports().retrain_request || b.ports().retrain_request;
        if (asks && !recovery_until) retrains++, recovery_until = now + 100;
        if (recovery_until && now >= recovery_until) recovery_until = 0;
        a.ports().phy_recovery = b.ports().phy_recovery = recovery_until != 0;
        if (dice.below(100000) == 0) {
            downs++;
            a.ports().phy_link_up = b.ports().phy_link_up = 0;
            forth.way.clear(), back.way.clear();
            for (Port *port : {&a, &b}) {
                port->reset_frames();
                port->user_gaps = 0;
                for (uint32_t &gaps : port->stream_gaps) gaps = 0;
                // A TLP that is half in goes in whole and is dropped; one that is half out ends at once.
                for (int n = 0; n < 200; n++) port->tick();
                if (!port->is_at_begin()) return printf("port_soak: a TLP sticks while the link is down\n"), 1;
                if (!port->failure.empty()) return printf("port_soak: %s\n", port->failure.c_str()), 1;
            }
            for (Port *port : {&a, &b}) {
                for (auto &queue : port->on_the_way) lost_at_down += queue.size();
                port->forget();
                port->ports().phy_link_up = 1;
            }
        }
        if (a.arrived + b.arrived != last) last = a.arrived + b.arrived, last_at = now;
        if (now - last_at > 100000) return printf("port_soak: no TLP arrives for 100000 cycles, at %lu of %lu\n", last, 2 * tlps), 1;
    }
    double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
    uint64_t wrong = 0;
    for (int n = 0; n < 12; n++) wrong += a.tl_events[n] + b.tl_events[n];
    printf("port_soak: %lu TLPs, %lu bytes, %lu cycles, %.2f s, %.3f million cycles per CPU-second\n", a.arrived + b.arrived, a.bytes + b.bytes, a.cycles, seconds,
           double(a.cycles) / seconds / 1e6);
    printf("port_soak: channel: %lu frames, %lu lost, %lu doubled, %lu damaged, %lu marked; %lu times down (%lu TLPs lost, %lu cut), %lu retrains\n",
           forth.carried + back.carried, forth.lost + back.lost, forth.doubled + back.doubled, forth.damaged + back.damaged, forth.marked + back.marked, downs, lost_at_down,
           a.cut + b.cut, retrains);
    printf("port_soak: %lu replays, %lu UpdateFC sent, %lu errors of the transaction layers\n", a.dll_events[11] + b.dll_events[11], a.tl_events[12] + b.tl_events[12], wrong);
    return wrong != 0;
}

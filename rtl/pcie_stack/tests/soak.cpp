// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two data link layers back to back over a lossy channel, both ways: soak TLPS SEED [ERRORS_PER_MILLION].
// Each direction loses, doubles and damages frames. Each TLP must arrive exactly once, in order, with every byte. The transaction
// layers nullify some TLPs, which must not arrive. Now and then the link goes down, and starts again.
#include <ctime>

#include "harness.hpp"

struct Side {
    Dut dut;
    Dice dice;
    std::deque<Bytes> expected;
    uint64_t sent = 0, arrived = 0, nullified = 0, bytes = 0;
    unsigned phase = 0;

    explicit Side(uint64_t seed) : dut(seed), dice(seed + 77) {
        dut.ports().replay_timer_limit = 600;
        dut.ports().ack_latency_limit = 40;
        for (size_t n = 0; n < sizeof dut.ports().init_fc; n++) reinterpret_cast<char *>(&dut.ports().init_fc)[n] = char(n + 1);
    }

    void feed(uint64_t limit) {
        while (sent < limit && dut.to_send.size() < 4) {
            // Short and long TLPs, of the lengths around whole beats too.
            unsigned dwords = 3 + dice.below(dice.below(3) ? 8 : MAX_TLP / 4 - 2);
            Tlp tlp;
            tlp.bytes.resize(dwords * 4);
            for (unsigned n = 0; n < dwords; n++) {
                uint32_t word = dice.bits();
                memcpy(&tlp.bytes[4 * n], &word, 4);
            }
            tlp.nullify = dice.below(64) == 0;
            if (tlp.nullify) nullified++;
            else expected.push_back(tlp.bytes), sent++;
            dut.to_send.push_back(std::move(tlp));
        }
        // The transaction layer answers InitFC with UpdateFC, and sends some now and then.
        for (; !dut.learned.empty(); dut.learned.pop_front()) {
            FlowControl &fc = dut.learned.front();
            if (fc.kind == 3 && dut.ports().dl_state == 3 && dut.to_update.size() < 4) dut.to_update.push_back({2, fc.type, fc.vc, 0x123456, true});
        }
        if (dice.below(50) == 0 && dut.to_update.size() < 4) dut.to_update.push_back({2, uint8_t(dice.below(3)), 0, dice.bits() & 0xffffff, dice.below(2) != 0});
    }

    bool check(std::deque<Bytes> &from) {
        for (; !dut.received.empty(); dut.received.pop_front()) {
            if (from.empty()) return printf("soak: TLP %lu arrives and was never sent\n", arrived), false;
            if (from.front() != dut.received.front()) return printf("soak: TLP %lu is not the one that was sent\n", arrived), false;
            bytes += from.front().size();
            from.pop_front();
            arrived++;
        }
        if (!dut.failure.empty()) return printf("soak: %s\n", dut.failure.c_str()), false;
        return true;
    }
};

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: soak TLPS SEED [ERRORS_PER_MILLION]\n"), 2;
    uint64_t tlps = strtoull(arguments[1], nullptr, 0), seed = strtoull(arguments[2], nullptr, 0);
    uint32_t errors = count > 3 ? uint32_t(strtoul(arguments[3], nullptr, 0)) : 10000;
    Side a(seed), b(seed + 1);
    Channel forth(seed + 2, errors, 20), back(seed + 3, errors, 20);
    Dice dice(seed + 4);
    uint64_t downs = 0, retrains = 0, lost_at_down = 0, recovery_until = 0, last = 0, last_at = 0;
    auto begin = clock();
    a.dut.ports().phy_link_up = b.dut.ports().phy_link_up = 1;
    while (a.arrived < tlps || b.arrived < tlps) {
        uint64_t now = a.dut.cycles;
        // All parties change their pace every 4096 cycles: full speed, gaps, a slow wire.
        if (now % 4096 == 0) {
            for (Side *side : {&a, &b}) {
                side->dut.link_gaps = dice.below(3) ? 0 : dice.below(500000);
                side->dut.tlp_gaps = dice.below(3) ? 0 : dice.below(500000);
                side->dut.ready_gaps = dice.below(3) ? 0 : dice.below(500000);
                side->dut.tlp_pause = dice.below(2) ? 0 : dice.below(990000);
                side->dut.ports().ack_count_limit = dice.below(2) ? 0 : 1 + dice.below(20);
            }
            forth.latency = 2 + dice.below(60);
            back.latency = 2 + dice.below(60);
        }
        a.feed(tlps);
        b.feed(tlps);
        a.dut.tick();
        b.dut.tick();
        forth.move(a.dut, b.dut);
        back.move(b.dut, a.dut);
        if (!b.check(a.expected) || !a.check(b.expected)) return 1;
        // The physical layer retrains when it is asked to.
        bool asks = a.dut.ports().retrain_request || b.dut.ports().retrain_request;
        if (asks && !recovery_until) retrains++, recovery_until = now + 100;
        if (recovery_until && now >= recovery_until) recovery_until = 0;
        a.dut.ports().phy_recovery = b.dut.ports().phy_recovery = recovery_until != 0;
        if (dice.below(100000) == 0) {
            // Link down: TLPs on their way are lost, and reported as such by the transaction layer.
            downs++;
            a.dut.ports().phy_link_up = b.dut.ports().phy_link_up = 0;
            forth.way.clear(), back.way.clear();
            for (Side *side : {&a, &b}) {
                // A TLP that is half in goes in whole, and is dropped; then no more are offered.
                side->dut.reset_edges();
                for (int n = 0; n < 200; n++) side->dut.tick();
                if (!side->dut.to_send_is_at_begin()) return printf("soak: a TLP sticks while the link is down\n"), 1;
                side->dut.from_link.clear();
                side->dut.received.clear();
                side->dut.to_send.clear();
                side->dut.to_update.clear();
                lost_at_down += side->expected.size();
                side->sent -= side->expected.size();
                side->expected.clear();
                side->dut.ports().phy_link_up = 1;
            }
        }
        if (a.arrived + b.arrived != last) last = a.arrived + b.arrived, last_at = now;
        if (now - last_at > 100000) return printf("soak: no TLP arrives for 100000 cycles, at %lu of %lu\n", last, 2 * tlps), 1;
    }
    double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
    static const char *names[16] = {"bad LCRC", "sequence gap", "duplicate", "nullified", "receiver error", "bad DLLP", "unknown DLLP", "protocol error", "replay timeout",
                                    "replay rollover", "Nak received", "replay", "Ack sent", "Nak sent", "TX nullified", "TX overlong"};
    printf("soak: %lu TLPs, %lu bytes, %lu cycles, %.2f s, %.3f million cycles per CPU-second\n", a.arrived + b.arrived, a.bytes + b.bytes, a.dut.cycles, seconds,
           double(a.dut.cycles) / seconds / 1e6);
    printf("soak: channel: %lu frames, %lu lost, %lu doubled, %lu damaged, %lu marked; %lu times down, %lu retrains\n", forth.carried + back.carried,
           forth.lost + back.lost, forth.doubled + back.doubled, forth.damaged + back.damaged, forth.marked + back.marked, downs, retrains);
    for (int n = 0; n < 16; n++) printf("%s%s %lu", n ? ", " : "soak: events: ", names[n], a.dut.events[n] + b.dut.events[n]);
    printf("\n");
    return 0;
}

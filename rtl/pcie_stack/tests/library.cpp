// SPDX-License-Identifier: Apache-2.0 OR MIT
// C interface to the harness, for ctypes in Python.
#include "harness.hpp"

extern "C" {
Dut *dut_new(uint64_t seed) { return new Dut(seed); }
void dut_free(Dut *dut) { delete dut; }
const char *dut_step(Dut *dut, uint32_t cycles) {
    for (uint32_t n = 0; n < cycles && dut->failure.empty(); n++) dut->tick();
    return dut->failure.c_str();
}
// Steps until a frame or a TLP has arrived, at most `cycles`.
const char *dut_run(Dut *dut, uint32_t cycles) {
    for (uint32_t n = 0; n < cycles && dut->failure.empty() && dut->from_link.empty() && dut->received.empty(); n++) dut->tick();
    return dut->failure.c_str();
}
void dut_gaps(Dut *dut, uint32_t link, uint32_t tlp, uint32_t ready) { dut->link_gaps = link, dut->tlp_gaps = tlp, dut->ready_gaps = ready; }
uint64_t dut_cycles(Dut *dut) { return dut->cycles; }
uint64_t dut_dropped(Dut *dut) { return dut->dropped; }
uint32_t dut_count(Dut *dut, unsigned event) { return dut->count(event); }

void dut_set(Dut *dut, const char *name, uint32_t value) {
    Vpcie_dll &top = dut->ports();
    std::string port = name;
    if (port == "replay_timer_limit") top.replay_timer_limit = value;
    else if (port == "ack_latency_limit") top.ack_latency_limit = value;
    else if (port == "ack_count_limit") top.ack_count_limit = value;
    else if (port == "local_features") top.local_features = value;
    else if (port == "phy_link_up") top.phy_link_up = value;
    else if (port == "phy_recovery") top.phy_recovery = value;
    else if (port == "vc_enable") top.vc_enable = value;
    else if (port == "vc_tlp_seen") top.vc_tlp_seen = value;
    else if (port == "rst") top.rst = value;
    else fprintf(stderr, "harness: no port %s\n", name), abort();
}
uint32_t dut_get(Dut *dut, const char *name) {
    Vpcie_dll &top = dut->ports();
    std::string port = name;
    if (port == "dl_state") return top.dl_state;
    if (port == "dl_up") return top.dl_up;
    if (port == "retrain_request") return top.retrain_request;
    if (port == "vc_init2") return top.vc_init2;
    if (port == "vc_ready") return top.vc_ready;
    if (port == "remote_features") return top.remote_features;
    if (port == "remote_features_valid") return top.remote_features_valid;
    if (port == "unsent") return dut->to_send.size();
    if (port == "unreceived") return dut->to_link.size();
    fprintf(stderr, "harness: no port %s\n", name), abort();
}
void dut_init_fc(Dut *dut, unsigned index, uint32_t value) {
    char *bytes = reinterpret_cast<char *>(&dut->ports().init_fc);
    memcpy(bytes + 3 * index, &value, 3);
}

void dut_push_frame(Dut *dut, const uint8_t *bytes, uint32_t length, int dllp, int nullify, int error) {
    dut->to_link.push_back({Bytes(bytes, bytes + length), dllp != 0, nullify != 0, error != 0, 0});
}
// Returns the length, or -1; flags: bit 0 DLLP, bit 1 nullified; the cycle goes to `time`.
int dut_pop_frame(Dut *dut, uint8_t *bytes, int *flags, uint64_t *time) {
    if (dut->from_link.empty()) return -1;
    Frame frame = std::move(dut->from_link.front());
    dut->from_link.pop_front();
    memcpy(bytes, frame.bytes.data(), frame.bytes.size());
    *flags = frame.dllp | frame.nullify << 1;
    *time = frame.time;
    return int(frame.bytes.size());
}
void dut_push_tlp(Dut *dut, const uint8_t *bytes, uint32_t length, int nullify) {
    dut->to_send.push_back({Bytes(bytes, bytes + length), nullify != 0});
}
int dut_pop_tlp(Dut *dut, uint8_t *bytes) {
    if (dut->received.empty()) return -1;
    Bytes tlp = std::move(dut->received.front());
    dut->received.pop_front();
    memcpy(bytes, tlp.data(), tlp.size());
    return int(tlp.size());
}
void dut_push_update(Dut *dut, int type, int vc, uint32_t value, int urgent) {
    dut->to_update.push_back({2, uint8_t(type), uint8_t(vc), value, urgent != 0});
}
// Kind in bits 31:30, type in 29:28, VC in 26:24, value below; or all ones.
uint32_t dut_pop_fc(Dut *dut) {
    if (dut->learned.empty()) return ~0u;
    FlowControl fc = dut->learned.front();
    dut->learned.pop_front();
    return uint32_t(fc.kind) << 30 | uint32_t(fc.type) << 28 | uint32_t(fc.vc) << 24 | fc.value;
}
void dut_push_other(Dut *dut, uint32_t bytes) { dut->other_to_send.push_back(bytes); }
int dut_pop_other(Dut *dut, uint32_t *bytes) {
    if (dut->other_received.empty()) return 0;
    *bytes = dut->other_received.front();
    dut->other_received.pop_front();
    return 1;
}
}

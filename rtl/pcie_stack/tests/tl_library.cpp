// SPDX-License-Identifier: Apache-2.0 OR MIT
// C interface to the harness of the transaction layer, for ctypes in Python.
#include "tl_harness.hpp"

extern "C" {
Tl *tl_new(uint64_t seed) { return new Tl(seed); }
void tl_free(Tl *tl) { delete tl; }
const char *tl_step(Tl *tl, uint32_t cycles) {
    for (uint32_t n = 0; n < cycles && tl->failure.empty(); n++) tl->tick();
    return tl->failure.c_str();
}
uint64_t tl_cycles(Tl *tl) { return tl->cycles; }
uint64_t tl_beats(Tl *tl, unsigned stream) { return stream == 3 ? tl->beats_out : tl->beats_taken[stream]; }
uint32_t tl_count(Tl *tl, unsigned event) { return tl->count(event); }
uint64_t tl_events(Tl *tl, unsigned event) { return tl->events[event]; }

void tl_set(Tl *tl, const char *name, uint32_t value) {
    Vpcie_tl &top = tl->ports();
    std::string port = name;
    if (port == "tc_map") top.tc_map = value;
    else if (port == "vc_enable") top.vc_enable = value;
    else if (port == "vc_arbitration") top.vc_arbitration = value;
    else if (port == "max_payload") top.max_payload = value;
    else if (port == "update_fc_latency_limit") top.update_fc_latency_limit = value;
    else if (port == "update_fc_period") top.update_fc_period = value;
    else if (port == "local_features") top.local_features = value;
    else if (port == "remote_features") top.remote_features = value;
    else if (port == "vc_init2") top.vc_init2 = value;
    else if (port == "vc_ready") top.vc_ready = value;
    else if (port == "dl_state") top.dl_state = value;
    else if (port == "rst") top.rst = value;
    else if (port == "user_gaps") tl->user_gaps = value;
    else if (port == "link_gaps") tl->link_gaps = value;
    else if (port == "ready_gaps") tl->ready_gaps = value;
    else if (port == "update_gaps") tl->update_gaps = value;
    else if (port == "p_gaps") tl->stream_gaps[0] = value;
    else if (port == "np_gaps") tl->stream_gaps[1] = value;
    else if (port == "cpl_gaps") tl->stream_gaps[2] = value;
    else if (port == "insists") tl->insists = value != 0;
    else fprintf(stderr, "harness: no port %s\n", name), abort();
}
uint32_t tl_get(Tl *tl, const char *name) {
    Vpcie_tl &top = tl->ports();
    std::string port = name;
    uint32_t waiting = 0;
    if (port == "tx_room") return top.tx_room;
    if (port == "tx_ready") return top.tx_ready;
    if (port == "tx_starved") return top.tx_starved;
    if (port == "scaled_flow_control") return top.scaled_flow_control;
    if (port == "unreceived") return uint32_t(tl->to_receive.size());
    if (port == "unsent") {
        for (auto &queue : tl->to_send) waiting += uint32_t(queue.size());
        return waiting;
    }
    fprintf(stderr, "harness: no port %s\n", name), abort();
}
void tl_set_phase(Tl *tl, unsigned phase, unsigned vc) {
    uint8_t *bytes = reinterpret_cast<uint8_t *>(&tl->ports().vc_phases);
    for (unsigned bit = 0; bit < 3; bit++) {
        unsigned at = 3 * phase + bit;
        bytes[at / 8] = uint8_t((bytes[at / 8] & ~(1u << at % 8)) | (vc >> bit & 1) << at % 8);
    }
}
uint32_t tl_init_fc(Tl *tl, unsigned index) {
    uint32_t value = 0;
    memcpy(&value, reinterpret_cast<const char *>(&tl->ports().init_fc) + 3 * index, 3);
    return value;
}

void tl_send(Tl *tl, unsigned vc, unsigned type, unsigned queue_vc, const uint8_t *bytes, uint32_t length) {
    tl->to_send[3 * queue_vc + type].push_back({Bytes(bytes, bytes + length), uint8_t(vc), true});
}
void tl_receive(Tl *tl, const uint8_t *bytes, uint32_t length, int good) { tl->to_receive.push_back({Bytes(bytes, bytes + length), 0, good != 0}); }
void tl_learn(Tl *tl, unsigned kind, unsigned type, unsigned vc, uint32_t value) { tl->to_learn.push_back({uint8_t(kind), uint8_t(type), uint8_t(vc), value}); }
// Length of the log; it is copied to `to` and emptied if `size` is enough.
uint64_t tl_log(Tl *tl, uint8_t *to, uint64_t size) {
    uint64_t length = tl->log.size();
    if (length <= size) memcpy(to, tl->log.data(), length), tl->log.clear();
    return length;
}
}

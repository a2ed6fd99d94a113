// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs the SoC: soc CYCLES NEAR WIDTH LATENCY +ram=FILE. FILE is the memory's contents for $readmemh. NEAR, WIDTH and LATENCY are inputs of soc_test. The console
// goes to standard output, figures go to standard error. The exit status is the value with which software ends the simulation, or 124 after CYCLES.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "Vsoc_test.h"
#include "device.hpp"
#include "verilated.h"

constexpr unsigned BEAT = DATA_WIDTH / 8;

struct Simulation {
    VerilatedContext context;
    Vsoc_test *top;
    Device device;
    uint64_t cycles = 0;
    size_t at = 0;
    Bytes receiving[3];

    Simulation(int count, char **arguments) {
        context.commandArgs(count, arguments);
        top = new Vsoc_test(&context);
        top->clk = 0, top->rst = 1, top->tx_valid = 0;
        top->nic_near = atoi(arguments[2]), top->width = atoi(arguments[3]), top->latency = atoi(arguments[4]);
        for (int n = 0; n < 20; n++) edge();
        top->rst = 0;
        top->eval();
    }
    ~Simulation() {
        top->final();
        delete top;
    }

    void edge() {
        top->clk = 1, top->eval();
        top->clk = 0, top->eval();
    }

    // One cycle. All outputs but `tx_ready` are those of registers, so the model is evaluated a third time only while the device sends.
    void cycle() {
        device.tick();
        if (top->device_reset) device.reset(), at = 0;
        send();
        for (int s = 0; s < 3; s++)
            if (top->rx_valid >> s & 1) receive(s);
        edge();
        cycles++;
    }

    void send() {
        top->tx_valid = !device.to_send.empty();
        if (!top->tx_valid) return;
        const Bytes &tlp = device.to_send.front();
        size_t length = tlp.size() - at < BEAT ? tlp.size() - at : BEAT;
        top->tx_sop = at == 0, top->tx_eop = at + length == tlp.size(), top->tx_end = length / 4 - 1;
        memcpy(&top->tx_data, tlp.data() + at, length);
        top->eval();
        if (!top->tx_ready) return;
        at += BEAT;
        if (top->tx_eop) device.to_send.pop_front(), at = 0;
    }

    void receive(int stream) {
        if (top->rx_sop >> stream & 1) receiving[stream].clear();
        bool ends = top->rx_eop >> stream & 1;
        size_t length = ends ? ((top->rx_end >> 8 * stream & 0xff) + 1) * 4 : BEAT;
        const uint8_t *from = reinterpret_cast<const uint8_t *>(&top->rx_data) + stream * BEAT;
        receiving[stream].insert(receiving[stream].end(), from, from + length);
        if (ends) device.receive(stream, receiving[stream]);
    }
};

int main(int count, char **arguments) {
    if (count < 6) return fprintf(stderr, "usage: soc CYCLES NEAR WIDTH LATENCY +ram=FILE\n"), 2;
    uint64_t limit = strtoull(arguments[1], nullptr, 0);
    Simulation simulation(count, arguments);
    auto start = std::chrono::steady_clock::now();
    int status = 124;
    while (simulation.cycles < limit && status == 124) {
        if (simulation.top->uart_valid) {
            putchar(simulation.top->uart_data);
            if (simulation.top->uart_data == '\n') fflush(stdout);
        }
        if (simulation.top->finish_valid) status = simulation.top->finish_value & 0xff;
        simulation.cycle();
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Device &device = simulation.device;
    fflush(stdout);
    fprintf(stderr, "soc: %lu cycles in %.1f s, %.0f per second; device: %lu TLPs received, %lu bytes read, %lu written, %lu interrupts\n", simulation.cycles, seconds,
            simulation.cycles / seconds, device.requests, device.read_bytes, device.written_bytes, device.interrupts);
    return status;
}

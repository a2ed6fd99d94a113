// SPDX-License-Identifier: Apache-2.0 OR MIT
// What stands between riser and a design that Verilator has compiled: made and called by riser alone. Each call of `eval` takes the clocks
// and the reset, and asks riser at each edge of the user clock what the block reads and drives.
#include "Vriser_top.h"
#include "svdpi.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace {
using Edge = void (*)(void* user, const uint32_t* read, uint32_t* driven);

struct Ended {
    std::string why;
};

Edge edge_of = nullptr;
void* user_of = nullptr;

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vriser_top> top;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> waves;
#endif
};

void say(char* error, size_t len, const std::string& why) { std::snprintf(error, len, "%s", why.c_str()); }

std::string place(const char* file, int line, const char* what) {
    return std::string(file ? file : "") + ":" + std::to_string(line) + ": " + what;
}

void* create(uint64_t seed, char* error, size_t len) {
    try {
        auto model = std::make_unique<Model>();
        model->context.randReset(2);
        model->context.randSeed(int(seed & 0x7fffffff));
#if VM_TRACE
        model->context.traceEverOn(true);
#endif
        model->top = std::make_unique<Vriser_top>(&model->context, "");
        // Files that the design reads are read now.
        edge_of = [](void*, const uint32_t*, uint32_t*) {};
        model->top->riser_clock = 0;
        model->top->riser_reset_n = 0;
        model->top->eval();
        return model.release();
    } catch (const Ended& ended) {
        say(error, len, ended.why);
    } catch (const std::exception& e) {
        say(error, len, e.what());
    }
    return nullptr;
}

void destroy(void* handle) {
    auto* model = static_cast<Model*>(handle);
#if VM_TRACE
    if (model->waves) model->waves->close();
#endif
    delete model;
}

int eval(void* handle, uint32_t clocks, uint8_t reset_n, uint64_t time_ps, Edge edge, void* user, char* error, size_t len) {
    auto* model = static_cast<Model*>(handle);
    edge_of = edge;
    user_of = user;
    try {
        model->context.time(time_ps);
        model->top->riser_clock = clocks;
        model->top->riser_reset_n = reset_n;
        model->top->eval();
#if VM_TRACE
        if (model->waves) model->waves->dump(time_ps);
#endif
        return 0;
    } catch (const Ended& ended) {
        say(error, len, ended.why);
    } catch (const std::exception& e) {
        say(error, len, e.what());
    }
    return 1;
}

// Opens a file of waves. 1: it cannot; 2: this library has no waves.
int waves(void* handle, const char* path) {
#if VM_TRACE
    auto* model = static_cast<Model*>(handle);
    model->waves = std::make_unique<VerilatedFstC>();
    model->top->trace(model->waves.get(), 99);
    model->waves->open(path);
    return model->waves->isOpen() ? 0 : 1;
#else
    (void)handle;
    (void)path;
    return 2;
#endif
}

struct Ops {
    uint32_t abi;
    uint32_t size;
    const char* fingerprint;
    decltype(&create) create_;
    decltype(&destroy) destroy_;
    decltype(&eval) eval_;
    decltype(&waves) waves_;
};

const Ops ops = {RISER_ABI, sizeof(Ops), RISER_FINGERPRINT, create, destroy, eval, waves};
}  // namespace

extern "C" void riser_edge(const svBitVecVal* read, svBitVecVal* driven) { edge_of(user_of, read, driven); }

extern "C" __attribute__((visibility("default"))) const void* riser_rtl_entry() { return &ops; }

void vl_fatal(const char* file, int line, const char*, const char* what) VL_MT_UNSAFE { throw Ended{place(file, line, what)}; }

void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE { throw Ended{place(file, line, "$finish")}; }

void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE { throw Ended{place(file, line, "$stop")}; }

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Interface between riser and a design compiled by Verilator; only riser calls it. `run` goes from edge to edge of the clocks. At
// edges of the user clock it asks riser what the block drives, unless both sides are idle.
#include "Vriser_top.h"
#include "svdpi.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {
// Called at an edge of the user clock, after `passed` edges that were skipped.
using Edge = uint32_t (*)(void* user, uint64_t time_ps, uint64_t passed, const uint32_t* read, uint32_t* driven);
// Bits of its answer: stop after this edge; an edge that reads the same changes nothing.
constexpr uint32_t STOPS = 1, RESTS = 2;

struct Ended {
    std::string why;
};

struct Eval {
    uint32_t clocks;
    uint64_t time_ps;
};

struct Run {
    const Eval* evals;
    size_t count;
    uint64_t reset_until_ps;
    Edge edge;
    void* user;
    // Number of words read and driven at an edge.
    size_t words[2];
    // Number of evaluated entries of `evals`, and of skipped edges at the end.
    size_t done;
    uint64_t passed;
};

// The last edge at which riser was called, if a following edge that reads the same may change nothing.
struct Last {
    std::vector<uint32_t> read, driven;
    bool may_rest = false;
};

// Callback at an edge, during a call of this library. Returns true if edges that read the same change nothing, so that it need not be
// called.
thread_local bool (*edge_of)(void* user, const uint32_t* read, uint32_t* driven) = nullptr;
thread_local void* user_of = nullptr;
// Where to continue if the design crashes; null while none of its code runs.
thread_local sigjmp_buf* escape = nullptr;

constexpr int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
struct sigaction before[NSIG];

void crashed(int signal, siginfo_t* info, void* context) {
    if (escape) siglongjmp(*std::exchange(escape, nullptr), signal);
    // Not from the design: behave as if this library were absent.
    const auto& other = before[signal];
    if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(signal, info, context);
    if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) return other.sa_handler(signal);
    sigaction(signal, &other, nullptr);
    raise(signal);
}

bool install() {
    struct sigaction action = {};
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : CRASHES) sigaction(signal, &action, &before[signal]);
    return true;
}

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vriser_top> top;
    Last last;
    // True during a call. It stays true if the design crashed.
    bool is_under_way = false;
    // True if riser must be called at the next edge, whatever the design drives.
    bool asks = true;
    uint32_t clocks_before = 0;
    // The last TLP in each direction, and credits.
    uint32_t shown[18] = {};
    // Time range of the waves.
    uint64_t waves_from_ps = 0, waves_to_ps = UINT64_MAX;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> waves;
#endif

    void eval(uint32_t clocks, bool reset_n, uint64_t time_ps) {
        context.time(time_ps);
        top->riser_clock = clocks;
        top->riser_reset_n = reset_n;
        top->riser_asks = asks;
        is_under_way = true;
        top->eval();
        is_under_way = false;
#if VM_TRACE
        if (waves && time_ps >= waves_from_ps && time_ps < waves_to_ps) waves->dump(time_ps);
#endif
    }
};

// The model whose edges are being evaluated.
thread_local Model* model_of = nullptr;

// A run in progress.
struct Asked {
    Run& run;
    Last& last;
    uint64_t time_ps = 0;
    bool stops = false;
    // Number of blocks that called at this edge.
    unsigned blocks = 0;
};

bool same(const std::vector<uint32_t>& before, const uint32_t* now, size_t words) {
    return before.size() == words && std::memcmp(before.data(), now, words * sizeof(uint32_t)) == 0;
}

bool ask(void* user, const uint32_t* read, uint32_t* driven) {
    auto& [run, last, time_ps, stops, blocks] = *static_cast<Asked*>(user);
    ++blocks;
    sigjmp_buf* const back = std::exchange(escape, nullptr);
    const uint32_t answer = run.edge(run.user, time_ps, run.passed, read, driven);
    escape = back;
    run.passed = 0;
    stops = answer & STOPS;
    const bool could = std::exchange(last.may_rest, answer & RESTS);
    if (!last.may_rest) return false;
    // It is idle if the values were the same twice.
    if (could && same(last.read, read, run.words[0]) && same(last.driven, driven, run.words[1])) return true;
    last.read.assign(read, read + run.words[0]);
    last.driven.assign(driven, driven + run.words[1]);
    return false;
}

void say(char* error, size_t len, const std::string& why) { std::snprintf(error, len, "%s", why.c_str()); }

std::string place(const char* file, int line, const char* what) {
    return std::string(file ? file : "") + ":" + std::to_string(line) + ": " + what;
}

// Calls `work`. Returns 0, or 1 if the design has ended.
template <class Work> int guarded(char* error, size_t len, Work work) {
    static const bool installed = install();
    (void)installed;
    sigjmp_buf back;
    // Saving the signal mask would need a system call each time.
    if (const int signal = sigsetjmp(back, 0)) {
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, signal);
        pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
        say(error, len, std::string("it has crashed: ") + strsignal(signal));
        return 1;
    }
    escape = &back;
    struct Leave {
        ~Leave() { escape = nullptr; }
    } leave;
    try {
        work();
        return 0;
    } catch (const Ended& ended) {
        say(error, len, ended.why);
    } catch (const std::exception& e) {
        say(error, len, e.what());
    }
    return 1;
}

void* create(uint64_t seed, char* error, size_t len) {
    std::unique_ptr<Model> made;
    edge_of = [](void*, const uint32_t*, uint32_t*) { return false; };
    model_of = nullptr;
    const int failed = guarded(error, len, [&] {
        made = std::make_unique<Model>();
        // A design that asks for arguments of the simulator gets none.
        made->context.commandArgs(0, static_cast<const char**>(nullptr));
        made->context.randReset(2);
        made->context.randSeed(int(seed & 0x7fffffff));
#if VM_TRACE
        made->context.traceEverOn(true);
#endif
        made->top = std::make_unique<Vriser_top>(&made->context, "");
        // The design reads its files now.
        made->eval(0, false, 0);
    });
    return failed ? nullptr : made.release();
}

// A design that has crashed is not cleaned up.
void destroy(void* handle) {
    auto* model = static_cast<Model*>(handle);
    if (model->is_under_way) return;
#if VM_TRACE
    if (model->waves) model->waves->close();
#endif
    delete model;
}

// The source names the block once, but the modules around it may instantiate it never or several times.
void check_blocks(unsigned blocks) {
    if (blocks == 1) return;
    throw Ended{blocks == 0 ? "the built design does not contain the block: no edge of its clock reaches it"
                            : std::to_string(blocks) + " blocks are in the built design; expected one"};
}

// Evaluates these times, up to the one at which riser stops. `fresh`: riser has new inputs since the last call.
int run(void* handle, Run* run, uint8_t fresh, char* error, size_t len) {
    auto* model = static_cast<Model*>(handle);
    Asked asked{*run, model->last};
    model_of = model;
    if (fresh) {
        model->last.may_rest = false;
        model->asks = true;
    }
    user_of = &asked;
    edge_of = ask;
    return guarded(error, len, [&] {
        while (run->done < run->count && !asked.stops) {
            const Eval& at = run->evals[run->done++];
            asked.time_ps = at.time_ps;
            model->eval(at.clocks, at.time_ps >= run->reset_until_ps, at.time_ps);
            if (!(at.clocks & ~std::exchange(model->clocks_before, at.clocks) & 1)) continue;
            if (model->asks || asked.blocks) {
                check_blocks(std::exchange(asked.blocks, 0));
                model->asks = false;
            } else {
                ++run->passed;
            }
        }
    });
}

struct Next {
    const uint32_t* driven;
    size_t words;
};

// Evaluates all of them with recorded outputs of the block, without calls.
int replay(void* handle, const Eval* evals, size_t count, uint64_t reset_until_ps, const uint32_t* driven, size_t words, char* error, size_t len) {
    auto* model = static_cast<Model*>(handle);
    Next next{driven, words};
    model_of = model;
    user_of = &next;
    model->asks = true;
    edge_of = [](void* user, const uint32_t*, uint32_t* to) {
        auto* next = static_cast<Next*>(user);
        std::memcpy(to, next->driven, next->words * sizeof(uint32_t));
        next->driven += next->words;
        return false;
    };
    return guarded(error, len, [&] {
        for (const Eval* at = evals; at != evals + count; ++at) {
            model->eval(at->clocks, at->time_ps >= reset_until_ps, at->time_ps);
        }
    });
}

void show(void* handle, const uint32_t* words) {
    auto* model = static_cast<Model*>(handle);
    std::memcpy(model->shown, words, sizeof model->shown);
}

// Opens a waveform file. Returns 1 if that fails, and 2 if this library has no waves.
int waves(void* handle, const char* path, uint64_t from_ps, uint64_t to_ps) {
#if VM_TRACE
    auto* model = static_cast<Model*>(handle);
    model->waves_from_ps = from_ps;
    model->waves_to_ps = to_ps;
    model->waves = std::make_unique<VerilatedFstC>();
    model->top->trace(model->waves.get(), 99);
    model->waves->open(path);
    return model->waves->isOpen() ? 0 : 1;
#else
    (void)handle;
    (void)path;
    (void)from_ps;
    (void)to_ps;
    return 2;
#endif
}

struct Ops {
    uint32_t abi;
    uint32_t size;
    const char* fingerprint;
    decltype(&create) create_;
    decltype(&destroy) destroy_;
    decltype(&run) run_;
    decltype(&waves) waves_;
    decltype(&replay) replay_;
    decltype(&show) show_;
};

const Ops ops = {RISER_ABI, sizeof(Ops), RISER_FINGERPRINT, create, destroy, run, waves, replay, show};
}  // namespace

extern "C" svBit riser_edge(const svBitVecVal* read, svBitVecVal* driven) { return edge_of(user_of, read, driven); }

extern "C" void riser_show(svBitVecVal* shown) {
    if (model_of) std::memcpy(shown, model_of->shown, sizeof model_of->shown);
}

extern "C" __attribute__((visibility("default"))) const void* riser_rtl_entry() { return &ops; }

void vl_fatal(const char* file, int line, const char*, const char* what) VL_MT_UNSAFE { throw Ended{place(file, line, what)}; }

void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE { throw Ended{place(file, line, "$finish")}; }

void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE { throw Ended{place(file, line, "$stop")}; }

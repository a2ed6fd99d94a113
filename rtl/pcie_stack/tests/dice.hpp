// SPDX-License-Identifier: Apache-2.0 OR MIT
// Pseudo-random numbers for the harnesses.
#pragma once

#include <cstdint>

// xorshift64*: the same numbers everywhere.
struct Dice {
    uint64_t state;
    explicit Dice(uint64_t seed) : state(seed * 2685821657736338717ull + 88172645463325252ull) {}
    uint32_t bits() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return uint32_t((state * 2685821657736338717ull) >> 32);
    }
    uint32_t below(uint32_t limit) { return uint32_t((uint64_t(bits()) * limit) >> 32); }
    bool chance(uint32_t per_million) { return per_million && below(1000000) < per_million; }
};

// SPDX-License-Identifier: Apache-2.0 OR MIT
// The fabric's time, read from the clock function of the lab. Programs in a guest measure with this clock, because the
// guest's own clock shows the time of the emulation.

#ifndef CLOCK_H
#define CLOCK_H

#include "function.h"

#define CLOCK_VENDOR 0x7269
#define CLOCK_DEVICE 0x000a

static inline volatile uint64_t *open_clock(void)
{
	struct function f = { 0 };

	find_function(&f, CLOCK_VENDOR, CLOCK_DEVICE);
	set(&f, 4, 2, 2);
	return (volatile uint64_t *)f.bar[0];
}

// The fabric's time that a device takes from its start (a write of 1 to `control`) to its end (`status` is no longer
// 1). The result is the shortest of several runs, because the fabric's time continues while other programs keep the
// machine busy between the accesses.
static inline uint64_t shortest_ps(volatile uint64_t *clock, volatile uint32_t *control, volatile uint32_t *status)
{
	uint64_t shortest = UINT64_MAX;

	for (int n = 0; n < 5; n++) {
		uint64_t begin = *clock;

		*control = 1;
		while (*status == 1)
			;
		uint64_t ps = *clock - begin;

		shortest = ps < shortest ? ps : shortest;
	}
	return shortest;
}

#endif

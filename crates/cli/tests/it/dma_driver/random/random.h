/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the parts of the random caller have in common. */
#ifndef RANDOM_H
#define RANDOM_H

#define _GNU_SOURCE
#include <linux/types.h>
#include <stdbool.h>

#define PROCESSES 16
#define DEVICES 8

/* What processes tell the first one. */
struct shared {
	__u64 calls, transfers, exact, injected, resets, settings;
	__u64 errors[200];
	__u32 violations;
	struct {
		__u64 steps;
		char doing[64];
	} processes[PROCESSES + 1];
};

extern struct shared *shared;
extern bool verbose;
/* Which process this is, and in which of its lives. */
extern unsigned int self;
extern __u64 life;

void count(__u64 *what);
/* Numbers by lot: any; below a limit; whether one of so many; one as those that break things. */
void draw_from(__u64 seed);
__u64 draw(void);
__u64 below(__u64 limit);
bool one_in(__u64 n);
__u64 odd(void);
/* Says what is done next, and what must not be. */
void begin(const char *format, ...);
__attribute__((format(printf, 1, 2))) void violation(const char *format, ...);

/* calls.c: a life of a process: some steps, then its end with whatever is under way. */
_Noreturn void live(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Declarations that the parts of the random caller share. */
#ifndef RANDOM_H
#define RANDOM_H

#define _GNU_SOURCE
#include <linux/types.h>
#include <stdbool.h>

#define PROCESSES 16
#define DEVICES 8

/* Counters that processes share with the first process. */
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
/* Number of this process, and of its current life. */
extern unsigned int self;
extern __u64 life;

void count(__u64 *what);
/* Random numbers: any; below a limit; true in one of n cases; a number that is likely to cause errors. */
void draw_from(__u64 seed);
__u64 draw(void);
__u64 below(__u64 limit);
bool one_in(__u64 n);
__u64 odd(void);
/* begin() reports the next action, violation() an error of the driver. */
void begin(const char *format, ...);
__attribute__((format(printf, 1, 2))) void violation(const char *format, ...);

/* calls.c: one life of a process: some steps, then its end with outstanding transfers. */
_Noreturn void live(void);

#endif

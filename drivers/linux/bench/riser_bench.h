/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The benchmark device's character devices, /dev/riser_bench<N>. One process at a
 * time may open a device. read(2) returns the journal of the last test: one latency
 * in ticks, 32 bits, for each transfer, from the file's position.
 *
 * Errors of all calls:
 * ENOTTY	unknown call, or wrong size of its struct
 * EFAULT	the argument is not mapped
 * EINVAL	an invalid value
 * ENODEV	the function was removed, or does not answer
 */
#ifndef _UAPI_RISER_BENCH_H
#define _UAPI_RISER_BENCH_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Maximum size of a buffer that the kernel allocates in one piece. */
#define RISER_BENCH_MAX_BUFFER 0x400000ULL
/* Maximum size of a buffer in pages of the program: the largest page of x86. */
#define RISER_BENCH_MAX_PAGES 0x40000000ULL
/* The node of the device. */
#define RISER_BENCH_NEAR (-1)

/**
 * struct riser_bench_buffer - allocates the buffer, in place of an earlier one
 * @bytes: size, a multiple of the page size, at most RISER_BENCH_MAX_BUFFER
 * @node: NUMA node, or RISER_BENCH_NEAR; returns the node of the buffer
 * @reserved: zero
 *
 * ENOMEM: the node has no free memory of this size in one piece.
 */
struct riser_bench_buffer {
	__u64 bytes;
	__s32 node;
	__u32 reserved;
};

/**
 * struct riser_bench_pages - takes pages of the program as buffer, in place of an
 * earlier one
 * @address: start of the pages, a multiple of the page size
 * @bytes: size, a multiple of the page size, at most RISER_BENCH_MAX_PAGES
 *
 * The pages stay pinned until the buffer is replaced or the file is closed. Huge
 * pages (hugetlbfs) suit best, because the device has one address for all.
 *
 * EFAULT: not all pages are mapped and writable. EXDEV: the pages are not contiguous
 * for the device. ENOMEM: not enough memory for their list. EOPNOTSUPP: the kernel
 * has high memory.
 */
struct riser_bench_pages {
	__u64 address;
	__u64 bytes;
};

/* The lines are in no cache; the caller's processor has written them. */
#define RISER_BENCH_COLD 0
#define RISER_BENCH_WARM 1

/**
 * struct riser_bench_cache - sets the state of the processor's caches
 * @bytes: part of the buffer, from its start
 * @state: RISER_BENCH_COLD or RISER_BENCH_WARM
 * @reserved: zero
 *
 * EOPNOTSUPP: the kernel cannot flush caches on this architecture.
 */
struct riser_bench_cache {
	__u64 bytes;
	__u32 state;
	__u32 reserved;
};

/**
 * struct riser_bench_run - runs a test in the buffer, and waits for its end
 * @test: this and the following settings are those of riser_bench_registers.h
 * @size: bytes of a transfer
 * @window_bytes: size of the window at the start of the buffer
 * @offset: offset of a transfer from a cache line
 * @pattern: order of the units
 * @path: interface of the card
 * @outstanding: transfers in flight in a bandwidth test
 * @transfers: measured transfers
 * @warm_up: transfers before them
 * @seed: start of the random pattern
 * @timeout_ms: maximum time of the test; after it, the test is stopped
 * @error: returns the error of the device, or RISER_BENCH_ERROR_NONE
 * @elapsed: returns the time of the measured transfers in ticks
 * @ended: returns the measured transfers that have ended
 * @tick_ps: returns the length of a tick in picoseconds
 * @entries: returns the number of latencies that the device keeps
 *
 * EINVAL: the window is not in the buffer. ETIMEDOUT, EINTR: the test was stopped
 * before its end.
 */
struct riser_bench_run {
	__u32 test;
	__u32 size;
	__u64 window_bytes;
	__u32 offset;
	__u32 pattern;
	__u32 path;
	__u32 outstanding;
	__u64 transfers;
	__u64 warm_up;
	__u64 seed;
	__u32 timeout_ms;
	__u32 error;
	__u64 elapsed;
	__u64 ended;
	__u32 tick_ps;
	__u32 entries;
};

#define RISER_BENCH_BUFFER _IOWR('b', 1, struct riser_bench_buffer)
#define RISER_BENCH_CACHE _IOW('b', 2, struct riser_bench_cache)
#define RISER_BENCH_RUN _IOWR('b', 3, struct riser_bench_run)
#define RISER_BENCH_PAGES _IOW('b', 4, struct riser_bench_pages)

#endif /* _UAPI_RISER_BENCH_H */

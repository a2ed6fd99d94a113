// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Calls the driver with valid and invalid arguments, and prints a line for each result: "NAME: ok", or the result and what was expected. Runs in a
 * guest as root. Its arguments are the device of the physical function and names of tests.
 */
#define _GNU_SOURCE
#include "libriser_dma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Transfers have defaults, which initializers override. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define PAGE 4096

static const char *path;
static struct riser_dma *dma;
static char *page;
static int failed;

static void is(const char *name, long got, long expected)
{
	if (got == expected) {
		printf("%s: ok\n", name);
	} else {
		printf("%s: %ld, %ld was expected\n", name, got, expected);
		failed = 1;
	}
	fflush(stdout);
}

static long call(unsigned long command, void *argument)
{
	return ioctl(riser_dma_fd(dma), command, argument) < 0 ? -errno : 0;
}

static struct riser_dma *opened(void)
{
	struct riser_dma *other;
	int error = riser_dma_open(path, &other);

	if (error) {
		printf("%s: %s\n", path, strerror(-error));
		exit(1);
	}
	return other;
}

static long asked(unsigned long command, struct riser_dma_transfer transfer)
{
	return call(command, &transfer);
}

#define ASK(command, ...) asked(command, (struct riser_dma_transfer){ .buffer = (uintptr_t)page, .size = PAGE, .enable = 1, __VA_ARGS__ })

static void nothing(int signal)
{
	(void)signal;
}

static void alarm_in(unsigned int us)
{
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval timer = { .it_value.tv_usec = us };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static long ms_since(const struct timespec *begun)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - begun->tv_sec) * 1000 + (now.tv_nsec - begun->tv_nsec) / 1000000;
}

/* Invalid arguments of transfers. */
static void arguments(void)
{
	struct riser_dma_pending pending = { .direction = 2 };
	struct riser_dma_configure configure = { .logic = 3 };
	long page_at = (long)(uintptr_t)page;

	is("no such call", call(_IO(RISER_DMA_IOCTL, 0x7f), NULL), -ENOTTY);
	is("another size", call(_IOWR(RISER_DMA_IOCTL, 0x01, struct riser_dma_pending[2]), page), -ENOTTY);
	is("a huge size", call(_IOC(_IOC_READ | _IOC_WRITE, RISER_DMA_IOCTL, 0x01, 0x3fff), page), -ENOTTY);
	is("another direction of the argument", call(_IOW(RISER_DMA_IOCTL, 0x01, struct riser_dma_transfer), page), -ENOTTY);
	is("no argument", call(RISER_DMA_H2D_DMA, NULL), -EFAULT);
	is("size 0", ASK(RISER_DMA_H2D_DMA, .size = 0), -EINVAL);
	is("size 0, queued", ASK(RISER_DMA_H2D_DMA, .size = 0, .enable = 0), -EINVAL);
	is("more than the maximum", ASK(RISER_DMA_H2D_DMA, .size = RISER_DMA_MAX_BYTES + 1), -EINVAL);
	is("size -1", ASK(RISER_DMA_H2D_DMA, .size = -1), -EINVAL);
	is("no such engine", ASK(RISER_DMA_H2D_DMA, .engine = 16), -ENXIO);
	is("an engine that cannot exist", ASK(RISER_DMA_D2H_DMA, .engine = ~0U), -ENXIO);
	is("an unknown flag", ASK(RISER_DMA_H2D_DMA, .flags = 0x8000), -EINVAL);
	is("irq is 2", ASK(RISER_DMA_H2D_DMA, .irq = 2), -EINVAL);
	is("enable is 2", ASK(RISER_DMA_H2D_DMA, .enable = 2), -EINVAL);
	is("reserved", ASK(RISER_DMA_H2D_DMA, .reserved = 1), -EINVAL);
	is("a handle without the flag", ASK(RISER_DMA_H2D_DMA, .handle = 1), -EINVAL);
	is("no such handle", ASK(RISER_DMA_H2D_DMA, .handle = 1, .flags = RISER_DMA_BY_HANDLE, .buffer = 0), -ENOENT);
	is("an address beyond all", ASK(RISER_DMA_H2D_DMA, .buffer = ~0ULL), -EFAULT);
	is("the kernel's addresses", ASK(RISER_DMA_H2D_DMA, .buffer = 0xffff888000000000), -EFAULT);
	is("across the end of the address space", ASK(RISER_DMA_H2D_DMA, .buffer = 0x7fffffffe000, .size = 4 * PAGE), -EFAULT);
	is("address 0", ASK(RISER_DMA_H2D_DMA, .buffer = 0), -EFAULT);
	is("an invalid direction", call(RISER_DMA_PENDING_DATA, &pending), -EINVAL);
	pending = (struct riser_dma_pending){ .reserved = 1 };
	is("PENDING_DATA, reserved", call(RISER_DMA_PENDING_DATA, &pending), -EINVAL);
	is("an invalid logic", call(RISER_DMA_CONFIGURE, &configure), -EINVAL);
	is("an invalid mode", ioctl(riser_dma_fd(dma), RISER_DMA_SET_MODE, 2L) < 0 ? -errno : 0, -EINVAL);
	is("an invalid handle", ioctl(riser_dma_fd(dma), RISER_DMA_RELEASE, 5L) < 0 ? -errno : 0, -ENOENT);
	is("a handle beyond 32 bits", ioctl(riser_dma_fd(dma), RISER_DMA_RELEASE, 1L << 32) < 0 ? -errno : 0, -ENOENT);
	is("nothing was begun", riser_dma_pending(dma, RISER_DMA_H2D, 0, &pending) ?: (long)pending.done + pending.pending, 0);
	is("read(2)", read(riser_dma_fd(dma), page, 8) < 0 ? -errno : 0, -EINVAL);
	is("nothing to map", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, riser_dma_fd(dma), 0) == MAP_FAILED ? -errno : 0, -ENXIO);
	is("the page is where it was", (long)(uintptr_t)page, page_at);
}

/* Memory that is unmapped or read-only. */
static void pages(void)
{
	char *area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_PLAIN, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_PLAIN, 0);
	munmap(area + 2 * PAGE, PAGE);
	is("the second page is there", ASK(RISER_DMA_H2D_DMA, .buffer = (uintptr_t)area, .size = 2 * PAGE, .irq = 1), 0);
	is("the third is not", ASK(RISER_DMA_H2D_DMA, .buffer = (uintptr_t)area, .size = 3 * PAGE), -EFAULT);
	is("nor by one byte", ASK(RISER_DMA_D2H_DMA, .buffer = (uintptr_t)area + PAGE + 1, .size = PAGE), -EFAULT);
	is("read-only, to the device", ASK(RISER_DMA_H2D_DMA, .buffer = (uintptr_t)constant), 0);
	is("read-only, from the device", ASK(RISER_DMA_D2H_DMA, .buffer = (uintptr_t)constant), -EFAULT);
	mprotect(area, PAGE, PROT_NONE);
	is("not to be read", ASK(RISER_DMA_H2D_DMA, .buffer = (uintptr_t)area), -EFAULT);
	is("they end", riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
	munmap(area, 4 * PAGE);
	munmap(constant, PAGE);
}

/* Transfers of any address and size: a loop through the device returns the same data. */
static void loop_back(void)
{
	static const size_t sizes[] = { 1, 2, 3, 7, 63, 64, 65, 127, 4095, 4096, 4097, 12288, 32769 };
	size_t bytes = 1 << 16, n, offset;
	unsigned char *from = riser_dma_buffer(bytes, false), *to = riser_dma_buffer(bytes, false);
	long wrong = 0, error = 0;

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_LOOP_BACK, 0);
	srandom(1);
	for (n = 0; n < bytes; n++)
		from[n] = (unsigned char)random();
	for (n = 0; !error && n < sizeof(sizes) / sizeof(*sizes); n++)
		for (offset = 0; !error && offset < 5; offset++) {
			size_t size = sizes[n], at = offset * 1021;

			memset(to, 0x5a, bytes);
			error = riser_dma_begin(dma, RISER_DMA_H2D, 0, from + offset, size) ?: riser_dma_begin(dma, RISER_DMA_D2H, 0, to + at, size);
			error = error ?: riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000) ?: riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000);
			wrong += memcmp(from + offset, to + at, size) || to[at + size] != 0x5a || (at && to[at - 1] != 0x5a);
		}
	is("through the device", error, 0);
	is("what differs", wrong, 0);
	riser_dma_buffer_free(from, bytes, false);
	riser_dma_buffer_free(to, bytes, false);
}

/* `riser_dma_queue` only queues; the next `riser_dma_begin` starts everything queued. */
static void queued(void)
{
	uint64_t *words = riser_dma_buffer(1 << 16, false);
	struct riser_dma_pending pending;
	long n, wrong = 0;

	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_INTEGERS, 100);
	for (n = 0; n < 3; n++)
		is("queued", riser_dma_queue(dma, RISER_DMA_D2H, 0, words + n * 512, PAGE), 0);
	usleep(200000);
	riser_dma_pending(dma, RISER_DMA_D2H, 0, &pending);
	is("they wait", pending.pending, 3);
	is("settings cannot change while transfers run", riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_PLAIN, 0), -EBUSY);
	is("the fourth begins", riser_dma_begin(dma, RISER_DMA_D2H, 0, words + 3 * 512, PAGE), 0);
	is("all end", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	for (n = 0; n < 4 * 512; n++)
		wrong += words[n] != 100 + (uint64_t)n;
	is("in their order", wrong, 0);
	is("queued again", riser_dma_queue(dma, RISER_DMA_D2H, 0, words, PAGE), 0);
	is("nothing but a beginning", riser_dma_begin(dma, RISER_DMA_D2H, 0, NULL, 0), 0);
	is("it ends", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	is("and goes on", (long)words[0], 100 + 4 * 512);
	is("queued, and closed", riser_dma_queue(dma, RISER_DMA_D2H, 0, words, PAGE), 0);
	riser_dma_close(dma);
	dma = opened();
	is("the engine is free then", riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_PLAIN, 0), 0);
	riser_dma_buffer_free(words, 1 << 16, false);
}

/* poll(2), PENDING_DATA, polling, and signals between. */
static void waiting(void)
{
	struct pollfd file = { .fd = riser_dma_fd(dma), .events = POLLIN };
	struct riser_dma_pending pending;

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_LOOP_BACK, 0);
	is("nothing to tell", poll(&file, 1, 0), 0);
	is("it waits for data", riser_dma_begin(dma, RISER_DMA_D2H, 0, page, PAGE), 0);
	is("nothing to tell yet", poll(&file, 1, 100), 0);
	riser_dma_pending(dma, RISER_DMA_D2H, 0, &pending);
	is("one is under way", pending.pending, 1);
	is("polling", riser_dma_set_polling(dma, true), 0);
	alarm_in(100000);
	is("a signal ends who polls", riser_dma_begin(dma, RISER_DMA_D2H, 0, page, PAGE), -EINTR);
	is("interrupts", riser_dma_set_polling(dma, false), 0);
	is("data come", riser_dma_begin(dma, RISER_DMA_H2D, 0, page, 2 * PAGE), 0);
	is("there is something to tell", poll(&file, 1, 5000), 1);
	is("it is that", file.revents & POLLIN, POLLIN);
	is("all end", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000) ?: riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
	is("all is told", poll(&file, 1, 0), 0);
	riser_dma_pending(dma, RISER_DMA_D2H, 0, &pending);
	is("two came", (long)pending.moved, 2 * PAGE);
}

/* A transfer that gets no data fails in time, and another file's transfer continues after it. timeout_ms is 500. */
static void time_out(void)
{
	struct riser_dma *other = opened();
	struct riser_dma_pending pending;
	struct timespec begun;

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_LOOP_BACK, 0);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	riser_dma_begin(dma, RISER_DMA_D2H, 0, page, PAGE);
	riser_dma_begin(other, RISER_DMA_D2H, 0, page + PAGE, PAGE);
	is("nothing comes", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), -ETIMEDOUT);
	is("in time", ms_since(&begun) >= 400 && ms_since(&begun) < 4000, 1);
	riser_dma_pending(other, RISER_DMA_D2H, 0, &pending);
	is("the other waits", pending.pending, 1);
	memset(page + 2 * PAGE, 0x77, PAGE);
	riser_dma_begin(dma, RISER_DMA_H2D, 0, page + 2 * PAGE, PAGE);
	is("and gets its data", riser_dma_wait(other, RISER_DMA_D2H, 0, 5000), 0);
	is("whole", page[PAGE] == 0x77 && page[2 * PAGE - 1] == 0x77, 1);
	is("they were taken", riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
	riser_dma_close(other);
}

/* A file is closed while a transfer that gets no data is outstanding. close_timeout_ms is 300. */
static void closing(void)
{
	struct riser_dma *other = opened();
	struct timespec begun;

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_begin(other, RISER_DMA_D2H, 0, page, PAGE);
	riser_dma_begin(dma, RISER_DMA_D2H, 0, page + PAGE, PAGE);
	memset(page, 0, PAGE);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	riser_dma_close(other);
	is("closed", ms_since(&begun) >= 250 && ms_since(&begun) < 3000, 1);
	memset(page + 2 * PAGE, 0x66, PAGE);
	riser_dma_begin(dma, RISER_DMA_H2D, 0, page + 2 * PAGE, PAGE);
	is("the other gets its data", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	is("all of them", page[PAGE] == 0x66 && page[2 * PAGE - 1] == 0x66, 1);
	is("the closed one nothing", page[0] || page[PAGE - 1], 0);
	is("they were taken", riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
}

static void registers(void)
{
	uint32_t value = 0;
	struct riser_dma_cpu cpu = { .data = 8 };

	is("ID", riser_dma_read_register(dma, 0, 0, &value), 0);
	is("its bytes", value, 0x414d4452);
	is("the last DWORD", riser_dma_read_register(dma, 0, 0xfffc, &value), 0);
	is("behind it", riser_dma_read_register(dma, 0, 0x10000, &value), -EINVAL);
	is("far behind it", riser_dma_read_register(dma, 0, ~3ULL, &value), -EINVAL);
	is("unaligned", riser_dma_read_register(dma, 0, 2, &value), -EINVAL);
	is("no such BAR", riser_dma_read_register(dma, 1, 0, &value), -ENXIO);
	is("no memory for it", call(RISER_DMA_D2H_CPU, &cpu), -EFAULT);
	is("none to take it from", call(RISER_DMA_H2D_CPU, &cpu), -EFAULT);
	is("the interrupts' table", riser_dma_write_register(dma, 0, 0x2000, 0), -EPERM);
	is("WEIGHT", riser_dma_write_register(dma, 0, 0x20, 9), 0);
	riser_dma_read_register(dma, 0, 0x20, &value);
	is("is written", value, 9);
	riser_dma_write_register(dma, 0, 0x20, 1);
}

/* Registered memory. */
static void handles(void)
{
	uint32_t handle = 0, constant = 0;
	char *area = riser_dma_buffer(2 * PAGE, false);
	struct riser_dma_register zero = { .buffer = (uintptr_t)area };

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_PLAIN, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_PLAIN, 0);
	memset(area, 1, 2 * PAGE);
	is("registered", riser_dma_register_buffer(dma, area, 2 * PAGE, true, &handle), 0);
	is("not to be written", riser_dma_register_buffer(dma, area, PAGE, false, &constant), 0);
	is("of no bytes", call(RISER_DMA_REGISTER, &zero), -EINVAL);
	is("to its end", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, PAGE + 1, PAGE - 1), 0);
	is("beyond it", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, PAGE + 1, PAGE), -EINVAL);
	is("far beyond it", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, ~0ULL, PAGE), -EINVAL);
	is("written", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, constant, 0, PAGE), -EFAULT);
	is("it ends", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	is("where it should", area[PAGE] == 1 && !area[PAGE + 1] && !area[2 * PAGE - 1], 1);
	riser_dma_buffer_free(area, 2 * PAGE, false);
	is("unmapped, and still pinned", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, 0, PAGE), 0);
	is("it ends too", riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	is("released", riser_dma_release_handle(dma, handle), 0);
	is("twice", riser_dma_release_handle(dma, handle), -ENOENT);
	is("used behind that", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, 0, PAGE), -ENOENT);
	is("a file that is not a dmabuf", riser_dma_import_dmabuf(dma, riser_dma_fd(dma), true, &handle, NULL), -EINVAL);
	is("a file that is not open", riser_dma_import_dmabuf(dma, 99, true, &handle, NULL), -EBADF);
}

static struct riser_dma_rings *rings_of(struct riser_dma *file, unsigned int entries)
{
	struct riser_dma_setup setup = { .entries = entries };
	void *rings;

	if (ioctl(riser_dma_fd(file), RISER_DMA_SETUP, &setup) < 0)
		return NULL;
	rings = mmap(NULL, setup.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, riser_dma_fd(file), 0);
	return rings == MAP_FAILED ? NULL : rings;
}

static long enter(unsigned int submit, unsigned int wait, uint64_t timeout_us)
{
	struct riser_dma_enter enter = { .submit = submit, .wait = wait, .timeout_us = timeout_us };

	return call(RISER_DMA_ENTER, &enter) ?: (long)enter.submitted;
}

/* Rings, with valid and invalid contents. */
static void rings(void)
{
	struct riser_dma_setup three = { .entries = 3 }, many = { .entries = 8192 }, four = { .entries = 4 };
	struct riser_dma_rings *ring;
	struct riser_dma_submission *submissions;
	struct riser_dma_completion *completions;
	long n;

	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_LOOP_BACK, 0);
	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_LOOP_BACK, 0);
	is("no rings yet", enter(0, 0, 0), -ENXIO);
	is("three entries", call(RISER_DMA_SETUP, &three), -EINVAL);
	is("too many", call(RISER_DMA_SETUP, &many), -EINVAL);
	ring = rings_of(dma, 4);
	is("four", ring != NULL, 1);
	is("again", call(RISER_DMA_SETUP, &four), -EBUSY);
	is("private", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, riser_dma_fd(dma), 0) == MAP_FAILED ? -errno : 0, -EINVAL);
	is("beyond them", mmap(NULL, 64 * PAGE, PROT_READ, MAP_SHARED, riser_dma_fd(dma), 0) == MAP_FAILED ? -errno : 0, -EINVAL);
	submissions = (void *)((char *)ring + ring->submissions);
	completions = (void *)((char *)ring + ring->completions);
	ring->submission_tail = 5;
	is("a tail beyond the ring", enter(1, 0, 0), -EINVAL);
	ring->submission_tail = 0;
	ring->completion_head = 1;
	submissions[0] = (struct riser_dma_submission){ .op = RISER_DMA_NOP, .user_data = 7 };
	ring->submission_tail = 1;
	is("a head beyond the tail", enter(1, 0, 0), -EINVAL);
	ring->completion_head = 0;
	is("nothing to do", enter(1, 1, 0), 1);
	is("told", completions[0].user_data == 7 && !completions[0].result, 1);
	for (n = 1; n < 4; n++)
		submissions[n] = (struct riser_dma_submission){ .op = (uint8_t)(n == 1 ? 9 : RISER_DMA_D2H), .flags = n == 2 ? 0x80 : 0,
			.buffer = 8, .size = PAGE, .user_data = n };
	ring->submission_tail = 4;
	is("three that are wrong", enter(3, 3, 0), 3);
	is("no such operation", completions[1].result, -EINVAL);
	is("no such flag", completions[2].result, -EINVAL);
	is("no such memory", completions[3].result, -EFAULT);
	is("more completions than expected", enter(0, 9, 0), -EINVAL);
	is("as many completions as available", enter(0, 8, 0), 0);
	submissions[0] = (struct riser_dma_submission){ .op = RISER_DMA_D2H, .flags = RISER_DMA_IRQ, .buffer = (uintptr_t)page, .size = PAGE };
	ring->submission_tail = 5;
	is("one that waits for data", enter(1, 0, 0), 1);
	is("no longer than this", enter(0, 8, 100000), -ETIME);
	alarm_in(100000);
	is("a signal", enter(0, 8, 0), -EINTR);
	/* Completions are not taken, so there is room for three more. */
	for (n = 0; n < 4; n++)
		submissions[(5 + n) % 4] = (struct riser_dma_submission){ .op = RISER_DMA_NOP };
	ring->submission_tail = 9;
	is("as many as fit", enter(4, 0, 0), 3);
	is("none", enter(1, 0, 0), -EBUSY);
	ring->completion_head = 4;
	is("there is room again", enter(1, 0, 0), 1);
	is("data come", riser_dma_begin(dma, RISER_DMA_H2D, 0, page, PAGE), 0);
	is("all has come", enter(0, 8, 2000000), 0);
	is("the waiting transfer completes last", completions[(ring->completion_tail - 1) & 7].moved, PAGE);
	is("it was taken", riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
}

/* Several processes make many transfers on one engine: each gets integers that count up, and no integer twice. */
static void processes(void)
{
	enum { COUNT = 6, EACH = 20, WORDS = 8192 };
	uint64_t *firsts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long n, m, wrong = 0, ended = 0;
	int status;

	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_INTEGERS, 0);
	for (n = 0; n < COUNT; n++)
		if (!fork()) {
			struct riser_dma *own = opened();
			uint64_t *words = riser_dma_buffer(WORDS * 8, false);

			riser_dma_set_polling(own, n % 2);
			for (m = 0; m < EACH; m++) {
				if (riser_dma_receive(own, 0, words, WORDS * 8))
					_exit(1);
				for (long i = 1; i < WORDS; i++)
					if (words[i] != words[0] + (uint64_t)i)
						_exit(2);
				firsts[n * EACH + m] = words[0] + 1;
			}
			_exit(0);
		}
	for (n = 0; n < COUNT; n++) {
		wait(&status);
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	is("all processes end well", ended, COUNT);
	for (n = 0; n < COUNT * EACH; n++) {
		wrong += (firsts[n] - 1) % WORDS != 0 || firsts[n] - 1 >= (uint64_t)COUNT * EACH * WORDS;
		for (m = 0; m < n; m++)
			wrong += firsts[n] == firsts[m];
	}
	is("each its own integers", wrong, 0);
}

/* Limits apply to a user without privileges. */
static void user(void)
{
	struct rlimit limit = { 64 * 1024, 64 * 1024 };
	char *area = riser_dma_buffer(1 << 20, false);
	uint32_t value, handle;
	pid_t child = fork();
	int status;

	if (!child) {
		dma = opened();
		setrlimit(RLIMIT_MEMLOCK, &limit);
		if (setgid(65534) || setuid(65534))
			_exit(9);
		is("more than the pin limit", riser_dma_begin(dma, RISER_DMA_H2D, 0, area, 1 << 20), -ENOMEM);
		is("to be kept, too", riser_dma_register_buffer(dma, area, 1 << 20, false, &handle), -ENOMEM);
		is("a register read", riser_dma_read_register(dma, 0, 0, &value), -EPERM);
		is("a register written", riser_dma_write_register(dma, 0, 0, 0), -EPERM);
		riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_PLAIN, 0);
		for (int n = 0; n < 40; n++)
			if (riser_dma_send(dma, 0, area, 32 * 1024))
				_exit(8);
		is("unpinned memory is returned to the limit", failed, 0);
		_exit(failed);
	}
	waitpid(child, &status, 0);
	is("without privileges", status, 0);
	riser_dma_buffer_free(area, 1 << 20, false);
}

static int udmabuf(size_t size)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = size };
	int driver = open("/dev/udmabuf", O_RDWR), fd;

	create.memfd = (uint32_t)memfd_create("file", MFD_ALLOW_SEALING);
	if (ftruncate((int)create.memfd, (off_t)size) || fcntl((int)create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	fd = ioctl(driver, UDMABUF_CREATE, &create);
	close(driver);
	close((int)create.memfd);
	return fd;
}

static int of_heap(size_t size)
{
	struct dma_heap_allocation_data wanted = { .len = size, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDWR), error = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &wanted);

	close(heap);
	return error ? -1 : (int)wanted.fd;
}

/* Moves integers from the device into a dmabuf, and back to the device, which detects a changed integer. */
static void import(int fd, size_t size)
{
	uint64_t *words, got = 0;
	uint32_t handle = 0;
	long n, wrong = 0, count = (long)(size / 8);

	riser_dma_set_logic(dma, RISER_DMA_D2H, 0, RISER_DMA_INTEGERS, 5);
	riser_dma_set_logic(dma, RISER_DMA_H2D, 0, RISER_DMA_INTEGERS, 5);
	is("there is one", fd >= 0, 1);
	is("imported", riser_dma_import_dmabuf(dma, fd, true, &handle, &got), 0);
	is("its size", (long)got, (long)size);
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* The device keeps a reference, so the file may be closed. */
	close(fd);
	is("beyond it", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, size - 8, 16), -EINVAL);
	is("written", riser_dma_begin_handle(dma, RISER_DMA_D2H, 0, handle, 0, size) ?: riser_dma_wait(dma, RISER_DMA_D2H, 0, 5000), 0);
	for (n = 0; n < count; n++)
		wrong += words[n] != 5 + (uint64_t)n;
	is("number of wrong integers", wrong, 0);
	is("read", riser_dma_begin_handle(dma, RISER_DMA_H2D, 0, handle, 0, size / 2) ?: riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000), 0);
	words[count - 1]++;
	is("read and changed", riser_dma_begin_handle(dma, RISER_DMA_H2D, 0, handle, size / 2, size / 2) ?: riser_dma_wait(dma, RISER_DMA_H2D, 0, 5000),
	   -EBADMSG);
	is("released", riser_dma_release_handle(dma, handle), 0);
	munmap(words, size);
}

static void dmabufs(void)
{
	import(udmabuf(1 << 20), 1 << 20);
	import(of_heap(3 << 20), 3 << 20);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "arguments", arguments }, { "pages", pages },		{ "loop_back", loop_back }, { "queued", queued },
	{ "waiting", waiting },	    { "time_out", time_out },	{ "closing", closing },	    { "registers", registers },
	{ "dmabufs", dmabufs },
	{ "handles", handles },	    { "rings", rings },		{ "processes", processes }, { "user", user },
};

int main(int argc, char **argv)
{
	for (int n = 2; n < argc; n++)
		for (size_t t = 0; t < sizeof(tests) / sizeof(*tests); t++)
			if (!strcmp(argv[n], tests[t].name)) {
				path = argv[1];
				dma = opened();
				page = riser_dma_buffer(4 * PAGE, false);
				printf("-- %s\n", tests[t].name);
				fflush(stdout);
				tests[t].run();
				riser_dma_close(dma);
			}
	return failed;
}

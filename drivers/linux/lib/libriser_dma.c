// SPDX-License-Identifier: MIT
/* The library: the driver's calls, each once, and functions that wait for the results. */
#define _GNU_SOURCE
#include "libriser_dma.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

struct riser_dma {
	int fd;
	bool polling;
};

struct riser_dma_batch {
	struct riser_dma *dma;
	struct riser_dma_rings *rings;
	struct riser_dma_submission *submissions;
	const struct riser_dma_completion *completions;
	size_t bytes;
	/* Filled in, but not submitted. */
	uint32_t filled;
};

static int call(const struct riser_dma *dma, unsigned long command, void *argument)
{
	return ioctl(dma->fd, command, argument) < 0 ? -errno : 0;
}

int riser_dma_open(const char *path, struct riser_dma **dma)
{
	struct riser_dma *opened = calloc(1, sizeof(*opened));

	if (!opened)
		return -ENOMEM;
	opened->fd = open(path, O_RDWR | O_CLOEXEC);
	if (opened->fd < 0) {
		int error = -errno;

		free(opened);
		return error;
	}
	*dma = opened;
	return 0;
}

void riser_dma_close(struct riser_dma *dma)
{
	if (!dma)
		return;
	close(dma->fd);
	free(dma);
}

int riser_dma_fd(const struct riser_dma *dma)
{
	return dma->fd;
}

int riser_dma_get_info(struct riser_dma *dma, struct riser_dma_info *info)
{
	return call(dma, RISER_DMA_INFO, info);
}

int riser_dma_set_polling(struct riser_dma *dma, bool polling)
{
	int error = ioctl(dma->fd, RISER_DMA_SET_MODE, (unsigned long)polling) < 0 ? -errno : 0;

	if (!error)
		dma->polling = polling;
	return error;
}

int riser_dma_set(struct riser_dma *dma, const struct riser_dma_configure *settings)
{
	struct riser_dma_configure copy = *settings;

	return call(dma, RISER_DMA_CONFIGURE, &copy);
}

int riser_dma_set_logic(struct riser_dma *dma, unsigned int direction, unsigned int engine, unsigned int logic, uint64_t seed)
{
	const struct riser_dma_configure settings = { .direction = direction, .engine = engine, .logic = logic, .seed = seed };

	return riser_dma_set(dma, &settings);
}

static int transfer(struct riser_dma *dma, unsigned int direction, struct riser_dma_transfer *asked)
{
	switch (direction) {
	case RISER_DMA_H2D: return call(dma, RISER_DMA_H2D_DMA, asked);
	case RISER_DMA_D2H: return call(dma, RISER_DMA_D2H_DMA, asked);
	default: return -EINVAL;
	}
}

int riser_dma_queue(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size)
{
	struct riser_dma_transfer asked = { .buffer = (uintptr_t)buffer, .size = size, .engine = engine };

	return transfer(dma, direction, &asked);
}

int riser_dma_begin(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size)
{
	struct riser_dma_transfer asked = {
		.buffer = (uintptr_t)buffer, .size = size, .engine = engine, .irq = !dma->polling && size, .enable = 1,
	};

	return transfer(dma, direction, &asked);
}

int riser_dma_begin_handle(struct riser_dma *dma, unsigned int direction, unsigned int engine, uint32_t handle, uint64_t offset, size_t size)
{
	struct riser_dma_transfer asked = {
		.buffer = offset, .size = size, .engine = engine, .irq = !dma->polling, .enable = 1,
		.flags = RISER_DMA_BY_HANDLE, .handle = handle,
	};

	return transfer(dma, direction, &asked);
}

int riser_dma_pending(struct riser_dma *dma, unsigned int direction, unsigned int engine, struct riser_dma_pending *pending)
{
	memset(pending, 0, sizeof(*pending));
	pending->direction = direction;
	pending->engine = engine;
	return call(dma, RISER_DMA_PENDING_DATA, pending);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int riser_dma_wait(struct riser_dma *dma, unsigned int direction, unsigned int engine, int timeout_ms)
{
	int64_t until = now_ms() + timeout_ms;
	int failure = 0;

	for (;;) {
		struct pollfd file = { .fd = dma->fd, .events = POLLIN };
		struct riser_dma_pending pending;
		int error = riser_dma_pending(dma, direction, engine, &pending);
		int64_t left = until - now_ms();

		if (error)
			return error;
		if (!failure && pending.error)
			failure = -(int)pending.error;
		if (!pending.pending)
			return failure;
		if (timeout_ms >= 0 && left <= 0)
			return -ETIMEDOUT;
		if (poll(&file, 1, timeout_ms < 0 ? -1 : (int)left) < 0 && errno != EINTR)
			return -errno;
	}
}

static int begin_and_wait(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size)
{
	int error = riser_dma_begin(dma, direction, engine, buffer, size);

	return error || dma->polling ? error : riser_dma_wait(dma, direction, engine, -1);
}

int riser_dma_send(struct riser_dma *dma, unsigned int engine, const void *buffer, size_t size)
{
	return begin_and_wait(dma, RISER_DMA_H2D, engine, (void *)(uintptr_t)buffer, size);
}

int riser_dma_receive(struct riser_dma *dma, unsigned int engine, void *buffer, size_t size)
{
	return begin_and_wait(dma, RISER_DMA_D2H, engine, buffer, size);
}

int riser_dma_read_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t *value)
{
	struct riser_dma_cpu access = { .bar = bar, .address = address, .data = (uintptr_t)value };

	return call(dma, RISER_DMA_D2H_CPU, &access);
}

int riser_dma_write_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t value)
{
	struct riser_dma_cpu access = { .bar = bar, .address = address, .data = (uintptr_t)&value };

	return call(dma, RISER_DMA_H2D_CPU, &access);
}

int riser_dma_register_buffer(struct riser_dma *dma, void *buffer, size_t size, bool writable, uint32_t *handle)
{
	struct riser_dma_register asked = { .buffer = (uintptr_t)buffer, .size = size, .flags = writable ? RISER_DMA_WRITABLE : 0 };
	int error = call(dma, RISER_DMA_REGISTER, &asked);

	if (!error)
		*handle = asked.handle;
	return error;
}

int riser_dma_import_dmabuf(struct riser_dma *dma, int fd, bool writable, uint32_t *handle, uint64_t *size)
{
	struct riser_dma_import asked = { .fd = fd, .flags = writable ? RISER_DMA_WRITABLE : 0 };
	int error = call(dma, RISER_DMA_IMPORT, &asked);

	if (error)
		return error;
	*handle = asked.handle;
	if (size)
		*size = asked.size;
	return 0;
}

int riser_dma_release_handle(struct riser_dma *dma, uint32_t handle)
{
	return ioctl(dma->fd, RISER_DMA_RELEASE, (unsigned long)handle) < 0 ? -errno : 0;
}

int riser_dma_batch_open(struct riser_dma *dma, unsigned int entries, struct riser_dma_batch **batch)
{
	struct riser_dma_setup setup = { .entries = entries };
	struct riser_dma_batch *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return -ENOMEM;
	error = call(dma, RISER_DMA_SETUP, &setup);
	if (!error) {
		made->rings = mmap(NULL, setup.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dma->fd, 0);
		error = made->rings == MAP_FAILED ? -errno : 0;
	}
	if (error) {
		free(made);
		return error;
	}
	made->dma = dma;
	made->bytes = setup.bytes;
	made->submissions = (void *)((char *)made->rings + made->rings->submissions);
	made->completions = (void *)((char *)made->rings + made->rings->completions);
	*batch = made;
	return 0;
}

void riser_dma_batch_close(struct riser_dma_batch *batch)
{
	if (!batch)
		return;
	munmap(batch->rings, batch->bytes);
	free(batch);
}

struct riser_dma_submission *riser_dma_batch_next(struct riser_dma_batch *batch)
{
	struct riser_dma_rings *rings = batch->rings;
	uint32_t head = __atomic_load_n(&rings->submission_head, __ATOMIC_ACQUIRE);
	uint32_t tail = rings->submission_tail + batch->filled;
	struct riser_dma_submission *next = &batch->submissions[tail & (rings->submission_entries - 1)];

	if (tail - head == rings->submission_entries)
		return NULL;
	batch->filled++;
	memset(next, 0, sizeof(*next));
	return next;
}

int riser_dma_batch_enter(struct riser_dma_batch *batch, unsigned int wait, uint64_t timeout_us)
{
	struct riser_dma_rings *rings = batch->rings;
	struct riser_dma_enter enter = { .wait = wait, .timeout_us = timeout_us };
	int error;

	__atomic_store_n(&rings->submission_tail, rings->submission_tail + batch->filled, __ATOMIC_RELEASE);
	batch->filled = 0;
	enter.submit = rings->submission_tail - __atomic_load_n(&rings->submission_head, __ATOMIC_ACQUIRE);
	error = call(batch->dma, RISER_DMA_ENTER, &enter);
	return error ? error : (int)enter.submitted;
}

bool riser_dma_batch_take(struct riser_dma_batch *batch, struct riser_dma_completion *completion)
{
	struct riser_dma_rings *rings = batch->rings;
	uint32_t head = rings->completion_head;

	if (head == __atomic_load_n(&rings->completion_tail, __ATOMIC_ACQUIRE))
		return false;
	*completion = batch->completions[head & (rings->completion_entries - 1)];
	__atomic_store_n(&rings->completion_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

static size_t whole_pages(size_t size, bool huge)
{
	size_t page = huge ? HUGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

void *riser_dma_buffer(size_t size, bool huge)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (huge ? MAP_HUGETLB : 0);
	void *buffer = mmap(NULL, whole_pages(size, huge), PROT_READ | PROT_WRITE, flags, -1, 0);

	return buffer == MAP_FAILED ? NULL : buffer;
}

void riser_dma_buffer_free(void *buffer, size_t size, bool huge)
{
	if (buffer)
		munmap(buffer, whole_pages(size, huge));
}

/* SPDX-License-Identifier: MIT */
/**
 * @file
 * The DMA engine from user space: files, transfers, batches, buffers.
 *
 * All functions that return int return zero or above, or a negative errno as described in riser_dma.h. A struct riser_dma is for
 * one thread at a time. Several of them may be open on one function.
 */
#ifndef LIBRISER_DMA_H
#define LIBRISER_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "riser_dma.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An open function of the engine. */
struct riser_dma;
/** Rings of submissions and completions. */
struct riser_dma_batch;

/** Opens a device such as /dev/riser_dma0. */
int riser_dma_open(const char *path, struct riser_dma **dma);
/** Closes it; waits for running transfers, or aborts them. */
void riser_dma_close(struct riser_dma *dma);
/** Returns its file descriptor, for poll(2). */
int riser_dma_fd(const struct riser_dma *dma);
/** Reads the properties of the function. */
int riser_dma_get_info(struct riser_dma *dma, struct riser_dma_info *info);

/** Selects whether transfers poll for their end, or interrupt. */
int riser_dma_set_polling(struct riser_dma *dma, bool polling);
/** Sets the user logic of an engine: RISER_DMA_INTEGERS starting at @p seed, RISER_DMA_PLAIN, or RISER_DMA_LOOP_BACK. */
int riser_dma_set_logic(struct riser_dma *dma, unsigned int direction, unsigned int engine, unsigned int logic, uint64_t seed);
/** RISER_DMA_CONFIGURE, with coalescing. */
int riser_dma_set(struct riser_dma *dma, const struct riser_dma_configure *settings);

/** Queues a transfer, to start together with a later one. */
int riser_dma_queue(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size);
/** Starts a transfer and the queued transfers; waits for its end if the file polls. */
int riser_dma_begin(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size);
/** Returns the state of this file's transfers on an engine. */
int riser_dma_pending(struct riser_dma *dma, unsigned int direction, unsigned int engine, struct riser_dma_pending *pending);
/** Waits until no transfer runs there, at most @p timeout_ms (-1: no limit); returns the error of the first failed transfer. */
int riser_dma_wait(struct riser_dma *dma, unsigned int direction, unsigned int engine, int timeout_ms);
/** Moves a buffer to the device and waits for the end. */
int riser_dma_send(struct riser_dma *dma, unsigned int engine, const void *buffer, size_t size);
/** Fills a buffer from the device and waits for the end. */
int riser_dma_receive(struct riser_dma *dma, unsigned int engine, void *buffer, size_t size);

/** Reads a register (CAP_SYS_RAWIO). */
int riser_dma_read_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t *value);
/** Writes a register (CAP_SYS_RAWIO). */
int riser_dma_write_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t value);

/** Pins a buffer once for many transfers, which refer to it by @p handle. */
int riser_dma_register_buffer(struct riser_dma *dma, void *buffer, size_t size, bool writable, uint32_t *handle);
/** Imports a dmabuf; @p size may be NULL. */
int riser_dma_import_dmabuf(struct riser_dma *dma, int fd, bool writable, uint32_t *handle, uint64_t *size);
/** Releases a handle. */
int riser_dma_release_handle(struct riser_dma *dma, uint32_t handle);
/** As riser_dma_begin(), with the memory of a handle. */
int riser_dma_begin_handle(struct riser_dma *dma, unsigned int direction, unsigned int engine, uint32_t handle, uint64_t offset, size_t size);

/** Creates rings with this number of submissions, a power of two; once per riser_dma. */
int riser_dma_batch_open(struct riser_dma *dma, unsigned int entries, struct riser_dma_batch **batch);
/** Unmaps the rings; they live as long as their riser_dma. */
void riser_dma_batch_close(struct riser_dma_batch *batch);
/** Returns the next free submission, zeroed; NULL if the ring is full. */
struct riser_dma_submission *riser_dma_batch_next(struct riser_dma_batch *batch);
/**
 * Submits the filled entries and waits for @p wait completions, at most @p timeout_us (0: no limit). Returns the number
 * submitted.
 */
int riser_dma_batch_enter(struct riser_dma_batch *batch, unsigned int wait, uint64_t timeout_us);
/** Takes one completion; returns false if there is no completion. */
bool riser_dma_batch_take(struct riser_dma_batch *batch, struct riser_dma_completion *completion);

/** Allocates memory for transfers, with huge pages if @p huge, all pages present. Returns NULL and sets errno on failure. */
void *riser_dma_buffer(size_t size, bool huge);
/** Frees it. */
void riser_dma_buffer_free(void *buffer, size_t size, bool huge);

#ifdef __cplusplus
}
#endif

#endif /* LIBRISER_DMA_H */

/* SPDX-License-Identifier: MIT */
/**
 * @file
 * The DMA engine from user space: files, transfers, batches, buffers.
 *
 * All functions that return int return zero or above, or an errno below zero, as
 * riser_dma.h says which. A struct riser_dma is for one thread at a time; several
 * of them may be open on one function.
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

/** Opens a device as /dev/riser_dma0. */
int riser_dma_open(const char *path, struct riser_dma **dma);
/** Closes it; what is under way is waited for, or cut off. */
void riser_dma_close(struct riser_dma *dma);
/** Its file, for poll(2). */
int riser_dma_fd(const struct riser_dma *dma);
/** What the function is. */
int riser_dma_get_info(struct riser_dma *dma, struct riser_dma_info *info);

/** Whether transfers are polled for, as they are begun, or interrupt. */
int riser_dma_set_polling(struct riser_dma *dma, bool polling);
/** Sets what is behind an engine: RISER_DMA_INTEGERS from @p seed on, RISER_DMA_PLAIN, RISER_DMA_LOOP_BACK. */
int riser_dma_set_logic(struct riser_dma *dma, unsigned int direction, unsigned int engine, unsigned int logic, uint64_t seed);
/** As RISER_DMA_CONFIGURE, with coalescing. */
int riser_dma_set(struct riser_dma *dma, const struct riser_dma_configure *settings);

/** Queues a transfer that begins with a later one. */
int riser_dma_queue(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size);
/** Begins a transfer and what was queued; waits for its end where the file polls. */
int riser_dma_begin(struct riser_dma *dma, unsigned int direction, unsigned int engine, void *buffer, size_t size);
/** What has become of an engine's transfers of this file. */
int riser_dma_pending(struct riser_dma *dma, unsigned int direction, unsigned int engine, struct riser_dma_pending *pending);
/** Waits until nothing is under way there, @p timeout_ms at most (-1: without end); fails as the first transfer that did. */
int riser_dma_wait(struct riser_dma *dma, unsigned int direction, unsigned int engine, int timeout_ms);
/** Moves a buffer to the device, and waits. */
int riser_dma_send(struct riser_dma *dma, unsigned int engine, const void *buffer, size_t size);
/** Fills a buffer from the device, and waits. */
int riser_dma_receive(struct riser_dma *dma, unsigned int engine, void *buffer, size_t size);

/** Reads a register (CAP_SYS_RAWIO). */
int riser_dma_read_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t *value);
/** Writes a register (CAP_SYS_RAWIO). */
int riser_dma_write_register(struct riser_dma *dma, unsigned int bar, uint64_t address, uint32_t value);

/** Pins a buffer once, for many transfers; @p handle is what they name it by. */
int riser_dma_register_buffer(struct riser_dma *dma, void *buffer, size_t size, bool writable, uint32_t *handle);
/** Takes a dmabuf in; @p size may be NULL. */
int riser_dma_import_dmabuf(struct riser_dma *dma, int fd, bool writable, uint32_t *handle, uint64_t *size);
/** Gives a handle back. */
int riser_dma_release_handle(struct riser_dma *dma, uint32_t handle);
/** As riser_dma_begin(), of memory that a handle names. */
int riser_dma_begin_handle(struct riser_dma *dma, unsigned int direction, unsigned int engine, uint32_t handle, uint64_t offset, size_t size);

/** Makes rings of so many submissions, a power of two. One for each riser_dma. */
int riser_dma_batch_open(struct riser_dma *dma, unsigned int entries, struct riser_dma_batch **batch);
/** Unmaps them; they end with their riser_dma. */
void riser_dma_batch_close(struct riser_dma_batch *batch);
/** The next free submission, zeroed; NULL where the ring is full. */
struct riser_dma_submission *riser_dma_batch_next(struct riser_dma_batch *batch);
/** Hands over what was filled in since, and waits for @p wait completions, @p timeout_us at most (0: without end). The number handed over. */
int riser_dma_batch_enter(struct riser_dma_batch *batch, unsigned int wait, uint64_t timeout_us);
/** Takes one completion; false where there is none. */
bool riser_dma_batch_take(struct riser_dma_batch *batch, struct riser_dma_completion *completion);

/** Memory for transfers, of huge pages if wanted, its pages there; NULL and errno where there is none. */
void *riser_dma_buffer(size_t size, bool huge);
/** Gives it back. */
void riser_dma_buffer_free(void *buffer, size_t size, bool huge);

#ifdef __cplusplus
}
#endif

#endif /* LIBRISER_DMA_H */

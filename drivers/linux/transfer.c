// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A transfer, from the request of user space to its result.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "riser.h"

/* Returns the engine of a direction, or NULL. */
struct riser_engine *riser_engine_of(struct riser_dma *dma, u32 direction, u32 engine)
{
	u32 d2h_engines = dma->engine_count - dma->h2d_engines;

	if (direction == RISER_DMA_H2D && engine < dma->h2d_engines)
		return &dma->engines[engine];
	if (direction == RISER_DMA_D2H && engine < d2h_engines)
		return &dma->engines[dma->h2d_engines + engine];
	return NULL;
}

/* Returns the memory of a handle, with a reference. */
static struct riser_memory *by_handle(struct riser_file *file,
				      const struct riser_dma_transfer *asked, bool h2d)
{
	struct riser_memory *memory;

	xa_lock(&file->memories);
	memory = xa_load(&file->memories, asked->handle);
	if (memory)
		riser_memory_get(memory);
	xa_unlock(&file->memories);
	if (!memory)
		return ERR_PTR(-ENOENT);
	if (asked->buffer > memory->bytes || asked->size > memory->bytes - asked->buffer) {
		riser_memory_put(memory);
		return ERR_PTR(-EINVAL);
	}
	if (!h2d && memory->direction == DMA_TO_DEVICE) {
		riser_memory_put(memory);
		return ERR_PTR(-EFAULT);
	}
	return memory;
}

/* Finds the piece where the transfer begins, and syncs the memory for the device. */
static int place(struct riser_transfer *transfer, u64 offset)
{
	struct riser_memory *memory = transfer->memory;
	struct riser_dma *dma = memory->dma;
	struct scatterlist *piece;
	int i, error = -ENODEV;

	mutex_lock(&dma->lock);
	if (!memory->mapped)
		goto unlock;
	error = -EINVAL;
	for_each_sgtable_dma_sg(memory->mapped, piece, i) {
		if (offset < sg_dma_len(piece)) {
			transfer->next = piece;
			transfer->into = offset;
			error = 0;
			break;
		}
		offset -= sg_dma_len(piece);
	}
	/* For a dmabuf, user space does the syncing (DMA_BUF_IOCTL_SYNC). */
	if (!error && !memory->dmabuf)
		dma_sync_sgtable_for_device(&dma->pdev->dev, memory->mapped, memory->direction);
unlock:
	mutex_unlock(&dma->lock);
	return error;
}

/**
 * riser_transfer_new() - creates a transfer with pinned and mapped memory
 * @file: the file that requests it
 * @direction: RISER_DMA_H2D or RISER_DMA_D2H
 * @asked: the request of user space
 *
 * Return: the transfer, to be queued or freed; or EINVAL, ENXIO, ENOENT,
 * EFAULT, ENOMEM, ENODEV.
 */
struct riser_transfer *riser_transfer_new(struct riser_file *file, unsigned int direction,
					  const struct riser_dma_transfer *asked)
{
	struct riser_engine *engine = riser_engine_of(file->dma, direction, asked->engine);
	bool h2d = direction == RISER_DMA_H2D, is_handle = asked->flags & RISER_DMA_BY_HANDLE;
	struct riser_transfer *transfer;
	int error;

	if (!engine)
		return ERR_PTR(-ENXIO);
	if (!asked->size || asked->size > RISER_DMA_MAX_BYTES || asked->irq > 1 ||
	    asked->enable > 1 || asked->flags & ~RISER_DMA_BY_HANDLE || asked->reserved ||
	    (!is_handle && asked->handle))
		return ERR_PTR(-EINVAL);
	transfer = kzalloc(sizeof(*transfer), GFP_KERNEL_ACCOUNT);
	if (!transfer)
		return ERR_PTR(-ENOMEM);
	if (is_handle)
		transfer->memory = by_handle(file, asked, h2d);
	else
		transfer->memory = riser_memory_pin(file->dma, asked->buffer, asked->size,
						    h2d ? DMA_TO_DEVICE : DMA_FROM_DEVICE,
						    !asked->enable);
	if (IS_ERR(transfer->memory)) {
		error = PTR_ERR(transfer->memory);
		kfree(transfer);
		return ERR_PTR(error);
	}
	INIT_LIST_HEAD(&transfer->link);
	transfer->left = asked->size;
	transfer->irq = asked->irq;
	transfer->engine = engine->index;
	transfer->file = file;
	riser_file_get(file);
	error = place(transfer, is_handle ? asked->buffer : 0);
	if (error) {
		riser_transfer_free(transfer);
		return ERR_PTR(error);
	}
	return transfer;
}

void riser_transfer_free(struct riser_transfer *transfer)
{
	riser_memory_put(transfer->memory);
	riser_file_put(transfer->file);
	kfree(transfer);
}

/* Syncs memory for the CPU, if it is still mapped. */
static void take_from_device(struct riser_memory *memory)
{
	mutex_lock(&memory->dma->lock);
	if (memory->mapped)
		dma_sync_sgtable_for_cpu(&memory->dma->pdev->dev, memory->mapped,
					 memory->direction);
	mutex_unlock(&memory->dma->lock);
}

static void tell(struct riser_queue *queue, struct riser_transfer *transfer)
{
	queue->ended++;
	queue->moved += transfer->moved;
	if (transfer->of_ring)
		return;
	queue->untold++;
	if (!transfer->error)
		return;
	if (!queue->failed) {
		queue->error = transfer->error;
		queue->code = transfer->code;
	}
	queue->failed++;
}

/* Syncs the memory for user space, reports the result, and frees the transfer. */
void riser_transfer_end(struct riser_transfer *transfer)
{
	struct riser_file *file = transfer->file;

	if (!transfer->memory->dmabuf)
		take_from_device(transfer->memory);
	if (!transfer->error)
		transfer->code = RISER_DMA_ERROR_CODE_OK;
	riser_memory_put(transfer->memory);
	spin_lock(&file->lock);
	tell(&file->queues[transfer->engine], transfer);
	file->under_way--;
	if (transfer->of_ring) {
		file->completions_due--;
		riser_rings_complete(file, transfer->user_data, transfer->moved, transfer->error,
				     transfer->code);
	}
	spin_unlock(&file->lock);
	wake_up_all(&file->wait);
	riser_file_put(file);
	kfree(transfer);
}

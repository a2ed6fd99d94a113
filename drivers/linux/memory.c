// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Memory for DMA: pinned pages of user space, and dmabufs. It stays mapped while the
 * function exists, and is released with its last reference. Running transfers hold
 * references.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "riser.h"

MODULE_IMPORT_NS(DMA_BUF);

/* Counts pinned pages against RLIMIT_MEMLOCK, as RDMA does. */
static int account(struct riser_memory *memory, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if (atomic64_add_return(pages, &current->mm->pinned_vm) > limit &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(pages, &current->mm->pinned_vm);
		return -ENOMEM;
	}
	memory->mm = current->mm;
	mmgrab(memory->mm);
	return 0;
}

static void unaccount(struct riser_memory *memory)
{
	if (!memory->mm)
		return;
	atomic64_sub(memory->page_count, &memory->mm->pinned_vm);
	mmdrop(memory->mm);
}

static void unpin(struct riser_memory *memory, unsigned long count)
{
	unpin_user_pages_dirty_lock(memory->pages, count,
				    memory->direction != DMA_TO_DEVICE);
}

static int pin(struct riser_memory *memory, u64 address, bool long_term)
{
	unsigned int flags = memory->direction == DMA_TO_DEVICE ? 0 : FOLL_WRITE;
	unsigned long pinned = 0;

	if (long_term)
		flags |= FOLL_LONGTERM;
	while (pinned < memory->page_count) {
		int got = pin_user_pages_fast((address & PAGE_MASK) + pinned * PAGE_SIZE,
					      memory->page_count - pinned, flags,
					      memory->pages + pinned);

		if (got <= 0) {
			unpin(memory, pinned);
			return got ?: -EFAULT;
		}
		pinned += got;
	}
	return 0;
}

/*
 * Maps pages for the device; adjacent pages become one piece. Each transfer does the
 * syncing, because many transfers may use a mapping, and buffers of a program may
 * overlap.
 */
static int map_pages(struct riser_memory *memory, u64 address)
{
	struct device *device = &memory->dma->pdev->dev;
	size_t most = min_t(size_t, dma_max_mapping_size(device), dma_get_max_seg_size(device));
	int error;

	error = sg_alloc_table_from_pages_segment(&memory->table, memory->pages,
						  memory->page_count, offset_in_page(address),
						  memory->bytes, most & PAGE_MASK, GFP_KERNEL);
	if (error)
		return error;
	mutex_lock(&memory->dma->lock);
	error = memory->dma->is_gone ? -ENODEV :
		dma_map_sgtable(device, &memory->table, memory->direction,
				DMA_ATTR_SKIP_CPU_SYNC);
	if (!error) {
		memory->mapped = &memory->table;
		list_add(&memory->link, &memory->dma->memories);
	}
	mutex_unlock(&memory->dma->lock);
	if (error)
		sg_free_table(&memory->table);
	return error;
}

static struct riser_memory *memory_new(struct riser_dma *dma, enum dma_data_direction direction)
{
	struct riser_memory *memory = kzalloc(sizeof(*memory), GFP_KERNEL);

	if (!memory)
		return NULL;
	kref_init(&memory->ref);
	INIT_LIST_HEAD(&memory->link);
	memory->dma = dma;
	memory->direction = direction;
	get_device(&dma->dev);
	return memory;
}

static void memory_free(struct riser_memory *memory)
{
	put_device(&memory->dma->dev);
	kfree(memory);
}

/**
 * riser_memory_pin() - pins and maps pages of the caller
 * @dma: the function
 * @address: address of the first byte
 * @bytes: at most RISER_DMA_MAX_BYTES
 * @direction: direction of the transfers
 * @long_term: whether the pages may stay pinned indefinitely
 *
 * Return: the memory with one reference, or EFAULT, ENOMEM, ENODEV.
 */
struct riser_memory *riser_memory_pin(struct riser_dma *dma, u64 address, u64 bytes,
				      enum dma_data_direction direction, bool long_term)
{
	struct riser_memory *memory;
	int error = -ENOMEM;

	if (address + bytes < address || address + bytes > TASK_SIZE)
		return ERR_PTR(-EFAULT);
	memory = memory_new(dma, direction);
	if (!memory)
		return ERR_PTR(-ENOMEM);
	memory->bytes = bytes;
	memory->page_count = DIV_ROUND_UP(offset_in_page(address) + bytes, PAGE_SIZE);
	memory->pages = kvmalloc_array(memory->page_count, sizeof(*memory->pages), GFP_KERNEL);
	if (!memory->pages)
		goto free;
	error = account(memory, memory->page_count);
	if (error)
		goto free;
	error = pin(memory, address, long_term);
	if (error)
		goto unaccount;
	error = map_pages(memory, address);
	if (!error)
		return memory;
	unpin(memory, memory->page_count);
unaccount:
	unaccount(memory);
free:
	kvfree(memory->pages);
	memory_free(memory);
	return ERR_PTR(error);
}

#ifdef RISER_DMA_BUF_UNLOCKED
static struct sg_table *map_dmabuf(struct riser_memory *memory)
{
	return dma_buf_map_attachment_unlocked(memory->attachment, memory->direction);
}

static void unmap_dmabuf(struct riser_memory *memory)
{
	dma_buf_unmap_attachment_unlocked(memory->attachment, memory->mapped, memory->direction);
}
#else
static struct sg_table *map_dmabuf(struct riser_memory *memory)
{
	return dma_buf_map_attachment(memory->attachment, memory->direction);
}

static void unmap_dmabuf(struct riser_memory *memory)
{
	dma_buf_unmap_attachment(memory->attachment, memory->mapped, memory->direction);
}
#endif

static int map_import(struct riser_memory *memory)
{
	struct riser_dma *dma = memory->dma;
	struct sg_table *mapped;
	int error = 0;

	mutex_lock(&dma->lock);
	if (dma->is_gone) {
		error = -ENODEV;
		goto unlock;
	}
	memory->attachment = dma_buf_attach(memory->dmabuf, &dma->pdev->dev);
	if (IS_ERR(memory->attachment)) {
		error = PTR_ERR(memory->attachment);
		goto unlock;
	}
	mapped = map_dmabuf(memory);
	if (IS_ERR(mapped)) {
		error = PTR_ERR(mapped);
		dma_buf_detach(memory->dmabuf, memory->attachment);
		goto unlock;
	}
	memory->mapped = mapped;
	list_add(&memory->link, &dma->memories);
unlock:
	mutex_unlock(&dma->lock);
	return error;
}

/**
 * riser_memory_import() - maps a dmabuf
 * @dma: the function
 * @fd: the caller's file descriptor of the dmabuf
 * @direction: direction of the transfers
 *
 * Return: the memory with one reference, or EBADF, ENODEV, or an error of the exporter.
 */
struct riser_memory *riser_memory_import(struct riser_dma *dma, int fd,
					 enum dma_data_direction direction)
{
	struct riser_memory *memory;
	struct dma_buf *dmabuf;
	int error;

	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	memory = memory_new(dma, direction);
	if (!memory) {
		dma_buf_put(dmabuf);
		return ERR_PTR(-ENOMEM);
	}
	memory->dmabuf = dmabuf;
	memory->bytes = dmabuf->size;
	error = map_import(memory);
	if (!error)
		return memory;
	dma_buf_put(dmabuf);
	memory_free(memory);
	return ERR_PTR(error);
}

static void unmap(struct riser_memory *memory)
{
	if (!memory->mapped)
		return;
	list_del_init(&memory->link);
	if (memory->dmabuf) {
		unmap_dmabuf(memory);
		dma_buf_detach(memory->dmabuf, memory->attachment);
	} else {
		dma_unmap_sgtable(&memory->dma->pdev->dev, memory->mapped, memory->direction,
				  DMA_ATTR_SKIP_CPU_SYNC);
	}
	memory->mapped = NULL;
}

/* Called when the function is removed and none of its transfers is running. */
void riser_memory_unmap_all(struct riser_dma *dma)
{
	struct riser_memory *memory, *next;

	mutex_lock(&dma->lock);
	list_for_each_entry_safe(memory, next, &dma->memories, link)
		unmap(memory);
	mutex_unlock(&dma->lock);
}

void riser_memory_get(struct riser_memory *memory)
{
	kref_get(&memory->ref);
}

static void memory_release(struct kref *ref)
{
	struct riser_memory *memory = container_of(ref, struct riser_memory, ref);

	mutex_lock(&memory->dma->lock);
	unmap(memory);
	mutex_unlock(&memory->dma->lock);
	if (memory->dmabuf) {
		dma_buf_put(memory->dmabuf);
	} else {
		sg_free_table(&memory->table);
		unpin(memory, memory->page_count);
		unaccount(memory);
		kvfree(memory->pages);
	}
	memory_free(memory);
}

void riser_memory_put(struct riser_memory *memory)
{
	kref_put(&memory->ref, memory_release);
}

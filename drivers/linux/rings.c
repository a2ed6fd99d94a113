// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Submission and completion rings in memory shared with user space. The driver reads
 * each field once and checks it.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "riser.h"

static u32 completion_entries(struct riser_file *file)
{
	return 2 * file->ring_entries;
}

static size_t submissions_at(void)
{
	return ALIGN(sizeof(struct riser_dma_rings), SMP_CACHE_BYTES);
}

static size_t completions_at(u32 entries)
{
	return submissions_at() + entries * sizeof(struct riser_dma_submission);
}

/*
 * Returns the number of completions; larger than the ring if user space wrote an
 * invalid value.
 */
u32 riser_rings_ready(struct riser_file *file)
{
	struct riser_dma_rings *rings = READ_ONCE(file->rings);

	return rings ? READ_ONCE(file->completion_tail) - READ_ONCE(rings->completion_head) : 0;
}

int riser_rings_setup(struct riser_file *file, struct riser_dma_setup *setup)
{
	u32 entries = setup->entries;
	struct riser_dma_rings *rings;
	size_t bytes;

	if (!is_power_of_2(entries) || entries > RISER_DMA_MAX_TRANSFERS || setup->reserved0 ||
	    setup->reserved)
		return -EINVAL;
	bytes = PAGE_ALIGN(completions_at(entries) +
			   2 * entries * sizeof(struct riser_dma_completion));
	rings = vmalloc_user(bytes);
	if (!rings)
		return -ENOMEM;
	rings->submission_entries = entries;
	rings->completion_entries = 2 * entries;
	rings->submissions = submissions_at();
	rings->completions = completions_at(entries);
	mutex_lock(&file->submit);
	if (file->rings) {
		mutex_unlock(&file->submit);
		vfree(rings);
		return -EBUSY;
	}
	file->ring_entries = entries;
	file->rings_bytes = bytes;
	/* The rings are initialized before they become visible. */
	smp_store_release(&file->rings, rings);
	mutex_unlock(&file->submit);
	setup->bytes = bytes;
	return 0;
}

int riser_rings_map(struct riser_file *file, struct vm_area_struct *vma)
{
	/* The rings as initialized. */
	struct riser_dma_rings *rings = smp_load_acquire(&file->rings);

	if (!rings)
		return -ENXIO;
	if (vma->vm_pgoff || vma->vm_end - vma->vm_start > file->rings_bytes ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	return remap_vmalloc_range(vma, rings, 0);
}

/* Writes a completion; the caller has checked for room and holds the file's lock. */
void riser_rings_complete(struct riser_file *file, u64 user_data, u64 moved, int result, u32 code)
{
	u32 place = file->completion_tail & (completion_entries(file) - 1);
	struct riser_dma_completion *completion =
		(void *)file->rings + completions_at(file->ring_entries);

	completion[place] = (struct riser_dma_completion){
		.user_data = user_data,
		.moved = moved,
		.result = result,
		.code = code,
	};
	WRITE_ONCE(file->completion_tail, file->completion_tail + 1);
	/* Written before it is counted. */
	smp_store_release(&file->rings->completion_tail, file->completion_tail);
}

/* Reserves room for one more completion, for this submission. */
static int reserve(struct riser_file *file)
{
	u32 ready, most = completion_entries(file);
	int error = 0;

	spin_lock(&file->lock);
	ready = riser_rings_ready(file);
	if (ready > most)
		error = -EINVAL;
	else if (ready + file->completions_due >= most)
		error = -EBUSY;
	else
		file->completions_due++;
	spin_unlock(&file->lock);
	return error;
}

static void complete_at_once(struct riser_file *file, u64 user_data, int result)
{
	spin_lock(&file->lock);
	file->completions_due--;
	riser_rings_complete(file, user_data, 0, result, 0);
	spin_unlock(&file->lock);
	wake_up_all(&file->wait);
}

/* Queues a submission. @engines collects the engines to kick. */
static int submit(struct riser_file *file, const struct riser_dma_submission *submission,
		  u32 *engines)
{
	struct riser_dma_transfer asked = {
		.buffer = submission->buffer,
		.size = submission->size,
		.engine = submission->engine,
		.irq = !!(submission->flags & RISER_DMA_IRQ),
		.enable = 1,
		.flags = submission->flags & ~RISER_DMA_IRQ,
		.handle = submission->handle,
	};
	struct riser_transfer *transfer;
	int error;

	if (submission->op > RISER_DMA_D2H)
		return -EINVAL;
	transfer = riser_transfer_new(file, submission->op, &asked);
	if (IS_ERR(transfer))
		return PTR_ERR(transfer);
	transfer->of_ring = true;
	transfer->user_data = submission->user_data;
	*engines |= BIT(transfer->engine);
	error = riser_engine_queue(&file->dma->engines[transfer->engine], transfer, true);
	if (error)
		riser_transfer_free(transfer);
	return error;
}

static int take_one(struct riser_file *file, u32 *engines)
{
	const struct riser_dma_submission *submissions = (void *)file->rings + submissions_at();
	u32 place = file->submission_head & (file->ring_entries - 1);
	struct riser_dma_submission submission;
	int error;

	error = reserve(file);
	if (error)
		return error;
	/* Copies the submission once, because user space may change it at any time. */
	memcpy(&submission, &submissions[place], sizeof(submission));
	barrier();
	file->submission_head++;
	/* User space may reuse the entry. */
	smp_store_release(&file->rings->submission_head, file->submission_head);
	if (submission.op == RISER_DMA_NOP) {
		complete_at_once(file, submission.user_data, 0);
		return 0;
	}
	error = submit(file, &submission, engines);
	if (error)
		complete_at_once(file, submission.user_data, error);
	return 0;
}

static int take(struct riser_file *file, struct riser_dma_enter *enter)
{
	u32 count, n, engines = 0;
	int error = 0;

	mutex_lock(&file->submit);
	/* The entries before the tail were written before the tail. */
	count = smp_load_acquire(&file->rings->submission_tail) - file->submission_head;
	if (count > file->ring_entries)
		error = -EINVAL;
	else
		count = min(count, enter->submit);
	while (!error && enter->submitted < count) {
		error = take_one(file, &engines);
		if (!error)
			enter->submitted++;
	}
	mutex_unlock(&file->submit);
	for (n = 0; n < file->dma->engine_count; n++)
		if (engines & BIT(n))
			riser_engine_kick(&file->dma->engines[n]);
	return enter->submitted ? 0 : error;
}

/* Returns whether enough completions are ready, or no more will come. */
static bool is_enough(struct riser_file *file, void *what)
{
	u32 *wait = what;
	bool enough;

	spin_lock(&file->lock);
	enough = riser_rings_ready(file) >= *wait || !file->completions_due;
	spin_unlock(&file->lock);
	return enough;
}

static int wait(struct riser_file *file, struct riser_dma_enter *enter)
{
	long left;

	if (file->is_polling)
		return riser_file_poll(file, is_enough, &enter->wait, enter->timeout_us, true);
	if (!enter->timeout_us)
		return wait_event_interruptible(file->wait, is_enough(file, &enter->wait)) ?
			-EINTR : 0;
	left = wait_event_interruptible_timeout(file->wait, is_enough(file, &enter->wait),
						nsecs_to_jiffies(enter->timeout_us * 1000) + 1);
	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIME;
}

/* RISER_DMA_ENTER */
int riser_rings_enter(struct riser_file *file, struct riser_dma_enter *enter)
{
	int error = 0;

	/* The rings as initialized. */
	if (!smp_load_acquire(&file->rings))
		return -ENXIO;
	if (enter->reserved || enter->wait > completion_entries(file) ||
	    enter->timeout_us > U64_MAX / 1000)
		return -EINVAL;
	enter->submitted = 0;
	if (enter->submit)
		error = take(file, enter);
	if (!error && enter->wait)
		error = wait(file, enter);
	enter->ready = riser_rings_ready(file);
	return enter->submitted ? 0 : error;
}

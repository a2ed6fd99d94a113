// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The character device: checks and dispatches requests of user space.
 */
#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "riser.h"

static unsigned int busy_us = 50;
module_param(busy_us, uint, 0644);
MODULE_PARM_DESC(busy_us, "a polling caller spins for this time, then sleeps between polls (default 50)");

static unsigned int close_timeout_ms = 1000;
module_param(close_timeout_ms, uint, 0644);
MODULE_PARM_DESC(close_timeout_ms, "wait this long for running transfers of a closed file, then abort them (default 1000)");

/* ---- Lifetime ---- */

void riser_file_get(struct riser_file *file)
{
	kref_get(&file->ref);
}

static void file_free(struct kref *ref)
{
	struct riser_file *file = container_of(ref, struct riser_file, ref);

	vfree(file->rings);
	xa_destroy(&file->memories);
	put_device(&file->dma->dev);
	kfree(file);
}

void riser_file_put(struct riser_file *file)
{
	kref_put(&file->ref, file_free);
}

static int riser_open(struct inode *inode, struct file *filp)
{
	struct riser_dma *dma = container_of(inode->i_cdev, struct riser_dma, cdev);
	struct riser_file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	unsigned int n;
	bool is_gone;

	if (!file)
		return -ENOMEM;
	kref_init(&file->ref);
	file->dma = dma;
	get_device(&dma->dev);
	init_waitqueue_head(&file->wait);
	mutex_init(&file->submit);
	spin_lock_init(&file->lock);
	xa_init_flags(&file->memories, XA_FLAGS_ALLOC1);
	for (n = 0; n < RISER_MAX_ENGINES; n++) {
		INIT_LIST_HEAD(&file->queues[n].turn);
		INIT_LIST_HEAD(&file->queues[n].waiting);
		INIT_LIST_HEAD(&file->queues[n].held);
	}
	mutex_lock(&dma->lock);
	is_gone = dma->is_gone;
	if (!is_gone)
		list_add_tail(&file->link, &dma->files);
	mutex_unlock(&dma->lock);
	if (is_gone) {
		riser_file_put(file);
		return -ENODEV;
	}
	filp->private_data = file;
	return stream_open(inode, filp);
}

/* Services the engines with running transfers of the file. */
static void look(struct riser_file *file)
{
	unsigned int n;

	for (n = 0; n < file->dma->engine_count; n++) {
		struct riser_engine *engine = &file->dma->engines[n];
		struct riser_queue *queue = &file->queues[n];

		if (READ_ONCE(queue->begun) != READ_ONCE(queue->ended) &&
		    riser_engine_has_news(engine))
			riser_engine_service(engine);
	}
}

/**
 * riser_file_poll() - polls until a condition is met
 * @file: the file with the transfers
 * @is_over: the condition
 * @what: its argument
 * @timeout_us: maximum time; zero: no limit
 * @interruptible: whether a signal ends it
 *
 * Return: zero, ETIME or EINTR.
 */
int riser_file_poll(struct riser_file *file, bool (*is_over)(struct riser_file *file, void *what),
		    void *what, u64 timeout_us, bool interruptible)
{
	ktime_t begun = ktime_get();
	s64 waited;

	for (;;) {
		look(file);
		if (is_over(file, what))
			return 0;
		if (interruptible && signal_pending(current))
			return -EINTR;
		waited = ktime_us_delta(ktime_get(), begun);
		if (timeout_us && waited >= timeout_us)
			return -ETIME;
		if (waited < busy_us) {
			cpu_relax();
			cond_resched();
		} else {
			usleep_range(10, 50);
		}
	}
}

static bool nothing_is_under_way(struct riser_file *file, void *what)
{
	return !READ_ONCE(file->under_way);
}

/* When it returns, no transfer is running and no memory pinned. */
static int riser_release(struct inode *inode, struct file *filp)
{
	struct riser_file *file = filp->private_data;
	struct riser_dma *dma = file->dma;
	struct riser_memory *memory;
	unsigned long handle;
	unsigned int n;

	for (n = 0; n < dma->engine_count; n++)
		riser_engine_take_back(&dma->engines[n], file, true);
	if (riser_file_poll(file, nothing_is_under_way, NULL, close_timeout_ms * 1000ULL ?: 1,
			    false)) {
		dev_warn(&dma->dev, "file closed, %u of its transfers aborted\n",
			 READ_ONCE(file->under_way));
		for (n = 0; n < dma->engine_count; n++)
			riser_engine_cut_off(&dma->engines[n], file, -ECANCELED);
	}
	mutex_lock(&dma->lock);
	list_del(&file->link);
	mutex_unlock(&dma->lock);
	xa_for_each(&file->memories, handle, memory) {
		xa_erase(&file->memories, handle);
		riser_memory_put(memory);
	}
	riser_file_put(file);
	return 0;
}

/* ---- Transfers ---- */

struct riser_awaited {
	struct riser_queue *queue;
	u64 count;
};

static bool have_ended(struct riser_file *file, void *what)
{
	struct riser_awaited *awaited = what;

	return READ_ONCE(awaited->queue->ended) >= awaited->count;
}

/* Takes the failures of a queue, so that they are reported once. */
static int take_failure(struct riser_file *file, struct riser_queue *queue, u32 *code)
{
	int error;

	spin_lock(&file->lock);
	error = queue->error;
	*code = error ? queue->code : RISER_DMA_ERROR_CODE_OK;
	queue->error = 0;
	queue->code = 0;
	queue->failed = 0;
	queue->untold = 0;
	spin_unlock(&file->lock);
	return error;
}

/* As the paper's polling operation: waits for all started transfers on the engine. */
static int wait_polling(struct riser_file *file, struct riser_engine *engine,
			struct riser_dma_transfer *asked, u64 moved)
{
	struct riser_awaited awaited = { .queue = &file->queues[engine->index] };
	int error, failure;

	spin_lock(&file->lock);
	awaited.count = awaited.queue->begun;
	spin_unlock(&file->lock);
	error = riser_file_poll(file, have_ended, &awaited, 0, true);
	if (error) {
		riser_engine_take_back(engine, file, false);
		return error;
	}
	failure = take_failure(file, awaited.queue, &asked->code);
	spin_lock(&file->lock);
	asked->moved = awaited.queue->moved - moved;
	spin_unlock(&file->lock);
	return failure;
}

static int transfer(struct riser_file *file, unsigned int direction,
		    struct riser_dma_transfer *asked)
{
	struct riser_engine *engine = riser_engine_of(file->dma, direction, asked->engine);
	struct riser_transfer *made;
	u64 moved;
	int error;

	if (!engine)
		return -ENXIO;
	spin_lock(&file->lock);
	moved = file->queues[engine->index].moved;
	spin_unlock(&file->lock);
	if (asked->size || !asked->enable) {
		made = riser_transfer_new(file, direction, asked);
		if (IS_ERR(made))
			return PTR_ERR(made);
		error = riser_engine_queue(engine, made, asked->enable);
		if (error) {
			riser_transfer_free(made);
			return error;
		}
	} else if (asked->buffer || asked->irq || asked->enable > 1 || asked->flags ||
		   asked->handle || asked->reserved) {
		return -EINVAL;
	}
	asked->code = 0;
	asked->moved = 0;
	if (!asked->enable)
		return 0;
	riser_engine_begin(engine, file);
	return READ_ONCE(file->is_polling) ? wait_polling(file, engine, asked, moved) : 0;
}

static int pending_data(struct riser_file *file, struct riser_dma_pending *pending)
{
	struct riser_engine *engine =
		riser_engine_of(file->dma, pending->direction, pending->engine);
	struct riser_queue *queue;

	if (pending->reserved || pending->direction > RISER_DMA_D2H)
		return -EINVAL;
	if (!engine)
		return -ENXIO;
	look(file);
	queue = &file->queues[engine->index];
	spin_lock(&file->lock);
	pending->pending = queue->begun - queue->ended;
	pending->failed = queue->failed;
	pending->done = queue->ended;
	pending->moved = queue->moved;
	pending->error = -queue->error;
	pending->code = queue->code;
	queue->error = 0;
	queue->code = 0;
	queue->failed = 0;
	queue->untold = 0;
	spin_unlock(&file->lock);
	return 0;
}

/* ---- Register access by the CPU ---- */

static int cpu_access(struct riser_file *file, const struct riser_dma_cpu *cpu, bool write)
{
	struct riser_dma *dma = file->dma;
	u32 __user *data = u64_to_user_ptr(cpu->data);
	u32 value = 0;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (cpu->bar)
		return -ENXIO;
	if (cpu->reserved || cpu->address % sizeof(u32) ||
	    cpu->address > RISER_DMA_BAR_BYTES - sizeof(u32))
		return -EINVAL;
	/* Only the kernel may write these. */
	if (write && cpu->address >= RISER_DMA_MSIX_TABLE &&
	    cpu->address < RISER_DMA_MSIX_PENDING + RISER_DMA_MSIX_PENDING_BYTES)
		return -EPERM;
	if (write && get_user(value, data))
		return -EFAULT;
	mutex_lock(&dma->lock);
	if (dma->is_gone) {
		mutex_unlock(&dma->lock);
		return -ENODEV;
	}
	if (write)
		writel(value, dma->bar + cpu->address);
	else
		value = readl(dma->bar + cpu->address);
	mutex_unlock(&dma->lock);
	return write ? 0 : put_user(value, data);
}

static int info(struct riser_file *file, struct riser_dma_info *info)
{
	struct riser_dma *dma = file->dma;
	u32 function, limits, window;

	mutex_lock(&dma->lock);
	if (dma->is_gone) {
		mutex_unlock(&dma->lock);
		return -ENODEV;
	}
	info->version = riser_read(dma, RISER_DMA_VERSION);
	function = riser_read(dma, RISER_DMA_FUNCTION);
	limits = riser_read(dma, RISER_DMA_LIMITS);
	window = riser_read(dma, RISER_DMA_WINDOW);
	mutex_unlock(&dma->lock);
	/* All ones: the function does not answer, or not yet. */
	if (max(max(info->version, function), max(limits, window)) == U32_MAX)
		return -EIO;
	info->function = FIELD_GET(RISER_DMA_FUNCTION_NUMBER, function);
	info->functions = FIELD_GET(RISER_DMA_FUNCTION_FUNCTIONS, function);
	info->h2d_engines = dma->h2d_engines;
	info->d2h_engines = dma->engine_count - dma->h2d_engines;
	info->device_entries = dma->device_entries;
	info->ring_entries = READ_ONCE(dma->engines[0].ring.entries);
	info->payload_bytes = FIELD_GET(RISER_DMA_LIMITS_PAYLOAD_BYTES, limits);
	info->read_bytes = FIELD_GET(RISER_DMA_LIMITS_READ_BYTES, limits);
	info->window = FIELD_GET(RISER_DMA_WINDOW_PLACES, window);
	info->window_shared = FIELD_GET(RISER_DMA_WINDOW_SHARED, window);
	info->host_ring = READ_ONCE(dma->engines[0].ring.in_host);
	info->interrupts = dma->vector_count;
	return 0;
}

/* ---- Settings and memory ---- */

static int configure(struct riser_file *file, const struct riser_dma_configure *to)
{
	struct riser_engine *engine = riser_engine_of(file->dma, to->direction, to->engine);

	if (to->direction > RISER_DMA_D2H || to->logic > RISER_DMA_LOOP_BACK || to->reserved)
		return -EINVAL;
	return engine ? riser_engine_configure(engine, to) : -ENXIO;
}

static int keep(struct riser_file *file, struct riser_memory *memory, u32 *handle)
{
	int error;

	if (IS_ERR(memory))
		return PTR_ERR(memory);
	error = xa_alloc(&file->memories, handle, memory, XA_LIMIT(1, RISER_DMA_MAX_TRANSFERS),
			 GFP_KERNEL_ACCOUNT);
	if (error)
		riser_memory_put(memory);
	/* The limit of handles gives ENOMEM. */
	return error == -EBUSY ? -ENOMEM : error;
}

static int register_memory(struct riser_file *file, struct riser_dma_register *asked)
{
	bool writable = asked->flags & RISER_DMA_WRITABLE;

	if (!asked->size || asked->size > RISER_DMA_MAX_BYTES ||
	    asked->flags & ~RISER_DMA_WRITABLE || asked->reserved)
		return -EINVAL;
	return keep(file,
		    riser_memory_pin(file->dma, asked->buffer, asked->size,
				     writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE, true),
		    &asked->handle);
}

static int import(struct riser_file *file, struct riser_dma_import *asked)
{
	bool writable = asked->flags & RISER_DMA_WRITABLE;
	struct riser_memory *memory;

	if (asked->flags & ~RISER_DMA_WRITABLE || asked->reserved0 || asked->reserved)
		return -EINVAL;
	memory = riser_memory_import(file->dma, asked->fd,
				     writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE);
	if (!IS_ERR(memory))
		asked->size = memory->bytes;
	return keep(file, memory, &asked->handle);
}

static int release_memory(struct riser_file *file, unsigned long handle)
{
	struct riser_memory *memory = handle <= U32_MAX ? xa_erase(&file->memories, handle) : NULL;

	if (!memory)
		return -ENOENT;
	riser_memory_put(memory);
	return 0;
}

static int set_mode(struct riser_file *file, unsigned long mode)
{
	if (mode > RISER_DMA_POLLING)
		return -EINVAL;
	WRITE_ONCE(file->is_polling, mode == RISER_DMA_POLLING);
	return 0;
}

/* ---- System calls ---- */

union riser_argument {
	struct riser_dma_info info;
	struct riser_dma_transfer transfer;
	struct riser_dma_cpu cpu;
	struct riser_dma_pending pending;
	struct riser_dma_configure configure;
	struct riser_dma_register registered;
	struct riser_dma_import import;
	struct riser_dma_setup setup;
	struct riser_dma_enter enter;
};

static int call(struct riser_file *file, unsigned int command, union riser_argument *argument)
{
	switch (command) {
	case RISER_DMA_INFO:
		return info(file, &argument->info);
	case RISER_DMA_H2D_DMA:
		return transfer(file, RISER_DMA_H2D, &argument->transfer);
	case RISER_DMA_D2H_DMA:
		return transfer(file, RISER_DMA_D2H, &argument->transfer);
	case RISER_DMA_H2D_CPU:
		return cpu_access(file, &argument->cpu, true);
	case RISER_DMA_D2H_CPU:
		return cpu_access(file, &argument->cpu, false);
	case RISER_DMA_PENDING_DATA:
		return pending_data(file, &argument->pending);
	case RISER_DMA_CONFIGURE:
		return configure(file, &argument->configure);
	case RISER_DMA_REGISTER:
		return register_memory(file, &argument->registered);
	case RISER_DMA_IMPORT:
		return import(file, &argument->import);
	case RISER_DMA_SETUP:
		return riser_rings_setup(file, &argument->setup);
	case RISER_DMA_ENTER:
		return riser_rings_enter(file, &argument->enter);
	default:
		return -ENOTTY;
	}
}

static long riser_ioctl(struct file *filp, unsigned int command, unsigned long argument)
{
	struct riser_file *file = filp->private_data;
	void __user *user = (void __user *)argument;
	union riser_argument copy;
	int result;

	if (READ_ONCE(file->dma->is_gone))
		return -ENODEV;
	if (command == RISER_DMA_SET_MODE)
		return set_mode(file, argument);
	if (command == RISER_DMA_RELEASE)
		return release_memory(file, argument);
	if (_IOC_TYPE(command) != RISER_DMA_IOCTL || _IOC_SIZE(command) > sizeof(copy))
		return -ENOTTY;
	memset(&copy, 0, sizeof(copy));
	if (_IOC_DIR(command) & _IOC_WRITE && copy_from_user(&copy, user, _IOC_SIZE(command)))
		return -EFAULT;
	result = call(file, command, &copy);
	/* Also returns the results of a started transfer that failed. */
	if (result != -ENOTTY && _IOC_DIR(command) & _IOC_READ &&
	    copy_to_user(user, &copy, _IOC_SIZE(command)))
		return -EFAULT;
	return result;
}

static __poll_t riser_poll(struct file *filp, struct poll_table_struct *table)
{
	struct riser_file *file = filp->private_data;
	__poll_t mask = 0;
	unsigned int n;

	poll_wait(filp, &file->wait, table);
	if (READ_ONCE(file->dma->is_gone))
		return EPOLLHUP | EPOLLERR;
	look(file);
	spin_lock(&file->lock);
	for (n = 0; n < file->dma->engine_count; n++)
		if (file->queues[n].untold)
			mask |= EPOLLIN | EPOLLRDNORM;
	if (riser_rings_ready(file))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (file->under_way < RISER_DMA_MAX_TRANSFERS)
		mask |= EPOLLOUT | EPOLLWRNORM;
	spin_unlock(&file->lock);
	return mask;
}

static int riser_mmap(struct file *filp, struct vm_area_struct *vma)
{
	return riser_rings_map(filp->private_data, vma);
}

const struct file_operations riser_file_operations = {
	.owner = THIS_MODULE,
	.open = riser_open,
	.release = riser_release,
	.unlocked_ioctl = riser_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = riser_poll,
	.mmap = riser_mmap,
};

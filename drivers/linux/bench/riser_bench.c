// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Driver for the benchmark device of pcie-bench (SIGCOMM'18, §5.3): allocates the
 * buffer on a NUMA node or takes pages of the program, warms or flushes the caches,
 * runs tests, and passes their results to programs. riser's model and the RTL have
 * the same registers.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#ifdef CONFIG_X86
#include <asm/cacheflush.h>
#endif

#include "riser_bench.h"
#include "riser_bench_registers.h"

/* Time between two looks at the status if no interrupt arrives. */
#define RISER_BENCH_LOOK_MS 10
/* Maximum time until a stopped test has ended. */
#define RISER_BENCH_STOP_MS 1000
/* Bytes between two chances for other tasks while the caches are set. */
#define RISER_BENCH_CACHE_STEP 0x400000
#define RISER_BENCH_PAGE_ENTRIES (RISER_BENCH_JOURNAL_BYTES / 4)

struct riser_bench {
	struct kref ref;
	struct pci_dev *pdev;
	void __iomem *bar;
	struct miscdevice misc;
	int number;
	char name[24];
	atomic_t is_open;
	/* A test has ended. */
	struct completion ended;
	bool is_gone;
	/* Protects the registers and all below. */
	struct mutex lock;
	/* Contiguous for the device. Without pages, there is no buffer. */
	struct sg_table buffer;
	struct page **pages;
	unsigned int page_count;
	/* The pages belong to a program. */
	bool is_pinned;
	size_t buffer_bytes;
};

static DEFINE_IDA(riser_bench_numbers);

static u32 riser_bench_get(struct riser_bench *bench, unsigned int at)
{
	return readl(bench->bar + at);
}

static void riser_bench_free(struct kref *ref)
{
	struct riser_bench *bench = container_of(ref, struct riser_bench, ref);

	ida_free(&riser_bench_numbers, bench->number);
	pci_dev_put(bench->pdev);
	kfree(bench);
}

/* ---- The buffer ---- */

static void riser_bench_drop_pages(struct riser_bench *bench)
{
	if (bench->is_pinned)
		unpin_user_pages_dirty_lock(bench->pages, bench->page_count, true);
	else
		__free_pages(bench->pages[0], get_order(bench->buffer_bytes));
	kvfree(bench->pages);
	bench->pages = NULL;
}

static void riser_bench_drop_buffer(struct riser_bench *bench)
{
	if (!bench->pages)
		return;
	dma_unmap_sgtable(&bench->pdev->dev, &bench->buffer, DMA_BIDIRECTIONAL, 0);
	sg_free_table(&bench->buffer);
	riser_bench_drop_pages(bench);
}

/* Maps the pages for the device, or drops them. */
static int riser_bench_map(struct riser_bench *bench)
{
	struct sg_table *buffer = &bench->buffer;
	int error = sg_alloc_table_from_pages(buffer, bench->pages, bench->page_count, 0,
					      bench->buffer_bytes, GFP_KERNEL);

	if (error)
		goto drop_pages;
	error = dma_map_sgtable(&bench->pdev->dev, buffer, DMA_BIDIRECTIONAL, 0);
	if (error)
		goto free_table;
	/* The device has one address for the whole window. */
	if (buffer->nents == 1)
		return 0;
	error = -EXDEV;
	dma_unmap_sgtable(&bench->pdev->dev, buffer, DMA_BIDIRECTIONAL, 0);
free_table:
	sg_free_table(buffer);
drop_pages:
	riser_bench_drop_pages(bench);
	return error;
}

/* Makes room for the pages of a buffer, in place of an earlier one. */
static int riser_bench_begin_buffer(struct riser_bench *bench, u64 bytes, u64 max_bytes)
{
	if (!bytes || bytes > max_bytes || bytes % PAGE_SIZE)
		return -EINVAL;
	riser_bench_drop_buffer(bench);
	bench->buffer_bytes = bytes;
	bench->page_count = bytes >> PAGE_SHIFT;
	bench->pages = kvcalloc(bench->page_count, sizeof(*bench->pages), GFP_KERNEL);
	return bench->pages ? 0 : -ENOMEM;
}

static int riser_bench_new_buffer(struct riser_bench *bench, struct riser_bench_buffer *wanted)
{
	gfp_t flags = GFP_KERNEL | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN;
	int node = wanted->node, error;
	struct page *first;
	unsigned int n;

	if (node == RISER_BENCH_NEAR)
		node = dev_to_node(&bench->pdev->dev);
	else if (node < 0 || node >= MAX_NUMNODES || !node_online(node))
		return -EINVAL;
	if (wanted->node != RISER_BENCH_NEAR)
		flags |= __GFP_THISNODE;
	if (wanted->reserved)
		return -EINVAL;
	error = riser_bench_begin_buffer(bench, wanted->bytes, RISER_BENCH_MAX_BUFFER);
	if (error)
		return error;
	first = alloc_pages_node(node, flags, get_order(wanted->bytes));
	if (!first) {
		kvfree(bench->pages);
		bench->pages = NULL;
		return -ENOMEM;
	}
	for (n = 0; n < bench->page_count; n++)
		bench->pages[n] = first + n;
	bench->is_pinned = false;
	wanted->node = page_to_nid(first);
	return riser_bench_map(bench);
}

/* The file is only for root, so the pages do not count towards RLIMIT_MEMLOCK. */
static int riser_bench_take_pages(struct riser_bench *bench, const struct riser_bench_pages *wanted)
{
	int pinned, error;

	/* The processor needs all pages in its own mapping. */
	if (IS_ENABLED(CONFIG_HIGHMEM))
		return -EOPNOTSUPP;
	if (wanted->address % PAGE_SIZE)
		return -EINVAL;
	error = riser_bench_begin_buffer(bench, wanted->bytes, RISER_BENCH_MAX_PAGES);
	if (error)
		return error;
	pinned = pin_user_pages_fast(wanted->address, bench->page_count, FOLL_WRITE | FOLL_LONGTERM,
				     bench->pages);
	if (pinned == bench->page_count) {
		bench->is_pinned = true;
		return riser_bench_map(bench);
	}
	if (pinned > 0)
		unpin_user_pages(bench->pages, pinned);
	kvfree(bench->pages);
	bench->pages = NULL;
	return pinned < 0 ? pinned : -EFAULT;
}

static void riser_bench_flush(void *start, size_t bytes)
{
#ifdef CONFIG_X86
	clflush_cache_range(start, bytes);
#endif
}

static int riser_bench_set_cache(struct riser_bench *bench, const struct riser_bench_cache *wanted)
{
	struct device *device = &bench->pdev->dev;
	struct scatterlist *part;
	u64 left = wanted->bytes;
	unsigned int n;

	if (!bench->pages || wanted->bytes > bench->buffer_bytes ||
	    wanted->state > RISER_BENCH_WARM || wanted->reserved)
		return -EINVAL;
	if (wanted->state == RISER_BENCH_COLD && !IS_ENABLED(CONFIG_X86))
		return -EOPNOTSUPP;
	dma_sync_sgtable_for_cpu(device, &bench->buffer, DMA_BIDIRECTIONAL);
	for_each_sgtable_sg(&bench->buffer, part, n) {
		size_t bytes = min_t(u64, left, part->length), done, now;

		for (done = 0; done < bytes; done += now) {
			now = min_t(size_t, bytes - done, RISER_BENCH_CACHE_STEP);
			if (wanted->state == RISER_BENCH_WARM)
				memset(sg_virt(part) + done, 0, now);
			else
				riser_bench_flush(sg_virt(part) + done, now);
			cond_resched();
		}
		left -= bytes;
	}
	dma_sync_sgtable_for_device(device, &bench->buffer, DMA_BIDIRECTIONAL);
	return 0;
}

/* ---- Tests ---- */

static bool riser_bench_is_running(struct riser_bench *bench)
{
	return riser_bench_get(bench, RISER_BENCH_STATUS) == RISER_BENCH_STATUS_RUNNING;
}

/* The interrupt may be lost or early, so the status decides. */
static int riser_bench_wait(struct riser_bench *bench, unsigned int timeout_ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(timeout_ms);
	unsigned long look = msecs_to_jiffies(RISER_BENCH_LOOK_MS);

	while (riser_bench_is_running(bench)) {
		if (READ_ONCE(bench->is_gone))
			return -ENODEV;
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		if (wait_for_completion_interruptible_timeout(&bench->ended, look) < 0)
			return -EINTR;
	}
	return 0;
}

/* The buffer may be freed after this, so the device must not use it any more. */
static void riser_bench_stop(struct riser_bench *bench)
{
	unsigned int ms;

	writel(RISER_BENCH_CONTROL_STOP, bench->bar + RISER_BENCH_CONTROL);
	for (ms = 0; ms < RISER_BENCH_STOP_MS && riser_bench_is_running(bench); ms++)
		fsleep(1000);
	if (ms == RISER_BENCH_STOP_MS) {
		dev_err(&bench->pdev->dev, "a test does not stop\n");
		pci_clear_master(bench->pdev);
	}
}

static void riser_bench_set(struct riser_bench *bench, const struct riser_bench_run *run)
{
	void __iomem *bar = bench->bar;

	writeq(sg_dma_address(bench->buffer.sgl), bar + RISER_BENCH_WINDOW);
	writel(run->test, bar + RISER_BENCH_TEST);
	writel(run->size, bar + RISER_BENCH_SIZE);
	writeq(run->window_bytes, bar + RISER_BENCH_WINDOW_BYTES);
	writel(run->offset, bar + RISER_BENCH_OFFSET);
	writel(run->pattern, bar + RISER_BENCH_PATTERN);
	writel(run->path, bar + RISER_BENCH_PATH);
	writel(run->outstanding, bar + RISER_BENCH_OUTSTANDING);
	writeq(run->transfers, bar + RISER_BENCH_TRANSFERS);
	writeq(run->warm_up, bar + RISER_BENCH_WARM_UP);
	writeq(run->seed, bar + RISER_BENCH_SEED);
}

static int riser_bench_run_test(struct riser_bench *bench, struct riser_bench_run *run)
{
	int error;

	if (!bench->pages || run->window_bytes > bench->buffer_bytes)
		return -EINVAL;
	riser_bench_set(bench, run);
	reinit_completion(&bench->ended);
	writel(RISER_BENCH_CONTROL_START, bench->bar + RISER_BENCH_CONTROL);
	error = riser_bench_wait(bench, run->timeout_ms);
	if (error) {
		riser_bench_stop(bench);
		return error;
	}
	run->error = riser_bench_get(bench, RISER_BENCH_ERROR);
	run->elapsed = readq(bench->bar + RISER_BENCH_ELAPSED);
	run->ended = readq(bench->bar + RISER_BENCH_ENDED);
	run->tick_ps = riser_bench_get(bench, RISER_BENCH_TICK);
	run->entries = riser_bench_get(bench, RISER_BENCH_ENTRIES);
	/* All ones: the function does not answer. */
	return run->tick_ps == U32_MAX ? -ENODEV : 0;
}

/* ---- The file ---- */

static int riser_bench_open(struct inode *inode, struct file *file)
{
	struct riser_bench *bench = container_of(file->private_data, struct riser_bench, misc);

	if (atomic_cmpxchg(&bench->is_open, 0, 1))
		return -EBUSY;
	kref_get(&bench->ref);
	file->private_data = bench;
	return 0;
}

static int riser_bench_release(struct inode *inode, struct file *file)
{
	struct riser_bench *bench = file->private_data;

	mutex_lock(&bench->lock);
	riser_bench_drop_buffer(bench);
	mutex_unlock(&bench->lock);
	atomic_set(&bench->is_open, 0);
	kref_put(&bench->ref, riser_bench_free);
	return 0;
}

static ssize_t riser_bench_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct riser_bench *bench = file->private_data;
	u32 __user *word = (u32 __user *)to;
	u64 entry = *at / 4, first = entry;
	u32 entries;
	int error = 0;

	if (*at % 4 || bytes % 4)
		return -EINVAL;
	if (mutex_lock_interruptible(&bench->lock))
		return -EINTR;
	if (bench->is_gone)
		error = -ENODEV;
	entries = error ? 0 : riser_bench_get(bench, RISER_BENCH_ENTRIES);
	while (!error && entry < entries && entry - first < bytes / 4) {
		u32 page = entry / RISER_BENCH_PAGE_ENTRIES, n = entry % RISER_BENCH_PAGE_ENTRIES;

		if (entry == first || !n)
			writel(page, bench->bar + RISER_BENCH_PAGE);
		if (put_user(riser_bench_get(bench, RISER_BENCH_JOURNAL + 4 * n), word++))
			error = -EFAULT;
		entry++;
	}
	mutex_unlock(&bench->lock);
	if (error)
		return error;
	*at = 4 * entry;
	return 4 * (entry - first);
}

static long riser_bench_buffer_call(struct riser_bench *bench, void __user *argument)
{
	struct riser_bench_buffer wanted;
	int error;

	if (copy_from_user(&wanted, argument, sizeof(wanted)))
		return -EFAULT;
	error = riser_bench_new_buffer(bench, &wanted);
	if (error)
		return error;
	return copy_to_user(argument, &wanted, sizeof(wanted)) ? -EFAULT : 0;
}

static long riser_bench_pages_call(struct riser_bench *bench, void __user *argument)
{
	struct riser_bench_pages wanted;

	if (copy_from_user(&wanted, argument, sizeof(wanted)))
		return -EFAULT;
	return riser_bench_take_pages(bench, &wanted);
}

static long riser_bench_cache_call(struct riser_bench *bench, void __user *argument)
{
	struct riser_bench_cache wanted;

	if (copy_from_user(&wanted, argument, sizeof(wanted)))
		return -EFAULT;
	return riser_bench_set_cache(bench, &wanted);
}

static long riser_bench_run_call(struct riser_bench *bench, void __user *argument)
{
	struct riser_bench_run run;
	int error;

	if (copy_from_user(&run, argument, sizeof(run)))
		return -EFAULT;
	error = riser_bench_run_test(bench, &run);
	if (error)
		return error;
	return copy_to_user(argument, &run, sizeof(run)) ? -EFAULT : 0;
}

static long riser_bench_ioctl(struct file *file, unsigned int call, unsigned long argument)
{
	struct riser_bench *bench = file->private_data;
	void __user *pointer = (void __user *)argument;
	long result = -ENOTTY;

	if (mutex_lock_interruptible(&bench->lock))
		return -EINTR;
	if (bench->is_gone)
		result = -ENODEV;
	else if (call == RISER_BENCH_BUFFER)
		result = riser_bench_buffer_call(bench, pointer);
	else if (call == RISER_BENCH_PAGES)
		result = riser_bench_pages_call(bench, pointer);
	else if (call == RISER_BENCH_CACHE)
		result = riser_bench_cache_call(bench, pointer);
	else if (call == RISER_BENCH_RUN)
		result = riser_bench_run_call(bench, pointer);
	mutex_unlock(&bench->lock);
	return result;
}

static const struct file_operations riser_bench_operations = {
	.owner = THIS_MODULE,
	.open = riser_bench_open,
	.release = riser_bench_release,
	.read = riser_bench_read,
	.unlocked_ioctl = riser_bench_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = default_llseek,
};

/* ---- The function ---- */

static irqreturn_t riser_bench_interrupt(int irq, void *data)
{
	struct riser_bench *bench = data;

	complete(&bench->ended);
	return IRQ_HANDLED;
}

/* Without an interrupt, tests are polled. */
static int riser_bench_request_irq(struct riser_bench *bench)
{
	struct pci_dev *pdev = bench->pdev;

	if (pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI) < 0) {
		dev_info(&pdev->dev, "no interrupt, polling instead\n");
		return 0;
	}
	return request_irq(pci_irq_vector(pdev, 0), riser_bench_interrupt, 0, bench->name, bench);
}

static void riser_bench_free_irq(struct riser_bench *bench)
{
	if (bench->pdev->msi_enabled)
		free_irq(pci_irq_vector(bench->pdev, 0), bench);
	pci_free_irq_vectors(bench->pdev);
}

static struct riser_bench *riser_bench_new(struct pci_dev *pdev)
{
	struct riser_bench *bench = kzalloc(sizeof(*bench), GFP_KERNEL);

	if (!bench)
		return ERR_PTR(-ENOMEM);
	bench->number = ida_alloc(&riser_bench_numbers, GFP_KERNEL);
	if (bench->number < 0) {
		int error = bench->number;

		kfree(bench);
		return ERR_PTR(error);
	}
	snprintf(bench->name, sizeof(bench->name), "riser_bench%d", bench->number);
	kref_init(&bench->ref);
	mutex_init(&bench->lock);
	init_completion(&bench->ended);
	bench->pdev = pci_dev_get(pdev);
	bench->bar = pcim_iomap_table(pdev)[0];
	bench->misc.minor = MISC_DYNAMIC_MINOR;
	bench->misc.name = bench->name;
	bench->misc.fops = &riser_bench_operations;
	bench->misc.parent = &pdev->dev;
	return bench;
}

static int riser_bench_start(struct riser_bench *bench)
{
	u32 version = riser_bench_get(bench, RISER_BENCH_VERSION);
	struct pci_dev *pdev = bench->pdev;
	int error;

	if (version != RISER_BENCH_VERSION_VALUE)
		return dev_err_probe(&pdev->dev, -ENODEV, "unknown version %#x\n", version);
	pci_set_master(pdev);
	error = riser_bench_request_irq(bench);
	if (error) {
		pci_free_irq_vectors(pdev);
		return error;
	}
	error = misc_register(&bench->misc);
	if (error)
		riser_bench_free_irq(bench);
	return error;
}

static int riser_bench_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct riser_bench *bench;
	int error = pcim_enable_device(pdev);

	if (!error)
		error = pcim_iomap_regions(pdev, BIT(0), KBUILD_MODNAME);
	if (!error)
		error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	/* A buffer is one segment. */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	bench = riser_bench_new(pdev);
	if (IS_ERR(bench))
		return PTR_ERR(bench);
	pci_set_drvdata(pdev, bench);
	error = riser_bench_start(bench);
	if (error)
		kref_put(&bench->ref, riser_bench_free);
	return error;
}

static void riser_bench_remove(struct pci_dev *pdev)
{
	struct riser_bench *bench = pci_get_drvdata(pdev);

	misc_deregister(&bench->misc);
	/* A running test ends first. */
	WRITE_ONCE(bench->is_gone, true);
	complete(&bench->ended);
	mutex_lock(&bench->lock);
	riser_bench_drop_buffer(bench);
	mutex_unlock(&bench->lock);
	riser_bench_free_irq(bench);
	pci_clear_master(pdev);
	kref_put(&bench->ref, riser_bench_free);
}

static const struct pci_device_id riser_bench_ids[] = {
	{ PCI_DEVICE(0x7269, 0x0003) },
	{ }
};
MODULE_DEVICE_TABLE(pci, riser_bench_ids);

static struct pci_driver riser_bench_driver = {
	.name = KBUILD_MODNAME,
	.id_table = riser_bench_ids,
	.probe = riser_bench_probe,
	.remove = riser_bench_remove,
};
module_pci_driver(riser_bench_driver);

MODULE_DESCRIPTION("Driver for the benchmark device of pcie-bench");
MODULE_AUTHOR("The riser authors");
MODULE_LICENSE("Dual MIT/GPL");

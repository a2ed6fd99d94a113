// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A Linux driver for my-device, whose registers src/device.rs describes. The driver creates
 * /dev/my_device/0 and so on. The device copies what is written to an open file, up to 64 KiB at
 * a time; a read from that file returns the copy.
 *
 * A write always ends: with an interrupt, with a timeout, or because the device is gone.
 */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define SOURCE		0x00
#define DESTINATION	0x08
#define LENGTH		0x10
#define DOORBELL	0x14
#define CHECKSUM	0x18
#define STATUS		0x1c

#define MAX_BYTES	SZ_64K

static unsigned int timeout_ms = 1000;
module_param(timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "Timeout of a copy, in milliseconds");

static DEFINE_IDA(numbers);

/* A function. It is freed when the driver has released it and no file of it is open. */
struct my_device {
	struct kref users;
	struct miscdevice misc;
	char name[32], node[32];
	int number;

	struct mutex lock; /* Serializes copies and resets; guards all below. */
	struct pci_dev *pdev;
	void __iomem *registers;
	void *source, *destination;
	dma_addr_t source_bus, destination_bus;
	struct completion done;

	/* Set without the lock, to end a running copy. */
	bool gone, frozen;
};

/* An open file, with the result of its last write. */
struct my_file {
	struct my_device *my;
	struct mutex lock; /* guards all below */
	void *copy;
	size_t bytes, at;
};

static void my_device_free(struct kref *users)
{
	kfree(container_of(users, struct my_device, users));
}

static irqreturn_t my_device_interrupt(int irq, void *data)
{
	struct my_device *my = data;

	complete(&my->done);
	return IRQ_HANDLED;
}

/* Resets a device that does not answer, because it could still write to memory. */
static void my_device_reset(struct my_device *my)
{
	pci_clear_master(my->pdev);
	if (pcie_reset_flr(my->pdev, PCI_RESET_DO_RESET))
		pci_warn(my->pdev, "cannot be reset\n");
	pci_restore_state(my->pdev);
	pci_save_state(my->pdev);
}

static u32 sum_of(const u8 *bytes, size_t count)
{
	u32 sum = 0;

	while (count--)
		sum += *bytes++;
	return sum;
}

/* Copies the contents of the source buffer. The caller holds the lock. */
static int my_device_copy(struct my_device *my, u32 length)
{
	unsigned long left;
	u32 status, checksum;

	if (READ_ONCE(my->gone))
		return -ENODEV;
	if (READ_ONCE(my->frozen))
		return -EIO;
	reinit_completion(&my->done);
	lo_hi_writeq(my->source_bus, my->registers + SOURCE);
	lo_hi_writeq(my->destination_bus, my->registers + DESTINATION);
	iowrite32(length, my->registers + LENGTH);
	/* iowrite32 is ordered after earlier writes to coherent memory. */
	iowrite32(1, my->registers + DOORBELL);
	left = wait_for_completion_timeout(&my->done, msecs_to_jiffies(timeout_ms));
	if (READ_ONCE(my->gone))
		return -ENODEV;
	if (READ_ONCE(my->frozen))
		return -EIO;
	if (!left) {
		pci_warn(my->pdev, "copy of %u B timed out after %u ms\n", length, timeout_ms);
		my_device_reset(my);
		return -ETIMEDOUT;
	}
	status = ioread32(my->registers + STATUS);
	checksum = ioread32(my->registers + CHECKSUM);
	/* A device that was removed reads as all ones. */
	if (status || checksum != sum_of(my->source, length))
		return -EIO;
	return 0;
}

static int my_device_open(struct inode *inode, struct file *file)
{
	struct my_device *my = container_of(file->private_data, struct my_device, misc);
	struct my_file *mine = kzalloc(sizeof(*mine), GFP_KERNEL);

	if (!mine)
		return -ENOMEM;
	/* The function cannot go away here: misc_deregister() waits for open(). */
	kref_get(&my->users);
	mine->my = my;
	mutex_init(&mine->lock);
	file->private_data = mine;
	return stream_open(inode, file);
}

static int my_device_release(struct inode *inode, struct file *file)
{
	struct my_file *mine = file->private_data;

	kref_put(&mine->my->users, my_device_free);
	kfree(mine->copy);
	kfree(mine);
	return 0;
}

static ssize_t my_device_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct my_file *mine = file->private_data;
	struct my_device *my = mine->my;
	size_t bytes = min_t(size_t, count, MAX_BYTES);
	void *copy;
	int error;

	if (!bytes)
		return 0;
	copy = memdup_user(from, bytes);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	mutex_lock(&my->lock);
	error = READ_ONCE(my->gone) ? -ENODEV : 0;
	if (!error) {
		memcpy(my->source, copy, bytes);
		error = my_device_copy(my, bytes);
	}
	if (!error)
		memcpy(copy, my->destination, bytes);
	mutex_unlock(&my->lock);
	if (error) {
		kfree(copy);
		return error;
	}
	mutex_lock(&mine->lock);
	swap(mine->copy, copy);
	mine->bytes = bytes;
	mine->at = 0;
	mutex_unlock(&mine->lock);
	kfree(copy);
	return bytes;
}

static ssize_t my_device_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct my_file *mine = file->private_data;
	ssize_t bytes;

	mutex_lock(&mine->lock);
	bytes = min(count, mine->bytes - mine->at);
	if (bytes && copy_to_user(to, mine->copy + mine->at, bytes))
		bytes = -EFAULT;
	if (bytes > 0)
		mine->at += bytes;
	mutex_unlock(&mine->lock);
	return bytes;
}

static const struct file_operations my_device_files = {
	.owner = THIS_MODULE,
	.open = my_device_open,
	.release = my_device_release,
	.read = my_device_read,
	.write = my_device_write,
};

/* Acquires everything that the driver core releases by itself. */
static int my_device_claim(struct my_device *my, struct pci_dev *pdev)
{
	struct device *dev = &pdev->dev;
	int error = pcim_enable_device(pdev);

	if (!error)
		error = pcim_iomap_regions(pdev, BIT(0), KBUILD_MODNAME);
	if (!error)
		error = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	my->registers = pcim_iomap_table(pdev)[0];
	my->source = dmam_alloc_coherent(dev, MAX_BYTES, &my->source_bus, GFP_KERNEL);
	my->destination = dmam_alloc_coherent(dev, MAX_BYTES, &my->destination_bus, GFP_KERNEL);
	if (!my->source || !my->destination)
		return -ENOMEM;
	pci_set_master(pdev);
	error = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI);
	if (error < 0)
		return error;
	error = devm_request_irq(dev, pci_irq_vector(pdev, 0), my_device_interrupt, 0,
				 KBUILD_MODNAME, my);
	/* Later resets restore this state. */
	return error ? error : pci_save_state(pdev);
}

static int my_device_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct my_device *my = kzalloc(sizeof(*my), GFP_KERNEL);
	int error;

	if (!my)
		return -ENOMEM;
	my->number = ida_alloc(&numbers, GFP_KERNEL);
	if (my->number < 0) {
		error = my->number;
		kfree(my);
		return error;
	}
	kref_init(&my->users);
	mutex_init(&my->lock);
	init_completion(&my->done);
	my->pdev = pdev;
	snprintf(my->name, sizeof(my->name), "my_device%d", my->number);
	/* The folder disappears with the device, so no shell can create a plain file in it. */
	snprintf(my->node, sizeof(my->node), "my_device/%d", my->number);
	my->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = my->name,
		.nodename = my->node,
		.fops = &my_device_files,
		.parent = &pdev->dev,
	};
	pci_set_drvdata(pdev, my);
	error = my_device_claim(my, pdev);
	if (!error)
		error = misc_register(&my->misc);
	if (error) {
		pci_clear_master(pdev);
		ida_free(&numbers, my->number);
		kref_put(&my->users, my_device_free);
		return dev_err_probe(&pdev->dev, error, "not claimed\n");
	}
	return 0;
}

/* Ends a running copy and waits for its end. */
static void my_device_quiet(struct my_device *my, bool *why)
{
	WRITE_ONCE(*why, true);
	complete_all(&my->done);
	mutex_lock(&my->lock);
	mutex_unlock(&my->lock);
}

static void my_device_remove(struct pci_dev *pdev)
{
	struct my_device *my = pci_get_drvdata(pdev);

	misc_deregister(&my->misc);
	ida_free(&numbers, my->number);
	my_device_quiet(my, &my->gone);
	/* If the device still exists, it must not write to memory any more. */
	pci_clear_master(pdev);
	devm_free_irq(&pdev->dev, pci_irq_vector(pdev, 0), my);
	kref_put(&my->users, my_device_free);
}

static pci_ers_result_t my_device_error(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct my_device *my = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	my_device_quiet(my, &my->frozen);
	if (state == pci_channel_io_frozen)
		return PCI_ERS_RESULT_NEED_RESET;
	return PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t my_device_mmio_enabled(struct pci_dev *pdev)
{
	return pci_device_is_present(pdev) ? PCI_ERS_RESULT_RECOVERED : PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t my_device_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return pci_device_is_present(pdev) ? PCI_ERS_RESULT_RECOVERED : PCI_ERS_RESULT_DISCONNECT;
}

static void my_device_resume(struct pci_dev *pdev)
{
	struct my_device *my = pci_get_drvdata(pdev);

	WRITE_ONCE(my->frozen, false);
}

/* The function is about to be reset, for example through sysfs. */
static void my_device_reset_prepare(struct pci_dev *pdev)
{
	struct my_device *my = pci_get_drvdata(pdev);

	mutex_lock(&my->lock);
}

static void my_device_reset_done(struct pci_dev *pdev)
{
	struct my_device *my = pci_get_drvdata(pdev);

	pci_save_state(pdev);
	mutex_unlock(&my->lock);
}

static const struct pci_error_handlers my_device_errors = {
	.error_detected = my_device_error,
	.mmio_enabled = my_device_mmio_enabled,
	.slot_reset = my_device_slot_reset,
	.resume = my_device_resume,
	.reset_prepare = my_device_reset_prepare,
	.reset_done = my_device_reset_done,
};

static const struct pci_device_id my_device_ids[] = {
	{ PCI_DEVICE(0x7269, 0x4000) },
	{ PCI_DEVICE(0x7269, 0x4001) },	/* virtual function */
	{ }
};
MODULE_DEVICE_TABLE(pci, my_device_ids);

static struct pci_driver my_device_driver = {
	.name = KBUILD_MODNAME,
	.id_table = my_device_ids,
	.probe = my_device_probe,
	.remove = my_device_remove,
	.err_handler = &my_device_errors,
	.sriov_configure = pci_sriov_configure_simple,
};
module_pci_driver(my_device_driver);

MODULE_DESCRIPTION("Driver of my-device, a copier");
MODULE_LICENSE("Dual MIT/GPL");

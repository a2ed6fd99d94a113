// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Functions of the DMA engine, physical and virtual: probe, reset, sleep, error
 * recovery, and removal.
 */
#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "riser.h"

#define RISER_MINORS 1024
/* Maximum time for running transfers before sleep or reset of the function. */
#define RISER_DRAIN_MS 1000

static char *ring = "host";
module_param(ring, charp, 0444);
MODULE_PARM_DESC(ring, "initial place of descriptors: host (memory) or device (default host)");

static unsigned int ring_entries = 1024;
module_param(ring_entries, uint, 0444);
MODULE_PARM_DESC(ring_entries, "descriptors of a ring, a power of two; limited by the device if they are there (default 1024)");

static int mps;
module_param(mps, int, 0444);
MODULE_PARM_DESC(mps, "Max_Payload_Size of physical functions in bytes, limited by the path; 0: unchanged (default)");

static int mrrs;
module_param(mrrs, int, 0444);
MODULE_PARM_DESC(mrrs, "Max_Read_Request_Size of physical functions in bytes; 0: unchanged (default)");

static dev_t riser_first;
static DEFINE_IDA(riser_minors);

static struct class riser_class = {
	.name = RISER_NAME,
	.dev_groups = riser_groups,
};

/* ---- Interrupts ---- */

/* INTx is shared; the function tells whether it has raised it. */
static irqreturn_t riser_intx(int irq, void *data)
{
	struct riser_vector *vector = data;
	u32 pending = riser_read(vector->dma, RISER_DMA_INTERRUPTS);

	/* All ones: the function does not answer. */
	if (!pending || pending == U32_MAX)
		return IRQ_NONE;
	writel(pending, vector->dma->bar + RISER_DMA_INTERRUPTS);
	/* Deasserts the line before the handler ends. */
	riser_read(vector->dma, RISER_DMA_INTERRUPTS);
	return IRQ_WAKE_THREAD;
}

static irqreturn_t riser_msi(int irq, void *data)
{
	return IRQ_WAKE_THREAD;
}

static irqreturn_t riser_interrupt(int irq, void *data)
{
	struct riser_vector *vector = data;
	unsigned int n;

	for (n = 0; n < vector->dma->engine_count; n++)
		if (vector->engines & BIT(n))
			riser_engine_service(&vector->dma->engines[n]);
	return IRQ_HANDLED;
}

static void riser_free_vectors(struct riser_dma *dma)
{
	unsigned int n;

	for (n = 0; n < dma->vector_count; n++)
		if (dma->vectors[n].is_requested)
			free_irq(dma->vectors[n].irq, &dma->vectors[n]);
	dma->vector_count = 0;
	pci_free_irq_vectors(dma->pdev);
}

/* Assigns vectors to engines. If there are too few vectors, each vector serves all engines. */
static void riser_assign_vectors(struct riser_dma *dma, unsigned int wanted, unsigned int granted)
{
	unsigned int n;

	for (n = 0; n < dma->engine_count; n++) {
		struct riser_engine *engine = &dma->engines[n];
		unsigned int v;

		for (v = 0; v < granted; v++)
			if (engine->vector == v || (granted < wanted && !dma->pdev->msix_enabled))
				dma->vectors[v].engines |= BIT(n);
		/* An engine without its MSI-X vector does not interrupt. */
		engine->has_irq = engine->vector < granted || !dma->pdev->msix_enabled;
	}
}

static int riser_request_vectors(struct riser_dma *dma)
{
	unsigned int n, wanted = 1;
	int granted, error;

	for (n = 0; n < dma->engine_count; n++)
		wanted = max(wanted, dma->engines[n].vector + 1U);
	wanted = min_t(unsigned int, wanted, RISER_MAX_ENGINES);
	granted = pci_alloc_irq_vectors(dma->pdev, 1, wanted, PCI_IRQ_ALL_TYPES);
	if (granted < 0) {
		dev_info(&dma->pdev->dev, "no interrupts (%d), polling instead\n", granted);
		return 0;
	}
	dma->has_intx = !dma->pdev->msix_enabled && !dma->pdev->msi_enabled;
	dma->vector_count = granted;
	riser_assign_vectors(dma, wanted, granted);
	for (n = 0; n < granted; n++) {
		struct riser_vector *vector = &dma->vectors[n];

		vector->dma = dma;
		vector->irq = pci_irq_vector(dma->pdev, n);
		error = request_threaded_irq(vector->irq, dma->has_intx ? riser_intx : riser_msi,
					     riser_interrupt, dma->has_intx ? IRQF_SHARED : 0,
					     dev_name(&dma->dev), vector);
		if (error)
			return error;
		vector->is_requested = true;
	}
	return 0;
}

/* ---- Probe ---- */

static void riser_dma_free(struct device *device)
{
	struct riser_dma *dma = container_of(device, struct riser_dma, dev);

	if (device->devt)
		ida_free(&riser_minors, MINOR(device->devt));
	pci_dev_put(dma->pdev);
	kfree(dma);
}

static struct riser_dma *riser_dma_new(struct pci_dev *pdev)
{
	struct riser_dma *dma = kzalloc(sizeof(*dma), GFP_KERNEL);
	int minor, error;

	if (!dma)
		return ERR_PTR(-ENOMEM);
	dma->pdev = pci_dev_get(pdev);
	mutex_init(&dma->lock);
	INIT_LIST_HEAD(&dma->files);
	INIT_LIST_HEAD(&dma->memories);
	device_initialize(&dma->dev);
	dma->dev.class = &riser_class;
	dma->dev.parent = &pdev->dev;
	dma->dev.release = riser_dma_free;
	minor = ida_alloc_max(&riser_minors, RISER_MINORS - 1, GFP_KERNEL);
	error = minor;
	if (minor >= 0) {
		dma->dev.devt = MKDEV(MAJOR(riser_first), minor);
		error = dev_set_name(&dma->dev, RISER_NAME "%d", minor);
	}
	if (error < 0) {
		put_device(&dma->dev);
		return ERR_PTR(error);
	}
	cdev_init(&dma->cdev, &riser_file_operations);
	dma->cdev.owner = THIS_MODULE;
	return dma;
}

/* Checks that the registers are known and legal. */
static int riser_identify(struct riser_dma *dma)
{
	struct device *device = &dma->pdev->dev;
	u32 engines, version;

	if (!riser_is_there(dma))
		return dev_err_probe(device, -ENODEV, "ID is %#x\n", riser_read(dma, RISER_DMA_ID));
	version = riser_read(dma, RISER_DMA_VERSION);
	if (FIELD_GET(RISER_DMA_VERSION_MAJOR, version) !=
	    FIELD_GET(RISER_DMA_VERSION_MAJOR, RISER_DMA_VERSION_VALUE))
		return dev_err_probe(device, -ENODEV, "unknown version %#x\n", version);
	engines = riser_read(dma, RISER_DMA_ENGINES);
	dma->h2d_engines = FIELD_GET(RISER_DMA_ENGINES_H2D_ENGINES, engines);
	dma->engine_count = dma->h2d_engines + FIELD_GET(RISER_DMA_ENGINES_D2H_ENGINES, engines);
	dma->device_entries = FIELD_GET(RISER_DMA_ENGINES_DEVICE_ENTRIES, engines);
	if (!dma->engine_count || dma->engine_count > RISER_MAX_ENGINES ||
	    dma->device_entries < 2 ||
	    dma->device_entries * dma->engine_count > RISER_DMA_DESCRIPTOR_COUNT)
		return dev_err_probe(device, -ENODEV, "ENGINES is %#x\n", engines);
	return 0;
}

/* Applies the administrator's settings of the path, if they are possible. */
static void riser_set_policy(struct pci_dev *pdev)
{
	if (pdev->is_virtfn)
		return;
	if (mps && riser_set_payload(pdev, mps))
		dev_warn(&pdev->dev, "mps=%d not supported by the path, keeping %d\n", mps,
			 pcie_get_mps(pdev));
	if (mrrs && riser_set_read_request(pdev, mrrs))
		dev_warn(&pdev->dev, "mrrs=%d is invalid, keeping %d\n", mrrs,
			 pcie_get_readrq(pdev));
}

/* Stops the engines for good. Afterwards the function is not needed any more. */
static void riser_shut(struct riser_dma *dma)
{
	unsigned int n;

	mutex_lock(&dma->lock);
	WRITE_ONCE(dma->is_gone, true);
	mutex_unlock(&dma->lock);
	for (n = 0; n < dma->engine_count; n++)
		if (dma->engines[n].dma)
			riser_engine_kill(&dma->engines[n]);
	riser_free_vectors(dma);
	riser_memory_unmap_all(dma);
	for (n = 0; n < dma->engine_count; n++)
		riser_engine_free(&dma->engines[n]);
}

static int riser_start(struct riser_dma *dma)
{
	bool in_host = strcmp(ring, "device");
	unsigned int n;
	int error;

	error = riser_identify(dma);
	if (error)
		return error;
	writel(RISER_DMA_CONTROL_RESET, dma->bar + RISER_DMA_CONTROL);
	for (n = 0; n < dma->engine_count; n++) {
		error = riser_engine_init(dma, n, in_host, ring_entries);
		if (error)
			return error;
	}
	return riser_request_vectors(dma);
}

static int riser_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct riser_dma *dma;
	int error;

	error = pcim_enable_device(pdev);
	if (error)
		return error;
	if (pci_resource_len(pdev, 0) < RISER_DMA_BAR_BYTES)
		return dev_err_probe(&pdev->dev, -ENODEV, "BAR 0 is too small\n");
	error = pcim_iomap_regions(pdev, BIT(0), RISER_NAME);
	if (error)
		return error;
	error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	riser_set_policy(pdev);
	pci_set_master(pdev);
	dma = riser_dma_new(pdev);
	if (IS_ERR(dma))
		return PTR_ERR(dma);
	dma->bar = pcim_iomap_table(pdev)[0];
	pci_set_drvdata(pdev, dma);
	error = riser_start(dma);
	if (!error)
		error = cdev_device_add(&dma->cdev, &dma->dev);
	if (error) {
		riser_shut(dma);
		put_device(&dma->dev);
		return error;
	}
	/* Saves the state to restore after a reset of the link above. */
	pci_save_state(pdev);
	return 0;
}

static void riser_remove(struct pci_dev *pdev)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);

	if (!pdev->is_virtfn && pci_num_vf(pdev) && !pci_vfs_assigned(pdev))
		pci_disable_sriov(pdev);
	cdev_device_del(&dma->cdev, &dma->dev);
	riser_shut(dma);
	put_device(&dma->dev);
}

/* The system shuts down: DMA must end. */
static void riser_shutdown(struct pci_dev *pdev)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);
	unsigned int n;

	for (n = 0; n < dma->engine_count; n++)
		riser_engine_stop(&dma->engines[n], -ENODEV);
	pci_clear_master(pdev);
}

/* ---- Reset, sleep and error recovery ---- */

static void riser_pause(struct riser_dma *dma)
{
	unsigned int n;

	for (n = 0; n < dma->engine_count; n++) {
		riser_engine_drain(&dma->engines[n], RISER_DRAIN_MS);
		riser_engine_stop(&dma->engines[n], -ECANCELED);
	}
}

static void riser_go_on(struct riser_dma *dma)
{
	unsigned int n;

	/*
	 * Saves the state to restore after a reset of the link above; the PCI core keeps it
	 * for one restore.
	 */
	pci_save_state(dma->pdev);
	for (n = 0; n < dma->engine_count; n++)
		riser_engine_thaw(&dma->engines[n]);
}

static void riser_cancel(struct pci_dev *pdev)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);
	unsigned int n;

	for (n = 0; n < dma->engine_count; n++)
		riser_engine_stop(&dma->engines[n], -ECANCELED);
}

static struct pci_driver riser_driver;

static bool riser_is_driven(struct pci_dev *pdev)
{
	return pdev->dev.driver == &riser_driver.driver;
}

/*
 * A reset of the physical function also resets its virtual functions, but only the
 * physical function gets a callback.
 */
static void riser_cancel_virtual(struct pci_dev *virtual)
{
	device_lock(&virtual->dev);
	if (!riser_is_driven(virtual))
		return;
	riser_cancel(virtual);
	pci_save_state(virtual);
}

static void riser_put_back_virtual(struct pci_dev *virtual)
{
	if (riser_is_driven(virtual)) {
		pci_restore_state(virtual);
		riser_go_on(pci_get_drvdata(virtual));
	}
	device_unlock(&virtual->dev);
}

static void riser_act_on_virtual(struct pci_dev *pdev, void (*act)(struct pci_dev *virtual))
{
	struct pci_dev *other = NULL;

	while (!pdev->is_virtfn && (other = pci_get_device(pdev->vendor, PCI_ANY_ID, other)))
		if (other->is_virtfn && pci_physfn(other) == pdev)
			act(other);
}

/*
 * A reset ends running transfers; queued ones wait. Virtual functions stay locked until
 * the reset is done, so that they are not added, removed or reset.
 */
static void riser_reset_prepare(struct pci_dev *pdev)
{
	riser_cancel(pdev);
	riser_act_on_virtual(pdev, riser_cancel_virtual);
}

static void riser_reset_done(struct pci_dev *pdev)
{
	riser_go_on(pci_get_drvdata(pdev));
	riser_act_on_virtual(pdev, riser_put_back_virtual);
}

/* No further callback follows: waiting callers get an error. */
static pci_ers_result_t riser_give_up(struct riser_dma *dma)
{
	unsigned int n;

	dev_err(&dma->dev, "function lost\n");
	for (n = 0; n < dma->engine_count; n++)
		riser_engine_kill(&dma->engines[n]);
	return PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t riser_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);
	unsigned int n;

	/* The transfer that caused the error reports it. */
	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	for (n = 0; n < dma->engine_count; n++)
		riser_engine_freeze(&dma->engines[n]);
	if (state == pci_channel_io_perm_failure)
		return riser_give_up(dma);
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t riser_mmio_enabled(struct pci_dev *pdev)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);

	return riser_is_there(dma) ? PCI_ERS_RESULT_RECOVERED : PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t riser_slot_reset(struct pci_dev *pdev)
{
	struct riser_dma *dma = pci_get_drvdata(pdev);
	unsigned int n;

	pci_restore_state(pdev);
	pci_set_master(pdev);
	if (!riser_is_there(dma))
		return riser_give_up(dma);
	for (n = 0; n < dma->engine_count; n++)
		riser_engine_abandon(&dma->engines[n], -EIO);
	return PCI_ERS_RESULT_RECOVERED;
}

static void riser_resume_after_error(struct pci_dev *pdev)
{
	riser_go_on(pci_get_drvdata(pdev));
}

static const struct pci_error_handlers riser_error_handlers = {
	.error_detected = riser_error_detected,
	.mmio_enabled = riser_mmio_enabled,
	.slot_reset = riser_slot_reset,
	.resume = riser_resume_after_error,
	.reset_prepare = riser_reset_prepare,
	.reset_done = riser_reset_done,
};

static int riser_suspend(struct device *device)
{
	riser_pause(dev_get_drvdata(device));
	return 0;
}

static int riser_resume(struct device *device)
{
	struct riser_dma *dma = dev_get_drvdata(device);

	pci_set_master(dma->pdev);
	if (!riser_is_there(dma))
		return -ENODEV;
	riser_go_on(dma);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(riser_pm_ops, riser_suspend, riser_resume);

/* ---- The module ---- */

static const struct pci_device_id riser_ids[] = {
	{ PCI_DEVICE(0x7269, 0x0007) },
	{ PCI_DEVICE(0x7269, 0x0008) },
	{ }
};
MODULE_DEVICE_TABLE(pci, riser_ids);

static struct pci_driver riser_driver = {
	.name = RISER_NAME,
	.id_table = riser_ids,
	.probe = riser_probe,
	.remove = riser_remove,
	.shutdown = riser_shutdown,
	.sriov_configure = pci_sriov_configure_simple,
	.err_handler = &riser_error_handlers,
	.driver.pm = pm_sleep_ptr(&riser_pm_ops),
};

static int __init riser_init(void)
{
	int error;

	if (strcmp(ring, "host") && strcmp(ring, "device")) {
		pr_err("ring=%s: expected host or device\n", ring);
		return -EINVAL;
	}
	error = alloc_chrdev_region(&riser_first, 0, RISER_MINORS, RISER_NAME);
	if (error)
		return error;
	error = class_register(&riser_class);
	if (error)
		goto unregister_region;
	error = pci_register_driver(&riser_driver);
	if (error)
		goto unregister_class;
	return 0;
unregister_class:
	class_unregister(&riser_class);
unregister_region:
	unregister_chrdev_region(riser_first, RISER_MINORS);
	return error;
}

static void __exit riser_exit(void)
{
	pci_unregister_driver(&riser_driver);
	class_unregister(&riser_class);
	unregister_chrdev_region(riser_first, RISER_MINORS);
	ida_destroy(&riser_minors);
}

module_init(riser_init);
module_exit(riser_exit);
MODULE_DESCRIPTION("DMA engine with SR-IOV, physical and virtual functions");
MODULE_AUTHOR("The riser authors");
MODULE_LICENSE("Dual MIT/GPL");

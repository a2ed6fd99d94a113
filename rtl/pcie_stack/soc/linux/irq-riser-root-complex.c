// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MSIs of the root complex in rtl/pcie_stack: writes of one double-word to one address. The data are the vector, 0 to 31. The complex
 * collects vectors in a register and has one interrupt line.
 */
#include <linux/bitmap.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irqchip/chained_irq.h>
#include <linux/irqdomain.h>
#include <linux/mod_devicetable.h>
#include <linux/msi.h>
#include <linux/of.h>
#include <linux/platform_device.h>

#define MSI_ADDRESS_LOW 0x20
#define MSI_ADDRESS_HIGH 0x24
#define MSI_CONTROL 0x28
#define MSI_PENDING 0x2c
#define MSI_ENABLE 0x30
#define VECTORS 32

struct riser_msi {
	void __iomem *registers;
	phys_addr_t address;
	struct irq_domain *vectors;
	DECLARE_BITMAP(used, VECTORS);
	struct mutex lock;	/* protects used */
};

static void riser_msi_compose(struct irq_data *data, struct msi_msg *message)
{
	struct riser_msi *msi = irq_data_get_irq_chip_data(data);

	message->address_lo = lower_32_bits(msi->address);
	message->address_hi = upper_32_bits(msi->address);
	message->data = data->hwirq;
}

static int riser_msi_set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	return -EINVAL;
}

static struct irq_chip riser_vector_chip = {
	.name = "riser-vector",
	.irq_compose_msi_msg = riser_msi_compose,
	.irq_set_affinity = riser_msi_set_affinity,
};

static struct irq_chip riser_msi_chip = {
	.name = "riser-msi",
	.irq_mask = pci_msi_mask_irq,
	.irq_unmask = pci_msi_unmask_irq,
};

static struct msi_domain_info riser_msi_info = {
	.flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS | MSI_FLAG_MULTI_PCI_MSI | MSI_FLAG_PCI_MSIX,
	.chip = &riser_msi_chip,
};

static int riser_vectors_alloc(struct irq_domain *domain, unsigned int virq, unsigned int count, void *unused)
{
	struct riser_msi *msi = domain->host_data;
	unsigned int n;
	int first;

	mutex_lock(&msi->lock);
	first = bitmap_find_free_region(msi->used, VECTORS, order_base_2(count));
	mutex_unlock(&msi->lock);
	if (first < 0)
		return -ENOSPC;
	for (n = 0; n < count; n++)
		irq_domain_set_info(domain, virq + n, first + n, &riser_vector_chip, msi, handle_simple_irq, NULL, NULL);
	return 0;
}

static void riser_vectors_free(struct irq_domain *domain, unsigned int virq, unsigned int count)
{
	struct riser_msi *msi = domain->host_data;
	struct irq_data *data = irq_domain_get_irq_data(domain, virq);

	mutex_lock(&msi->lock);
	bitmap_release_region(msi->used, data->hwirq, order_base_2(count));
	mutex_unlock(&msi->lock);
}

static const struct irq_domain_ops riser_vectors_ops = {
	.alloc = riser_vectors_alloc,
	.free = riser_vectors_free,
};

static void riser_msi_handle(struct irq_desc *desc)
{
	struct riser_msi *msi = irq_desc_get_handler_data(desc);
	struct irq_chip *chip = irq_desc_get_chip(desc);
	unsigned long pending;
	unsigned int vector;

	chained_irq_enter(chip, desc);
	pending = readl(msi->registers + MSI_PENDING);
	writel(pending, msi->registers + MSI_PENDING);
	for_each_set_bit(vector, &pending, VECTORS)
		generic_handle_domain_irq(msi->vectors, vector);
	chained_irq_exit(chip, desc);
}

static int riser_msi_probe(struct platform_device *device)
{
	struct fwnode_handle *node = of_node_to_fwnode(device->dev.of_node);
	struct riser_msi *msi;
	u32 address;
	int irq;

	msi = devm_kzalloc(&device->dev, sizeof(*msi), GFP_KERNEL);
	if (!msi)
		return -ENOMEM;
	mutex_init(&msi->lock);
	msi->registers = devm_platform_ioremap_resource(device, 0);
	if (IS_ERR(msi->registers))
		return PTR_ERR(msi->registers);
	if (of_property_read_u32(device->dev.of_node, "riser,msi-address", &address))
		return dev_err_probe(&device->dev, -EINVAL, "no riser,msi-address\n");
	msi->address = address;
	irq = platform_get_irq(device, 0);
	if (irq < 0)
		return irq;
	msi->vectors = irq_domain_create_linear(NULL, VECTORS, &riser_vectors_ops, msi);
	if (!msi->vectors)
		return -ENOMEM;
	if (!pci_msi_create_irq_domain(node, &riser_msi_info, msi->vectors)) {
		irq_domain_remove(msi->vectors);
		return -ENOMEM;
	}
	writel(lower_32_bits(msi->address), msi->registers + MSI_ADDRESS_LOW);
	writel(upper_32_bits(msi->address), msi->registers + MSI_ADDRESS_HIGH);
	writel(~0, msi->registers + MSI_PENDING);
	writel(~0, msi->registers + MSI_ENABLE);
	writel(1, msi->registers + MSI_CONTROL);
	irq_set_chained_handler_and_data(irq, riser_msi_handle, msi);
	dev_info(&device->dev, "%u MSI vectors at %pa\n", VECTORS, &msi->address);
	return 0;
}

static const struct of_device_id riser_msi_nodes[] = {
	{ .compatible = "riser,root-complex" },
	{}
};

static struct platform_driver riser_msi_driver = {
	.driver = {
		.name = "riser-msi",
		.of_match_table = riser_msi_nodes,
		.suppress_bind_attrs = true,
	},
	.probe = riser_msi_probe,
};

/* Before the host bridge, which looks for its MSI domain when it is probed. */
static int __init riser_msi_init(void)
{
	return platform_driver_register(&riser_msi_driver);
}
subsys_initcall(riser_msi_init);

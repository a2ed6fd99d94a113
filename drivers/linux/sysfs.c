// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Attributes of a function in /sys/class/riser_dma: properties of the device, its
 * share of the link, and limits of its path.
 */
#include <linux/bitfield.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

#include "riser.h"

static struct riser_dma *to_dma(struct device *device)
{
	return container_of(device, struct riser_dma, dev);
}

/* Reads a register; ENODEV if the function is gone. */
static int get(struct device *device, u32 offset, u32 *value)
{
	struct riser_dma *dma = to_dma(device);
	int error = -ENODEV;

	mutex_lock(&dma->lock);
	if (!dma->is_gone) {
		*value = riser_read(dma, offset);
		/* All ones: the function does not answer, or not yet. */
		error = *value == U32_MAX ? -EIO : 0;
	}
	mutex_unlock(&dma->lock);
	return error;
}

static int set(struct device *device, u32 offset, u32 value)
{
	struct riser_dma *dma = to_dma(device);
	int error = -ENODEV;

	mutex_lock(&dma->lock);
	if (!dma->is_gone) {
		writel(value, dma->bar + offset);
		error = 0;
	}
	mutex_unlock(&dma->lock);
	return error;
}

#define RISER_ATTRIBUTE(_name, _register, _field)					\
static ssize_t _name##_show(struct device *device, struct device_attribute *attribute,	\
			    char *text)							\
{											\
	u32 value;									\
	int error = get(device, _register, &value);					\
											\
	return error ?: sysfs_emit(text, "%u\n", (u32)FIELD_GET(_field, value));	\
}											\
static DEVICE_ATTR_RO(_name)

RISER_ATTRIBUTE(version_major, RISER_DMA_VERSION, RISER_DMA_VERSION_MAJOR);
RISER_ATTRIBUTE(version_minor, RISER_DMA_VERSION, RISER_DMA_VERSION_MINOR);
RISER_ATTRIBUTE(h2d_engines, RISER_DMA_ENGINES, RISER_DMA_ENGINES_H2D_ENGINES);
RISER_ATTRIBUTE(d2h_engines, RISER_DMA_ENGINES, RISER_DMA_ENGINES_D2H_ENGINES);
RISER_ATTRIBUTE(device_entries, RISER_DMA_ENGINES, RISER_DMA_ENGINES_DEVICE_ENTRIES);
RISER_ATTRIBUTE(payload_bytes, RISER_DMA_LIMITS, RISER_DMA_LIMITS_PAYLOAD_BYTES);
RISER_ATTRIBUTE(read_bytes, RISER_DMA_LIMITS, RISER_DMA_LIMITS_READ_BYTES);
RISER_ATTRIBUTE(window, RISER_DMA_WINDOW, RISER_DMA_WINDOW_PLACES);
RISER_ATTRIBUTE(window_shared, RISER_DMA_WINDOW, RISER_DMA_WINDOW_SHARED);
RISER_ATTRIBUTE(function, RISER_DMA_FUNCTION, RISER_DMA_FUNCTION_NUMBER);
RISER_ATTRIBUTE(functions, RISER_DMA_FUNCTION, RISER_DMA_FUNCTION_FUNCTIONS);

/* ---- Shares ---- */

static ssize_t weight_show(struct device *device, struct device_attribute *attribute, char *text)
{
	u32 value;
	int error = get(device, RISER_DMA_WEIGHT, &value);

	return error ?: sysfs_emit(text, "%u\n", (u32)FIELD_GET(RISER_DMA_WEIGHT_WEIGHT, value));
}

static ssize_t weight_store(struct device *device, struct device_attribute *attribute,
			    const char *text, size_t count)
{
	u8 weight;
	int error = kstrtou8(text, 0, &weight);

	if (!error && !weight)
		error = -EINVAL;
	if (!error)
		error = set(device, RISER_DMA_WEIGHT, weight);
	return error ?: count;
}
static DEVICE_ATTR_RW(weight);

/* Weights of all possible virtual functions, on one line. */
static ssize_t vf_weights_show(struct device *device, struct device_attribute *attribute,
			       char *text)
{
	int at = 0, vf, vfs = pci_sriov_get_totalvfs(to_dma(device)->pdev);

	for (vf = 0; vf < vfs && vf < RISER_DMA_VF_WEIGHTS_COUNT; vf++) {
		u32 value;
		int error = get(device, RISER_DMA_VF_WEIGHTS(vf), &value);

		if (error)
			return error;
		at += sysfs_emit_at(text, at, "%u%c",
				    (u32)FIELD_GET(RISER_DMA_VF_WEIGHTS_WEIGHT, value),
				    vf == vfs - 1 ? '\n' : ' ');
	}
	return at;
}

/* "VF WEIGHT", virtual functions counted from one. */
static ssize_t vf_weights_store(struct device *device, struct device_attribute *attribute,
				const char *text, size_t count)
{
	int vfs = pci_sriov_get_totalvfs(to_dma(device)->pdev), error;
	unsigned int vf, weight;
	char end;

	if (sscanf(text, "%u %u %c", &vf, &weight, &end) != 2 || !vf || vf > vfs ||
	    vf > RISER_DMA_VF_WEIGHTS_COUNT || !weight || weight > RISER_DMA_WEIGHT_WEIGHT)
		return -EINVAL;
	error = set(device, RISER_DMA_VF_WEIGHTS(vf - 1), weight);
	return error ?: count;
}
static DEVICE_ATTR_RW(vf_weights);

/* ---- Limits of the path ---- */

/* Sets Max_Payload_Size, limited by all ports above and by the function itself. */
int riser_set_payload(struct pci_dev *pdev, int bytes)
{
	struct pci_dev *above;

	if (bytes > 128 << pdev->pcie_mpss)
		return -EINVAL;
	for (above = pci_upstream_bridge(pdev); above; above = pci_upstream_bridge(above))
		if (bytes > pcie_get_mps(above))
			return -EINVAL;
	return pcie_set_mps(pdev, bytes);
}

/* Sets Max_Read_Request_Size; the PCI core limits it by its own policy. */
int riser_set_read_request(struct pci_dev *pdev, int bytes)
{
	int error = pcie_set_readrq(pdev, bytes);

	return error > 0 ? pcibios_err_to_errno(error) : error;
}

/*
 * Changes a size; running transfers, also of virtual functions, use it from then on.
 */
static int set_bytes(struct riser_dma *dma, int (*change)(struct pci_dev *pdev, int bytes),
		     const char *text)
{
	int bytes, error = kstrtoint(text, 0, &bytes);

	if (error)
		return error;
	mutex_lock(&dma->lock);
	error = dma->is_gone ? -ENODEV : change(dma->pdev, bytes);
	mutex_unlock(&dma->lock);
	return error;
}

static ssize_t max_payload_size_show(struct device *device, struct device_attribute *attribute,
				     char *text)
{
	return sysfs_emit(text, "%d\n", pcie_get_mps(to_dma(device)->pdev));
}

static ssize_t max_payload_size_store(struct device *device, struct device_attribute *attribute,
				      const char *text, size_t count)
{
	return set_bytes(to_dma(device), riser_set_payload, text) ?: count;
}
static DEVICE_ATTR_RW(max_payload_size);

static ssize_t max_read_request_size_show(struct device *device,
					  struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%d\n", pcie_get_readrq(to_dma(device)->pdev));
}

static ssize_t max_read_request_size_store(struct device *device,
					   struct device_attribute *attribute, const char *text,
					   size_t count)
{
	return set_bytes(to_dma(device), riser_set_read_request, text) ?: count;
}
static DEVICE_ATTR_RW(max_read_request_size);

/* ---- Rings ---- */

static ssize_t ring_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct riser_ring *ring = &to_dma(device)->engines[0].ring;

	return sysfs_emit(text, "%s %u\n", READ_ONCE(ring->in_host) ? "host" : "device",
			  READ_ONCE(ring->entries));
}

/* "host ENTRIES" or "device ENTRIES"; all engines must be idle. */
static ssize_t ring_store(struct device *device, struct device_attribute *attribute,
			  const char *text, size_t count)
{
	struct riser_dma *dma = to_dma(device);
	char where[8], number[12], end;
	unsigned int entries, n;
	int error = 0;

	if (sscanf(text, "%7s %11s %c", where, number, &end) != 2 ||
	    (strcmp(where, "host") && strcmp(where, "device")) || kstrtouint(number, 10, &entries))
		return -EINVAL;
	if (!is_power_of_2(entries) || entries < 2 ||
	    entries > (strcmp(where, "host") ? dma->device_entries : RISER_MAX_ENTRIES))
		return -EINVAL;
	for (n = 0; !error && n < dma->engine_count; n++)
		error = riser_engine_resize(&dma->engines[n], !strcmp(where, "host"), entries);
	return error ?: count;
}
static DEVICE_ATTR_RW(ring);

static struct attribute *riser_attributes[] = {
	&dev_attr_version_major.attr,
	&dev_attr_version_minor.attr,
	&dev_attr_h2d_engines.attr,
	&dev_attr_d2h_engines.attr,
	&dev_attr_device_entries.attr,
	&dev_attr_payload_bytes.attr,
	&dev_attr_read_bytes.attr,
	&dev_attr_window.attr,
	&dev_attr_window_shared.attr,
	&dev_attr_function.attr,
	&dev_attr_functions.attr,
	&dev_attr_weight.attr,
	&dev_attr_vf_weights.attr,
	&dev_attr_max_payload_size.attr,
	&dev_attr_max_read_request_size.attr,
	&dev_attr_ring.attr,
	NULL
};

/* A virtual function has no own values of these; it follows its physical function. */
static umode_t riser_is_visible(struct kobject *kobject, struct attribute *attribute, int n)
{
	struct riser_dma *dma = to_dma(kobj_to_dev(kobject));

	if (!dma->pdev->is_virtfn)
		return attribute->mode;
	if (attribute == &dev_attr_weight.attr)
		return 0444;
	if (attribute == &dev_attr_vf_weights.attr ||
	    attribute == &dev_attr_max_payload_size.attr ||
	    attribute == &dev_attr_max_read_request_size.attr)
		return 0;
	return attribute->mode;
}

static const struct attribute_group riser_group = {
	.attrs = riser_attributes,
	.is_visible = riser_is_visible,
};

const struct attribute_group *riser_groups[] = { &riser_group, NULL };

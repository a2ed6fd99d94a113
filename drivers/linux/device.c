// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Access to an engine's hardware: registers, descriptors, rings.
 */
#include <linux/bitfield.h>
#include <linux/dma-mapping.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iopoll.h>
#include <linux/slab.h>

#include "riser.h"

/* Maximum time that an engine may take to finish its current work after a disable. */
#define RISER_DISABLE_US 100000

static void engine_write(struct riser_engine *engine, u32 offset, u32 value)
{
	writel(value, engine->registers + offset);
}

static u32 engine_read(struct riser_engine *engine, u32 offset)
{
	return readl(engine->registers + offset);
}

void riser_device_describe(struct riser_engine *engine, u32 number)
{
	u32 place = number & (engine->ring.entries - 1);
	struct riser_slot *slot = &engine->ring.slots[place];
	void __iomem *at = engine->device_ring + place * RISER_DMA_DESCRIPTOR_STRIDE;

	if (engine->ring.in_host) {
		struct riser_descriptor *descriptor = &engine->ring.descriptors[place];

		descriptor->address = cpu_to_le64(slot->address);
		descriptor->bytes = cpu_to_le64(slot->bytes);
		descriptor->flags = cpu_to_le32(slot->flags);
		descriptor->status = 0;
		descriptor->moved = 0;
	} else {
		lo_hi_writeq(slot->address, at + RISER_DMA_DESCRIPTOR_ADDRESS);
		lo_hi_writeq(slot->bytes, at + RISER_DMA_DESCRIPTOR_BYTES);
		/* Also clears STATUS. */
		lo_hi_writeq(slot->flags, at + RISER_DMA_DESCRIPTOR_FLAGS);
	}
}

/* Returns the device's status of a finished descriptor. */
u32 riser_device_status(struct riser_engine *engine, u32 number, u64 *moved)
{
	u32 place = number & (engine->ring.entries - 1), status;
	void __iomem *at = engine->device_ring + place * RISER_DMA_DESCRIPTOR_STRIDE;

	if (engine->ring.in_host) {
		struct riser_descriptor *descriptor = &engine->ring.descriptors[place];

		status = le32_to_cpu(READ_ONCE(descriptor->status));
		*moved = le64_to_cpu(READ_ONCE(descriptor->moved));
	} else {
		status = readl(at + RISER_DMA_DESCRIPTOR_STATUS);
		*moved = lo_hi_readq(at + RISER_DMA_DESCRIPTOR_MOVED);
	}
	return status & RISER_DMA_DESCRIPTOR_STATUS_CODE;
}

void riser_device_post(struct riser_engine *engine)
{
	/*
	 * writel() orders earlier writes of descriptors to memory before the doorbell.
	 */
	engine_write(engine, RISER_DMA_ENGINE_POSTED, engine->posted);
}

/* Returns the number of posted descriptors that the device knows. */
u32 riser_device_posted(struct riser_engine *engine)
{
	return engine_read(engine, RISER_DMA_ENGINE_POSTED);
}

void riser_device_enable(struct riser_engine *engine)
{
	u32 control = RISER_DMA_ENGINE_CONTROL_ENABLE;

	control |= FIELD_PREP(RISER_DMA_ENGINE_CONTROL_LOGIC, engine->logic);
	if (engine->ring.in_host) {
		control |= RISER_DMA_ENGINE_CONTROL_HOST_RING;
		lo_hi_writeq(engine->ring.bus, engine->registers + RISER_DMA_ENGINE_RING);
	}
	engine->posted = 0;
	engine->done = 0;
	engine->failed = 0;
	engine->posted_bytes = 0;
	WRITE_ONCE(*engine->write_back, 0);
	engine_write(engine, RISER_DMA_ENGINE_ENTRIES, engine->ring.entries);
	lo_hi_writeq(engine->write_back_bus, engine->registers + RISER_DMA_ENGINE_WRITE_BACK);
	engine_write(engine, RISER_DMA_ENGINE_COALESCING, engine->coalescing);
	lo_hi_writeq(engine->seed, engine->registers + RISER_DMA_ENGINE_SEED);
	engine_write(engine, RISER_DMA_ENGINE_CONTROL, control);
}

/*
 * Returns whether the device has finished all posted work. Then all its writes are in
 * memory.
 */
bool riser_device_disable(struct riser_engine *engine)
{
	u32 status;

	engine_write(engine, RISER_DMA_ENGINE_CONTROL, 0);
	return !readl_poll_timeout(engine->registers + RISER_DMA_ENGINE_STATUS, status,
				   !(status & RISER_DMA_ENGINE_STATUS_BUSY), 10,
				   RISER_DISABLE_US);
}

/*
 * Reads the counts from registers: the completion cannot pass earlier writes of the
 * device.
 */
void riser_device_counts(struct riser_engine *engine, u32 *done, u32 *failed)
{
	u32 again = engine_read(engine, RISER_DMA_ENGINE_FAILED);

	do {
		*failed = again;
		*done = engine_read(engine, RISER_DMA_ENGINE_DONE);
		again = engine_read(engine, RISER_DMA_ENGINE_FAILED);
	} while (again != *failed);
}

/* Returns the last error since the engine was enabled. */
u32 riser_device_error(struct riser_engine *engine)
{
	return FIELD_GET(RISER_DMA_ENGINE_STATUS_ERROR,
			 engine_read(engine, RISER_DMA_ENGINE_STATUS));
}

/* ---- Rings ---- */

void riser_ring_free(struct riser_engine *engine, struct riser_ring *ring)
{
	if (ring->descriptors)
		dma_free_coherent(&engine->dma->pdev->dev,
				  ring->entries * sizeof(*ring->descriptors), ring->descriptors,
				  ring->bus);
	kvfree(ring->slots);
	kvfree(ring->spare);
	memset(ring, 0, sizeof(*ring));
}

int riser_ring_make(struct riser_engine *engine, bool in_host, u32 entries,
		    struct riser_ring *ring)
{
	memset(ring, 0, sizeof(*ring));
	ring->in_host = in_host;
	ring->entries = entries;
	if (in_host)
		ring->descriptors = dma_alloc_coherent(&engine->dma->pdev->dev,
						       entries * sizeof(*ring->descriptors),
						       &ring->bus, GFP_KERNEL);
	ring->slots = kvcalloc(entries, sizeof(*ring->slots), GFP_KERNEL);
	ring->spare = kvcalloc(entries, sizeof(*ring->spare), GFP_KERNEL);
	if ((!in_host || ring->descriptors) && ring->slots && ring->spare)
		return 0;
	riser_ring_free(engine, ring);
	return -ENOMEM;
}

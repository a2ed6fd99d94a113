/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Shared declarations of the driver's files.
 *
 * A function (struct riser_dma) has engines and open files. A file has transfers,
 * each with mapped memory. An engine takes transfers from the files in turn, in
 * chunks, and posts their pieces to its ring.
 *
 * Locks, outermost first:
 * engine->reap		handling of finished descriptors, until reported
 * engine->lock		the ring, the queues, the registers of the engine
 * file->submit		taking submissions from a ring; before engine->lock
 * dma->lock		files, mapped memory, is_gone
 * file->lock		(spin) results of its transfers
 */
#ifndef RISER_H
#define RISER_H

#include <linux/atomic.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/dma-direction.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "riser_dma.h"
#include "riser_dma_registers.h"

#define RISER_NAME "riser_dma"
#define RISER_MAX_ENGINES RISER_DMA_ENGINE_COUNT
/* Maximum number of entries of a ring in host memory. */
#define RISER_MAX_ENTRIES 65536
/* Limits of a file's turn: number of pieces, and bytes after which it ends. */
#define RISER_TURN_PIECES 256
#define RISER_TURN_BYTES ((u64)SZ_1M)
/* Bytes in a ring after which no further turn starts. */
#define RISER_POSTED_BYTES ((u64)SZ_16M)

struct riser_file;
struct riser_dma;

/* A descriptor in memory. */
struct riser_descriptor {
	__le64 address;
	__le64 bytes;
	__le32 flags;
	__le32 status;
	__le64 moved;
};

/* Memory of user space, or of a dmabuf, for DMA. */
struct riser_memory {
	struct kref ref;
	struct riser_dma *dma;
	struct list_head link;
	u64 bytes;
	enum dma_data_direction direction;
	/* The mapping; NULL after the function is gone. Protected by dma->lock. */
	struct sg_table *mapped;
	/* For pages: */
	struct sg_table table;
	struct page **pages;
	unsigned long page_count;
	struct mm_struct *mm;
	/* For a dmabuf: */
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attachment;
};

struct riser_transfer {
	/* In the list of a queue until all of it is posted. */
	struct list_head link;
	struct riser_file *file;
	struct riser_memory *memory;
	/* The next piece to post: an entry of the table, and an offset in it. */
	struct scatterlist *next;
	u64 into;
	u64 left;
	u64 moved;
	/* Descriptors in the ring. */
	u32 posted;
	u32 code;
	int error;
	bool irq;
	/* Whether a piece of it was posted. */
	bool begun;
	/* From a submission ring, which gets its completion. */
	bool of_ring;
	u8 engine;
	u64 user_data;
};

/* Transfers of one file on one engine. */
struct riser_queue {
	/* Protected by the engine's lock. */
	struct list_head turn;
	struct list_head waiting;
	struct list_head held;
	/* Protected by the file's lock. */
	u64 begun;
	u64 ended;
	u64 moved;
	/* Ended and failed transfers that were not reported yet. */
	u32 untold;
	u32 failed;
	u32 code;
	int error;
};

/* Contents of a ring entry, to be found when it is finished. */
struct riser_slot {
	struct riser_transfer *transfer;
	dma_addr_t address;
	u64 bytes;
	u32 flags;
};

/* A ring in host memory, or in the device's memory. */
struct riser_ring {
	bool in_host;
	u32 entries;
	struct riser_descriptor *descriptors;
	dma_addr_t bus;
	struct riser_slot *slots;
	/* Second array of the same size, for transfers to post again. */
	struct riser_slot *spare;
};

enum riser_engine_state {
	/* The device accepts descriptors. */
	RISER_RUNNING,
	/* Temporarily stopped: queued transfers wait. */
	RISER_FROZEN,
	/* The function was removed. */
	RISER_DEAD,
};

struct riser_engine {
	struct riser_dma *dma;
	void __iomem *registers;
	u8 index;
	bool h2d;
	bool has_irq;
	u16 vector;
	struct mutex reap;	/* handling of finished descriptors, until reported */
	struct mutex lock;	/* all below */
	enum riser_engine_state state;
	struct riser_ring ring;
	void __iomem *device_ring;
	__le64 *write_back;
	dma_addr_t write_back_bus;
	/* Counts since the engine was enabled, as in the device's registers. */
	u32 posted;
	u32 done;
	u32 failed;
	u64 posted_bytes;
	unsigned long progress;
	/* Files with something to post, and the one whose chunk is being posted. */
	struct list_head turns;
	/* Number of all queued and running transfers. */
	u32 transfers;
	struct riser_transfer *current_transfer;
	u32 chunk_pieces;
	u64 chunk_bytes;
	/* Settings. */
	u32 logic;
	u32 coalescing;
	u64 seed;
	struct delayed_work watch;
};

struct riser_vector {
	struct riser_dma *dma;
	u32 engines;
	int irq;
	bool is_requested;
};

/* A function. */
struct riser_dma {
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	void __iomem *bar;
	struct mutex lock;	/* files, memories, and is_gone */
	bool is_gone;
	struct list_head files;
	struct list_head memories;
	unsigned int h2d_engines;
	unsigned int engine_count;
	u32 device_entries;
	struct riser_engine engines[RISER_MAX_ENGINES];
	struct riser_vector vectors[RISER_MAX_ENGINES];
	unsigned int vector_count;
	bool has_intx;
};

/* An open file. */
struct riser_file {
	struct kref ref;
	struct riser_dma *dma;
	struct list_head link;
	bool is_polling;
	wait_queue_head_t wait;
	struct xarray memories;
	struct riser_queue queues[RISER_MAX_ENGINES];
	/* Once created, they live as long as the file. */
	struct riser_dma_rings *rings;
	size_t rings_bytes;
	u32 ring_entries;
	struct mutex submit;	/* submission_head */
	u32 submission_head;
	spinlock_t lock;	/* results of transfers, all below */
	/* Transfers that were started and have not ended. */
	u32 under_way;
	u32 completion_tail;
	/* Running transfers that have reserved room in the completion ring. */
	u32 completions_due;
};

static inline u32 riser_read(struct riser_dma *dma, u32 offset)
{
	return readl(dma->bar + offset);
}

static inline bool riser_is_there(struct riser_dma *dma)
{
	return riser_read(dma, RISER_DMA_ID) == RISER_DMA_ID_VALUE;
}

/* device.c */
void riser_device_describe(struct riser_engine *engine, u32 number);
u32 riser_device_status(struct riser_engine *engine, u32 number, u64 *moved);
void riser_device_post(struct riser_engine *engine);
u32 riser_device_posted(struct riser_engine *engine);
void riser_device_enable(struct riser_engine *engine);
bool riser_device_disable(struct riser_engine *engine);
void riser_device_counts(struct riser_engine *engine, u32 *done, u32 *failed);
u32 riser_device_error(struct riser_engine *engine);
void riser_ring_free(struct riser_engine *engine, struct riser_ring *ring);
int riser_ring_make(struct riser_engine *engine, bool in_host, u32 entries,
		    struct riser_ring *ring);

/* engine.c */
extern unsigned int riser_timeout_ms;
int riser_engine_init(struct riser_dma *dma, unsigned int index, bool host_ring, u32 entries);
void riser_engine_free(struct riser_engine *engine);
int riser_engine_resize(struct riser_engine *engine, bool host_ring, u32 entries);
int riser_engine_configure(struct riser_engine *engine, const struct riser_dma_configure *to);
int riser_engine_queue(struct riser_engine *engine, struct riser_transfer *transfer, bool enable);
void riser_engine_begin(struct riser_engine *engine, struct riser_file *file);
void riser_engine_kick(struct riser_engine *engine);
void riser_engine_service(struct riser_engine *engine);
bool riser_engine_has_news(struct riser_engine *engine);
void riser_engine_take_back(struct riser_engine *engine, struct riser_file *file, bool begun_too);
void riser_engine_cut_off(struct riser_engine *engine, struct riser_file *file, int error);
bool riser_engine_drain(struct riser_engine *engine, unsigned int ms);
void riser_engine_freeze(struct riser_engine *engine);
void riser_engine_stop(struct riser_engine *engine, int error);
void riser_engine_abandon(struct riser_engine *engine, int error);
void riser_engine_thaw(struct riser_engine *engine);
void riser_engine_kill(struct riser_engine *engine);

/* memory.c */
struct riser_memory *riser_memory_pin(struct riser_dma *dma, u64 address, u64 bytes,
				      enum dma_data_direction direction, bool long_term);
struct riser_memory *riser_memory_import(struct riser_dma *dma, int fd,
					 enum dma_data_direction direction);
void riser_memory_unmap_all(struct riser_dma *dma);
void riser_memory_get(struct riser_memory *memory);
void riser_memory_put(struct riser_memory *memory);

/* transfer.c */
struct riser_transfer *riser_transfer_new(struct riser_file *file, unsigned int direction,
					  const struct riser_dma_transfer *asked);
void riser_transfer_free(struct riser_transfer *transfer);
void riser_transfer_end(struct riser_transfer *transfer);
struct riser_engine *riser_engine_of(struct riser_dma *dma, u32 direction, u32 engine);

/* file.c */
extern const struct file_operations riser_file_operations;
void riser_file_get(struct riser_file *file);
void riser_file_put(struct riser_file *file);
int riser_file_poll(struct riser_file *file, bool (*is_over)(struct riser_file *file, void *what),
		    void *what, u64 timeout_us, bool interruptible);

/* rings.c */
int riser_rings_setup(struct riser_file *file, struct riser_dma_setup *setup);
int riser_rings_map(struct riser_file *file, struct vm_area_struct *vma);
int riser_rings_enter(struct riser_file *file, struct riser_dma_enter *enter);
u32 riser_rings_ready(struct riser_file *file);
void riser_rings_complete(struct riser_file *file, u64 user_data, u64 moved, int result, u32 code);

/* sysfs.c */
extern const struct attribute_group *riser_groups[];
int riser_set_payload(struct pci_dev *pdev, int bytes);
int riser_set_read_request(struct pci_dev *pdev, int bytes);

#endif /* RISER_H */

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * An engine: its ring, posted and finished descriptors, stop and restart. Memory that
 * the device may access is released only after the device has finished with it, was
 * stopped, or was removed.
 */
#include <linux/bitfield.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>

#include "riser.h"

unsigned int riser_timeout_ms = 10000;
module_param_named(timeout_ms, riser_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "restart an engine after this time without progress and fail its current transfer; 0: never (default 10000)");

/* Interval of checks of a busy engine, also if the engine sends interrupts. */
#define RISER_WATCH_MS 100

static u32 engine_room(struct riser_engine *engine)
{
	return engine->ring.entries - (engine->posted - engine->done);
}

static struct riser_slot *engine_slot(struct riser_engine *engine, u32 number)
{
	return &engine->ring.slots[number & (engine->ring.entries - 1)];
}

static struct riser_queue *queue_of(struct riser_engine *engine, struct riser_transfer *transfer)
{
	return &transfer->file->queues[engine->index];
}

/* ---- Finished descriptors ---- */

static int error_of(u32 code)
{
	switch (code) {
	case RISER_DMA_ERROR_CODE_OK:
		return 0;
	case RISER_DMA_ERROR_CODE_SIZE:
	case RISER_DMA_ERROR_CODE_RANGE:
	case RISER_DMA_ERROR_CODE_FLAGS:
		return -EINVAL;
	case RISER_DMA_ERROR_CODE_DATA:
		return -EBADMSG;
	case RISER_DMA_ERROR_CODE_ABORTED:
		return -ECANCELED;
	default:
		return -EIO;
	}
}

/* Removes the transfer from its queue. */
static void engine_leave(struct riser_engine *engine, struct riser_transfer *transfer)
{
	struct riser_queue *queue = queue_of(engine, transfer);

	list_del_init(&transfer->link);
	if (list_empty(&queue->waiting))
		list_del_init(&queue->turn);
}

/* Moves a transfer to @ended if it has ended. */
static void engine_settle(struct riser_engine *engine, struct riser_transfer *transfer,
			  struct list_head *ended)
{
	/*
	 * A chunk is always posted to its end, so that no other transfer joins its chain.
	 */
	if (transfer == engine->current_transfer)
		return;
	if (transfer->error && transfer->left) {
		transfer->left = 0;
		engine_leave(engine, transfer);
	}
	if (!transfer->posted && !transfer->left) {
		engine->transfers--;
		list_add_tail(&transfer->link, ended);
	}
}

static void transfer_fails(struct riser_transfer *transfer, int error, u32 code)
{
	if (!transfer->error) {
		transfer->error = error;
		transfer->code = code;
	}
}

/* Counts failed descriptors up to @done, by their status. */
static u32 engine_told_failures(struct riser_engine *engine, u32 done)
{
	u32 number, code, told = 0;
	u64 moved;

	for (number = engine->done; number != done; number++) {
		code = riser_device_status(engine, number, &moved);
		told += code > RISER_DMA_ERROR_CODE_OK;
	}
	return told;
}

/*
 * Removes finished descriptors from the ring. With @halting it stops before the first
 * descriptor that was aborted, because that descriptor is posted again.
 */
static int engine_reap(struct riser_engine *engine, u32 done, u32 failed, bool halting,
		       struct list_head *ended)
{
	bool look = halting || failed != engine->failed;
	bool is_fetch = false;

	if (done - engine->done > engine->posted - engine->done)
		return -EIO;
	/* A descriptor that could not be read has no status either. */
	if (look)
		is_fetch = engine_told_failures(engine, done) != failed - engine->failed;
	if (done != engine->done)
		engine->progress = jiffies;
	for (; engine->done != done; engine->done++) {
		struct riser_slot *slot = engine_slot(engine, engine->done);
		struct riser_transfer *transfer = slot->transfer;
		u32 code = RISER_DMA_ERROR_CODE_NONE;
		u64 moved;

		if (look)
			code = riser_device_status(engine, engine->done, &moved);
		if (halting && code == RISER_DMA_ERROR_CODE_ABORTED && !transfer->error)
			return 0;
		if (code == RISER_DMA_ERROR_CODE_NONE) {
			code = is_fetch ? RISER_DMA_ERROR_CODE_FETCH : RISER_DMA_ERROR_CODE_OK;
			moved = is_fetch ? 0 : slot->bytes;
		}
		if (!transfer->error)
			transfer->moved += min(moved, slot->bytes);
		if (code != RISER_DMA_ERROR_CODE_OK)
			transfer_fails(transfer, error_of(code), code);
		engine->posted_bytes -= slot->bytes;
		transfer->posted--;
		engine_settle(engine, transfer, ended);
	}
	engine->failed = failed;
	return 0;
}

/* ---- Posting ---- */

/* Selects the next file to post; false if no transfer waits or enough is posted. */
static bool engine_next_turn(struct riser_engine *engine)
{
	struct riser_queue *queue =
		list_first_entry_or_null(&engine->turns, struct riser_queue, turn);

	if (!queue || engine->posted_bytes >= RISER_POSTED_BYTES)
		return false;
	engine->current_transfer =
		list_first_entry(&queue->waiting, struct riser_transfer, link);
	engine->current_transfer->begun = true;
	engine->chunk_pieces = 0;
	engine->chunk_bytes = 0;
	list_move_tail(&queue->turn, &engine->turns);
	return true;
}

/* Returns whether the descriptor to post shall interrupt. */
static bool engine_wants_word(struct riser_engine *engine, struct riser_transfer *transfer,
			      u64 bytes)
{
	if (bytes == transfer->left && transfer->irq)
		return true;
	/* Then there is room for more. */
	if (engine_room(engine) == 1 || engine->posted_bytes + bytes >= RISER_POSTED_BYTES)
		return true;
	return bytes < transfer->left && !((engine->posted + 1) % (engine->ring.entries / 2));
}

static void engine_post_piece(struct riser_engine *engine, struct riser_transfer *transfer)
{
	struct riser_slot *slot = engine_slot(engine, engine->posted);
	u64 bytes = min_t(u64, sg_dma_len(transfer->next) - transfer->into, transfer->left);
	bool ends;

	engine->chunk_pieces++;
	engine->chunk_bytes += bytes;
	ends = bytes == transfer->left || engine->chunk_pieces >= RISER_TURN_PIECES ||
	       engine->chunk_bytes >= RISER_TURN_BYTES;
	slot->transfer = transfer;
	slot->address = sg_dma_address(transfer->next) + transfer->into;
	slot->bytes = bytes;
	slot->flags = ends ? 0 : RISER_DMA_DESCRIPTOR_FLAGS_MORE;
	if (engine_wants_word(engine, transfer, bytes))
		slot->flags |= RISER_DMA_DESCRIPTOR_FLAGS_INTERRUPT;
	riser_device_describe(engine, engine->posted);
	engine->posted++;
	engine->posted_bytes += bytes;
	transfer->posted++;
	transfer->left -= bytes;
	transfer->into += bytes;
	if (transfer->into == sg_dma_len(transfer->next)) {
		transfer->next = sg_next(transfer->next);
		transfer->into = 0;
	}
	if (!ends)
		return;
	engine->current_transfer = NULL;
	if (transfer->error)
		transfer->left = 0;
	if (!transfer->left)
		engine_leave(engine, transfer);
}

/* Posts as many descriptors as fit. */
static void engine_fill(struct riser_engine *engine)
{
	u32 before = engine->posted;

	if (engine->state != RISER_RUNNING)
		return;
	if (engine->posted == engine->done)
		engine->progress = jiffies;
	while (engine_room(engine) && (engine->current_transfer || engine_next_turn(engine)))
		engine_post_piece(engine, engine->current_transfer);
	if (engine->posted == before)
		return;
	riser_device_post(engine);
	schedule_delayed_work(&engine->watch,
			      engine->has_irq ? msecs_to_jiffies(RISER_WATCH_MS) : 1);
}

/* ---- Halting ---- */

/* Transfers to abort when an engine is halted: all, those of a file, or one. */
struct riser_victims {
	bool all;
	struct riser_file *file;
	struct riser_transfer *transfer;
	int error;
};

static bool is_victim(const struct riser_victims *victims, struct riser_transfer *transfer)
{
	/* A failed transfer is not restarted. */
	return victims->all || transfer->error || transfer->file == victims->file ||
	       transfer == victims->transfer;
}

static void engine_cut(struct riser_engine *engine, struct riser_transfer *transfer, int error,
		       struct list_head *ended)
{
	transfer_fails(transfer, error, RISER_DMA_ERROR_CODE_ABORTED);
	if (transfer->posted)
		return;
	if (transfer == engine->current_transfer)
		engine->current_transfer = NULL;
	engine_settle(engine, transfer, ended);
}

/*
 * Empties the ring: finished transfers end, victims fail, and all others are kept to be
 * posted again from the start of the ring. With @reachable the device is disabled
 * first; otherwise it was reset or removed.
 */
static void engine_halt(struct riser_engine *engine, const struct riser_victims *victims,
			bool reachable, struct list_head *ended)
{
	struct riser_transfer *current_transfer;
	u32 number, done, failed, kept = 0;

	if (reachable && riser_device_disable(engine)) {
		riser_device_counts(engine, &done, &failed);
		engine_reap(engine, done, failed, true, ended);
	}
	for (number = engine->done; number != engine->posted; number++) {
		struct riser_slot *slot = engine_slot(engine, number);
		struct riser_transfer *transfer = slot->transfer;

		if (!is_victim(victims, transfer)) {
			engine->ring.spare[kept++] = *slot;
			continue;
		}
		transfer->posted--;
		engine_cut(engine, transfer, victims->error, ended);
	}
	current_transfer = engine->current_transfer;
	if (current_transfer && is_victim(victims, current_transfer))
		engine_cut(engine, current_transfer, victims->error, ended);
	swap(engine->ring.slots, engine->ring.spare);
	engine->done = 0;
	engine->posted = kept;
	engine->posted_bytes = 0;
}

/* Enables the engine again and posts the kept transfers. */
static void engine_restart(struct riser_engine *engine)
{
	u32 number, kept = engine->posted;

	riser_device_enable(engine);
	for (number = 0; number < kept; number++) {
		riser_device_describe(engine, number);
		engine->posted_bytes += engine->ring.slots[number].bytes;
	}
	engine->posted = kept;
	engine->progress = jiffies;
	if (kept)
		riser_device_post(engine);
	engine_fill(engine);
	if (kept)
		schedule_delayed_work(&engine->watch, msecs_to_jiffies(RISER_WATCH_MS));
}

/* ---- Servicing ---- */

static void engine_lock(struct riser_engine *engine)
{
	mutex_lock(&engine->reap);
	mutex_lock(&engine->lock);
}

/* Reports ended transfers in order, without the lock that posting takes. */
static void engine_unlock(struct riser_engine *engine, struct list_head *ended)
{
	struct riser_transfer *transfer, *next;

	mutex_unlock(&engine->lock);
	list_for_each_entry_safe(transfer, next, ended, link) {
		list_del_init(&transfer->link);
		riser_transfer_end(transfer);
	}
	mutex_unlock(&engine->reap);
}

/* Needs no lock: its data are freed after a grace period, see riser_engine_kill(). */
bool riser_engine_has_news(struct riser_engine *engine)
{
	bool has_news;

	rcu_read_lock();
	has_news = READ_ONCE(engine->state) == RISER_RUNNING &&
		   lower_32_bits(le64_to_cpu(READ_ONCE(*engine->write_back))) !=
		   READ_ONCE(engine->done);
	rcu_read_unlock();
	return has_news;
}

/* Handles the device's write-back and posts waiting transfers. */
void riser_engine_service(struct riser_engine *engine)
{
	LIST_HEAD(ended);
	u64 counts;
	int bad = 0;

	engine_lock(engine);
	if (engine->state == RISER_RUNNING) {
		counts = le64_to_cpu(READ_ONCE(*engine->write_back));
		/* Read the status after the write-back counts. */
		dma_rmb();
		bad = engine_reap(engine, lower_32_bits(counts), upper_32_bits(counts), false,
				  &ended);
		engine_fill(engine);
	}
	engine_unlock(engine, &ended);
	if (bad)
		dev_err_ratelimited(&engine->dma->dev, "engine %u: write-back of %u done, %u posted\n",
				    engine->index, lower_32_bits(counts), engine->posted);
}

/*
 * Checks a busy engine for lost interrupts, failed write-backs and missing progress.
 */
static void engine_look_after(struct riser_engine *engine, struct list_head *ended)
{
	struct riser_victims victims = { .error = -ETIMEDOUT };
	u32 done, failed;

	if (!riser_is_there(engine->dma)) {
		/* A function that cannot be reached makes no progress. */
		victims.all = true;
		victims.error = -ENODEV;
		engine_halt(engine, &victims, false, ended);
		engine->state = RISER_FROZEN;
		dev_err(&engine->dma->dev, "engine %u: the function does not answer\n",
			engine->index);
		return;
	}
	riser_device_counts(engine, &done, &failed);
	if (engine_reap(engine, done, failed, false, ended))
		dev_err_ratelimited(&engine->dma->dev, "engine %u: %u done, %u posted\n",
				    engine->index, done, engine->posted);
	engine_fill(engine);
	/* A doorbell may have been lost: poisoned, or during a link retrain. */
	if (riser_device_posted(engine) != engine->posted)
		riser_device_post(engine);
	if (engine->posted == engine->done || !riser_timeout_ms ||
	    time_before(jiffies, engine->progress + msecs_to_jiffies(riser_timeout_ms)))
		return;
	dev_warn(&engine->dma->dev, "engine %u: no progress for %u ms, error code %u\n",
		 engine->index, riser_timeout_ms,
		 riser_device_error(engine));
	victims.transfer = engine_slot(engine, engine->done)->transfer;
	engine_halt(engine, &victims, true, ended);
	engine_restart(engine);
}

static void engine_watch(struct work_struct *work)
{
	struct riser_engine *engine = container_of(work, struct riser_engine, watch.work);
	LIST_HEAD(ended);
	bool again;

	engine_lock(engine);
	if (engine->state == RISER_RUNNING && engine->posted != engine->done)
		engine_look_after(engine, &ended);
	again = engine->state == RISER_RUNNING && engine->posted != engine->done;
	engine_unlock(engine, &ended);
	if (again)
		schedule_delayed_work(&engine->watch,
				      engine->has_irq ? msecs_to_jiffies(RISER_WATCH_MS) : 1);
}

/* ---- Queueing ---- */

static void engine_enable_held(struct riser_engine *engine, struct riser_queue *queue)
{
	list_splice_tail_init(&queue->held, &queue->waiting);
	if (!list_empty(&queue->waiting) && list_empty(&queue->turn))
		list_add_tail(&queue->turn, &engine->turns);
}

/* Queues a transfer. The transfer starts when the engine is kicked. */
int riser_engine_queue(struct riser_engine *engine, struct riser_transfer *transfer, bool enable)
{
	struct riser_file *file = transfer->file;
	struct riser_queue *queue = queue_of(engine, transfer);
	int error = 0;

	mutex_lock(&engine->lock);
	spin_lock(&file->lock);
	if (engine->state == RISER_DEAD)
		error = -ENODEV;
	else if (file->under_way >= RISER_DMA_MAX_TRANSFERS)
		error = -EAGAIN;
	if (!error) {
		file->under_way++;
		queue->begun++;
	}
	spin_unlock(&file->lock);
	if (!error) {
		engine->transfers++;
		list_add_tail(&transfer->link, &queue->held);
		if (enable)
			engine_enable_held(engine, queue);
	}
	mutex_unlock(&engine->lock);
	return error;
}

/* Starts the queued transfers of a file. */
void riser_engine_begin(struct riser_engine *engine, struct riser_file *file)
{
	mutex_lock(&engine->lock);
	engine_enable_held(engine, &file->queues[engine->index]);
	engine_fill(engine);
	mutex_unlock(&engine->lock);
}

void riser_engine_kick(struct riser_engine *engine)
{
	mutex_lock(&engine->lock);
	engine_fill(engine);
	mutex_unlock(&engine->lock);
}

static void engine_take_back(struct riser_engine *engine, struct list_head *queued, bool begun_too,
			     struct list_head *ended)
{
	struct riser_transfer *transfer, *next;

	list_for_each_entry_safe(transfer, next, queued, link) {
		if (transfer->begun && !begun_too)
			continue;
		transfer_fails(transfer, -ECANCELED, 0);
		engine_settle(engine, transfer, ended);
	}
}

/*
 * Cancels queued transfers of a file; with @begun_too, also the rest of started ones.
 */
void riser_engine_take_back(struct riser_engine *engine, struct riser_file *file, bool begun_too)
{
	struct riser_queue *queue = &file->queues[engine->index];
	LIST_HEAD(ended);

	engine_lock(engine);
	engine_take_back(engine, &queue->held, begun_too, &ended);
	engine_take_back(engine, &queue->waiting, begun_too, &ended);
	engine_unlock(engine, &ended);
}

/* Aborts posted transfers of a file; those of other files must be posted again. */
void riser_engine_cut_off(struct riser_engine *engine, struct riser_file *file, int error)
{
	struct riser_victims victims = { .file = file, .error = error };
	LIST_HEAD(ended);

	engine_lock(engine);
	if (engine->state == RISER_RUNNING) {
		engine_halt(engine, &victims, true, &ended);
		engine_restart(engine);
	}
	engine_unlock(engine, &ended);
}

/* ---- Reset, sleep and removal of the function ---- */

/* Waits up to @ms for all posted work; returns whether it is done. */
bool riser_engine_drain(struct riser_engine *engine, unsigned int ms)
{
	unsigned long until = jiffies + msecs_to_jiffies(ms);

	for (;;) {
		riser_engine_service(engine);
		if (READ_ONCE(engine->posted) == READ_ONCE(engine->done))
			return true;
		if (time_after(jiffies, until))
			return false;
		usleep_range(200, 1000);
	}
}

/*
 * Stops access to the device. Running transfers stay so until a reset is confirmed.
 */
void riser_engine_freeze(struct riser_engine *engine)
{
	mutex_lock(&engine->lock);
	if (engine->state == RISER_RUNNING)
		engine->state = RISER_FROZEN;
	mutex_unlock(&engine->lock);
}

/* Stops the device. Running transfers fail; queued transfers wait. */
void riser_engine_stop(struct riser_engine *engine, int error)
{
	struct riser_victims victims = { .all = true, .error = error };
	LIST_HEAD(ended);

	engine_lock(engine);
	if (engine->state == RISER_RUNNING) {
		engine_halt(engine, &victims, riser_is_there(engine->dma), &ended);
		engine->state = RISER_FROZEN;
	}
	engine_unlock(engine, &ended);
}

/*
 * Called after a reset of the function in the frozen state: running transfers fail.
 */
void riser_engine_abandon(struct riser_engine *engine, int error)
{
	struct riser_victims victims = { .all = true, .error = error };
	LIST_HEAD(ended);

	engine_lock(engine);
	if (engine->state == RISER_FROZEN)
		engine_halt(engine, &victims, false, &ended);
	engine_unlock(engine, &ended);
}

void riser_engine_thaw(struct riser_engine *engine)
{
	mutex_lock(&engine->lock);
	if (engine->state == RISER_FROZEN) {
		engine->state = RISER_RUNNING;
		engine_restart(engine);
	}
	mutex_unlock(&engine->lock);
}

/* Final. Afterwards there is no access to the device, its rings or memory. */
void riser_engine_kill(struct riser_engine *engine)
{
	struct riser_victims victims = { .all = true, .error = -ENODEV };
	struct riser_file *file;
	LIST_HEAD(ended);

	engine_lock(engine);
	if (engine->state != RISER_DEAD) {
		engine_halt(engine, &victims, riser_is_there(engine->dma), &ended);
		engine->state = RISER_DEAD;
	}
	mutex_lock(&engine->dma->lock);
	list_for_each_entry(file, &engine->dma->files, link) {
		struct riser_queue *queue = &file->queues[engine->index];

		list_splice_tail_init(&queue->held, &queue->waiting);
		while (!list_empty(&queue->waiting)) {
			struct riser_transfer *transfer =
				list_first_entry(&queue->waiting, struct riser_transfer, link);

			transfer_fails(transfer, -ENODEV, 0);
			engine_settle(engine, transfer, &ended);
		}
	}
	mutex_unlock(&engine->dma->lock);
	engine_unlock(engine, &ended);
	cancel_delayed_work_sync(&engine->watch);
	synchronize_rcu();
}

/* ---- Setup and settings ---- */

/* Returns the legal number of entries closest to @entries. */
static u32 engine_entries(struct riser_engine *engine, bool host_ring, u32 entries)
{
	u32 most = host_ring ? RISER_MAX_ENTRIES : engine->dma->device_entries;

	return rounddown_pow_of_two(clamp(entries, 2U, most));
}

int riser_engine_init(struct riser_dma *dma, unsigned int index, bool host_ring, u32 entries)
{
	struct riser_engine *engine = &dma->engines[index];
	u32 kind;
	int error;

	engine->dma = dma;
	engine->index = index;
	engine->registers = dma->bar + RISER_DMA_ENGINE(index);
	engine->device_ring = dma->bar + RISER_DMA_DESCRIPTOR(index * dma->device_entries);
	mutex_init(&engine->reap);
	mutex_init(&engine->lock);
	INIT_LIST_HEAD(&engine->turns);
	INIT_DELAYED_WORK(&engine->watch, engine_watch);
	kind = readl(engine->registers + RISER_DMA_ENGINE_KIND);
	engine->h2d = !(kind & RISER_DMA_ENGINE_KIND_D2H);
	engine->vector = FIELD_GET(RISER_DMA_ENGINE_KIND_VECTOR, kind);
	engine->write_back = dma_alloc_coherent(&dma->pdev->dev, sizeof(*engine->write_back),
						&engine->write_back_bus, GFP_KERNEL);
	if (!engine->write_back)
		return -ENOMEM;
	entries = engine_entries(engine, host_ring, entries);
	error = riser_ring_make(engine, host_ring, entries, &engine->ring);
	if (error)
		return error;
	riser_device_enable(engine);
	return 0;
}

void riser_engine_free(struct riser_engine *engine)
{
	if (!engine->dma)
		return;
	riser_ring_free(engine, &engine->ring);
	if (engine->write_back)
		dma_free_coherent(&engine->dma->pdev->dev, sizeof(*engine->write_back),
				  engine->write_back, engine->write_back_bus);
	engine->write_back = NULL;
}

/* Returns whether settings may change. */
static int engine_is_idle(struct riser_engine *engine)
{
	if (engine->state == RISER_DEAD)
		return -ENODEV;
	return engine->state != RISER_RUNNING || engine->transfers ? -EBUSY : 0;
}

int riser_engine_resize(struct riser_engine *engine, bool host_ring, u32 entries)
{
	struct riser_ring ring;
	int error;

	error = riser_ring_make(engine, host_ring, engine_entries(engine, host_ring, entries),
				&ring);
	if (error)
		return error;
	mutex_lock(&engine->lock);
	error = engine_is_idle(engine);
	if (!error && !riser_device_disable(engine))
		error = -EIO;
	if (!error) {
		swap(engine->ring, ring);
		riser_device_enable(engine);
	}
	mutex_unlock(&engine->lock);
	riser_ring_free(engine, &ring);
	return error;
}

int riser_engine_configure(struct riser_engine *engine, const struct riser_dma_configure *to)
{
	int error;

	mutex_lock(&engine->lock);
	error = engine_is_idle(engine);
	if (!error && !riser_device_disable(engine))
		error = -EIO;
	if (!error) {
		engine->logic = to->logic;
		engine->seed = to->seed;
		engine->coalescing =
			FIELD_PREP(RISER_DMA_ENGINE_COALESCING_COUNT, to->coalesce_count) |
			FIELD_PREP(RISER_DMA_ENGINE_COALESCING_TIME_US, to->coalesce_us);
		riser_device_enable(engine);
	}
	mutex_unlock(&engine->lock);
	return error;
}

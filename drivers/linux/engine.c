// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * An engine: its ring, what is posted there, what is done, and how it is
 * stopped and begun anew. Memory that the device was told of is given back when
 * it has said that it is done with it, or was stopped, or is gone.
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
MODULE_PARM_DESC(timeout_ms, "an engine without progress for so long is begun anew, and what it was at fails; 0: never (default 10000)");

/* How often an engine is looked after that is at work, whether it interrupts or not. */
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

/* ---- What is done ---- */

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

/* The transfer is in no queue any more. */
static void engine_leave(struct riser_engine *engine, struct riser_transfer *transfer)
{
	struct riser_queue *queue = queue_of(engine, transfer);

	list_del_init(&transfer->link);
	if (list_empty(&queue->waiting))
		list_del_init(&queue->turn);
}

/* Puts a transfer among those that have ended, if it has. */
static void engine_settle(struct riser_engine *engine, struct riser_transfer *transfer,
			  struct list_head *ended)
{
	/* A chunk that was begun is posted to its end: no other becomes part of its chain. */
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

/* Descriptors among those up to @done of which the device has said that they have failed. */
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
 * Takes what is done from the ring. With @halting it ends before the first
 * descriptor that was cut off, since that is to be posted again.
 */
static int engine_reap(struct riser_engine *engine, u32 done, u32 failed, bool halting,
		       struct list_head *ended)
{
	bool look = halting || failed != engine->failed;
	bool is_fetch = false;

	if (done - engine->done > engine->posted - engine->done)
		return -EIO;
	/* The status of a descriptor that could not be read could not be written either. */
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

/* ---- What is posted ---- */

/* The file whose turn it is; false where nothing waits, or enough is posted. */
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

/* Whether the driver wants to hear when the descriptor is done that it posts now. */
static bool engine_wants_word(struct riser_engine *engine, struct riser_transfer *transfer,
			      u64 bytes)
{
	if (bytes == transfer->left && transfer->irq)
		return true;
	/* Others can be posted then. */
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

/* Posts as much as there is room for. */
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

/* Whose transfers are cut off where an engine is halted: all, a file's, or one. */
struct riser_victims {
	bool all;
	struct riser_file *file;
	struct riser_transfer *transfer;
	int error;
};

static bool is_victim(const struct riser_victims *victims, struct riser_transfer *transfer)
{
	/* What has failed already is not begun anew. */
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
 * Takes all from the ring: what is done has ended, what is the victims' fails,
 * and the rest is put down to be posted from the ring's beginning on. With
 * @reachable the device is disabled first; otherwise it was reset, or is gone.
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

/* Enables it again, and posts anew what was kept. */
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

/* ---- Who looks ---- */

static void engine_lock(struct riser_engine *engine)
{
	mutex_lock(&engine->reap);
	mutex_lock(&engine->lock);
}

/* Tells what has ended in its order, without the lock that who posts waits for. */
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

/* Without a lock: what it looks at goes behind a grace period, see riser_engine_kill(). */
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

/* Takes what the device has told by its write-back, and posts what waits. */
void riser_engine_service(struct riser_engine *engine)
{
	LIST_HEAD(ended);
	u64 counts;
	int bad = 0;

	engine_lock(engine);
	if (engine->state == RISER_RUNNING) {
		counts = le64_to_cpu(READ_ONCE(*engine->write_back));
		/* What the device has written before it is looked at behind it. */
		dma_rmb();
		bad = engine_reap(engine, lower_32_bits(counts), upper_32_bits(counts), false,
				  &ended);
		engine_fill(engine);
	}
	engine_unlock(engine, &ended);
	if (bad)
		dev_err_ratelimited(&engine->dma->dev, "engine %u tells of %u done, of %u posted\n",
				    engine->index, lower_32_bits(counts), engine->posted);
}

/* Looks after an engine that is at work: lost interrupts, failures of writes, no progress. */
static void engine_look_after(struct riser_engine *engine, struct list_head *ended)
{
	struct riser_victims victims = { .error = -ETIMEDOUT };
	u32 done, failed;

	if (!riser_is_there(engine->dma)) {
		/* Nothing comes from a function that cannot be reached. */
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
		dev_err_ratelimited(&engine->dma->dev, "engine %u: %u done, of %u posted\n",
				    engine->index, done, engine->posted);
	engine_fill(engine);
	/* A doorbell may be lost on its way: poisoned, by a link that retrains. */
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

/* ---- Who queues ---- */

static void engine_enable_held(struct riser_engine *engine, struct riser_queue *queue)
{
	list_splice_tail_init(&queue->held, &queue->waiting);
	if (!list_empty(&queue->waiting) && list_empty(&queue->turn))
		list_add_tail(&queue->turn, &engine->turns);
}

/* Queues a transfer, which begins when the engine is kicked. */
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

/* Lets what a file has queued begin. */
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

/* Ends what a file has queued and not begun; with @begun_too, the rest of what it has begun. */
void riser_engine_take_back(struct riser_engine *engine, struct riser_file *file, bool begun_too)
{
	struct riser_queue *queue = &file->queues[engine->index];
	LIST_HEAD(ended);

	engine_lock(engine);
	engine_take_back(engine, &queue->held, begun_too, &ended);
	engine_take_back(engine, &queue->waiting, begun_too, &ended);
	engine_unlock(engine, &ended);
}

/* Ends what a file has posted, at the price that all others' is posted anew. */
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

/* ---- The function is reset, sleeps, is gone ---- */

/* Whether all that was posted is done, or will be within that time. */
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

/* Leaves the device alone: what is under way stays so until it is known to be reset. */
void riser_engine_freeze(struct riser_engine *engine)
{
	mutex_lock(&engine->lock);
	if (engine->state == RISER_RUNNING)
		engine->state = RISER_FROZEN;
	mutex_unlock(&engine->lock);
}

/* Stops the device; what is under way fails, and what is queued waits. */
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

/* The function was reset while the engine was frozen: what was under way fails. */
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

/* For good. Nobody touches the device, its rings or memory behind this. */
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

/* ---- Making, and changing ---- */

/* Entries that are legal, as near to those asked for as can be. */
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

/* Whether its settings may change. */
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A process of the random caller: its files, memory, rings and calls, and the checks of their results. */
#include "random.h"
#include "riser_dma.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
/* Memory of a process for transfers, with a page before and after it that transfers must not touch. */
#define ARENA (64 * PAGE)
#define FILES 4
#define MEMORIES 8

/* ---- Files, memory, and the legal results of a call ---- */

/* Engines of functions with odd numbers have only integers as data, so that received data are known. Others have any data. */
static bool is_integers(unsigned int function)
{
	return function % 2;
}

static struct file {
	int fd;
	unsigned int function;
	bool is_polling;
	struct riser_dma_rings *rings;
	__u64 rings_bytes;
	struct {
		__u32 handle;
		__u64 bytes;
		/* Address of registered memory; 0 for a dmabuf. */
		__u64 at;
	} memories[MEMORIES];
} files[FILES];

/* The arena, its expected contents, and the bytes that transfers may have written since. */
static unsigned char *arena, *expected, *written;
static char *holes, *constant, *huge;

static const int transfer_errors[] = { EAGAIN, ENOMEM, ENOENT, ENXIO, EINTR, EIO, EBADMSG, ECANCELED, ETIMEDOUT, 0 };
static const int cpu_errors[] = { EPERM, ENXIO, 0 };
static const int engine_errors[] = { ENXIO, EBUSY, EIO, 0 };
static const int memory_errors[] = { ENOMEM, ENOENT, EBADF, 0 };
static const int ring_errors[] = { EBUSY, ENOMEM, EINTR, ETIME, ENXIO, 0 };
static const int info_errors[] = { EIO, 0 };
static const int no_errors[] = { 0 };

static bool is_among(int error, const int *errors)
{
	for (; *errors; errors++)
		if (error == *errors)
			return true;
	return error == ENOTTY || error == EFAULT || error == EINVAL || error == ENODEV;
}

/* Makes the nth following allocation or copy fail, if the kernel supports it. Zero disables this, and returns how many were left. */
static int fail_nth(int n)
{
	static pid_t of;
	static int fd = -1;
	char text[16] = "0", number[16];

	/* The file belongs to the process that opened it. */
	if (of != getpid())
		fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	of = getpid();
	if (fd < 0)
		return 0;
	/* The injected failure may hit this call. */
	while (!n && pread(fd, text, sizeof(text) - 1, 0) < 0)
		;
	while (pwrite(fd, number, (size_t)snprintf(number, sizeof(number), "%d", n), 0) < 0)
		;
	return atoi(text);
}

static void alarm_soon(void)
{
	struct itimerval timer = { .it_value.tv_usec = 1 + (long)below(20000) };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void block_alarm(bool block)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Makes a call, whose error must be in `errors`, sometimes with a failing allocation or a signal. Returns zero, or an errno. */
static int call(struct file *file, unsigned long command, void *argument, const int *errors)
{
	bool fails = one_in(12);
	int error;

	if (one_in(20))
		alarm_soon();
	/* A signal whose frame cannot be copied would end the process. */
	block_alarm(fails);
	if (fails)
		fail_nth(1 + (int)below(24));
	error = ioctl(file->fd, command, argument) < 0 ? errno : 0;
	if (fails && !fail_nth(0))
		count(&shared->injected);
	block_alarm(false);
	count(&shared->calls);
	count(&shared->errors[error < 200 ? error : 199]);
	/* An injected failure returns ENOMEM, or the error of a failed copy. */
	if (error && !is_among(error, errors) && !(fails && error == ENOMEM))
		violation("%s (%d) is not among its errors", strerror(error), error);
	return error;
}

static void fill(void)
{
	for (size_t n = 0; n < ARENA + 2 * PAGE; n += 8)
		*(__u64 *)(arena + n) = draw();
	memcpy(expected, arena, ARENA + 2 * PAGE);
	memset(written, 0, ARENA + 2 * PAGE);
}

/* Checks that bytes of the arena which no transfer may write are unchanged. */
static void look_at_arena(void)
{
	size_t n, wrong = 0, first = 0;

	for (n = 0; n < ARENA + 2 * PAGE; n++)
		if (!written[n] && arena[n] != expected[n] && !wrong++)
			first = n;
	if (wrong)
		violation("%zu bytes changed that no transfer was to write, the first at %#zx", wrong, first);
}

static void shut(struct file *file)
{
	if (file->rings)
		munmap(file->rings, file->rings_bytes);
	if (file->fd >= 0)
		close(file->fd);
	memset(file, 0, sizeof(*file));
	file->fd = -1;
}

/* When all files are closed, no transfer is outstanding. */
static void settle(void)
{
	begin("settle");
	for (unsigned int n = 0; n < FILES; n++)
		shut(&files[n]);
	look_at_arena();
	fill();
}

static void open_one(struct file *file)
{
	struct riser_dma_info info = { 0 };
	char path[32];

	shut(file);
	snprintf(path, sizeof(path), "/dev/riser_dma%u", (unsigned int)below(DEVICES));
	begin("open %s", path);
	file->fd = open(path, O_RDWR | O_CLOEXEC | (one_in(4) ? O_NONBLOCK : 0));
	if (file->fd < 0)
		return;
	if (call(file, RISER_DMA_INFO, &info, info_errors) || info.function > 256) {
		shut(file);
		return;
	}
	file->function = info.function;
}

/* ---- Buffers ---- */

/* Returns a range of the arena with any length and position. `write`: the device may write it. */
static __u64 range(__u64 *size, bool write)
{
	__u64 at = PAGE + below(ARENA - 1), most = ARENA + PAGE - at;

	*size = one_in(2) ? 1 + below(most < 5000 ? most : 5000) : 1 + below(most);
	if (one_in(3))
		at &= ~(PAGE - 1), *size = *size > PAGE ? *size & ~(PAGE - 1) : *size;
	if (write)
		memset(written + at, 1, *size);
	return (uintptr_t)arena + at;
}

/* Returns a buffer for a transfer: usually in the arena, sometimes unmapped, read-only, outside of the program, or huge. */
static __u64 buffer(__u64 *size, bool write)
{
	switch (below(12)) {
	case 0:
		*size = 1 + below(8 * PAGE);
		return (uintptr_t)holes + below(8 * PAGE);
	case 1:
		*size = 1 + below(2 * PAGE);
		return (uintptr_t)constant + below(PAGE);
	case 2:
		if (huge) {
			*size = 1 + below(1 << 21);
			return (uintptr_t)huge + below((1 << 21) + 1 - *size);
		}
		return range(size, write);
	case 3:
		*size = odd();
		return one_in(2) ? below(65536) : odd() | 1ULL << 47;
	default:
		return range(size, write);
	}
}

static int of_memfd(__u64 bytes)
{
	struct udmabuf_create create = { .memfd = (__u32)memfd_create("pages", MFD_ALLOW_SEALING), .size = bytes };
	int driver = open("/dev/udmabuf", O_RDWR), fd = -1;

	if (!ftruncate((int)create.memfd, (off_t)bytes) && !fcntl((int)create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		fd = ioctl(driver, UDMABUF_CREATE, &create);
	close(driver);
	close((int)create.memfd);
	return fd;
}

static int of_heap(__u64 bytes)
{
	struct dma_heap_allocation_data wanted = { .len = bytes, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDWR), error = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &wanted);

	close(heap);
	return error ? -1 : (int)wanted.fd;
}

/* ---- Calls ---- */

/* Sets up a transfer by handle. A range that the device may write is marked. */
static void by_handle(struct file *file, __u64 *at, __u64 *size, __u32 *handle, bool write)
{
	unsigned int n = (unsigned int)below(MEMORIES);
	__u64 bytes = file->memories[n].bytes;

	*handle = bytes ? file->memories[n].handle : (__u32)odd();
	if (!bytes || one_in(8)) {
		*at = odd();
		*size = odd();
		bytes = 0;
	} else {
		*at = below(bytes);
		*size = 1 + below(bytes - *at);
	}
	/* The handle may match other memory of the file by chance. This memory may then be written anywhere. */
	for (n = 0; write && n < MEMORIES; n++)
		if (file->memories[n].at && file->memories[n].handle == *handle)
			memset(written + (file->memories[n].at - (uintptr_t)arena), 1, file->memories[n].bytes);
}

static void transfer(struct file *file)
{
	bool d2h = one_in(2);
	struct riser_dma_transfer asked = {
		.engine = one_in(20) ? (__u32)odd() : 0,
		.irq = (__u8)(one_in(40) ? odd() : below(2)),
		.enable = (__u8)(one_in(40) ? odd() : below(4) > 0),
		.reserved = one_in(100) ? odd() : 0,
		.code = (__u32)draw(),
	};

	if (one_in(4)) {
		asked.flags = RISER_DMA_BY_HANDLE;
		by_handle(file, &asked.buffer, &asked.size, &asked.handle, d2h);
	} else {
		asked.buffer = buffer(&asked.size, d2h);
	}
	if (one_in(50))
		asked.flags = (__u16)odd();
	if (one_in(20))
		asked.size = asked.buffer = asked.irq = 0, asked.flags = 0, asked.handle = 0;
	begin("%s %#llx+%#llx flags %x enable %u", d2h ? "D2H" : "H2D", asked.buffer, asked.size,
	      asked.flags, asked.enable);
	if (!call(file, d2h ? RISER_DMA_D2H_DMA : RISER_DMA_H2D_DMA, &asked, transfer_errors))
		count(&shared->transfers);
}

/* Returns true if the bytes count up in words of eight bytes, starting at any byte of a word. */
static bool counts_up(const unsigned char *bytes, size_t size)
{
	for (size_t phase = 0; phase < 8; phase++) {
		__u64 word, before;
		size_t n = phase + 8;

		if (phase + 8 > size)
			return true;
		memcpy(&before, bytes + phase, 8);
		for (; n + 8 <= size; n += 8, before = word) {
			memcpy(&word, bytes + n, 8);
			if (word != before + 1)
				break;
		}
		if (n + 8 > size)
			return true;
	}
	return false;
}

/* Waits for a transfer in which the device writes integers, and checks each page of them. A descriptor has at least a page, and
* integers may start again between two descriptors if the engine was restarted. */
static void exact(struct file *file)
{
	struct riser_dma_transfer asked = { .irq = 1, .enable = 1 };
	__u64 at, end;
	int error;

	if (!is_integers(file->function))
		return;
	settle();
	open_one(file);
	if (file->fd < 0 || !is_integers(file->function))
		return;
	ioctl(file->fd, RISER_DMA_SET_MODE, (unsigned long)RISER_DMA_POLLING);
	asked.buffer = range(&asked.size, true);
	begin("exact %#llx+%#llx", asked.buffer, asked.size);
	error = call(file, RISER_DMA_D2H_DMA, &asked, transfer_errors);
	if (error)
		return;
	if (asked.moved != asked.size)
		violation("%llu bytes moved of %llu", asked.moved, asked.size);
	for (at = asked.buffer; at < asked.buffer + asked.size; at = end) {
		end = (at | (PAGE - 1)) + 1;
		if (end > asked.buffer + asked.size)
			end = asked.buffer + asked.size;
		if (!counts_up((unsigned char *)(uintptr_t)at, end - at))
			violation("no integers at %#llx+%#llx", at, (end - at));
	}
	count(&shared->exact);
}

static void pending(struct file *file)
{
	struct riser_dma_pending asked = {
		.direction = (__u32)(one_in(20) ? odd() : below(2)),
		.engine = one_in(20) ? (__u32)odd() : 0,
		.reserved = one_in(50) ? odd() : 0,
	};

	begin("PENDING_DATA");
	if (!call(file, RISER_DMA_PENDING_DATA, &asked, engine_errors) && asked.error && !is_among((int)asked.error, transfer_errors))
		violation("a transfer has failed with %u", asked.error);
}

static void configure(struct file *file)
{
	struct riser_dma_configure asked = {
		.direction = (__u32)(one_in(20) ? odd() : below(2)),
		.engine = one_in(20) ? (__u32)odd() : 0,
		.logic = is_integers(file->function) ? RISER_DMA_INTEGERS : (__u32)(one_in(20) ? odd() : below(3)),
		.coalesce_count = (__u16)(one_in(2) ? 0 : odd()),
		.coalesce_us = (__u16)(one_in(2) ? 0 : odd()),
		.seed = odd(),
		.reserved = one_in(50) ? odd() : 0,
	};

	begin("CONFIGURE logic %u", asked.logic);
	call(file, RISER_DMA_CONFIGURE, &asked, engine_errors);
}

/* Writes harmless registers, and reads all. Other registers hold addresses, for which root is responsible. */
static void cpu(struct file *file)
{
	static __u32 value;
	struct riser_dma_cpu asked = { .address = one_in(8) ? odd() : 4 * below(0x4000), .data = one_in(10) ? odd() : (uintptr_t)&value };
	bool write = one_in(4);

	if (write)
		asked.address = one_in(2) ? 0x20 : 0x2000 + 4 * below(64);
	if (one_in(20))
		asked.bar = (__u32)odd();
	value = 1;
	begin("%s_CPU %#llx", write ? "H2D" : "D2H", asked.address);
	call(file, write ? RISER_DMA_H2D_CPU : RISER_DMA_D2H_CPU, &asked, cpu_errors);
}

static void keep(struct file *file)
{
	struct riser_dma_register asked = { .flags = (__u32)(one_in(30) ? odd() : below(2)) };
	unsigned int n = (unsigned int)below(MEMORIES);

	if (file->memories[n].bytes) {
		begin("RELEASE");
		call(file, RISER_DMA_RELEASE, (void *)(uintptr_t)file->memories[n].handle, memory_errors);
		memset(&file->memories[n], 0, sizeof(file->memories[n]));
		return;
	}
	asked.buffer = buffer(&asked.size, false);
	begin("REGISTER %#llx+%#llx", asked.buffer, asked.size);
	if (call(file, RISER_DMA_REGISTER, &asked, memory_errors))
		return;
	file->memories[n].handle = asked.handle;
	file->memories[n].bytes = asked.size;
	if (asked.buffer >= (uintptr_t)arena && asked.buffer < (uintptr_t)arena + ARENA + 2 * PAGE)
		file->memories[n].at = asked.buffer;
}

static void import(struct file *file)
{
	struct riser_dma_import asked = { .flags = (__u32)(one_in(30) ? odd() : below(2)) };
	unsigned int n = (unsigned int)below(MEMORIES);
	int kind = (int)below(4);

	if (file->memories[n].bytes)
		return;
	asked.fd = kind == 0 ? (int)odd() : kind == 1 ? file->fd : kind == 2 ? of_heap((1 + below(16)) * PAGE) : of_memfd((1 + below(16)) * PAGE);
	begin("IMPORT %d", kind);
	if (!call(file, RISER_DMA_IMPORT, &asked, memory_errors)) {
		file->memories[n].handle = asked.handle;
		file->memories[n].bytes = asked.size;
		file->memories[n].at = 0;
	}
	if (kind > 1 && asked.fd >= 0)
		close(asked.fd);
}

static void setup(struct file *file)
{
	struct riser_dma_setup asked = { .entries = one_in(10) ? (__u32)odd() : 1U << below(7), .reserved = one_in(50) ? odd() : 0 };
	void *mapped;

	begin("SETUP %u", asked.entries);
	if (call(file, RISER_DMA_SETUP, &asked, ring_errors) || file->rings)
		return;
	if (one_in(8))
		mmap(NULL, 1 + below(1 << 20), PROT_READ, one_in(2) ? MAP_SHARED : MAP_PRIVATE, file->fd, (off_t)(below(3) * PAGE));
	mapped = mmap(NULL, asked.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (mapped == MAP_FAILED)
		return;
	file->rings = mapped;
	file->rings_bytes = asked.bytes;
}

/* Corrupts ring contents, which the program may do at any time. The driver must not trust them. */
static void spoil(struct file *file)
{
	__u32 *words = (__u32 *)file->rings;

	words[below(file->rings_bytes / 4)] = (__u32)odd();
}

static void submit(struct file *file)
{
	struct riser_dma_rings *rings = file->rings;
	/* Uses the original layout, because the contents may be corrupted. */
	__u64 at = 64, entries = 1;
	struct riser_dma_submission *submission;

	while (at + 2 * entries * sizeof(*submission) + 4 * entries * sizeof(struct riser_dma_completion) <= file->rings_bytes)
		entries *= 2;
	submission = (void *)((char *)rings + at);
	submission += rings->submission_tail & (__u32)(entries - 1);
	*submission = (struct riser_dma_submission){
		.op = (__u8)(one_in(30) ? odd() : below(3)),
		.flags = (__u8)(one_in(30) ? odd() : below(2) * RISER_DMA_IRQ),
		.engine = (__u16)(one_in(30) ? odd() : 0),
		.user_data = draw(),
	};
	if (one_in(3)) {
		submission->flags |= RISER_DMA_BY_HANDLE;
		by_handle(file, &submission->buffer, &submission->size, &submission->handle, true);
	} else {
		submission->buffer = buffer(&submission->size, true);
	}
	__atomic_add_fetch(&rings->submission_tail, 1, __ATOMIC_RELEASE);
}

static void rings(struct file *file)
{
	struct riser_dma_enter asked = {
		.submit = one_in(10) ? (__u32)odd() : (__u32)below(64),
		.wait = one_in(10) ? (__u32)odd() : (__u32)below(4),
		.timeout_us = one_in(20) ? odd() : 1 + below(20000),
		.reserved = one_in(50) ? odd() : 0,
	};

	if (!file->rings) {
		setup(file);
		return;
	}
	for (__u64 n = below(16); n; n--)
		submit(file);
	/* A call without a timeout is ended by a signal. */
	if (!asked.timeout_us || asked.timeout_us > 1000000)
		alarm_soon();
	if (one_in(16))
		spoil(file);
	begin("ENTER %u wait %u", asked.submit, asked.wait);
	if (asked.wait && (!asked.timeout_us || asked.timeout_us > 1000000))
		asked.timeout_us = 100000;
	call(file, RISER_DMA_ENTER, &asked, ring_errors);
	if (one_in(2))
		file->rings->completion_head = file->rings->completion_tail;
}

static void other(struct file *file)
{
	struct pollfd ready = { .fd = file->fd, .events = POLLIN | POLLOUT };
	static const int protections[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	static unsigned char junk[16384];
	unsigned long mode = one_in(20) ? odd() : below(2);

	switch (below(6)) {
	case 0:
		begin("SET_MODE %lu", mode);
		/* Polling without a timeout is ended by a signal. */
		if (!call(file, RISER_DMA_SET_MODE, (void *)mode, no_errors))
			file->is_polling = mode == RISER_DMA_POLLING;
		break;
	case 1:
		begin("poll");
		poll(&ready, 1, (int)below(5));
		break;
	case 2:
		for (size_t n = 0; n < sizeof(junk) / 8; n++)
			((__u64 *)junk)[n] = one_in(2) ? 0 : odd();
		begin("ioctl of chance");
		/* Any call that does not use the argument as an address to write to; also invalid sizes and directions. */
		call(file, _IOC(below(4), RISER_DMA_IOCTL, 0x0d + below(0xf0), below(0x3fff)), junk, no_errors);
		call(file, _IOC(below(4), RISER_DMA_IOCTL, below(0x0d), 200 + below(0x3f00)), junk, no_errors);
		break;
	case 3:
		begin("read, write, seek");
		if (read(file->fd, junk, below(100)) >= 0 && verbose)
			violation("it can be read");
		lseek(file->fd, (off_t)odd(), SEEK_SET);
		break;
	case 4:
		begin("unmap and map a page");
		mmap(holes + below(8) * PAGE, PAGE, protections[below(3)], MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	default:
		begin("dup");
		close(dup(file->fd));
	}
}

/* Creates a child with the same files that makes calls, exits, or is killed. */
static void child(void)
{
	pid_t pid;
	int status;

	begin("fork");
	pid = fork();
	if (pid) {
		if (one_in(2))
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		return;
	}
	/* The state of the child's copy of the arena is unknown, so it only makes calls. */
	for (unsigned int n = 0; n < 4; n++)
		if (files[n % FILES].fd >= 0)
			pending(&files[n % FILES]);
	_exit(0);
}

static void step(void)
{
	struct file *file = &files[below(FILES)];

	if (file->fd < 0 || one_in(60)) {
		open_one(file);
		return;
	}
	/* A call that polls for data that never arrive is ended by a signal, or by the driver's timeout. */
	if (file->is_polling && one_in(4))
		alarm_soon();
	switch (below(24)) {
	case 0 ... 7:
		transfer(file);
		break;
	case 8 ... 10:
		pending(file);
		break;
	case 11:
		configure(file);
		break;
	case 12:
		cpu(file);
		break;
	case 13 ... 14:
		keep(file);
		break;
	case 15:
		import(file);
		break;
	case 16 ... 18:
		rings(file);
		break;
	case 19 ... 20:
		exact(file);
		break;
	case 21:
		if (one_in(4))
			child();
		break;
	default:
		other(file);
	}
}

static void nothing(int signal)
{
	(void)signal;
}

static void *memory(size_t bytes, int protection, int flags)
{
	void *made = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return made == MAP_FAILED ? NULL : made;
}

void live(void)
{
	struct sigaction action = { .sa_handler = nothing };
	__u64 steps = 50 + below(500);

	sigaction(SIGALRM, &action, NULL);
	arena = memory(ARENA + 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	expected = memory(ARENA + 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	written = memory(ARENA + 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	holes = memory(16 * PAGE, PROT_READ | PROT_WRITE, 0);
	constant = memory(2 * PAGE, PROT_READ, 0);
	huge = memory(1 << 21, PROT_READ | PROT_WRITE, MAP_HUGETLB);
	for (unsigned int n = 0; n < FILES; n++)
		files[n].fd = -1;
	fill();
	while (steps--) {
		step();
		count(&shared->processes[self].steps);
		if (one_in(100))
			settle();
	}
	if (one_in(2))
		settle();
	_exit(0);
}


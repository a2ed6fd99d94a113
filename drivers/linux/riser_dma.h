/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The DMA engine's character devices, /dev/riser_dma<N>: one for each function.
 *
 * A transfer moves one buffer through one engine. Transfers that a file has
 * begun on an engine end in their order; those of several files take turns.
 * Fields called reserved must be zero; what is not is answered with EINVAL, as
 * is a flag that this header does not name.
 *
 * poll(2) of a file: EPOLLIN while a transfer of it has ended since
 * RISER_DMA_PENDING_DATA was asked last, or a completion waits in its rings;
 * EPOLLOUT while one more may be queued; EPOLLERR where the function is gone.
 *
 * Errors of all calls:
 * ENOTTY	no such call, or a struct of another size
 * EFAULT	the argument, or memory that it names, is not mapped, or is
 *		read-only where the device is to write it
 * EINVAL	a value that is not legal
 * ENXIO	no such engine
 * ENODEV	the function was removed, or has failed for good
 */
#ifndef _UAPI_RISER_DMA_H
#define _UAPI_RISER_DMA_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Bytes of one transfer at most. */
#define RISER_DMA_MAX_BYTES 0x40000000ULL
/* Transfers of one file that are queued or under way at most. */
#define RISER_DMA_MAX_TRANSFERS 4096

/* From host to device, and from device to host. */
#define RISER_DMA_H2D 0
#define RISER_DMA_D2H 1

/**
 * struct riser_dma_info - what the function is; EIO while it is reset
 * @version: of the registers, major in the upper 16 bits
 * @function: 0 the physical function, n virtual function n counted from one
 * @functions: the physical one and all virtual ones that there can be
 * @h2d_engines: engines that read host memory
 * @d2h_engines: engines that write host memory
 * @device_entries: descriptors of each engine in the device's memory
 * @ring_entries: descriptors of each engine's ring as it is now
 * @payload_bytes: of a write on the link at most
 * @read_bytes: of a read request on the link at most
 * @window: read requests under way at most
 * @window_shared: 1 where these are all functions' together
 * @host_ring: 1 where the rings are in host memory
 * @interrupts: interrupt vectors; 0 where the driver polls for want of any
 * @reserved: zero
 */
struct riser_dma_info {
	__u32 version;
	__u16 function;
	__u16 functions;
	__u16 h2d_engines;
	__u16 d2h_engines;
	__u32 device_entries;
	__u32 ring_entries;
	__u16 payload_bytes;
	__u16 read_bytes;
	__u16 window;
	__u16 window_shared;
	__u16 host_ring;
	__u16 interrupts;
	__u32 reserved[4];
};

/* riser_dma_transfer.flags: @buffer is an offset in the memory @handle. */
#define RISER_DMA_BY_HANDLE 0x1U

/**
 * struct riser_dma_transfer - a transfer
 * @buffer: address of the first byte, or its offset
 * @size: bytes, 1 to RISER_DMA_MAX_BYTES; 0 with @enable: only begin what is
 *	queued
 * @engine: of those of its direction, from zero
 * @irq: 1: the device interrupts when it is done; 0: it is seen to have ended
 *	when somebody looks (RISER_DMA_PENDING_DATA), or 100 ms later
 * @enable: 1: it begins, and before it those of this file and engine that were
 *	queued; 0: it is queued
 * @flags: RISER_DMA_BY_HANDLE
 * @handle: memory of RISER_DMA_REGISTER or RISER_DMA_IMPORT
 * @code: out, where the call waits: the engine's error code, 1 where all is well
 * @moved: out, where the call waits: bytes that were moved
 * @reserved: zero
 *
 * With RISER_DMA_POLLING a call with @enable waits until this transfer and all
 * before it of this file and engine have ended, and fails as the first of them
 * did. With RISER_DMA_INTERRUPT it does not wait.
 *
 * EAGAIN	RISER_DMA_MAX_TRANSFERS are queued
 * ENOMEM	no memory, or more is pinned than RLIMIT_MEMLOCK allows
 * ENOENT	no memory has this handle
 * EINTR	a signal came first: a transfer that had not begun was taken
 *		back, one that had goes on, and RISER_DMA_PENDING_DATA tells of
 *		it
 * Those of the transfer, where the call waits: see riser_dma_pending.error.
 */
struct riser_dma_transfer {
	__u64 buffer;
	__u64 size;
	__u32 engine;
	__u8 irq;
	__u8 enable;
	__u16 flags;
	__u32 handle;
	__u32 code;
	__u64 moved;
	__u64 reserved;
};

/**
 * struct riser_dma_cpu - one register of the device, by the CPU
 * @bar: 0
 * @reserved: zero
 * @address: in the BAR, a multiple of four
 * @data: address of a DWORD: what is written, or where it is read to
 *
 * Of a process with CAP_SYS_RAWIO alone: registers hold bus addresses.
 *
 * EPERM	without that, or to write the interrupt table
 * ENXIO	no such BAR
 */
struct riser_dma_cpu {
	__u32 bar;
	__u32 reserved;
	__u64 address;
	__u64 data;
};

/**
 * struct riser_dma_pending - what has become of a file's transfers on an engine
 * @direction: RISER_DMA_H2D or RISER_DMA_D2H
 * @engine: of that direction
 * @pending: out: transfers that are queued or under way
 * @failed: out: transfers that have failed since this was asked last
 * @error: out: errno of the first of these, or zero
 * @code: out: its error code, as the engine tells it, or zero
 * @done: out: transfers that have ended since the file was opened
 * @moved: out: bytes that these have moved
 * @reserved: zero
 *
 * Errors of transfers:
 * EIO		host memory was not read or written
 * EBADMSG	the data are not those that the user logic expects
 * ECANCELED	it was cut off: the function was reset, or its file closed
 * ETIMEDOUT	nothing came of it for as long as the module's timeout_ms
 * EINVAL	the engine does not take its descriptors
 * ENODEV	the function is gone
 */
struct riser_dma_pending {
	__u32 direction;
	__u32 engine;
	__u32 pending;
	__u32 failed;
	__u32 error;
	__u32 code;
	__u64 done;
	__u64 moved;
	__u64 reserved;
};

/* What RISER_DMA_SET_MODE takes, of a file; the default is INTERRUPT. */
#define RISER_DMA_INTERRUPT 0
#define RISER_DMA_POLLING 1

/* What is behind an engine: the registers' logic_kind. */
#define RISER_DMA_INTEGERS 0
#define RISER_DMA_PLAIN 1
#define RISER_DMA_LOOP_BACK 2

/**
 * struct riser_dma_configure - settings of an engine, for all files
 * @direction: RISER_DMA_H2D or RISER_DMA_D2H
 * @engine: of that direction
 * @logic: what the data come from or go to
 * @coalesce_count: interrupts are held back until there are so many
 * @coalesce_us: or so many microseconds have passed
 * @seed: the first word of RISER_DMA_INTEGERS
 * @reserved: zero
 *
 * The engine begins anew, its user logic too.
 *
 * EBUSY	transfers are queued or under way there, or the function is reset
 * EIO		the engine does not stop
 */
struct riser_dma_configure {
	__u32 direction;
	__u32 engine;
	__u32 logic;
	__u16 coalesce_count;
	__u16 coalesce_us;
	__u64 seed;
	__u64 reserved;
};

/* riser_dma_register.flags: the device writes it too. */
#define RISER_DMA_WRITABLE 0x1U

/**
 * struct riser_dma_register - memory that is pinned and mapped once, for many
 *	transfers
 * @buffer: address of its first byte
 * @size: bytes, 1 to RISER_DMA_MAX_BYTES
 * @flags: RISER_DMA_WRITABLE
 * @handle: out: what transfers name it by
 * @reserved: zero
 */
struct riser_dma_register {
	__u64 buffer;
	__u64 size;
	__u32 flags;
	__u32 handle;
	__u64 reserved;
};

/**
 * struct riser_dma_import - a dmabuf, mapped for many transfers
 * @fd: of the dmabuf
 * @flags: RISER_DMA_WRITABLE
 * @handle: out: what transfers name it by
 * @reserved0: zero
 * @size: out: its bytes
 * @reserved: zero
 *
 * EBADF	no such file
 * Those of its exporter.
 */
struct riser_dma_import {
	__s32 fd;
	__u32 flags;
	__u32 handle;
	__u32 reserved0;
	__u64 size;
	__u64 reserved;
};

/* riser_dma_submission.op: a transfer H2D or D2H (as above), or nothing. */
#define RISER_DMA_NOP 2
/* riser_dma_submission.flags, beside RISER_DMA_BY_HANDLE: the device interrupts. */
#define RISER_DMA_IRQ 0x2U

/**
 * struct riser_dma_submission - a place of the submission ring
 * @op: RISER_DMA_H2D, RISER_DMA_D2H or RISER_DMA_NOP
 * @flags: RISER_DMA_BY_HANDLE, RISER_DMA_IRQ
 * @engine: as riser_dma_transfer.engine
 * @handle: as riser_dma_transfer.handle
 * @buffer: as riser_dma_transfer.buffer
 * @size: as riser_dma_transfer.size
 * @user_data: what its completion has
 */
struct riser_dma_submission {
	__u8 op;
	__u8 flags;
	__u16 engine;
	__u32 handle;
	__u64 buffer;
	__u64 size;
	__u64 user_data;
};

/**
 * struct riser_dma_completion - a place of the completion ring
 * @user_data: the submission's
 * @moved: bytes that were moved
 * @result: zero, or an errno below zero
 * @code: the engine's error code; zero where it was not begun
 */
struct riser_dma_completion {
	__u64 user_data;
	__u64 moved;
	__s32 result;
	__u32 code;
};

/**
 * struct riser_dma_rings - the beginning of the memory of mmap, at offset zero
 * @submission_head: how many the driver has taken
 * @submission_tail: how many there are; the program writes it
 * @completion_head: how many the program has taken; it writes it
 * @completion_tail: how many there are
 * @submission_entries: a power of two
 * @completion_entries: a power of two
 * @submissions: offset of the submissions
 * @completions: offset of the completions
 *
 * Counts are modulo 2^32; number n is at place n modulo the entries. Who writes
 * a count does so behind what it speaks of (a store with release), and who reads
 * the other's reads that behind it (a load with acquire).
 */
struct riser_dma_rings {
	__u32 submission_head;
	__u32 submission_tail;
	__u32 completion_head;
	__u32 completion_tail;
	__u32 submission_entries;
	__u32 completion_entries;
	__u32 submissions;
	__u32 completions;
};

/**
 * struct riser_dma_setup - makes the rings of a file
 * @entries: of the submission ring, a power of two, 1 to
 *	RISER_DMA_MAX_TRANSFERS; there are twice as many completions
 * @reserved0: zero
 * @bytes: out: of what is to be mapped, shared
 * @reserved: zero
 *
 * EBUSY	it has rings
 */
struct riser_dma_setup {
	__u32 entries;
	__u32 reserved0;
	__u64 bytes;
	__u64 reserved;
};

/**
 * struct riser_dma_enter - takes submissions, and waits for completions
 * @submit: how many at most
 * @wait: until so many completions are there, at most as many as there can be
 * @timeout_us: no longer than this; 0: without end
 * @submitted: out: how many were taken
 * @ready: out: how many completions are there
 * @reserved: zero
 *
 * What a submission says that is not legal, is told by its completion, which
 * comes at once, as that of a NOP does: before those of transfers under way.
 * Where nothing is under way, nothing is waited for. Submissions are taken only as far as there is
 * room for their completions.
 *
 * EBUSY	none was taken, since there is no such room
 * EINTR	none was taken, and a signal came
 * ETIME	none was taken, and the time has passed
 * ENXIO	the file has no rings
 * EINVAL	the ring's counts are not legal
 */
struct riser_dma_enter {
	__u32 submit;
	__u32 wait;
	__u64 timeout_us;
	__u32 submitted;
	__u32 ready;
	__u64 reserved;
};

#define RISER_DMA_IOCTL 0xd7

#define RISER_DMA_INFO		_IOR(RISER_DMA_IOCTL, 0x00, struct riser_dma_info)
#define RISER_DMA_H2D_DMA	_IOWR(RISER_DMA_IOCTL, 0x01, struct riser_dma_transfer)
#define RISER_DMA_D2H_DMA	_IOWR(RISER_DMA_IOCTL, 0x02, struct riser_dma_transfer)
#define RISER_DMA_H2D_CPU	_IOW(RISER_DMA_IOCTL, 0x03, struct riser_dma_cpu)
#define RISER_DMA_D2H_CPU	_IOW(RISER_DMA_IOCTL, 0x04, struct riser_dma_cpu)
#define RISER_DMA_PENDING_DATA	_IOWR(RISER_DMA_IOCTL, 0x05, struct riser_dma_pending)
/* The mode itself is the argument. */
#define RISER_DMA_SET_MODE	_IO(RISER_DMA_IOCTL, 0x06)
#define RISER_DMA_CONFIGURE	_IOW(RISER_DMA_IOCTL, 0x07, struct riser_dma_configure)
#define RISER_DMA_REGISTER	_IOWR(RISER_DMA_IOCTL, 0x08, struct riser_dma_register)
#define RISER_DMA_IMPORT	_IOWR(RISER_DMA_IOCTL, 0x09, struct riser_dma_import)
/* The handle itself is the argument; transfers that use the memory keep it. */
#define RISER_DMA_RELEASE	_IO(RISER_DMA_IOCTL, 0x0a)
#define RISER_DMA_SETUP		_IOWR(RISER_DMA_IOCTL, 0x0b, struct riser_dma_setup)
#define RISER_DMA_ENTER		_IOWR(RISER_DMA_IOCTL, 0x0c, struct riser_dma_enter)

#endif /* _UAPI_RISER_DMA_H */

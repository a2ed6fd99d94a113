/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The DMA engine's character devices, /dev/riser_dma<N>: one per function.
 *
 * A transfer moves one buffer through one engine. Transfers of one file on one
 * engine end in their order; transfers of several files alternate. Reserved
 * fields must be zero. Other values, and unknown flags, give EINVAL.
 *
 * poll(2) of a file: EPOLLIN if a transfer has ended since the last
 * RISER_DMA_PENDING_DATA, or a completion waits in its rings; EPOLLOUT if one
 * more transfer may be queued; EPOLLERR if the function is gone.
 *
 * Errors of all calls:
 * ENOTTY	unknown call, or wrong size of its struct
 * EFAULT	the argument, or memory that it refers to, is not mapped, or is
 *		read-only although the device would write it
 * EINVAL	an invalid value
 * ENXIO	no such engine
 * ENODEV	the function was removed, or has failed for good
 */
#ifndef _UAPI_RISER_DMA_H
#define _UAPI_RISER_DMA_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Maximum size of one transfer in bytes. */
#define RISER_DMA_MAX_BYTES 0x40000000ULL
/* Maximum number of queued and running transfers of one file. */
#define RISER_DMA_MAX_TRANSFERS 4096

/* Host to device, and device to host. */
#define RISER_DMA_H2D 0
#define RISER_DMA_D2H 1

/**
 * struct riser_dma_info - properties of the function; EIO during a reset
 * @version: version of the registers, major in the upper 16 bits
 * @function: 0 for the physical function, n for virtual function n, counted from one
 * @functions: the physical function and all possible virtual ones
 * @h2d_engines: engines that read host memory
 * @d2h_engines: engines that write host memory
 * @device_entries: number of descriptors of each engine in the device's memory
 * @ring_entries: current number of descriptors of each engine's ring
 * @payload_bytes: maximum size of a write on the link
 * @read_bytes: maximum size of a read request on the link
 * @window: maximum number of outstanding read requests
 * @window_shared: 1 if all functions share this window
 * @host_ring: 1 if the rings are in host memory
 * @interrupts: number of interrupt vectors; 0 if there are none and the driver polls
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
 * @buffer: address of the first byte, or its offset with RISER_DMA_BY_HANDLE
 * @size: bytes, 1 to RISER_DMA_MAX_BYTES; 0 with @enable: only start queued
 *	transfers
 * @engine: engine of the direction, from zero
 * @irq: 1: the device interrupts at the end; 0: the driver notices the end at the
 *	next RISER_DMA_PENDING_DATA, or after 100 ms
 * @enable: 1: start this transfer, and before it the queued ones of this file and
 *	engine; 0: only queue it
 * @flags: RISER_DMA_BY_HANDLE
 * @handle: handle from RISER_DMA_REGISTER or RISER_DMA_IMPORT
 * @code: out, if the call waits: the engine's error code, 1 for success
 * @moved: out, if the call waits: bytes moved
 * @reserved: zero
 *
 * With RISER_DMA_POLLING, a call with @enable waits for the end of this transfer and
 * all earlier ones of this file and engine. It fails with the first error of these.
 * With RISER_DMA_INTERRUPT it does not wait.
 *
 * EAGAIN	RISER_DMA_MAX_TRANSFERS are already queued
 * ENOMEM	no memory, or RLIMIT_MEMLOCK is exceeded
 * ENOENT	unknown handle
 * EINTR	interrupted by a signal: a transfer that had not started is
 *		cancelled; one that had continues, and RISER_DMA_PENDING_DATA
 *		reports its end
 * If the call waits, errors of the transfer: see riser_dma_pending.error.
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
 * struct riser_dma_cpu - access to one register of the device by the CPU
 * @bar: 0
 * @reserved: zero
 * @address: offset in the BAR, a multiple of four
 * @data: address of a DWORD to write from or read to
 *
 * Only for processes with CAP_SYS_RAWIO, since registers contain bus addresses.
 *
 * EPERM	no CAP_SYS_RAWIO, or a write to the interrupt table
 * ENXIO	no such BAR
 */
struct riser_dma_cpu {
	__u32 bar;
	__u32 reserved;
	__u64 address;
	__u64 data;
};

/**
 * struct riser_dma_pending - state of a file's transfers on an engine
 * @direction: RISER_DMA_H2D or RISER_DMA_D2H
 * @engine: engine of that direction
 * @pending: out: queued and running transfers
 * @failed: out: transfers that failed since the last call
 * @error: out: errno of the first failed one, or zero
 * @code: out: its error code from the engine, or zero
 * @done: out: transfers that ended since the file was opened
 * @moved: out: bytes that these moved
 * @reserved: zero
 *
 * Errors of transfers:
 * EIO		host memory could not be read or written
 * EBADMSG	the data are not what the user logic expects
 * ECANCELED	aborted: the function was reset, or the file closed
 * ETIMEDOUT	no progress within the module's timeout_ms
 * EINVAL	the engine rejects its descriptors
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

/* Argument of RISER_DMA_SET_MODE, per file; the default is INTERRUPT. */
#define RISER_DMA_INTERRUPT 0
#define RISER_DMA_POLLING 1

/* User logic of an engine: logic_kind in the registers. */
#define RISER_DMA_INTEGERS 0
#define RISER_DMA_PLAIN 1
#define RISER_DMA_LOOP_BACK 2

/**
 * struct riser_dma_configure - settings of an engine, for all files
 * @direction: RISER_DMA_H2D or RISER_DMA_D2H
 * @engine: engine of that direction
 * @logic: user logic, the source or sink of data
 * @coalesce_count: interrupt after this number of ends
 * @coalesce_us: or after this number of microseconds
 * @seed: the first word of RISER_DMA_INTEGERS
 * @reserved: zero
 *
 * Restarts the engine and its user logic.
 *
 * EBUSY	the engine has queued or running transfers, or the function is being reset
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

/* riser_dma_register.flags: the device may write it too. */
#define RISER_DMA_WRITABLE 0x1U

/**
 * struct riser_dma_register - memory pinned and mapped once for many
 *	transfers
 * @buffer: address of the first byte
 * @size: bytes, 1 to RISER_DMA_MAX_BYTES
 * @flags: RISER_DMA_WRITABLE
 * @handle: out: handle for transfers
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
 * @fd: file descriptor of the dmabuf
 * @flags: RISER_DMA_WRITABLE
 * @handle: out: handle for transfers
 * @reserved0: zero
 * @size: out: size in bytes
 * @reserved: zero
 *
 * EBADF	not an open file
 * Errors of the exporter.
 */
struct riser_dma_import {
	__s32 fd;
	__u32 flags;
	__u32 handle;
	__u32 reserved0;
	__u64 size;
	__u64 reserved;
};

/* riser_dma_submission.op: a transfer H2D or D2H (as above), or no operation. */
#define RISER_DMA_NOP 2
/*
 * riser_dma_submission.flags, in addition to RISER_DMA_BY_HANDLE: the device
 * interrupts.
 */
#define RISER_DMA_IRQ 0x2U

/**
 * struct riser_dma_submission - an entry of the submission ring
 * @op: RISER_DMA_H2D, RISER_DMA_D2H or RISER_DMA_NOP
 * @flags: RISER_DMA_BY_HANDLE, RISER_DMA_IRQ
 * @engine: as riser_dma_transfer.engine
 * @handle: as riser_dma_transfer.handle
 * @buffer: as riser_dma_transfer.buffer
 * @size: as riser_dma_transfer.size
 * @user_data: returned in the completion
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
 * struct riser_dma_completion - an entry of the completion ring
 * @user_data: user_data of the submission
 * @moved: bytes moved
 * @result: zero, or a negative errno
 * @code: the engine's error code; zero if it was not started
 */
struct riser_dma_completion {
	__u64 user_data;
	__u64 moved;
	__s32 result;
	__u32 code;
};

/**
 * struct riser_dma_rings - start of the shared memory, at mmap offset zero
 * @submission_head: number of submissions that the driver has taken
 * @submission_tail: number of submissions; written by the program
 * @completion_head: number of completions that the program has taken; written by it
 * @completion_tail: number of completions
 * @submission_entries: size of the submission ring, a power of two
 * @completion_entries: size of the completion ring, a power of two
 * @submissions: offset of the submissions
 * @completions: offset of the completions
 *
 * Counts are modulo 2^32; entry n is at index n modulo the ring's size. A writer
 * updates its count after the entries (store with release). A reader reads the
 * other's count before the entries (load with acquire).
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
 * struct riser_dma_setup - creates the rings of a file
 * @entries: size of the submission ring, a power of two, 1 to
 *	RISER_DMA_MAX_TRANSFERS; the completion ring is twice as large
 * @reserved0: zero
 * @bytes: out: number of bytes to map with MAP_SHARED
 * @reserved: zero
 *
 * EBUSY	it already has rings
 */
struct riser_dma_setup {
	__u32 entries;
	__u32 reserved0;
	__u64 bytes;
	__u64 reserved;
};

/**
 * struct riser_dma_enter - takes submissions, and waits for completions
 * @submit: maximum number of submissions to take
 * @wait: number of completions to wait for; capped at the number that can come
 * @timeout_us: maximum time to wait; 0: no limit
 * @submitted: out: number of submissions taken
 * @ready: out: number of completions ready
 * @reserved: zero
 *
 * A completion reports an invalid submission. Completions of invalid submissions and
 * of NOPs come immediately, before those of running transfers. The call does not wait
 * if no transfer is running. It takes submissions only while there is room for their
 * completions.
 *
 * EBUSY	none was taken, for lack of room
 * EINTR	none was taken, and a signal arrived
 * ETIME	none was taken, and the time is over
 * ENXIO	the file has no rings
 * EINVAL	the ring's counts are invalid
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
/* The argument is the mode itself. */
#define RISER_DMA_SET_MODE	_IO(RISER_DMA_IOCTL, 0x06)
#define RISER_DMA_CONFIGURE	_IOW(RISER_DMA_IOCTL, 0x07, struct riser_dma_configure)
#define RISER_DMA_REGISTER	_IOWR(RISER_DMA_IOCTL, 0x08, struct riser_dma_register)
#define RISER_DMA_IMPORT	_IOWR(RISER_DMA_IOCTL, 0x09, struct riser_dma_import)
/* The argument is the handle itself. Transfers that use the memory keep it. */
#define RISER_DMA_RELEASE	_IO(RISER_DMA_IOCTL, 0x0a)
#define RISER_DMA_SETUP		_IOWR(RISER_DMA_IOCTL, 0x0b, struct riser_dma_setup)
#define RISER_DMA_ENTER		_IOWR(RISER_DMA_IOCTL, 0x0c, struct riser_dma_enter)

#endif /* _UAPI_RISER_DMA_H */

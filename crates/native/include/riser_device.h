/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A device of riser in C or C++: a shared library with one symbol, riser_device_entry. A lab names it in a slot:
 * device = "native". docs/native.md says how it is called, and what is refused.
 *
 * A device sees transactions, not TLPs. It is called by one thread, never while it is being called, and never blocks: a call
 * hands it an input, and what that leads to is polled. Times are picoseconds of virtual time; numbers are the machine's own,
 * data are bytes as they lie in memory. Pointers in what is handed over hold during the call; data of an output stay the device's
 * and hold until its next call.
 */
#ifndef RISER_DEVICE_H
#define RISER_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of all that stands here. */
#define RISER_DEVICE_ABI 1u

/* No time: nothing is to be called. */
#define RISER_NEVER UINT64_MAX

/* The device, which the library alone looks into. */
typedef struct riser_device riser_device;

/* Attributes (PCIe 5.0 2.2.6.3): bits of attr. */
#define RISER_NO_SNOOP 1u
#define RISER_RELAXED_ORDERING 2u
#define RISER_ID_BASED_ORDERING 4u

/* How a request is answered: status of riser_completion (PCIe 5.0 2.2.9.1). */
#define RISER_SUCCESS 0u
#define RISER_UNSUPPORTED_REQUEST 1u
#define RISER_COMPLETER_ABORT 2u
#define RISER_RETRY 3u /* a deferrable write is to come again later */

/* How a DMA read or atomic has ended: status of riser_dma_done. 0 is success. */
#define RISER_DMA_UNSUPPORTED_REQUEST 1u
#define RISER_DMA_COMPLETER_ABORT 2u
#define RISER_DMA_POISONED 3u
#define RISER_DMA_COMPLETION_TIMEOUT 4u
#define RISER_DMA_MALFORMED 5u
#define RISER_DMA_BUS_MASTER_DISABLED 6u
#define RISER_DMA_TOO_LONG 7u
#define RISER_DMA_BAD_ATOMIC 8u
#define RISER_DMA_ATOMICS_DISABLED 9u
#define RISER_DMA_LINK_DOWN 10u
#define RISER_DMA_NOT_IN_D0 11u
#define RISER_DMA_OTHER 255u

/* AtomicOps (PCIe 5.0 6.15): op of riser_atomic and riser_dma_atomic. */
#define RISER_FETCH_ADD 0u
#define RISER_SWAP 1u
#define RISER_COMPARE_SWAP 2u

/* How a function was reset (PCIe 5.0 6.6): kind of reset. */
#define RISER_RESET_FUNDAMENTAL 0u
#define RISER_RESET_HOT 1u
#define RISER_RESET_FUNCTION_LEVEL 2u

/* Classes of output, each polled for itself: what one waits for never holds up another. */
#define RISER_POSTED 0u     /* RISER_WRITE, RISER_INTERRUPT, RISER_INTX, RISER_PME, RISER_SEND_MESSAGE */
#define RISER_NON_POSTED 1u /* RISER_READ, RISER_ATOMIC */
#define RISER_COMPLETION 2u /* RISER_COMPLETE, RISER_ABANDON */

/* ---- requests, which come in ---- */

/* A read of a BAR: MRd, MRdLk, IORd. length bytes answer it. */
typedef struct riser_read {
    uint32_t token;  /* names it until it is answered and taken */
    uint8_t bar;     /* 0 to 5 */
    uint8_t tc;      /* Traffic Class */
    uint8_t attr;
    uint8_t locked;  /* 1: MRdLk */
    uint64_t offset; /* in the BAR, of the first byte */
    uint32_t length;
    uint32_t reserved;
} riser_read;

/* A write of a BAR. Posted ones are only taken; the others are answered, without data: IOWr, DMWr. */
typedef struct riser_write {
    uint32_t token;
    uint8_t bar;
    uint8_t tc;
    uint8_t attr;
    uint8_t flags; /* RISER_WRITE_... */
    uint64_t offset;
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data;    /* length bytes; NULL where they are only counted */
    const uint8_t *enables; /* NULL: all are written; else a byte for each, 0 where it is not */
} riser_write;
#define RISER_WRITE_NON_POSTED 1u
#define RISER_WRITE_DEFERRABLE 2u /* RISER_RETRY may answer it */

/* An AtomicOp on a BAR; the value that was there before answers it. */
typedef struct riser_atomic {
    uint32_t token;
    uint8_t bar;
    uint8_t tc;
    uint8_t attr;
    uint8_t op;
    uint64_t offset;
    uint32_t value_bytes; /* of the value there: 4, 8, or 16 */
    uint32_t length;      /* of the operands: value_bytes, or twice that of RISER_COMPARE_SWAP (compare, then swap) */
    const uint8_t *operands;
} riser_atomic;

/* An access to a configuration register that the lab declares as the device's own. 4 bytes answer a read, none a write. */
typedef struct riser_config {
    uint32_t token;
    uint16_t register_dw; /* number of the DW */
    uint8_t byte_enables; /* a bit for each byte */
    uint8_t is_write;
    uint32_t value; /* of a write, bytes in their places */
} riser_config;

/* A message of a code that the lab names. It is only taken. */
typedef struct riser_message {
    uint32_t token;
    uint16_t requester;
    uint8_t routing; /* low three bits of Type */
    uint8_t code;
    uint8_t header[8]; /* bytes 8 to 15 */
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data;
} riser_message;

/* A DMA read or atomic of the device has ended: id is free again. */
typedef struct riser_dma_done {
    uint32_t id;
    uint32_t status; /* 0, or RISER_DMA_... */
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data; /* all bytes in order; NULL where there are none, or they are only counted */
} riser_dma_done;

/* ---- outputs, which are polled ---- */

/* Writes host memory, any length up to 1 MiB; it is cut as the link needs it. */
typedef struct riser_dma_write {
    uint64_t address;
    uint32_t length;
    uint8_t tc;
    uint8_t attr;
    uint8_t reserved[2];
    const uint8_t *data; /* NULL: bytes are only counted */
} riser_dma_write;

/* Reads host memory; riser_dma_done answers it. 0 bytes flush the writes before it. */
typedef struct riser_dma_read {
    uint64_t address;
    uint32_t id; /* the device's choice, unique among those under way */
    uint32_t length;
    uint8_t tc;
    uint8_t attr;
    uint8_t counted; /* 1: only their number is wanted */
    uint8_t reserved[5];
} riser_dma_read;

/* An AtomicOp on host memory; riser_dma_done brings the value that was there. */
typedef struct riser_dma_atomic {
    uint64_t address;
    uint32_t id;
    uint32_t length; /* of the operands */
    uint8_t tc;
    uint8_t attr;
    uint8_t op;
    uint8_t reserved[5];
    const uint8_t *operands;
} riser_dma_atomic;

/* Answers a request, once: as many bytes as it asks for, or none and why. */
typedef struct riser_completion {
    uint32_t token;
    uint32_t status;
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data; /* NULL: bytes are only counted */
} riser_completion;

/* Sends a message; the sender's ID is put in. */
typedef struct riser_send_message {
    uint8_t routing; /* low three bits of Type: 0 to 5 */
    uint8_t code;
    uint8_t tc;
    uint8_t attr;
    uint32_t length; /* a multiple of 4, up to 4096 */
    uint8_t header[8];
    const uint8_t *data;
} riser_send_message;

/* kind of an output */
#define RISER_WRITE 1u
#define RISER_READ 2u
#define RISER_ATOMIC 3u
#define RISER_COMPLETE 4u
#define RISER_ABANDON 5u   /* nobody will ever answer the request: as.token */
#define RISER_INTERRUPT 6u /* raises as.vector */
#define RISER_INTX 7u      /* as.asserted: the level of INTx */
#define RISER_PME 8u       /* asks for attention */
#define RISER_SEND_MESSAGE 9u

typedef struct riser_output {
    uint32_t kind;
    uint32_t reserved;
    union {
        riser_dma_write write;
        riser_dma_read read;
        riser_dma_atomic atomic;
        riser_completion completion;
        riser_send_message message;
        uint32_t token;
        uint32_t vector;
        uint32_t asserted;
    } as;
} riser_output;

/* ---- the device ---- */

typedef struct riser_device_ops {
    uint32_t abi;  /* RISER_DEVICE_ABI */
    uint32_t size; /* sizeof(riser_device_ops) */

    /* A device of these settings, the text of the lab, as it is after power-on: reset is not called at the
     * start; or NULL, with why in error. */
    riser_device *(*create)(const char *settings, char *error, size_t error_bytes);
    void (*destroy)(riser_device *device);

    /* What comes in. Those behind dma_done may be NULL: such requests are refused with Unsupported Request, or dropped. */
    void (*reset)(riser_device *device, uint64_t now_ps, uint32_t kind);
    void (*read)(riser_device *device, uint64_t now_ps, const riser_read *read);
    void (*write)(riser_device *device, uint64_t now_ps, const riser_write *write);
    void (*dma_done)(riser_device *device, uint64_t now_ps, const riser_dma_done *done);
    void (*atomic)(riser_device *device, uint64_t now_ps, const riser_atomic *atomic);
    void (*config)(riser_device *device, uint64_t now_ps, const riser_config *config);
    void (*message)(riser_device *device, uint64_t now_ps, const riser_message *message);
    void (*timer)(riser_device *device, uint64_t now_ps);

    /* The next output of a class: 1 where there is one, which is accepted with that; else 0. */
    int (*poll_output)(riser_device *device, uint64_t now_ps, uint32_t class_, riser_output *output);
    /* The next request that the device has taken, whose receive buffer is free with that; NULL: each is taken as it comes. */
    int (*poll_taken)(riser_device *device, uint32_t *token);
    /* When to call timer next, or RISER_NEVER; NULL: never. */
    uint64_t (*next_timer)(const riser_device *device);
} riser_device_ops;

#if defined(_WIN32)
#define RISER_EXPORT __declspec(dllexport)
#else
#define RISER_EXPORT __attribute__((visibility("default")))
#endif

/* What a library defines. It gets the version of riser's ABI, and gives ops of its own, or NULL where it has none of that version. */
RISER_EXPORT const riser_device_ops *riser_device_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif

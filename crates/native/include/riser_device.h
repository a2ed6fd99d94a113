/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A device of riser in C or C++: a shared library with one symbol, riser_device_entry. A slot of a lab uses it with
 * device = "native". docs/native.md describes when its functions are called and what riser rejects.
 *
 * A device sees transactions, not TLPs. One thread calls it, never recursively, and it must not block: a call delivers an input,
 * and riser polls for the resulting outputs. Times are picoseconds of virtual time. Numbers have the machine's byte order; data
 * are bytes in memory order. Pointers in an input are valid during the call. Data of an output belong to the device and must
 * stay valid until its next call.
 */
#ifndef RISER_DEVICE_H
#define RISER_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define RISER_DEVICE_ABI 1u

/* No time: no call is wanted. */
#define RISER_NEVER UINT64_MAX

/* The device. Its contents are private to the library. */
typedef struct riser_device riser_device;

/* Attributes (PCIe 5.0 2.2.6.3): bits of attr. */
#define RISER_NO_SNOOP 1u
#define RISER_RELAXED_ORDERING 2u
#define RISER_ID_BASED_ORDERING 4u

/* Status of riser_completion, the answer to a request (PCIe 5.0 2.2.9). */
#define RISER_SUCCESS 0u
#define RISER_UNSUPPORTED_REQUEST 1u
#define RISER_COMPLETER_ABORT 2u
#define RISER_RETRY 3u /* only for a deferrable write: the requester tries again later */

/* Status of riser_dma_done, the result of a DMA read or atomic. 0 is success. */
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

/* Kind of a reset of a function (PCIe 5.0 6.6). */
#define RISER_RESET_FUNDAMENTAL 0u
#define RISER_RESET_HOT 1u
#define RISER_RESET_FUNCTION_LEVEL 2u

/* Classes of output. Each class is polled separately, so that no class ever blocks another. */
#define RISER_POSTED 0u     /* RISER_WRITE, RISER_INTERRUPT, RISER_INTX, RISER_PME, RISER_SEND_MESSAGE */
#define RISER_NON_POSTED 1u /* RISER_READ, RISER_ATOMIC */
#define RISER_COMPLETION 2u /* RISER_COMPLETE, RISER_ABANDON */

/* ---- requests to the device ---- */

/* A read of a BAR: MRd, MRdLk, IORd. The device completes the request with length bytes. */
typedef struct riser_read {
    uint32_t token;  /* identifies the request until it is completed and taken */
    uint8_t bar;     /* 0 to 5 */
    uint8_t tc;      /* Traffic Class */
    uint8_t attr;
    uint8_t locked;  /* 1: MRdLk */
    uint64_t offset; /* in the BAR, of the first byte */
    uint32_t length;
    uint32_t reserved;
} riser_read;

/* A write of a BAR. The device only takes posted writes. It also completes non-posted writes (IOWr, DMWr), without data. */
typedef struct riser_write {
    uint32_t token;
    uint8_t bar;
    uint8_t tc;
    uint8_t attr;
    uint8_t flags; /* RISER_WRITE_... */
    uint64_t offset;
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data;    /* length bytes; NULL if bytes are only counted */
    const uint8_t *enables; /* NULL if all bytes are written; else one byte each, 0 if not written */
} riser_write;
#define RISER_WRITE_NON_POSTED 1u
#define RISER_WRITE_DEFERRABLE 2u /* RISER_RETRY is allowed */

/* An AtomicOp on a BAR. The device completes the request with the previous value. */
typedef struct riser_atomic {
    uint32_t token;
    uint8_t bar;
    uint8_t tc;
    uint8_t attr;
    uint8_t op;
    uint64_t offset;
    uint32_t value_bytes; /* size of the value: 4, 8, or 16 */
    uint32_t length;      /* of the operands: value_bytes, or twice that for RISER_COMPARE_SWAP (compare, then swap) */
    const uint8_t *operands;
} riser_atomic;

/*
 * An access to a configuration register that the lab assigns to the device. A read is completed with 4 bytes, a write with none.
 */
typedef struct riser_config {
    uint32_t token;
    uint16_t register_dw; /* DW index of the register */
    uint8_t byte_enables; /* one bit per byte */
    uint8_t is_write;
    uint32_t value; /* value of a write, each byte in its lane */
} riser_config;

/* A message with one of the codes listed in the lab. The device only takes the message. */
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

/* The end of a DMA read or atomic. Its id is free again. */
typedef struct riser_dma_done {
    uint32_t id;
    uint32_t status; /* 0, or RISER_DMA_... */
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data; /* all bytes in order; NULL if there are none, or if they are only counted */
} riser_dma_done;

/* ---- outputs of the device ---- */

/* Writes host memory, up to 1 MiB at any alignment. riser splits it into TLPs. */
typedef struct riser_dma_write {
    uint64_t address;
    uint32_t length;
    uint8_t tc;
    uint8_t attr;
    uint8_t reserved[2];
    const uint8_t *data; /* NULL: bytes are only counted */
} riser_dma_write;

/* Reads host memory; riser_dma_done delivers the data. A read of 0 bytes flushes earlier writes. */
typedef struct riser_dma_read {
    uint64_t address;
    uint32_t id; /* chosen by the device, unique among outstanding requests */
    uint32_t length;
    uint8_t tc;
    uint8_t attr;
    uint8_t counted; /* 1: no data wanted, only the number of bytes */
    uint8_t reserved[5];
} riser_dma_read;

/* An AtomicOp on host memory; riser_dma_done delivers the previous value. */
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

/* Completes a request, exactly once: with success and all requested bytes, or with an error and no bytes. */
typedef struct riser_completion {
    uint32_t token;
    uint32_t status;
    uint32_t length;
    uint32_t reserved;
    const uint8_t *data; /* NULL: bytes are only counted */
} riser_completion;

/* Sends a message. riser fills in the requester ID. */
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
#define RISER_ABANDON 5u   /* the request as.token will never be completed */
#define RISER_INTERRUPT 6u /* raises as.vector */
#define RISER_INTX 7u      /* as.asserted: level of INTA; needs intx = true in the lab */
#define RISER_PME 8u       /* sends a PME; needs pme = true in the lab */
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

    /* Creates a device from the settings in the lab, in its state after power-on; riser does not call reset first.
     * If this is not possible, returns NULL and writes the reason to error. */
    riser_device *(*create)(const char *settings, char *error, size_t error_bytes);
    void (*destroy)(riser_device *device);

    /* Inputs. The functions after dma_done may be NULL: such requests are then completed with Unsupported Request, or dropped. */
    void (*reset)(riser_device *device, uint64_t now_ps, uint32_t kind);
    void (*read)(riser_device *device, uint64_t now_ps, const riser_read *read);
    void (*write)(riser_device *device, uint64_t now_ps, const riser_write *write);
    void (*dma_done)(riser_device *device, uint64_t now_ps, const riser_dma_done *done);
    void (*atomic)(riser_device *device, uint64_t now_ps, const riser_atomic *atomic);
    void (*config)(riser_device *device, uint64_t now_ps, const riser_config *config);
    void (*message)(riser_device *device, uint64_t now_ps, const riser_message *message);
    void (*timer)(riser_device *device, uint64_t now_ps);

    /*
     * Writes the next output of a class to output and returns 1, or returns 0 without
     * an output. A returned output is accepted. Before each call, all of output is 0.
     */
    int (*poll_output)(riser_device *device, uint64_t now_ps, uint32_t class_, riser_output *output);
    /*
     * Writes the token of the next request that the device has taken and returns 1, or
     * returns 0. Taking frees the receive buffer. NULL: every request is taken
     * immediately.
     */
    int (*poll_taken)(riser_device *device, uint32_t *token);
    /* Returns when to call timer next, or RISER_NEVER. NULL: never. */
    uint64_t (*next_timer)(const riser_device *device);
} riser_device_ops;

#if defined(_WIN32)
#define RISER_EXPORT __declspec(dllexport)
#else
#define RISER_EXPORT __attribute__((visibility("default")))
#endif

/*
 * Entry point of a library. Receives riser's ABI version. Returns the library's
 * functions, or NULL if the library does not support this version.
 */
RISER_EXPORT const riser_device_ops *riser_device_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif

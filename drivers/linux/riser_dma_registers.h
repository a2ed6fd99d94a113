/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * DMA engine, BAR 0: offsets, and masks of fields.
 * Written by registers/generate.py from registers/dma_engine.rdl: change that.
 */
#ifndef RISER_DMA_REGISTERS_H
#define RISER_DMA_REGISTERS_H

#define RISER_DMA_BAR_BYTES 0x10000

/* Identification; 32 bits */
#define RISER_DMA_ID 0x0
#define RISER_DMA_ID_VALUE 0x414d4452U

/* Version; 32 bits */
#define RISER_DMA_VERSION 0x4
#define RISER_DMA_VERSION_VALUE 0x10000U
#define RISER_DMA_VERSION_MINOR 0xffffU
#define RISER_DMA_VERSION_MAJOR 0xffff0000U

/* Engines; 32 bits */
#define RISER_DMA_ENGINES 0x8
#define RISER_DMA_ENGINES_H2D_ENGINES 0xffU
#define RISER_DMA_ENGINES_D2H_ENGINES 0xff00U
#define RISER_DMA_ENGINES_DEVICE_ENTRIES 0xffff0000U

/* Limits; 32 bits */
#define RISER_DMA_LIMITS 0xc
#define RISER_DMA_LIMITS_PAYLOAD_BYTES 0xffffU
#define RISER_DMA_LIMITS_READ_BYTES 0xffff0000U

/* Window; 32 bits */
#define RISER_DMA_WINDOW 0x10
#define RISER_DMA_WINDOW_PLACES 0xffffU
#define RISER_DMA_WINDOW_SHARED 0x10000U

/* Function; 32 bits */
#define RISER_DMA_FUNCTION 0x14
#define RISER_DMA_FUNCTION_NUMBER 0xffffU
#define RISER_DMA_FUNCTION_FUNCTIONS 0xffff0000U

/* Control; 32 bits */
#define RISER_DMA_CONTROL 0x18
#define RISER_DMA_CONTROL_RESET 0x1U

/* Interrupt status; 32 bits */
#define RISER_DMA_INTERRUPTS 0x1c
#define RISER_DMA_INTERRUPTS_PENDING 0xffffU

/* Weight; 32 bits */
#define RISER_DMA_WEIGHT 0x20
#define RISER_DMA_WEIGHT_WEIGHT 0xffU

/* Weights of virtual functions; 32 bits */
#define RISER_DMA_VF_WEIGHTS(n) (0x400 + (n) * 0x4)
#define RISER_DMA_VF_WEIGHTS_COUNT 256
#define RISER_DMA_VF_WEIGHTS_WEIGHT 0xffU

/* MSI-X table; 256 bytes */
#define RISER_DMA_MSIX_TABLE 0x2000
#define RISER_DMA_MSIX_TABLE_BYTES 0x100

/* MSI-X Pending Bit Array; 8 bytes */
#define RISER_DMA_MSIX_PENDING 0x2800
#define RISER_DMA_MSIX_PENDING_BYTES 0x8

/* Engine: one of 16 */
#define RISER_DMA_ENGINE(n) (0x1000 + (n) * 0x80)
#define RISER_DMA_ENGINE_COUNT 16
#define RISER_DMA_ENGINE_STRIDE 0x80
/* Control; 32 bits */
#define RISER_DMA_ENGINE_CONTROL 0x0
#define RISER_DMA_ENGINE_CONTROL_ENABLE 0x1U
#define RISER_DMA_ENGINE_CONTROL_HOST_RING 0x2U
#define RISER_DMA_ENGINE_CONTROL_ABORT 0x4U
#define RISER_DMA_ENGINE_CONTROL_WRITE_STATUS 0x8U
#define RISER_DMA_ENGINE_CONTROL_LOGIC 0xf00U
/* Status; 32 bits */
#define RISER_DMA_ENGINE_STATUS 0x4
#define RISER_DMA_ENGINE_STATUS_BUSY 0x1U
#define RISER_DMA_ENGINE_STATUS_ERROR 0xff00U
/* Ring; 64 bits */
#define RISER_DMA_ENGINE_RING 0x8
/* Entries; 32 bits */
#define RISER_DMA_ENGINE_ENTRIES 0x10
/* Posted (doorbell); 32 bits */
#define RISER_DMA_ENGINE_POSTED 0x14
/* Done; 32 bits */
#define RISER_DMA_ENGINE_DONE 0x18
/* Failed; 32 bits */
#define RISER_DMA_ENGINE_FAILED 0x1c
/* Write-back; 64 bits */
#define RISER_DMA_ENGINE_WRITE_BACK 0x20
/* Coalescing; 32 bits */
#define RISER_DMA_ENGINE_COALESCING 0x28
#define RISER_DMA_ENGINE_COALESCING_COUNT 0xffffU
#define RISER_DMA_ENGINE_COALESCING_TIME_US 0xffff0000U
/* Kind; 32 bits */
#define RISER_DMA_ENGINE_KIND 0x2c
#define RISER_DMA_ENGINE_KIND_D2H 0x1U
#define RISER_DMA_ENGINE_KIND_VECTOR 0xffff0000U
/* Seed; 64 bits */
#define RISER_DMA_ENGINE_SEED 0x30
/* Bytes moved; 64 bits */
#define RISER_DMA_ENGINE_BYTES 0x38

/* Descriptor: one of 1024 */
#define RISER_DMA_DESCRIPTOR(n) (0x8000 + (n) * 0x20)
#define RISER_DMA_DESCRIPTOR_COUNT 1024
#define RISER_DMA_DESCRIPTOR_STRIDE 0x20
/* Address; 64 bits */
#define RISER_DMA_DESCRIPTOR_ADDRESS 0x0
/* Bytes; 64 bits */
#define RISER_DMA_DESCRIPTOR_BYTES 0x8
/* Flags; 32 bits */
#define RISER_DMA_DESCRIPTOR_FLAGS 0x10
#define RISER_DMA_DESCRIPTOR_FLAGS_INTERRUPT 0x1U
#define RISER_DMA_DESCRIPTOR_FLAGS_MORE 0x2U
/* Status; 32 bits */
#define RISER_DMA_DESCRIPTOR_STATUS 0x14
#define RISER_DMA_DESCRIPTOR_STATUS_CODE 0xffU
/* Moved; 64 bits */
#define RISER_DMA_DESCRIPTOR_MOVED 0x18

/* logic kind */
/*
 * H2D: data are words of 8 bytes that count up from SEED; others are errors.
 * D2H: makes such words.
 */
#define RISER_DMA_LOGIC_KIND_INTEGERS 0
/* H2D: takes all. D2H: gives zeros. */
#define RISER_DMA_LOGIC_KIND_PLAIN 1
/*
 * H2D: hands its data to the D2H engine of the same number. D2H: writes what
 * comes from there.
 */
#define RISER_DMA_LOGIC_KIND_LOOP_BACK 2

/* error code */
/* No error. */
#define RISER_DMA_ERROR_CODE_NONE 0
/* Done: all bytes were moved. */
#define RISER_DMA_ERROR_CODE_OK 1
/* BYTES is zero, or more than 2^40. */
#define RISER_DMA_ERROR_CODE_SIZE 2
/* The bytes cross 2^64. */
#define RISER_DMA_ERROR_CODE_RANGE 3
/* A reserved bit of FLAGS is set. */
#define RISER_DMA_ERROR_CODE_FLAGS 4
/* Host memory was not read: UR, CA, a poisoned completion or a completion timeout. */
#define RISER_DMA_ERROR_CODE_READ 5
/* Host memory was not written: Bus Master Enable is clear. */
#define RISER_DMA_ERROR_CODE_WRITE 6
/* The data were read, and are not those that the user logic expects. */
#define RISER_DMA_ERROR_CODE_DATA 7
/* ABORT was written, or a piece before it in the same chain has failed. */
#define RISER_DMA_ERROR_CODE_ABORTED 8
/* The descriptor itself could not be read from host memory. */
#define RISER_DMA_ERROR_CODE_FETCH 9
/*
 * More descriptors are posted than the ring has, or ENTRIES is not legal. The
 * engine stands still until it is enabled anew.
 */
#define RISER_DMA_ERROR_CODE_RING 10

#endif /* RISER_DMA_REGISTERS_H */

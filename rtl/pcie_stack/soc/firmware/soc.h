/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Addresses of the SoC and access to its registers. */
#pragma once
#include <stdint.h>

enum {
    UART = 0x10001000,
    FINISH = 0x10002000,
    MSI_ADDRESS = 0x10003000,  /* of the root complex: no device answers there */
    COMPLEX = 0x20000000,
    ECAM = 0x30000000,
    MEMORY32 = 0x40000000,
    PLIC = 0x0c000000,
};
enum { IRQ_MSI = 2 };

static inline uint8_t read8(uintptr_t at) { return *(volatile uint8_t *)at; }
static inline uint32_t read32(uintptr_t at) { return *(volatile uint32_t *)at; }
static inline uint64_t read64(uintptr_t at) { return *(volatile uint64_t *)at; }
static inline void write8(uintptr_t at, uint8_t value) { *(volatile uint8_t *)at = value; }
static inline void write32(uintptr_t at, uint32_t value) { *(volatile uint32_t *)at = value; }
static inline void write64(uintptr_t at, uint64_t value) { *(volatile uint64_t *)at = value; }
static inline void fence(void) { __asm__ volatile("fence iorw, iorw" ::: "memory"); }
static inline uint64_t cycles(void)
{
    uint64_t value;
    __asm__ volatile("csrr %0, mcycle" : "=r"(value));
    return value;
}

void finish(int status) __attribute__((noreturn));
void print(const char *text);
void print_hex(uint64_t value, int digits);
void print_decimal(uint64_t value);

/* Each program has its own. */
int main(void);
void trap(uint64_t cause, uint64_t address);

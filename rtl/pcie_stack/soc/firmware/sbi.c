/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The supervisor binary interface that a kernel needs on this SoC: console output, timer and shutdown. It also emulates `rdtime`, which Rocket does not have,
 * and enables the root complex.
 */
#include "soc.h"

enum { MTIMECMP = 0x02004000, MTIME = 0x0200bff8 };
enum { SET_TIMER = 0, PUT_CHARACTER = 1, GET_CHARACTER = 2, FENCE_FIRST = 5, FENCE_LAST = 7, SHUTDOWN = 8, BASE = 0x10, TIME = 0x54494d45, RESET = 0x53525354 };
enum { ILLEGAL = 2, ECALL = 9, A0 = 10, A1 = 11, A6 = 16, A7 = 17 };

#define TIMER_INTERRUPT (1ull << 63 | 7)
#define MTIE (1ul << 7)
#define STIP (1ul << 5)
#define MPRV (1ul << 17)
#define MXR (1ul << 19)
#define NOT_SUPPORTED (-2l)

#define get(name) ({ uint64_t value_; __asm__ volatile("csrr %0, " #name : "=r"(value_)); value_; })
#define put(name, value) __asm__ volatile("csrw " #name ", %0" ::"r"((uint64_t)(value)))
#define set(name, bits) __asm__ volatile("csrs " #name ", %0" ::"r"((uint64_t)(bits)))
#define clear(name, bits) __asm__ volatile("csrc " #name ", %0" ::"r"((uint64_t)(bits)))

/* Prepares supervisor mode. Returns the address of the device tree. */
uint64_t prepare(void) __asm__("main");
uint64_t prepare(void)
{
    /* Supervisor and user mode may access all memory. */
    put(pmpaddr0, ~0ull);
    put(pmpcfg0, 0x1f);
    /* All exceptions but illegal instructions and calls of the supervisor, and all interrupts of the supervisor. */
    put(medeleg, 0xb1fb);
    put(mideleg, 0x222);
    put(mcounteren, 7);
    put(mepc, KERNEL);
    put(mstatus, 1 << 11);
    put(satp, 0);
    write32(COMPLEX + 0x04, 1);
    return TREE;
}

static void set_timer(uint64_t at)
{
    write64(MTIMECMP, at);
    clear(mip, STIP);
    set(mie, MTIE);
}

static int64_t base(uint64_t function, uint64_t extension)
{
    switch (function) {
    case 0: return 1 << 24;
    case 1: return 0x7253;
    case 2: return 1;
    case 3: return extension <= SHUTDOWN || extension == BASE || extension == TIME || extension == RESET;
    default: return 0;
    }
}

static void call(uint64_t *frame)
{
    uint64_t extension = frame[A7], function = frame[A6], argument = frame[A0];

    /* Calls of version 0.1 return a value; the others return an error and a value. */
    frame[A0] = 0;
    if (extension == SET_TIMER)
        set_timer(argument);
    else if (extension == PUT_CHARACTER)
        write8(UART, argument);
    else if (extension == GET_CHARACTER)
        frame[A0] = -1;
    else if (extension >= FENCE_FIRST && extension <= FENCE_LAST)
        __asm__ volatile("fence.i; sfence.vma");
    else if (extension == SHUTDOWN || extension == RESET)
        finish(0);
    else if (extension == BASE)
        frame[A1] = base(function, argument);
    else if (extension == TIME && function == 0)
        set_timer(argument);
    else
        frame[A0] = NOT_SUPPORTED;
    put(mepc, get(mepc) + 4);
}

/* The instruction at `address` of the mode that trapped. */
static uint32_t instruction_at(uint64_t address)
{
    uint32_t low, high;

    __asm__ volatile("csrs mstatus, %3\n lhu %0, 0(%2)\n lhu %1, 2(%2)\n csrc mstatus, %3" : "=&r"(low), "=&r"(high) : "r"(address), "r"(MPRV | MXR));
    return high << 16 | low;
}

/* Hands an exception to the supervisor, as hardware does for delegated ones. */
static void delegate(uint64_t cause)
{
    uint64_t status = get(mstatus), previous = status >> 11 & 1, enabled = status >> 1 & 1;

    put(sepc, get(mepc));
    put(scause, cause);
    put(stval, get(mtval));
    put(mepc, get(stvec));
    clear(mstatus, 1 << 1 | 1 << 5 | 1 << 8 | 3 << 11);
    set(mstatus, previous << 8 | enabled << 5 | 1 << 11);
}

void machine_trap(uint64_t *frame) __asm__("trap");
void machine_trap(uint64_t *frame)
{
    uint64_t cause = get(mcause);

    if (cause == TIMER_INTERRUPT) {
        clear(mie, MTIE);
        set(mip, STIP);
        return;
    }
    if (cause == ECALL)
        return call(frame);
    if (cause == ILLEGAL) {
        uint32_t instruction = instruction_at(get(mepc));

        /* csrrs rd, time, x0 */
        if ((instruction & 0xfffff07f) == 0xc0102073) {
            frame[instruction >> 7 & 31] = read64(MTIME);
            put(mepc, get(mepc) + 4);
            return;
        }
        return delegate(cause);
    }
    print("sbi: trap ");
    print_hex(cause, 16);
    print(" at ");
    print_hex(get(mepc), 16);
    print(" value ");
    print_hex(get(mtval), 16);
    print("\n");
    finish(3);
}

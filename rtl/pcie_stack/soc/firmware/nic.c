/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The latency test of the NIC (Chipyard study, §6.2): sends frames and receives them back from the cable. Prints, for each size of frames, the cycles of FRAMES frames, the
 * NIC's cycles with reads, with writes, and with either in flight, and the page table walks of the IOMMU.
 *
 * - NEAR: 1 for the NIC on the core's bus
 * - BATCH: 0: one frame at a time, with a register access for each step. Otherwise frames whose requests are written, and whose completions are taken, together
 * - IN_FLIGHT: reads, and writes, of 64 bytes in flight
 * - TRANSLATE: IOMMU off (0), on (1), and on with all translations forgotten before each frame or batch (2)
 */
#include "pci.h"

enum { LONGEST = 1536, NIC_ON_BUS = 0x10010000, NIC_ID = 0x4e491234 };
enum { SEND = 0x00, RECEIVE = 0x08, SENT = 0x10, RECEIVED = 0x14, COUNTS = 0x18, ALL_SENT = 0x20, ALL_RECEIVED = 0x28, SENDING = 0x40, RECEIVING = 0x48, EITHER = 0x50, LIMIT = 0x58 };
enum { TARGETS = BATCH ? BATCH : 1, WARM_UP = BATCH ? BATCH : 2 };
enum { IOMMU_ROOT = 0x10004000, IOMMU_COUNTS = 0x10004008, IOMMU_FAULT = 0x10004010, ROOT_PORT = 0x30000000, RAM = 0x80000000, SHIFT = 0x40000000, READ = 3, READ_WRITE = 7 };

static const int sizes[] = { 1500, 64 };
static uint8_t source[LONGEST] __attribute__((aligned(64))), expected[LONGEST] __attribute__((aligned(64))), target[TARGETS][LONGEST] __attribute__((aligned(4096)));
static uint64_t tables[3][512] __attribute__((aligned(4096)));
static struct function found[8];

static uint64_t entry(uintptr_t page, int flags)
{
    return page >> 12 << 10 | flags;
}

/* The first 2 MiB of RAM are at SHIFT above their address. Devices may write only to the pages of `target`. */
static void map(void)
{
    uintptr_t first = (uintptr_t)target & ~0xfff, end = (uintptr_t)target + sizeof(target);

    tables[0][(uint32_t)(RAM + SHIFT) >> 30] = entry((uintptr_t)tables[1], 1);
    tables[1][0] = entry((uintptr_t)tables[2], 1);
    for (int n = 0; n < 512; n++) {
        uintptr_t page = (uint32_t)RAM + ((uintptr_t)n << 12);

        tables[2][n] = entry(page, page >= first && page < end ? READ_WRITE : READ);
    }
    fence();
    write64(IOMMU_ROOT, (uintptr_t)tables[0] | 1);
}

static void forget(void)
{
    if (TRANSLATE == 2)
        write64(IOMMU_ROOT, (uintptr_t)tables[0] | 1);
}

/* The address that the NIC uses for a buffer. */
static uint64_t dma(const void *buffer)
{
    return (uintptr_t)buffer + (TRANSLATE ? SHIFT : 0);
}

void trap(uint64_t cause, uint64_t address)
{
    print("trap ");
    print_hex(cause, 16);
    print(" at ");
    print_hex(address, 16);
    print("\n");
    finish(2);
}

static void fail(const char *what)
{
    print("nic: ");
    print(what);
    print("\n");
    finish(1);
}

/* Max_Payload_Size of 256 bytes. */
static void set_payload(uintptr_t config)
{
    uintptr_t control = config + pci_capability(config, 0x10) + 8;

    write32(control, (read32(control) & 0xff1f) | 1 << 5);
}

static uintptr_t find(void)
{
    if (NEAR)
        return NIC_ON_BUS;
    if (!pci_link_up())
        fail("the link is down");
    int count = pci_enumerate(found, 8);

    for (int n = 0; n < count; n++) {
        set_payload(found[n].config);
        if (found[n].id == NIC_ID) {
            write32(found[n].config + 4, 0x0006);
            return found[n].bar[0];
        }
    }
    fail("no such function");
    return 0;
}

static void send(uintptr_t nic, uint64_t address, int bytes)
{
    write64(nic + SEND, address | (uint64_t)bytes << 48);
}

static void frame(uintptr_t nic, int bytes)
{
    write64(nic + RECEIVE, dma(target[0]));
    send(nic, dma(source), bytes);
    while (!(uint32_t)read64(nic + COUNTS))
        ;
    read32(nic + SENT);
    while (!(read64(nic + COUNTS) >> 32))
        ;
    if (read32(nic + RECEIVED) != (uint32_t)bytes)
        fail("a frame of another size came back");
}

static void batch(uintptr_t nic, int bytes)
{
    for (int n = 0; n < BATCH; n++)
        write64(nic + RECEIVE, dma(target[n]));
    for (int n = 0; n < BATCH; n++)
        send(nic, dma(source), bytes);
    for (int received = 0; received < BATCH;)
        for (uint64_t sizes = read64(nic + ALL_RECEIVED); sizes; sizes >>= 16, received++)
            if ((sizes & 0xffff) != (uint64_t)bytes)
                fail("a frame of another size came back");
    for (int sent = 0; sent < BATCH;)
        sent += read64(nic + ALL_SENT);
}

static void frames(uintptr_t nic, int bytes, int count)
{
    for (int n = 0; n < count; n += TARGETS) {
        forget();
        if (BATCH)
            batch(nic, bytes);
        else
            frame(nic, bytes);
    }
}

static void check(void)
{
    const uint64_t *want = (const uint64_t *)expected;

    for (int n = 0; n < TARGETS; n++)
        for (int word = 0; word < LONGEST / 8; word++)
            if (((const uint64_t *)target[n])[word] != want[word])
                fail("a byte of a frame is wrong");
}

static void measure(uintptr_t nic, int bytes)
{
    for (int n = 0; n < LONGEST; n++) {
        source[n] = n * 5 + (n >> 8) + bytes;
        expected[n] = n < bytes ? source[n] : 0xff;
    }
    for (int n = 0; n < TARGETS; n++)
        for (int word = 0; word < LONGEST / 8; word++)
            ((uint64_t *)target[n])[word] = ~0ul;
    fence();
    frames(nic, bytes, WARM_UP);
    uint64_t sending = read64(nic + SENDING), receiving = read64(nic + RECEIVING), either = read64(nic + EITHER);
    uint64_t walks = read64(IOMMU_COUNTS), start = cycles();

    frames(nic, bytes, FRAMES);
    uint64_t taken = cycles() - start;

    sending = read64(nic + SENDING) - sending;
    receiving = read64(nic + RECEIVING) - receiving;
    either = read64(nic + EITHER) - either;
    walks = (read64(IOMMU_COUNTS) - walks) & 0xffff;
    check();
    uint64_t values[] = { bytes, FRAMES, taken, sending, receiving, either, walks };

    print("frames");
    for (int n = 0; n < 7; n++) {
        print(" ");
        print_decimal(values[n]);
    }
    print("\n");
}

/* A frame from a page without translation comes back as ones, and one to a page without permission has no effect. */
static void check_faults(uintptr_t nic)
{
    uint64_t counts = read64(IOMMU_COUNTS);

    write64(nic + RECEIVE, dma(target[0]));
    send(nic, RAM, 64);
    while (!(read64(nic + COUNTS) >> 32))
        ;
    if (((uint64_t *)target[0])[0] != ~0ul || ((uint64_t *)target[0])[7] != ~0ul || read64(IOMMU_FAULT) != (uint32_t)RAM)
        fail("an address without translation was read");
    /* Unsupported Request Detected in the Device Status of the root port, and not Signaled Target Abort */
    if (!(read32(ROOT_PORT + 0x48) & 1u << 19) || read32(ROOT_PORT + 0x1c) & 1u << 27)
        fail("the read got another answer than Unsupported Request");
    read64(nic + ALL_RECEIVED);
    write64(nic + RECEIVE, dma(tables[0]));
    send(nic, dma(source + 64), 64);
    while (!(read64(nic + COUNTS) >> 32))
        ;
    while (read64(IOMMU_FAULT) != dma(tables[0]))
        ;
    if (*(volatile uint64_t *)tables[0])
        fail("a page without permission was written");
    if ((read64(IOMMU_COUNTS) >> 16) - (counts >> 16) != (1ul << 16 | 1))
        fail("other faults were counted");
}

int main(void)
{
    uintptr_t nic = find();

    write64(nic + LIMIT, IN_FLIGHT);
    if (TRANSLATE)
        map();
    for (unsigned n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
        measure(nic, sizes[n]);
    if (TRANSLATE)
        check_faults(nic);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Enumerates the hierarchy, has the device read and write memory, and checks the data and the MSI of each command. */
#include "pci.h"

enum { VECTOR = 5, BYTES = 600, GUARD = 64 };
enum { COMMAND = 4, STATUS = 8, SOURCE = 12, DESTINATION = 20, SIZE = 28, CHECKSUM = 32, IRQ_KIND = 36, IRQ_NUMBER = 40 };
enum { READ = 8, WRITE = 16, COPY = 32, READ_GOOD = 1, WRITE_GOOD = 4, COPY_GOOD = 16, RAISED = 64 };

static uint8_t source[BYTES] __attribute__((aligned(64))), target[BYTES + GUARD] __attribute__((aligned(64)));
static struct function found[8];
static volatile uint32_t vectors, interrupts;

void trap(uint64_t cause, uint64_t address)
{
    if (cause != (1ull << 63 | 11)) {
        print("trap ");
        print_hex(cause, 16);
        print(" at ");
        print_hex(address, 16);
        print("\n");
        finish(2);
    }
    uint32_t line = read32(PLIC + 0x200004);

    if (line == IRQ_MSI) {
        vectors |= read32(COMPLEX + 0x2c);
        write32(COMPLEX + 0x2c, vectors);
        interrupts++;
    }
    write32(PLIC + 0x200004, line);
}

static void check(const char *what, int good)
{
    print(what);
    print(good ? ": good\n" : ": FAILED\n");
    if (!good)
        finish(1);
}

static uint32_t checksum(const uint8_t *data, int size)
{
    uint32_t crc = ~0u;

    while (size--) {
        crc ^= *data++;
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return crc;
}

static void enable_interrupts(void)
{
    write32(COMPLEX + 0x20, MSI_ADDRESS);
    write32(COMPLEX + 0x24, 0);
    write32(COMPLEX + 0x30, 1 << VECTOR);
    write32(COMPLEX + 0x28, 1);
    write32(PLIC + 4 * IRQ_MSI, 1);
    write32(PLIC + 0x2000, 1 << IRQ_MSI);
    write32(PLIC + 0x200000, 0);
    __asm__ volatile("csrs mie, %0" ::"r"(1 << 11));
    __asm__ volatile("csrs mstatus, %0" ::"r"(1 << 3));
}

/* Runs a command, waits for its MSI, and returns the device's status. */
static uint32_t run(uint32_t registers, uint32_t command, int size)
{
    vectors = 0;
    fence();
    write32(registers + SIZE, size);
    write32(registers + COMMAND, command);
    for (int n = 0; n < 20000 && !vectors; n++)
        ;
    fence();
    return read32(registers + STATUS);
}

static void dma(uint32_t registers)
{
    for (int n = 0; n < BYTES; n++)
        source[n] = n * 7 + (n >> 8);
    write64(registers + SOURCE - 4, (uint64_t)(uintptr_t)source << 32);
    write32(registers + SOURCE + 4, 0);
    write32(registers + DESTINATION, (uintptr_t)target);
    write32(registers + DESTINATION + 4, 0);
    write32(registers + IRQ_KIND, 1);
    write32(registers + IRQ_NUMBER, 1);

    write32(registers + CHECKSUM, checksum(source, BYTES));
    check("device reads memory", run(registers, READ, BYTES) == (READ_GOOD | RAISED));
    write32(registers + CHECKSUM, checksum(source, BYTES) ^ 1);
    check("device sees a wrong checksum", run(registers, READ, BYTES) == (READ_GOOD << 1 | RAISED));

    for (int n = 0; n < BYTES + GUARD; n++)
        target[n] = 0xee;
    check("device writes memory", run(registers, WRITE, BYTES) == (WRITE_GOOD | RAISED));
    check("checksum of the written data", checksum(target, BYTES) == read32(registers + CHECKSUM));
    check("device copies memory", run(registers, COPY, BYTES) == (COPY_GOOD | RAISED));
    int same = 1;

    for (int n = 0; n < BYTES; n++)
        same &= target[n] == source[n];
    for (int n = BYTES; n < BYTES + GUARD; n++)
        same &= target[n] == 0xee;
    check("each copied byte, and the bytes after them", same);
    check("one MSI per command, with its vector", vectors == 1 << VECTOR && interrupts == 4);
}

int main(void)
{
    check("link is up", pci_link_up());
    int count = pci_enumerate(found, 8);
    struct function *device = 0;

    for (int n = 0; n < count; n++) {
        print("function ");
        print_hex((found[n].config - ECAM) >> 12, 4);
        print(" ");
        print_hex(found[n].id, 8);
        for (int bar = 0; bar < 6; bar++)
            if (found[n].bar_bytes[bar]) {
                print(" BAR ");
                print_decimal(bar);
                print(" ");
                print_decimal(found[n].bar_bytes[bar]);
                print(" bytes at ");
                print_hex(found[n].bar[bar], 8);
            }
        print("\n");
        if (found[n].id == 0xb500104c)
            device = &found[n];
    }
    check("device is found", device && device->bar_bytes[0] == 4096);
    uint32_t registers = device->bar[0];
    uint32_t msi = pci_capability(device->config, 5);

    check("device has MSI", msi != 0);
    enable_interrupts();
    write32(device->config + msi + 4, MSI_ADDRESS);
    write32(device->config + msi + 8, 0);
    write32(device->config + msi + 12, VECTOR);
    write32(device->config + msi, 1 << 16);
    write32(device->config + 4, 0x0002);
    write32(registers, 0x12345678);
    check("register of the device", read32(registers) == 0x12345678);
    /* The device answers a command without Bus Master Enable with a failure and no interrupt. */
    check("no DMA before bus mastering is enabled", run(registers, READ, 64) == READ_GOOD << 1 && !interrupts);
    write32(device->config + 4, 0x0006);
    dma(registers);
    print("enumerate: ");
    print_decimal(cycles());
    print(" cycles, all good\n");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The latency test of the NIC (Chipyard study, §6.2): sends one frame at a time, and receives it back from the cable. NEAR is 1 for the NIC on the core's bus. Prints, for
 * each size of frames, the cycles of FRAMES frames, and the NIC's cycles with reads, with writes, and with either in flight.
 */
#include "pci.h"

enum { FRAMES = 8, WARM_UP = 2, LONGEST = 1536, NIC_ON_BUS = 0x10010000, NIC_ID = 0x4e491234 };
enum { SEND = 0x00, RECEIVE = 0x08, SENT = 0x10, RECEIVED = 0x14, COUNTS = 0x18, SENDING = 0x40, RECEIVING = 0x48, EITHER = 0x50 };

static const int sizes[] = { 1500, 64 };
static uint8_t source[LONGEST] __attribute__((aligned(64))), target[LONGEST] __attribute__((aligned(64)));
static struct function found[8];

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

static void frame(uintptr_t nic, int bytes)
{
    write64(nic + RECEIVE, (uintptr_t)target);
    write64(nic + SEND, (uintptr_t)source | (uint64_t)bytes << 48);
    while (!(uint32_t)read64(nic + COUNTS))
        ;
    read32(nic + SENT);
    while (!(read64(nic + COUNTS) >> 32))
        ;
    if (read32(nic + RECEIVED) != (uint32_t)bytes)
        fail("a frame of another size came back");
}

static void measure(uintptr_t nic, int bytes)
{
    for (int n = 0; n < LONGEST; n++) {
        source[n] = n * 5 + (n >> 8) + bytes;
        target[n] = 0;
    }
    fence();
    for (int n = 0; n < WARM_UP; n++)
        frame(nic, bytes);
    uint64_t sending = read64(nic + SENDING), receiving = read64(nic + RECEIVING), either = read64(nic + EITHER), start = cycles();

    for (int n = 0; n < FRAMES; n++)
        frame(nic, bytes);
    uint64_t taken = cycles() - start;

    sending = read64(nic + SENDING) - sending;
    receiving = read64(nic + RECEIVING) - receiving;
    either = read64(nic + EITHER) - either;
    for (int n = 0; n < LONGEST; n++)
        if (target[n] != (n < bytes ? source[n] : 0))
            fail("a byte of a frame is wrong");
    uint64_t values[] = { bytes, FRAMES, taken, sending, receiving, either };

    print("frames");
    for (int n = 0; n < 6; n++) {
        print(" ");
        print_decimal(values[n]);
    }
    print("\n");
}

int main(void)
{
    uintptr_t nic = find();

    for (unsigned n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
        measure(nic, sizes[n]);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "pci.h"

enum { COMMAND = 0x04, HEADER = 0x0e, BAR = 0x10, BUSES = 0x18, WINDOW = 0x20, PREFETCHABLE = 0x24, CAPABILITIES = 0x34 };
enum { MEGABYTE = 1 << 20 };

static uint32_t next_address, next_bus;
static struct function *list;
static int count, room;

static uintptr_t config_of(uint32_t bus, uint32_t device)
{
    return ECAM + (bus << 20) + (device << 15);
}

int pci_link_up(void)
{
    write32(COMPLEX + 0x04, 1);
    for (int n = 0; n < 10000; n++)
        if (read32(COMPLEX + 0x08) & 1)
            return 1;
    return 0;
}

static void size_bars(struct function *of)
{
    for (int n = 0; n < 6; n++) {
        write32(of->config + BAR + 4 * n, ~0u);
        uint32_t mask = read32(of->config + BAR + 4 * n);

        if (!mask || mask & 1) {
            write32(of->config + BAR + 4 * n, 0);
            continue;
        }
        uint32_t bytes = ~(mask & ~15u) + 1;

        next_address = (next_address + bytes - 1) & ~(bytes - 1);
        of->bar[n] = next_address;
        of->bar_bytes[n] = bytes;
        write32(of->config + BAR + 4 * n, next_address);
        next_address += bytes;
        if ((mask & 6) == 4)
            write32(of->config + BAR + 4 * ++n, 0);
    }
}

static void scan(uint32_t bus, uint32_t devices);

static void bridge(uintptr_t config, uint32_t bus)
{
    uint32_t below = ++next_bus;

    /* The root port and a switch port lead to one device; the internal bus of a switch has more. */
    uint32_t capability = pci_capability(config, 0x10);
    uint32_t upstream = (read32(config + capability) >> 20 & 15) == 5;
    write32(config + BUSES, bus | below << 8 | 255 << 16);
    next_address = (next_address + MEGABYTE - 1) & ~(MEGABYTE - 1);
    uint32_t base = next_address;
    scan(below, upstream ? 32 : 1);
    next_address = (next_address + MEGABYTE - 1) & ~(MEGABYTE - 1);
    write32(config + BUSES, bus | below << 8 | next_bus << 16);
    /* A window with its limit below its base is closed. */
    write32(config + WINDOW, next_address > base ? base >> 16 | (next_address - 1) >> 16 << 16 : 0x0000fff0);
    write32(config + PREFETCHABLE, 0x0000fff0);
    write32(config + COMMAND, 0x0006);
}

static void scan(uint32_t bus, uint32_t devices)
{
    for (uint32_t device = 0; device < devices; device++) {
        uintptr_t config = config_of(bus, device);
        uint32_t id = read32(config);

        if (id == ~0u || count == room)
            continue;
        struct function *of = &list[count++];

        of->id = id;
        of->config = config;
        if ((read8(config + HEADER) & 0x7f) == 1)
            bridge(config, bus);
        else
            size_bars(of);
    }
}

int pci_enumerate(struct function *found, int most)
{
    list = found;
    room = most;
    count = 0;
    next_bus = 0;
    next_address = MEMORY32;
    scan(0, 1);
    return count;
}

uint32_t pci_capability(uintptr_t config, uint8_t id)
{
    uint32_t at = read8(config + CAPABILITIES) & ~3u;

    for (int n = 0; at && n < 48; n++, at = read8(config + at + 1) & ~3u)
        if (read8(config + at) == id)
            return at;
    return 0;
}

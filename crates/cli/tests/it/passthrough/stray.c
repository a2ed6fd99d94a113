// SPDX-License-Identifier: Apache-2.0 OR MIT
// `stray DEVICE h2d|d2h ADDRESS [BYTES]`: lets an engine of a DMA engine read or write that address, without a driver and
// with its ring in the device. Prints the status and the moved bytes of the descriptor.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../../../drivers/linux/riser_dma_registers.h"

static volatile uint8_t *bar;

static void die(const char *what) { perror(what); exit(1); }
static void put32(unsigned at, uint32_t value) { *(volatile uint32_t *)(bar + at) = value; }
static uint32_t get32(unsigned at) { return *(volatile uint32_t *)(bar + at); }
static void put64(unsigned at, uint64_t value)
{
    put32(at, value);
    put32(at + 4, value >> 32);
}

// Enables memory space and bus mastering, like a driver.
static void enable(const char *device)
{
    char path[128];
    uint16_t command = 6;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/config", device);
    int config = open(path, O_RDWR);
    if (config < 0 || pwrite(config, &command, 2, 4) != 2)
        die(path);
    close(config);
}

int main(int count, char **words)
{
    char path[128];

    if (count < 4)
        return 2;
    int d2h = !strcmp(words[2], "d2h");
    unsigned engine = RISER_DMA_ENGINE(d2h);
    uint64_t address = strtoull(words[3], NULL, 0), bytes = count > 4 ? strtoull(words[4], NULL, 0) : 4096;

    enable(words[1]);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource0", words[1]);
    int file = open(path, O_RDWR);
    bar = mmap(NULL, RISER_DMA_BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || bar == MAP_FAILED)
        die(path);
    unsigned ring = d2h ? get32(RISER_DMA_ENGINES) >> 16 : 0;
    put32(engine + RISER_DMA_ENGINE_CONTROL, 0);
    put32(engine + RISER_DMA_ENGINE_ENTRIES, 1);
    put32(engine + RISER_DMA_ENGINE_CONTROL, RISER_DMA_ENGINE_CONTROL_ENABLE | 1 << 8);
    put64(RISER_DMA_DESCRIPTOR(ring) + RISER_DMA_DESCRIPTOR_ADDRESS, address);
    put64(RISER_DMA_DESCRIPTOR(ring) + RISER_DMA_DESCRIPTOR_BYTES, bytes);
    put32(RISER_DMA_DESCRIPTOR(ring) + RISER_DMA_DESCRIPTOR_FLAGS, 0);
    put32(engine + RISER_DMA_ENGINE_POSTED, 1);
    for (int tries = 0; tries < 1000 && !get32(engine + RISER_DMA_ENGINE_DONE); tries++)
        usleep(1000);
    printf("%s %s: done %u, failed %u, status %u, error %u\n", words[2], words[3], get32(engine + RISER_DMA_ENGINE_DONE),
           get32(engine + RISER_DMA_ENGINE_FAILED), get32(RISER_DMA_DESCRIPTOR(ring) + RISER_DMA_DESCRIPTOR_STATUS),
           get32(engine + RISER_DMA_ENGINE_STATUS) >> 8);
    return 0;
}

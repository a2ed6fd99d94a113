// SPDX-License-Identifier: Apache-2.0 OR MIT
// A driver of the DMA engine in user space, for a guest. `probe uio DEVICE` uses uio_pci_generic and physical addresses.
// `probe vfio DEVICE intx|msi|msix` uses vfio-pci and its own addresses, which an IOMMU translates.
// `probe memory DEVICE SEED write|look` uses an address that all guests share. Prints one line for each result.
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../../../drivers/linux/riser_dma_registers.h"

#define H2D RISER_DMA_ENGINE(0)
#define D2H RISER_DMA_ENGINE(1)
#define DONE RISER_DMA_ENGINE_DONE
#define FAILED RISER_DMA_ENGINE_FAILED
#define SEED RISER_DMA_ENGINE_SEED
#define INTX RISER_DMA_INTERRUPTS
enum { PAGE = 4096, DATA = 1024, WRITTEN = 2048, BYTES = 256 };

static volatile uint8_t *bar;
static uint8_t *page;
static uint64_t bus; // address of the page for the device

static void die(const char *what) { perror(what); exit(1); }
static void put32(unsigned at, uint32_t value) { *(volatile uint32_t *)(bar + at) = value; }
static uint32_t get32(unsigned at) { return *(volatile uint32_t *)(bar + at); }
static void put64(unsigned at, uint64_t value) { *(volatile uint64_t *)(bar + at) = value; }

static void set_up(unsigned ring, uint64_t seed)
{
    unsigned n = ring == D2H;
    put32(ring + RISER_DMA_ENGINE_CONTROL, 0);
    put64(ring + RISER_DMA_ENGINE_RING, bus + 512 * n);
    put64(ring + RISER_DMA_ENGINE_WRITE_BACK, bus + WRITTEN + 64 * n);
    put64(ring + SEED, seed);
    put32(ring + RISER_DMA_ENGINE_ENTRIES, 1);
    put32(ring + RISER_DMA_ENGINE_CONTROL, RISER_DMA_ENGINE_CONTROL_ENABLE | RISER_DMA_ENGINE_CONTROL_HOST_RING);
}

// Starts one transfer of BYTES at `address`, followed by an interrupt.
static void transfer(unsigned ring, uint64_t address, uint32_t posted)
{
    uint64_t words[3] = { address, BYTES, RISER_DMA_DESCRIPTOR_FLAGS_INTERRUPT };
    memcpy(page + 512 * (ring == D2H), words, sizeof words);
    __sync_synchronize();
    put32(ring + RISER_DMA_ENGINE_POSTED, posted);
}

// True if the bytes are integers that count up from `first`.
static int is_stream(const uint8_t *bytes, uint64_t first)
{
    for (unsigned n = 0; n < BYTES / 8; n++)
        if (((const volatile uint64_t *)bytes)[n] != first + n) return 0;
    return 1;
}

static void uio(const char *device)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource0", device);
    int resource = open(path, O_RDWR), uio = open("/dev/uio0", O_RDWR);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/config", device);
    int config = open(path, O_RDWR);
    if (resource < 0 || uio < 0 || config < 0) die("open");
    bar = mmap(0, RISER_DMA_BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, resource, 0);
    page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
    if (bar == MAP_FAILED || page == MAP_FAILED) die("mmap");
    memset(page, 0, PAGE);
    uint64_t entry = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (pread(pagemap, &entry, 8, (uintptr_t)page / PAGE * 8) != 8) die("pagemap");
    bus = (entry & ((1ull << 55) - 1)) * PAGE;
    uint16_t command = 0x0006;
    if (pwrite(config, &command, 2, 4) != 2) die("command");
    set_up(D2H, 7);
    for (uint32_t turn = 1; turn <= 3; turn++) {
        uint32_t count = 0, seen;
        uint16_t status = 0;
        transfer(D2H, bus + DATA, turn);
        struct pollfd wait = { .fd = uio, .events = POLLIN };
        if (poll(&wait, 1, 5000) != 1 || read(uio, &count, 4) != 4) { printf("uio: no interrupt\n"); exit(1); }
        if (pread(config, &command, 2, 4) != 2 || pread(config, &status, 2, 6) != 2) die("config");
        seen = get32(INTX);
        put32(INTX, seen);
        printf("uio: count %u register %u disabled %u status %u", count, seen, command >> 10 & 1, status >> 3 & 1);
        if (pread(config, &status, 2, 6) != 2) die("config");
        printf(" cleared %u data %d\n", !(status >> 3 & 1), is_stream(page + DATA, 7 + 32 * (turn - 1)));
        command &= ~0x400;
        if (pwrite(config, &command, 2, 4) != 2) die("command");
    }
}

// Uses a page that several guests have at the same address. An option keeps their kernels from using it.
static void shared_address(const char *device, const char *seed, const char *what)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource0", device);
    int resource = open(path, O_RDWR), memory = open("/dev/mem", O_RDWR | O_SYNC);
    bus = 0x10000000;
    if (resource < 0 || memory < 0) die("open");
    bar = mmap(0, RISER_DMA_BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, resource, 0);
    page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, bus);
    if (bar == MAP_FAILED || page == MAP_FAILED) die("mmap");
    if (!strcmp(what, "write")) {
        set_up(D2H, strtoull(seed, 0, 10));
        transfer(D2H, bus + DATA, 1);
        for (int tries = 0; get32(D2H + DONE) != 1 && tries < 5000; tries++) usleep(1000);
    }
    printf("%s: done %u failed %u data %d\n", what, get32(D2H + DONE), get32(D2H + FAILED), is_stream(page + DATA, strtoull(seed, 0, 10)));
}

static int vfio_device(const char *device)
{
    char path[256], link[256];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", device);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0) die("iommu_group");
    link[length] = 0;
    snprintf(path, sizeof path, "/dev/vfio%s", strrchr(link, '/'));
    int container = open("/dev/vfio/vfio", O_RDWR), group = open(path, O_RDWR);
    if (container < 0 || group < 0) die(path);
    if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container)) die("container");
    if (ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU)) die("iommu");
    page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 0, PAGE);
    bus = 0x7654000;
    struct vfio_iommu_type1_dma_map map = {
        .argsz = sizeof map, .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
        .vaddr = (uintptr_t)page, .iova = bus, .size = PAGE,
    };
    if (ioctl(container, VFIO_IOMMU_MAP_DMA, &map)) die("map");
    int fd = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, device);
    if (fd < 0) die("device");
    return fd;
}

static int wait_event(int event)
{
    uint64_t count = 0;
    struct pollfd wait = { .fd = event, .events = POLLIN };
    return poll(&wait, 1, 5000) == 1 && read(event, &count, 8) == 8 ? (int)count : 0;
}

static void irqs(int fd, unsigned index, unsigned flags, unsigned count, const int *events)
{
    char bytes[sizeof(struct vfio_irq_set) + 2 * sizeof(int)];
    struct vfio_irq_set *set = (void *)bytes;
    *set = (struct vfio_irq_set){ .argsz = sizeof *set + (events ? count * sizeof(int) : 0), .flags = flags, .index = index, .count = count };
    if (events) memcpy(set->data, events, count * sizeof(int));
    if (ioctl(fd, VFIO_DEVICE_SET_IRQS, set)) die("irqs");
}

static void vfio(const char *device, const char *how)
{
    int fd = vfio_device(device);
    unsigned index = !strcmp(how, "intx") ? VFIO_PCI_INTX_IRQ_INDEX : !strcmp(how, "msi") ? VFIO_PCI_MSI_IRQ_INDEX : VFIO_PCI_MSIX_IRQ_INDEX;
    struct vfio_region_info region = { .argsz = sizeof region, .index = VFIO_PCI_BAR0_REGION_INDEX };
    struct vfio_region_info config = { .argsz = sizeof config, .index = VFIO_PCI_CONFIG_REGION_INDEX };
    struct vfio_irq_info info = { .argsz = sizeof info, .index = index };
    if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &region) || ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &config)) die("region");
    if (ioctl(fd, VFIO_DEVICE_GET_IRQ_INFO, &info)) die("irq info");
    bar = mmap(0, region.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, region.offset);
    if (bar == MAP_FAILED) die("bar");
    uint16_t command = 0x0006;
    if (pwrite(fd, &command, 2, config.offset + 4) != 2) die("command");
    int events[2] = { eventfd(0, 0), eventfd(0, 0) };
    unsigned vectors = info.count < 2 ? info.count : 2;
    printf("%s: %u of %u vectors\n", how, vectors, info.count);
    irqs(fd, index, VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, vectors, events);
    int of_h2d = events[0], of_d2h = events[vectors - 1];
    set_up(H2D, 7);
    set_up(D2H, 7);
    for (uint32_t turn = 1; turn <= 2; turn++) {
        transfer(D2H, bus + DATA, turn);
        printf("%s: d2h event %d", how, wait_event(of_d2h));
        if (index == VFIO_PCI_INTX_IRQ_INDEX) put32(INTX, 2), irqs(fd, index, VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK, 1, 0);
        printf(" data %d\n", is_stream(page + DATA, 7 + 32 * (turn - 1)));
        // The data that came from the device go back to it: it checks that the stream continues.
        for (unsigned n = 0; n < BYTES / 8; n++) ((uint64_t *)(page + DATA))[n] = 7 + 32 * (turn - 1) + n;
        transfer(H2D, bus + DATA, turn);
        printf("%s: h2d event %d", how, wait_event(of_h2d));
        if (index == VFIO_PCI_INTX_IRQ_INDEX) put32(INTX, 1), irqs(fd, index, VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK, 1, 0);
        printf(" done %u failed %u\n", get32(H2D + DONE), get32(H2D + FAILED));
    }
    // Unmapped addresses cannot be reached.
    transfer(H2D, bus + 16 * PAGE, 3);
    printf("%s: beyond event %d", how, wait_event(of_h2d));
    printf(" done %u failed %u\n", get32(H2D + DONE), get32(H2D + FAILED));
}

int main(int count, char **words)
{
    if (count == 3 && !strcmp(words[1], "uio")) uio(words[2]);
    else if (count == 4 && !strcmp(words[1], "vfio")) vfio(words[2], words[3]);
    else if (count == 5 && !strcmp(words[1], "memory")) shared_address(words[2], words[3], words[4]);
    else return 2;
    return 0;
}

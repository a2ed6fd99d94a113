// SPDX-License-Identifier: Apache-2.0 OR MIT
// Access to a PCI function from a program in user space: BARs and configuration space through sysfs, pages whose bus addresses come from
// /proc/self/pagemap, and interrupts that write into such a page. Needs root, and no IOMMU between the function and memory.

#ifndef FUNCTION_H
#define FUNCTION_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices"
#define BARS 6
#define PAGE 4096
#define HUGE_PAGE (2 << 20)
// The number of the page frame in an entry of pagemap.
#define FRAME ((1ull << 55) - 1)

struct function {
	int config;
	volatile uint8_t *bar[BARS];
	size_t bytes[BARS];
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint32_t get(const struct function *f, int at, int bytes)
{
	uint32_t value = 0;

	if (pread(f->config, &value, bytes, at) != bytes)
		fail("reading configuration space");
	return value;
}

static void set(const struct function *f, int at, int bytes, uint32_t value)
{
	if (pwrite(f->config, &value, bytes, at) != bytes)
		fail("writing configuration space");
}

// The offset of the capability, or 0 if the function lacks it.
static inline int capability(const struct function *f, int id)
{
	for (int at = get(f, 0x34, 1); at; at = get(f, at + 1, 1))
		if ((int)get(f, at, 1) == id)
			return at;
	return 0;
}

// Opens the function with this name, such as 10000:01:00.0.
static void open_function(struct function *f, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), DEVICES "/%s/config", name);
	f->config = open(path, O_RDWR);
	if (f->config < 0)
		fail(path);
	for (int n = 0; n < BARS; n++) {
		struct stat there;

		snprintf(path, sizeof(path), DEVICES "/%s/resource%d", name, n);
		int fd = open(path, O_RDWR | O_SYNC);
		if (fd < 0 || fstat(fd, &there) || !there.st_size)
			continue;
		f->bar[n] = mmap(NULL, there.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (f->bar[n] == MAP_FAILED)
			fail(path);
		f->bytes[n] = there.st_size;
		close(fd);
	}
}

// Opens the first function with these IDs.
static inline void find_function(struct function *f, uint16_t vendor, uint16_t device)
{
	DIR *all = opendir(DEVICES);
	struct dirent *entry;

	while (all && (entry = readdir(all))) {
		char path[512];
		uint16_t id[2] = { 0, 0 };

		snprintf(path, sizeof(path), DEVICES "/%s/config", entry->d_name);
		int config = open(path, O_RDONLY);
		if (config >= 0 && pread(config, id, 4, 0) == 4 && id[0] == vendor && id[1] == device) {
			close(config);
			open_function(f, entry->d_name);
			closedir(all);
			return;
		}
		close(config);
	}
	fprintf(stderr, "no function %04x:%04x\n", vendor, device);
	exit(1);
}

// The address at which devices reach this memory. The memory must be locked, so that it stays where it is.
static inline uint64_t bus_address(const void *at)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (pread(pagemap, &entry, 8, (uintptr_t)at / PAGE * 8) != 8 || !(entry & FRAME))
		fail("/proc/self/pagemap");
	close(pagemap);
	return (entry & FRAME) * PAGE + (uintptr_t)at % PAGE;
}

static inline uint8_t *map_memory(size_t bytes, int flags)
{
	int all = MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | flags;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, all, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	memset(at, 0, bytes);
	return at;
}

// 2 MiB that are contiguous for devices too.
static inline uint8_t *huge_page(void)
{
	int pages = open("/proc/sys/vm/nr_hugepages", O_WRONLY);

	if (pages < 0 || write(pages, "4", 1) != 1)
		fail("/proc/sys/vm/nr_hugepages");
	close(pages);
	return map_memory(HUGE_PAGE, MAP_HUGETLB);
}

static inline void set_up_msi(const struct function *f, int at, uint64_t to)
{
	int is_wide = get(f, at + 2, 2) & 0x80;

	set(f, at + 4, 4, to);
	if (is_wide)
		set(f, at + 8, 4, to >> 32);
	set(f, at + (is_wide ? 12 : 8), 2, 1);
	set(f, at + 2, 2, 1);
}

static inline void set_up_msix(const struct function *f, int at, uint64_t to)
{
	uint32_t where = get(f, at + 4, 4), count = (get(f, at + 2, 2) & 0x7ff) + 1;

	set(f, at + 2, 2, 0x8000);
	for (uint32_t n = 0; n < count && n < PAGE / 4; n++) {
		volatile uint32_t *entry = (volatile uint32_t *)(f->bar[where & 7] + (where & ~7u) + 16 * n);

		entry[0] = to + 4 * n;
		entry[1] = (to + 4 * n) >> 32;
		entry[2] = 1;
		entry[3] = 0;
	}
}

// Turns memory space and DMA on, and sets each vector of MSI-X, or the only one of MSI, to write 1 to its u32 at the bus address `to`.
static inline void set_up(const struct function *f, uint64_t to)
{
	int msi = capability(f, 0x05), msix = capability(f, 0x11);

	set(f, 4, 2, 6);
	if (msix)
		set_up_msix(f, msix, to);
	else if (msi)
		set_up_msi(f, msi, to);
}

#endif

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Vector 1 of DMA engines, masked and unmasked in every way: each function writes into memory of this program, and its MSI-X does too.
// Prints what the Pending Bit Array says and what has come, for one function after the other.
//
//   msix FUNCTION...

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define FUNCTIONS 8
#define ENABLE 0x8000
#define FUNCTION_MASK 0x4000
// Number of the page frame in an entry of pagemap.
#define FRAME ((1ull << 55) - 1)
// In the page of a function: where its interrupt arrives, its ring of four descriptors, its data.
#define ARRIVED 0
#define RING 0x100
#define DATA 0x800

struct function {
	int config, msix;
	volatile uint8_t *bar, *page;
	uint64_t bus;
	uint32_t posted;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint32_t *word(volatile uint8_t *base, int offset)
{
	return (uint32_t *)(base + offset);
}

#define REGISTER(f, offset) (*(volatile uint32_t *)word((f)->bar, offset))
#define MEMORY(f, offset) (*(volatile uint32_t *)word((f)->page, offset))
#define ENTRY(f, offset) REGISTER(f, 0x1010 + (offset))

static void control(struct function *f, uint16_t value)
{
	if (pwrite(f->config, &value, 2, f->msix + 2) != 2)
		fail("config");
}

static int open_file(const char *function, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", function, name);
	int fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		fail(path);
	return fd;
}

static void find_msix(struct function *f)
{
	uint8_t at, id[2];

	if (pread(f->config, &at, 1, 0x34) != 1)
		fail("config");
	while (at && pread(f->config, id, 2, at) == 2 && id[0] != 0x11)
		at = id[1];
	f->msix = at;
}

static void map_page(struct function *f)
{
	uint64_t entry;
	int pagemap = open("/proc/self/pagemap", O_RDONLY);

	f->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
	if (f->page == MAP_FAILED || pread(pagemap, &entry, 8, (uintptr_t)f->page / PAGE * 8) != 8 || !(entry & FRAME))
		fail("pagemap");
	close(pagemap);
	f->bus = (entry & FRAME) * PAGE;
}

static void set_up(struct function *f, const char *name)
{
	uint16_t command = 6;

	f->config = open_file(name, "config");
	f->bar = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, open_file(name, "resource0"), 0);
	if (f->bar == MAP_FAILED || pwrite(f->config, &command, 2, 4) != 2)
		fail(name);
	find_msix(f);
	map_page(f);
	REGISTER(f, 0x40) = f->bus + RING;
	REGISTER(f, 0x44) = (f->bus + RING) >> 32;
	REGISTER(f, 0x48) = 4;
	ENTRY(f, 0) = f->bus + ARRIVED;
	ENTRY(f, 4) = (f->bus + ARRIVED) >> 32;
	ENTRY(f, 8) = 0xa1;
	ENTRY(f, 12) = 1;
}

// One transfer to memory, whose end is told by vector 1.
static void interrupt(struct function *f)
{
	int at = RING + f->posted % 4 * 16;

	MEMORY(f, at) = f->bus + DATA;
	MEMORY(f, at + 4) = (f->bus + DATA) >> 32;
	MEMORY(f, at + 8) = 64;
	MEMORY(f, at + 12) = 1;
	REGISTER(f, 0x4c) = ++f->posted;
	for (int n = 0; n < 10000 && REGISTER(f, 0x60) != f->posted; n++)
		usleep(10);
}

static void say(struct function *f, const char *what)
{
	uint32_t pending = REGISTER(f, 0x1800);

	printf("%s: pending %x arrived %x\n", what, pending, MEMORY(f, ARRIVED));
	MEMORY(f, ARRIVED) = 0;
}

static void try_masks(struct function *f)
{
	interrupt(f);
	say(f, "MSI-X disabled");
	control(f, ENABLE);
	interrupt(f);
	say(f, "entry masked");
	interrupt(f);
	say(f, "twice");
	ENTRY(f, 12) = 0;
	say(f, "entry unmasked");
	interrupt(f);
	say(f, "nothing masked");
	control(f, ENABLE | FUNCTION_MASK);
	interrupt(f);
	say(f, "function masked");
	ENTRY(f, 12) = 1;
	control(f, ENABLE);
	say(f, "entry masked in its place");
	ENTRY(f, 8) = 0xb2;
	ENTRY(f, 12) = 0;
	say(f, "new data");
	REGISTER(f, 0x1800) = 0xff;
	say(f, "the array is read-only");
}

int main(int count, char **names)
{
	static struct function all[FUNCTIONS];

	count--;
	if (count > FUNCTIONS)
		return 2;
	for (int n = 0; n < count; n++)
		set_up(&all[n], names[n + 1]);
	for (int n = 0; n < count; n++) {
		printf("function %s\n", names[n + 1]);
		try_masks(&all[n]);
	}
	// All at once: each function's own memory is written to.
	for (int n = 0; n < count; n++) {
		ENTRY(&all[n], 8) = 0xc0 + n;
		interrupt(&all[n]);
	}
	for (int n = 0; n < count; n++)
		say(&all[n], names[n + 1]);
	return 0;
}

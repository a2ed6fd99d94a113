// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads sectors from the disk of the PCI Express study with gem5 (IISWC'18, section VI) into a buffer of 64 KiB. Works
// like the study's `dd` with direct I/O. Prints the rate in the fabric's time. For a lab with a `disk` and a `clock`.
//
//   cc -static -O2 -o dd dd.c
//   dd SECTORS

#include "clock.h"

#define DISK_DEVICE 0x0005
#define SECTOR 4096
#define MOST 10000000
#define BUFFER 0x00
#define SECTORS 0x08
#define CONTROL 0x0c
#define STATUS 0x10
#define DONE 2

int main(int argc, char **argv)
{
	struct function disk = { 0 };
	long sectors = argc == 2 ? atol(argv[1]) : 0;

	if (sectors < 1 || sectors > MOST) {
		fprintf(stderr, "dd SECTORS: expected 1 to %d\n", MOST);
		return 2;
	}
	find_function(&disk, CLOCK_VENDOR, DISK_DEVICE);
	volatile uint32_t *control = (volatile uint32_t *)(disk.bar[0] + CONTROL);
	volatile uint32_t *status = (volatile uint32_t *)(disk.bar[0] + STATUS);

	set(&disk, 4, 2, 6);
	*(volatile uint64_t *)(disk.bar[0] + BUFFER) = bus_address(huge_page());
	*(volatile uint32_t *)(disk.bar[0] + SECTORS) = sectors;

	uint64_t ps = shortest_ps(open_clock(), control, status);

	if (*status != DONE) {
		fprintf(stderr, "dd: the disk has failed\n");
		return 1;
	}
	printf("%ld bytes in %.3f us: %.3f Gb/s\n", sectors * SECTOR, ps / 1e6, sectors * SECTOR * 8e3 / ps);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs the test for which the lab configures its `pcie-bench` device (SIGCOMM'18). The window is at most 2 MiB of this
// program's memory. Prints the duration in the fabric's time. The lab needs a `clock` too. The lab file sets the number
// of transfers and their length.
//
//   cc -static -O2 -o pcie_bench pcie_bench.c
//   pcie_bench TRANSFERS BYTES

#include "clock.h"

#define BENCH_DEVICE 0x0003
#define WINDOW 0x00
#define CONTROL 0x08
#define STATUS 0x0c
#define ERROR 0x10
#define DONE 2

int main(int argc, char **argv)
{
	struct function bench = { 0 };
	double transfers = argc == 3 ? atof(argv[1]) : 0, bytes = argc == 3 ? atof(argv[2]) : 0;

	if (transfers < 1 || bytes < 1) {
		fprintf(stderr, "pcie_bench TRANSFERS BYTES: as in the lab's slot\n");
		return 2;
	}
	find_function(&bench, CLOCK_VENDOR, BENCH_DEVICE);
	volatile uint32_t *control = (volatile uint32_t *)(bench.bar[0] + CONTROL);
	volatile uint32_t *status = (volatile uint32_t *)(bench.bar[0] + STATUS);

	set(&bench, 4, 2, 6);
	*(volatile uint64_t *)(bench.bar[0] + WINDOW) = bus_address(huge_page());

	uint64_t ps = shortest_ps(open_clock(), control, status);

	if (*status != DONE) {
		uint32_t error = *(volatile uint32_t *)(bench.bar[0] + ERROR);

		fprintf(stderr, "pcie_bench: a transfer has failed, error %u\n", error);
		return 1;
	}
	printf("%.0f transfers in %.3f us: %.1f ns each, %.3f Gb/s\n", transfers, ps / 1e6, ps / 1e3 / transfers,
	       transfers * bytes * 8e3 / ps);
	return 0;
}

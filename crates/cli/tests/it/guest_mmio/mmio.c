// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures the cost of a BAR access in the guest by its own clock, for a bare vfio-user server's device and a clock function on the fabric,
// alternately. Prints medians over the rounds: of a read, and of a write among many before one read.
//
//   mmio ROUNDS ACCESSES

#include "../../../../../examples/guest/clock.h"
#include <time.h>

#define MOST 100

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int order(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return difference < 0 ? -1 : difference > 0;
}

int main(int argc, char **argv)
{
	static double us[2][2][MOST];
	struct function echo = { 0 };
	int rounds = argc == 3 ? atoi(argv[1]) : 0, accesses = argc == 3 ? atoi(argv[2]) : 0;

	if (rounds < 1 || rounds > MOST || accesses < 1)
		return 2;
	find_function(&echo, 0x1234, 0x5678);
	set(&echo, 4, 2, 2);
	volatile uint32_t *bars[2] = { (volatile uint32_t *)echo.bar[0], (volatile uint32_t *)open_clock() };

	for (int n = 0; n < 2 * rounds; n++) {
		volatile uint32_t *bar = bars[n % 2];
		double begin = now_us();

		for (int i = 0; i < accesses; i++)
			(void)bar[0];
		double between = now_us();

		for (int i = 0; i < accesses; i++)
			bar[16] = i;
		(void)bar[0];
		us[n % 2][0][n / 2] = (between - begin) / accesses;
		us[n % 2][1][n / 2] = (now_us() - between) / accesses;
	}
	for (int what = 0; what < 2; what++) {
		for (int whose = 0; whose < 2; whose++)
			qsort(us[whose][what], rounds, sizeof(double), order);
		double bare = us[0][what][rounds / 2], fabric = us[1][what][rounds / 2];

		printf("%s: bare %.2f us, on the fabric %.2f us, %.2f times\n", what ? "write" : "read", bare, fabric, fabric / bare);
	}
	return 0;
}

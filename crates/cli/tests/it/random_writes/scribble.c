// SPDX-License-Identifier: Apache-2.0 OR MIT
// Writes random values to every configuration register and every BAR of a guest's PCI domain for some seconds, and reads some of them.
// Occasionally it restores the old register values, so that functions below bridges become accessible again.
//
//   scribble SECONDS SEED

#include "../../../../../examples/guest/function.h"
#include <time.h>

#define MOST 64
// Only the beginning of a huge BAR is written.
#define MOST_BYTES (1 << 20)

struct target {
	char name[256];
	struct function f;
	uint32_t saved[64];
};

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void open_target(struct target *t, const char *name)
{
	snprintf(t->name, sizeof(t->name), "%s", name);
	open_function(&t->f, name);
	(void)!pread(t->f.config, t->saved, sizeof(t->saved), 0);
}

// Returns a value. Some values are likely to have a meaning.
static uint32_t value(void)
{
	uint64_t chosen = next() % 4;

	return chosen == 0 ? 0 : chosen == 1 ? UINT32_MAX : chosen == 2 ? 1u << next() % 32 : (uint32_t)next();
}

static void scribble(struct function *f)
{
	uint32_t word = value();
	int size = 1 << next() % 3, n = next() % (BARS + 2);

	if (n >= BARS || !f->bar[n]) {
		off_t at = next() % 3 ? next() % 256 : next() % 4096;

		at -= at % size;
		if (next() % 4)
			(void)!pwrite(f->config, &word, size, at);
		else
			(void)!pread(f->config, &word, size, at);
		return;
	}
	size_t bytes = f->bytes[n] < MOST_BYTES ? f->bytes[n] : MOST_BYTES;
	volatile uint8_t *at = f->bar[n] + next() % (next() % 2 ? 256 : bytes) / 8 * 8;

	switch (next() % 6) {
	case 0: *at = word; break;
	case 1: *(volatile uint16_t *)at = word; break;
	case 2: *(volatile uint32_t *)at = word; break;
	case 3: *(volatile uint64_t *)at = next(); break;
	case 4: (void)*(volatile uint32_t *)at; break;
	case 5: (void)*(volatile uint64_t *)at; break;
	}
}

// Orders bridges first, by bus number.
static int before(const void *a, const void *b)
{
	return strcmp(((const struct target *)a)->name, ((const struct target *)b)->name);
}

static void restore(const struct target *t)
{
	for (int n = 63; n > 0; n--)
		(void)!pwrite(t->f.config, &t->saved[n], 4, 4 * n);
}

int main(int argc, char **argv)
{
	static struct target targets[MOST];
	int count = 0;
	struct dirent *entry;
	DIR *all = opendir(DEVICES);
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	uint64_t writes = 0;

	state = 0x9e3779b97f4a7c15u ^ (argc > 2 ? strtoull(argv[2], NULL, 0) : 0);
	while (all && count < MOST && (entry = readdir(all)))
		if (!strncmp(entry->d_name, "10000:", 6))
			open_target(&targets[count++], entry->d_name);
	if (!count)
		return 1;
	qsort(targets, count, sizeof(targets[0]), before);
	while (time(NULL) < end) {
		for (int n = 0; writes % 4096 == 0 && n < count; n++)
			restore(&targets[n]);
		for (int n = 0; n < 256; n++, writes++)
			scribble(&targets[next() % count].f);
		if (writes % (1 << 16) == 0) {
			printf("%llu\n", (unsigned long long)writes);
			fflush(stdout);
		}
	}
	printf("%d functions, %llu accesses\n", count, (unsigned long long)writes);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs a script of accesses to a device as a user space program. Maps the BARs of a function from sysfs. DMA uses its own pages,
// whose addresses come from /proc/self/pagemap. Interrupts are MSI-X or one MSI, and write into a separate page. `script.rs` describes scripts.
//
//   agent FUNCTION SCRIPT

#include "../../../../../examples/guest/function.h"
#include <time.h>

#define PAGES 8
#define PATIENCE_MS 3000

static struct function function;
static uint8_t *pages[PAGES + 1];
static uint64_t bus[PAGES + 1];

static int is_late(struct timespec since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since.tv_sec) * 1000 + (now.tv_nsec - since.tv_nsec) / 1000000 > PATIENCE_MS;
}

// Parses a number, or @PAGE+OFFSET, which gives the address for the device.
static uint64_t value(const char *text)
{
	int page;
	unsigned int offset;

	if (sscanf(text, "@%d+%x", &page, &offset) == 2)
		return bus[page] + offset;
	return strtoull(text, NULL, 0);
}

static uint64_t load(volatile uint8_t *at, int bytes)
{
	switch (bytes) {
	case 1: return *at;
	case 2: return *(volatile uint16_t *)at;
	case 4: return *(volatile uint32_t *)at;
	default: return *(volatile uint64_t *)at;
	}
}

static void store(volatile uint8_t *at, int bytes, uint64_t value)
{
	switch (bytes) {
	case 1: *at = value; break;
	case 2: *(volatile uint16_t *)at = value; break;
	case 4: *(volatile uint32_t *)at = value; break;
	default: *(volatile uint64_t *)at = value;
	}
}

static const char *wait_for(volatile uint8_t *at, uint32_t mask, uint32_t wanted)
{
	struct timespec since;

	clock_gettime(CLOCK_MONOTONIC, &since);
	while (((uint32_t)load(at, 4) & mask) != wanted)
		if (is_late(since))
			return "late";
	return "ok";
}

static void fill(uint8_t *at, size_t bytes, uint64_t seed)
{
	for (size_t n = 0; n < bytes; n++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		at[n] = seed >> 56;
	}
}

static uint64_t sum(const uint8_t *at, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t n = 0; n < bytes; n++)
		hash = (hash ^ at[n]) * 0x100000001b3u;
	return hash;
}

// Returns the writable bits of a register, which is restored.
static uint32_t writable(int at)
{
	uint32_t before = get(&function, at, 4);

	set(&function, at, 4, UINT32_MAX);
	uint32_t ones = get(&function, at, 4);
	set(&function, at, 4, 0);
	uint32_t zeroes = get(&function, at, 4);
	set(&function, at, 4, before);
	return ones ^ zeroes;
}

static void list_capabilities(void)
{
	for (int at = get(&function, 0x34, 1); at; at = get(&function, at + 1, 1))
		printf(" %02x@%02x", get(&function, at, 1), at);
	for (int at = 0x100; at && get(&function, at, 4); at = get(&function, at, 4) >> 20)
		printf(" %04x@%03x", get(&function, at, 2), at);
	printf("\n");
}

// Does a function-level reset, and restores the settings of software.
static void reset_function(void)
{
	int at = capability(&function, 0x10);
	uint32_t saved[10];

	for (int n = 0; n < 10; n++)
		saved[n] = get(&function, 4 * n, 4);
	set(&function, at + 8, 2, get(&function, at + 8, 2) | 0x8000);
	usleep(100000);
	printf("command %04x\n", get(&function, 4, 2));
	for (int n = 9; n > 0; n--)
		set(&function, 4 * n, 4, saved[n]);
	set_up(&function, bus[PAGES]);
}

static void run(const char *verb, uint64_t *v)
{
	int width = atoi(verb + 1) / 8;

	if (!strcmp(verb, "sum"))
		printf("%016llx\n", (unsigned long long)sum(pages[v[0]] + v[1], v[2]));
	else if (!strcmp(verb, "await"))
		printf("%s\n", wait_for(pages[v[0]] + v[1], UINT32_MAX, v[2]));
	else if (!strcmp(verb, "until"))
		printf("%s\n", wait_for(function.bar[v[0]] + v[1], v[2], v[3]));
	else if (!strcmp(verb, "irq")) {
		printf("%s\n", wait_for(pages[PAGES] + 4 * v[0], UINT32_MAX, 1));
		store(pages[PAGES] + 4 * v[0], 4, 0);
	} else if (!strcmp(verb, "config"))
		printf("%0*x\n", (int)v[1] * 2, get(&function, v[0], v[1]));
	else if (!strcmp(verb, "writable"))
		printf("%08x\n", writable(v[0]));
	else if (!strcmp(verb, "capabilities"))
		list_capabilities();
	else if (!strcmp(verb, "reset"))
		reset_function();
	else if (verb[0] == 'r' && width)
		printf("%0*llx\n", width * 2, (unsigned long long)load(function.bar[v[0]] + v[1], width));
	else {
		if (!strcmp(verb, "fill"))
			fill(pages[v[0]] + v[1], v[2], v[3]);
		else if (!strcmp(verb, "put"))
			store(pages[v[0]] + v[1], v[2], v[3]);
		else if (!strcmp(verb, "set"))
			set(&function, v[0], v[1], v[2]);
		else if (verb[0] == 'w' && width)
			store(function.bar[v[0]] + v[1], width, v[2]);
		else {
			fprintf(stderr, "agent: no `%s`\n", verb);
			exit(1);
		}
		printf("done\n");
	}
}

int main(int argc, char **argv)
{
	char line[256];
	FILE *script = argc == 3 ? fopen(argv[2], "r") : NULL;

	if (!script)
		fail("agent FUNCTION SCRIPT");
	for (int n = 0; n <= PAGES; n++) {
		pages[n] = map_memory(PAGE, 0);
		bus[n] = bus_address(pages[n]);
	}
	open_function(&function, argv[1]);
	set_up(&function, bus[PAGES]);
	for (int number = 1; fgets(line, sizeof(line), script); number++) {
		char verb[64] = "", arguments[4][64] = { "0", "0", "0", "0" };
		uint64_t v[4];

		sscanf(line, "%63s %63s %63s %63s %63s", verb, arguments[0], arguments[1], arguments[2], arguments[3]);
		if (!verb[0] || verb[0] == '#')
			continue;
		for (int n = 0; n < 4; n++)
			v[n] = value(arguments[n]);
		line[strcspn(line, "\n")] = 0;
		printf("%d %s: ", number, line);
		run(verb, v);
	}
	return 0;
}

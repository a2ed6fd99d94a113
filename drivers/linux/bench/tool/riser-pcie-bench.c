// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The control program of pcie-bench (SIGCOMM'18, §5.4): runs one test on
 * /dev/riser_bench<N>, with riser's model or with the RTL, and prints its result.
 *
 *   cc -O2 -o riser-pcie-bench riser-pcie-bench.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../riser_bench.h"
#include "../riser_bench_registers.h"

#define LINE_BYTES 64
/* mbind(2) is not in every libc. */
#define MPOL_BIND 2
#define MAX_NODES 1024
/* Passes of the device over a window that it warms. */
#define WARMING_PASSES 2

static const char help[] =
	"riser-pcie-bench: run a test of pcie-bench on the benchmark device\n"
	"\n"
	"  --device FILE       default /dev/riser_bench0\n"
	"  --test NAME         LAT_RD, LAT_WRRD, BW_RD, BW_WR or BW_RDWR; default LAT_RD\n"
	"  --size BYTES        of a transfer: 1 to 4096; default 64\n"
	"  --window BYTES      of memory that the transfers use; default 8192\n"
	"  --offset BYTES      of a transfer from a cache line: 0 to 63; default 0\n"
	"  --pattern NAME      random or sequential; default random\n"
	"  --path NAME         dma, or command for transfers of at most 128 bytes; default dma\n"
	"  --outstanding N     transfers in flight in a bandwidth test; default 32\n"
	"  --transfers N       measured transfers; default 1000\n"
	"  --warm-up N         transfers before them; default 100\n"
	"  --seed N            of the random pattern; default 1\n"
	"  --cache STATE       cold, host-warm or device-warm; default host-warm\n"
	"  --node N            NUMA node of the memory; default: the device's node\n"
	"  --buffer BYTES      allocated memory, at most 4 MiB, or 1 GiB with --huge; default: the window, in pages\n"
	"  --huge SIZE         take the memory from huge pages of 2M or 1G\n"
	"  --cpu N             processor that warms the cache; default: any\n"
	"  --journal FILE      write the latencies to FILE, one per line, in ns\n"
	"  --timeout MS        maximum time of the test; default 60000\n"
	"\n"
	"  riser-pcie-bench --test LAT_RD --size 8 --cache cold\n"
	"  riser-pcie-bench --test BW_WR --size 256 --window 65536 --transfers 100000\n"
	"  riser-pcie-bench --test LAT_WRRD --cache device-warm --node 1 --journal latencies.txt\n"
	"  riser-pcie-bench --test LAT_RD --window 67108864 --huge 1G\n"
	"\n"
	"Exit status: 0 after a test, 1 if it failed, 2 for wrong arguments.\n";

static const char *const tests[] = { "LAT_RD", "LAT_WRRD", "BW_RD", "BW_WR", "BW_RDWR", NULL };
static const char *const patterns[] = { "sequential", "random", NULL };
static const char *const paths[] = { "dma", "command", NULL };
enum cache { COLD, HOST_WARM, DEVICE_WARM };
static const char *const huge_pages[] = { "2M", "1G", NULL };
static const unsigned int huge_shifts[] = { 21, 30 };
static const char *const caches[] = { "cold", "host-warm", "device-warm", NULL };

/* Errors of the device. */
static const struct {
	uint32_t code;
	const char *text;
} errors[] = {
	{ RISER_BENCH_ERROR_UNSUPPORTED_REQUEST, "a read was answered with Unsupported Request" },
	{ RISER_BENCH_ERROR_COMPLETER_ABORT, "a read was answered with Completer Abort" },
	{ RISER_BENCH_ERROR_POISONED, "the data of a read were poisoned" },
	{ RISER_BENCH_ERROR_COMPLETION_TIMEOUT, "a read was not answered" },
	{ RISER_BENCH_ERROR_MALFORMED, "a completion did not match its read" },
	{ RISER_BENCH_ERROR_BUS_MASTER_DISABLED, "Bus Master Enable is 0" },
	{ RISER_BENCH_ERROR_TOO_LONG, "a transfer is too long for the device" },
	{ RISER_BENCH_ERROR_WINDOW, "the address of the window is not legal" },
	{ RISER_BENCH_ERROR_TEST, "--test is not legal" },
	{ RISER_BENCH_ERROR_SIZE, "--size is not legal: expected 1 to 4096 together with --offset, at most 128 with --path command" },
	{ RISER_BENCH_ERROR_WINDOW_BYTES, "--window is not legal: expected at least --offset and --size, rounded up to 64; the RTL needs a power of two" },
	{ RISER_BENCH_ERROR_OFFSET, "--offset is not legal: expected 0 to 63" },
	{ RISER_BENCH_ERROR_PATTERN, "--pattern is not legal" },
	{ RISER_BENCH_ERROR_PATH, "--path is not legal" },
	{ RISER_BENCH_ERROR_OUTSTANDING, "--outstanding is not legal: expected 1 to 64 for the RTL, 1 to 1024 for the model" },
	{ RISER_BENCH_ERROR_TRANSFERS, "--transfers is not legal: expected at least 1, at most 16777216 in a latency test" },
	{ RISER_BENCH_ERROR_BUSY, "another program has started a test" },
	{ RISER_BENCH_ERROR_STOPPED, "the test was stopped" },
};

struct settings {
	const char *device;
	const char *journal;
	enum cache cache;
	struct riser_bench_buffer buffer;
	/* Base-2 logarithm of the size of huge pages; 0 without them. */
	unsigned int huge_shift;
	int cpu;
	struct riser_bench_run run;
};

/* Ends the program with the line of the help that has the option's legal values. */
static void wrong(const char *option, const char *value)
{
	char start[32];

	snprintf(start, sizeof(start), "  --%s ", option);
	const char *line = strstr(help, start);

	fprintf(stderr, "riser-pcie-bench: --%s %s is not legal: %.*s\n", option, value,
		(int)strcspn(line, "\n") - 2, line + 2);
	exit(2);
}

static void fail(const char *what)
{
	fprintf(stderr, "riser-pcie-bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t number(const char *option, const char *text, uint64_t most)
{
	char *end;

	errno = 0;
	uint64_t value = strtoull(text, &end, 0);

	if (errno || end == text || *end || *text == '-' || value > most)
		wrong(option, text);
	return value;
}

static uint32_t name(const char *option, const char *text, const char *const *names)
{
	for (uint32_t n = 0; names[n]; n++)
		if (!strcmp(names[n], text))
			return n;
	wrong(option, text);
	return 0;
}

/* ---- Arguments ---- */

enum choice {
	DEVICE, TEST, SIZE, WINDOW, OFFSET, PATTERN, PATH, OUTSTANDING, TRANSFERS, WARM_UP, SEED,
	CACHE, NODE, BUFFER, HUGE_PAGES, CPU, JOURNAL, TIMEOUT, HELP,
};

static const struct option options[] = {
	{ "device", required_argument, NULL, DEVICE },
	{ "test", required_argument, NULL, TEST },
	{ "size", required_argument, NULL, SIZE },
	{ "window", required_argument, NULL, WINDOW },
	{ "offset", required_argument, NULL, OFFSET },
	{ "pattern", required_argument, NULL, PATTERN },
	{ "path", required_argument, NULL, PATH },
	{ "outstanding", required_argument, NULL, OUTSTANDING },
	{ "transfers", required_argument, NULL, TRANSFERS },
	{ "warm-up", required_argument, NULL, WARM_UP },
	{ "seed", required_argument, NULL, SEED },
	{ "cache", required_argument, NULL, CACHE },
	{ "node", required_argument, NULL, NODE },
	{ "buffer", required_argument, NULL, BUFFER },
	{ "huge", required_argument, NULL, HUGE_PAGES },
	{ "cpu", required_argument, NULL, CPU },
	{ "journal", required_argument, NULL, JOURNAL },
	{ "timeout", required_argument, NULL, TIMEOUT },
	{ "help", no_argument, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static void set(struct settings *s, int option, const char *text)
{
	const char *long_name = options[option].name;

	switch ((enum choice)option) {
	case DEVICE: s->device = text; break;
	case JOURNAL: s->journal = text; break;
	case TEST: s->run.test = name(long_name, text, tests); break;
	case PATTERN: s->run.pattern = name(long_name, text, patterns); break;
	case PATH: s->run.path = name(long_name, text, paths); break;
	case CACHE: s->cache = name(long_name, text, caches); break;
	case SIZE: s->run.size = number(long_name, text, UINT32_MAX); break;
	case WINDOW: s->run.window_bytes = number(long_name, text, UINT64_MAX); break;
	case OFFSET: s->run.offset = number(long_name, text, UINT32_MAX); break;
	case OUTSTANDING: s->run.outstanding = number(long_name, text, UINT32_MAX); break;
	case TRANSFERS: s->run.transfers = number(long_name, text, UINT64_MAX); break;
	case WARM_UP: s->run.warm_up = number(long_name, text, UINT64_MAX); break;
	case SEED: s->run.seed = number(long_name, text, UINT64_MAX); break;
	case NODE: s->buffer.node = number(long_name, text, INT32_MAX); break;
	case BUFFER: s->buffer.bytes = number(long_name, text, RISER_BENCH_MAX_PAGES); break;
	case HUGE_PAGES: s->huge_shift = huge_shifts[name(long_name, text, huge_pages)]; break;
	case CPU: s->cpu = number(long_name, text, CPU_SETSIZE - 1); break;
	case TIMEOUT: s->run.timeout_ms = number(long_name, text, UINT32_MAX); break;
	case HELP:
		fputs(help, stdout);
		exit(0);
	}
}

static void parse(struct settings *s, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == '?')
			exit(2);
		set(s, option, optarg);
	}
	if (optind < argc) {
		fprintf(stderr, "riser-pcie-bench: unknown argument %s; --help lists the options\n", argv[optind]);
		exit(2);
	}
	uint64_t most = s->huge_shift ? RISER_BENCH_MAX_PAGES : RISER_BENCH_MAX_BUFFER;
	uint64_t page = s->huge_shift ? 1ULL << s->huge_shift : (uint64_t)sysconf(_SC_PAGESIZE);

	if (!s->buffer.bytes && s->run.window_bytes <= most)
		s->buffer.bytes = s->run.window_bytes ? s->run.window_bytes : page;
	s->buffer.bytes = (s->buffer.bytes + page - 1) / page * page;
	if (s->buffer.bytes > most) {
		fprintf(stderr, "riser-pcie-bench: --buffer %llu; expected at most %llu bytes%s\n",
			(unsigned long long)s->buffer.bytes, (unsigned long long)most,
			s->huge_shift ? "" : ", or 1 GiB with --huge");
		exit(2);
	}
	if (s->run.window_bytes > s->buffer.bytes) {
		fprintf(stderr, "riser-pcie-bench: --window %llu; expected at most the buffer, which has at most %llu bytes%s\n",
			(unsigned long long)s->run.window_bytes, (unsigned long long)most,
			s->huge_shift ? "" : ", or 1 GiB with --huge");
		exit(2);
	}
}

/* ---- The test ---- */

static void run(int device, struct riser_bench_run *run)
{
	if (ioctl(device, RISER_BENCH_RUN, run) < 0)
		fail(errno == ETIMEDOUT ? "the test did not end in time" : "cannot run the test");
	if (run->error == RISER_BENCH_ERROR_NONE)
		return;
	const char *text = "unknown error";

	for (size_t n = 0; n < sizeof(errors) / sizeof(errors[0]); n++)
		if (errors[n].code == run->error)
			text = errors[n].text;
	fprintf(stderr, "riser-pcie-bench: the device reports error %u: %s\n", run->error, text);
	exit(1);
}

/* Writes all units of the window by the device. */
static void warm_by_device(int device, const struct settings *s)
{
	uint64_t unit = (s->run.size + s->run.offset + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	struct riser_bench_run warming = s->run;

	warming.test = RISER_BENCH_TEST_BW_WR;
	warming.pattern = RISER_BENCH_PATTERN_SEQUENTIAL;
	warming.warm_up = 0;
	warming.transfers = unit ? WARMING_PASSES * (s->run.window_bytes / unit + 1) : 1;
	run(device, &warming);
}

/* The NUMA node of the device, or RISER_BENCH_NEAR without NUMA. */
static int device_node(const char *device)
{
	const char *name = strrchr(device, '/') ? strrchr(device, '/') + 1 : device;
	char path[256];
	int node = RISER_BENCH_NEAR;

	snprintf(path, sizeof(path), "/sys/class/misc/%s/device/numa_node", name);
	FILE *file = fopen(path, "r");

	if (file) {
		if (fscanf(file, "%d", &node) != 1 || node < 0)
			node = RISER_BENCH_NEAR;
		fclose(file);
	}
	return node;
}

/* Takes huge pages as the buffer. They stay with the device after this program has unmapped them. */
static void take_huge_pages(int device, const struct settings *s)
{
	struct riser_bench_pages pages = { .bytes = s->buffer.bytes };
	unsigned long nodes[MAX_NODES / 64] = { 0 };
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (int)(s->huge_shift << MAP_HUGE_SHIFT);
	void *start = mmap(NULL, pages.bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (start == MAP_FAILED)
		fail("no free huge pages; /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages has their number");
	int node = s->buffer.node == RISER_BENCH_NEAR ? device_node(s->device) : s->buffer.node;

	if (node >= MAX_NODES) {
		errno = EINVAL;
		fail("--node");
	}
	if (node != RISER_BENCH_NEAR) {
		nodes[node / 64] = 1UL << node % 64;
		if (syscall(SYS_mbind, start, pages.bytes, MPOL_BIND, nodes, MAX_NODES, 0) < 0)
			fail("--node");
	}
	pages.address = (uintptr_t)start;
	if (ioctl(device, RISER_BENCH_PAGES, &pages) < 0)
		fail(errno == EXDEV ? "the huge pages are not contiguous; expected one page, or an IOMMU" :
				      "cannot take the huge pages");
}

static void prepare(int device, struct settings *s)
{
	struct riser_bench_cache cache = { .bytes = s->run.window_bytes };
	cpu_set_t one;

	if (s->cpu >= 0) {
		CPU_ZERO(&one);
		CPU_SET(s->cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one) < 0)
			fail("--cpu");
	}
	if (s->huge_shift)
		take_huge_pages(device, s);
	else if (ioctl(device, RISER_BENCH_BUFFER, &s->buffer) < 0)
		fail("cannot allocate the buffer");
	cache.state = s->cache == HOST_WARM ? RISER_BENCH_WARM : RISER_BENCH_COLD;
	if (ioctl(device, RISER_BENCH_CACHE, &cache) < 0)
		fail("cannot prepare the cache");
	if (s->cache == DEVICE_WARM)
		warm_by_device(device, s);
}

/* ---- Results ---- */

static int compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Reads all latencies that the device has kept. */
static size_t read_journal(int device, const struct riser_bench_run *run, uint32_t **ticks)
{
	size_t count = run->ended < run->entries ? run->ended : run->entries, done = 0;

	*ticks = calloc(count, sizeof(**ticks));
	if (!*ticks)
		fail("memory for the latencies");
	while (done < 4 * count) {
		ssize_t more = read(device, (char *)*ticks + done, 4 * count - done);

		if (more <= 0)
			fail("cannot read the journal");
		done += more;
	}
	return count;
}

static void write_journal(const char *path, const uint32_t *ticks, size_t count, double tick_ns)
{
	FILE *file = fopen(path, "w");

	if (!file)
		fail(path);
	for (size_t n = 0; n < count; n++)
		fprintf(file, "%.3f\n", ticks[n] * tick_ns);
	if (fclose(file))
		fail(path);
}

static void print_latencies(int device, const struct settings *s)
{
	double tick_ns = s->run.tick_ps / 1e3, sum = 0;
	uint32_t *ticks;
	size_t count = read_journal(device, &s->run, &ticks);

	if (s->journal)
		write_journal(s->journal, ticks, count, tick_ns);
	for (size_t n = 0; n < count; n++)
		sum += ticks[n] * tick_ns;
	qsort(ticks, count, sizeof(*ticks), compare);
	/* The smallest value that is not below this part of all values. */
	#define AT(percent) (ticks[(count * (percent) + 99) / 100 - 1] * tick_ns)
	printf("%s %u B: %zu latencies in ns: average %.1f, min %.1f, median %.1f, 95 %% %.1f, 99 %% %.1f, max %.1f\n",
	       tests[s->run.test], s->run.size, count, sum / count, ticks[0] * tick_ns, AT(50), AT(95), AT(99),
	       ticks[count - 1] * tick_ns);
	if (count < s->run.ended)
		printf("the device has kept the first %zu of %llu latencies\n", count,
		       (unsigned long long)s->run.ended);
	free(ticks);
}

static void print_rate(const struct settings *s)
{
	double ns = s->run.elapsed * (s->run.tick_ps / 1e3), transfers = s->run.ended;

	printf("%s %u B: %.0f transfers in %.3f us: %.3f Gb/s, %.3f million transfers/s\n", tests[s->run.test],
	       s->run.size, transfers, ns / 1e3, transfers * s->run.size * 8 / ns, transfers * 1e3 / ns);
}

int main(int argc, char **argv)
{
	struct settings s = {
		.device = "/dev/riser_bench0",
		.cache = HOST_WARM,
		.buffer.node = RISER_BENCH_NEAR,
		.cpu = -1,
		.run = {
			.test = RISER_BENCH_TEST_LAT_RD,
			.size = 64,
			.window_bytes = 8192,
			.pattern = RISER_BENCH_PATTERN_RANDOM,
			.outstanding = 32,
			.transfers = 1000,
			.warm_up = 100,
			.seed = 1,
			.timeout_ms = 60000,
		},
	};

	parse(&s, argc, argv);
	int device = open(s.device, O_RDWR);

	if (device < 0)
		fail(s.device);
	prepare(device, &s);
	run(device, &s.run);
	if (s.run.test <= RISER_BENCH_TEST_LAT_WRRD)
		print_latencies(device, &s);
	else
		print_rate(&s);
	return 0;
}

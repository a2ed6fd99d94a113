/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Measures DMA. Each thread has a context, with tags from -t, and one outstanding request, as in upstream's LibTLP.
 * Counts the bytes of requests. Measures the latency of reads, from the call of dma_read to its return.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <libtlp.h>

#include "options.h"

#define THREADS_MAX 256
#define SAMPLES_MAX 1000000 /* latencies that a thread records */

enum pattern { FIXED, SEQUENTIAL, RANDOM };
static const char *const patterns[] = {"fixed", "sequential", "random"};

static struct {
	struct in_addr remote, local;
	unsigned requester, tag, threads;
	unsigned long addr, region, len, count;
	double seconds;
	int writes, apart, latency;
	enum pattern pattern;
} o = {.threads = 1, .region = 4 << 20, .len = 256, .seconds = 5};

struct worker {
	struct nettlp nt;
	pthread_t thread;
	unsigned long base, slots; /* first address; number of requests that fit from there */
	uint64_t random;
	unsigned long requests, failed, kept;
	uint32_t *samples; /* ns */
};

static volatile sig_atomic_t interrupted;

static void stop(int signal)
{
	(void)signal;
	interrupted = 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static unsigned long next_address(struct worker *w)
{
	switch (o.pattern) {
	case SEQUENTIAL: return w->base + w->requests % w->slots * o.len;
	case RANDOM: /* xorshift64: Marsaglia, 2003 */
		w->random ^= w->random << 13;
		w->random ^= w->random >> 7;
		w->random ^= w->random << 17;
		return w->base + w->random % w->slots * o.len;
	default: return w->base;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned char *buf = calloc(1, o.len);
	uint64_t start = now_ns(), at = start;

	while (buf && !interrupted && at - start < o.seconds * 1e9 && (!o.count || w->requests < o.count)) {
		unsigned long addr = next_address(w);
		ssize_t done = o.writes ? dma_write(&w->nt, addr, buf, o.len) : dma_read(&w->nt, addr, buf, o.len);
		uint64_t end = now_ns();
		if (done < 0 && w->failed++ == 0)
			perror(o.writes ? "dma_write" : "dma_read");
		if (done >= 0 && o.latency && w->kept < SAMPLES_MAX)
			w->samples[w->kept++] = end - at < UINT32_MAX ? end - at : UINT32_MAX;
		w->requests++;
		at = end;
	}
	/* Posted writes are done when a read after them is done. */
	if (buf && o.writes && dma_read(&w->nt, w->base, buf, 1) < 0)
		w->failed++;
	free(buf);
	return NULL;
}

static int open_worker(struct worker *w, unsigned n)
{
	unsigned long part = o.apart ? o.region / o.threads / o.len * o.len : 0;

	w->base = o.addr + n * part;
	w->slots = (o.apart ? part : o.region) / o.len;
	w->random = 0x9e3779b97f4a7c15ull * (n + 1);
	w->samples = o.latency ? malloc(SAMPLES_MAX * sizeof(*w->samples)) : NULL;
	w->nt.remote_addr = o.remote;
	w->nt.local_addr = o.local;
	w->nt.requester = o.requester;
	w->nt.tag = o.tag + n;
	w->nt.dir = DMA_ISSUED_BY_LIBTLP;
	return o.latency && !w->samples ? -1 : nettlp_init(&w->nt);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void show_latency(struct worker *w)
{
	uint32_t *all;
	unsigned long n = 0;

	for (unsigned i = 0; i < o.threads; i++)
		n += w[i].kept;
	all = malloc((n ? n : 1) * sizeof(*all));
	if (!all || !n) {
		free(all);
		return;
	}
	n = 0;
	for (unsigned i = 0; i < o.threads; n += w[i++].kept)
		memcpy(all + n, w[i].samples, w[i].kept * sizeof(*all));
	qsort(all, n, sizeof(*all), by_size);
	printf("latency of %lu: min %.1f, median %.1f, p99 %.1f, max %.1f us\n", n, all[0] / 1e3, all[n / 2] / 1e3,
	       all[n * 99 / 100] / 1e3, all[n - 1] / 1e3);
	free(all);
}

static void usage(const char *name)
{
	fprintf(stderr,
		"%s: measures DMA reads and writes through a NetTLP adapter\n\n"
		"  -r ADDRESS  the adapter\n"
		"  -l ADDRESS  this host (any of its addresses)\n"
		"  -b BB:DD.F  requester id, hexadecimal (00:00.0)\n"
		"  -t TAG      tag of the first thread (0)\n"
		"  -d read|write\n"
		"  -a ADDRESS  region, hexadecimal (0)\n"
		"  -s BYTES    its size (4194304)\n"
		"  -L BYTES    of a request (256)\n"
		"  -N COUNT    threads (1)\n"
		"  -R same|diff  all threads use the region, or a part each (same)\n"
		"  -P fixed|sequential|random  addresses (fixed)\n"
		"  -T SECONDS  how long (5)\n"
		"  -c COUNT    requests of each thread (any)\n"
		"  -M          latency of reads\n",
		name);
	exit(2);
}

static int choice(const char *word, const char *const *words, int count)
{
	for (int n = 0; n < count; n++)
		if (strcmp(word, words[n]) == 0)
			return n;
	return -1;
}

static void read_command_line(int argc, char **argv)
{
	static const char *const directions[] = {"read", "write"}, *const regions[] = {"same", "diff"};
	unsigned bus = 0, device = 0, function = 0;
	int ch, pattern = FIXED, ok = 1;

	while ((ch = getopt(argc, argv, "r:l:b:t:d:a:s:L:N:R:P:T:c:Mh")) != -1) {
		switch (ch) {
		case 'r': ok &= inet_pton(AF_INET, optarg, &o.remote) == 1; break;
		case 'l': ok &= inet_pton(AF_INET, optarg, &o.local) == 1; break;
		case 'b': ok &= sscanf(optarg, "%x:%x.%x", &bus, &device, &function) >= 2; break;
		case 't': o.tag = strtoul(optarg, NULL, 0); break;
		case 'd': o.writes = choice(optarg, directions, 2); ok &= o.writes >= 0; break;
		case 'a': o.addr = strtoul(optarg, NULL, 16); break;
		case 's': o.region = strtoul(optarg, NULL, 0); break;
		case 'L': o.len = strtoul(optarg, NULL, 0); break;
		case 'N': o.threads = strtoul(optarg, NULL, 0); break;
		case 'R': o.apart = choice(optarg, regions, 2); ok &= o.apart >= 0; break;
		case 'P': pattern = choice(optarg, patterns, 3); ok &= pattern >= 0; break;
		case 'T': o.seconds = strtod(optarg, NULL); break;
		case 'c': o.count = strtoul(optarg, NULL, 0); break;
		case 'M': o.latency = 1; break;
		default: ok = 0;
		}
	}
	ok &= o.remote.s_addr != 0 && bus < 256 && device < 32 && function < 8;
	ok &= o.threads >= 1 && o.threads <= THREADS_MAX && o.tag + o.threads <= 256;
	ok = ok && o.len > 0 && o.len <= o.region / (o.apart ? o.threads : 1);
	if (!ok)
		usage(argv[0]);
	o.requester = bus << 8 | device << 3 | function;
	o.pattern = pattern;
	o.latency = o.latency && !o.writes;
}

int main(int argc, char **argv)
{
	static struct worker w[THREADS_MAX];
	unsigned long requests = 0, failed = 0;
	unsigned n;

	read_command_line(argc, argv);
	signal(SIGINT, stop);
	for (n = 0; n < o.threads; n++)
		if (open_worker(&w[n], n) < 0) {
			perror("nettlp_init");
			return 1;
		}
	uint64_t start = now_ns();
	for (n = 0; n < o.threads; n++)
		if (pthread_create(&w[n].thread, NULL, work, &w[n]) != 0) {
			perror("pthread_create");
			return 1;
		}
	for (n = 0; n < o.threads; n++) {
		pthread_join(w[n].thread, NULL);
		requests += w[n].requests;
		failed += w[n].failed;
		close(w[n].nt.sockfd);
	}
	unsigned long done = requests > failed ? requests - failed : 0;
	double seconds = (now_ns() - start) / 1e9;
	printf("%s, %s, %lu B, %u threads: %lu requests, %lu failed, in %.3f s: %.0f/s, %.3f Gb/s\n",
	       o.writes ? "write" : "read", patterns[o.pattern], o.len, o.threads, requests, failed, seconds,
	       done / seconds, done * o.len * 8 / seconds / 1e9);
	if (o.latency)
		show_latency(w);
	for (n = 0; n < o.threads; n++)
		free(w[n].samples);
	return failed > 0;
}

// SPDX-License-Identifier: MIT
/*
 * The paper's tests (ReConFig'15, §IV-E). Buffers of ascending integers go to the device, which checks them, and come from the
 * device, and are checked here. Prints the rate, which includes the setup of descriptors.
 */
#define _GNU_SOURCE
#include "libriser_dma.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *usage =
	"riser-dma-integers [OPTION]... DEVICE...\n"
	"\n"
	"  -d, --direction h2d|d2h  only one direction [default: both]\n"
	"  -s, --size BYTES         one size, a multiple of 8 [default: 1 KiB to 4 MiB]\n"
	"  -n, --count COUNT        transfers of each size [default: 16]\n"
	"  -e, --engine N           engine of each direction [default: 0]\n"
	"  -p, --polling            poll instead of using interrupts\n"
	"  -b, --batch              start all transfers of a size by one call, with a registered buffer\n"
	"  -g, --gap                skip one integer, which the device must detect\n"
	"      --huge               only huge pages (`echo 16 >/proc/sys/vm/nr_hugepages` allocates some)\n"
	"      --small              only ordinary pages [default: both, if there are huge pages]\n"
	"\n"
	"Exit status 1 if a transfer failed or an integer was wrong.\n";

struct options {
	bool h2d, d2h, polling, batch, gap, huge, small;
	size_t size;
	unsigned int count, engine;
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Runs transfers one after another; the integers continue from one to the next. */
static int one_by_one(struct riser_dma *dma, const struct options *options, unsigned int direction, void *buffer, size_t size,
		      uint64_t *first, double *spent)
{
	uint64_t *words = buffer;
	size_t n, count = size / sizeof(*words);

	for (n = 0; direction == RISER_DMA_H2D && n < count; n++)
		words[n] = *first + n;
	if (direction == RISER_DMA_H2D && options->gap)
		words[count / 2]++;
	if (direction == RISER_DMA_D2H)
		memset(buffer, 0xa5, size);
	double begun = seconds();
	int error = direction == RISER_DMA_H2D ? riser_dma_send(dma, options->engine, buffer, size)
					       : riser_dma_receive(dma, options->engine, buffer, size);
	*spent += seconds() - begun;
	for (n = 0; !error && direction == RISER_DMA_D2H && n < count; n++)
		if (words[n] != *first + n) {
			fprintf(stderr, "integer %zu is %#llx, expected %#llx\n", n, (unsigned long long)words[n],
				(unsigned long long)(*first + n));
			return -EBADMSG;
		}
	*first += count;
	return error;
}

/* Runs all transfers of a batch at once. Each ring entry has its own part of the buffer. */
static int all_at_once(struct riser_dma *dma, const struct options *options, unsigned int direction, void *buffer, size_t size,
		       uint64_t *first, double *spent)
{
	struct riser_dma_batch *batch;
	struct riser_dma_completion done;
	uint64_t *words = buffer;
	size_t n, count = size * options->count / sizeof(*words);
	unsigned int places = 1, taken = 0;
	uint32_t handle;
	int error;

	while (places < options->count)
		places *= 2;
	error = riser_dma_batch_open(dma, places, &batch);
	if (error)
		return error;
	error = riser_dma_register_buffer(dma, buffer, size * options->count, true, &handle);
	if (error)
		goto close;
	for (n = 0; n < count; n++)
		words[n] = direction == RISER_DMA_H2D ? *first + n + (options->gap && n >= count / 2) : 0;
	double begun = seconds();
	for (n = 0; n < options->count; n++) {
		struct riser_dma_submission *next = riser_dma_batch_next(batch);

		next->op = (uint8_t)direction;
		next->flags = RISER_DMA_BY_HANDLE | (n + 1 == options->count && !options->polling ? RISER_DMA_IRQ : 0);
		next->engine = (uint16_t)options->engine;
		next->handle = handle;
		next->buffer = n * size;
		next->size = size;
		next->user_data = n;
	}
	int entered = riser_dma_batch_enter(batch, options->count, 0);
	*spent += seconds() - begun;
	error = entered < 0 ? entered : 0;
	for (; riser_dma_batch_take(batch, &done); taken++) {
		if (!error && done.result)
			error = done.result;
		if (!error && (done.user_data != taken || done.moved != size))
			error = -EPROTO;
	}
	if (!error && taken != options->count)
		error = -EPROTO;
	for (n = 0; !error && direction == RISER_DMA_D2H && n < count; n++)
		if (words[n] != *first + n)
			error = -EBADMSG;
	*first += count;
	riser_dma_release_handle(dma, handle);
close:
	riser_dma_batch_close(batch);
	return error;
}

/* Returns the size of the buffer for transfers of a size. */
static size_t buffer_bytes(const struct options *options, size_t size)
{
	return size * (options->batch ? options->count : 1);
}

/* Tests one size of one direction, on a separate file. */
static int test(const char *path, const struct options *options, unsigned int direction, size_t size, bool huge)
{
	size_t bytes = buffer_bytes(options, size);
	uint64_t first = 0x1122334455667700;
	struct riser_dma *dma;
	double spent = 0;
	void *buffer;
	int error = riser_dma_open(path, &dma);

	if (error)
		return error;
	buffer = riser_dma_buffer(bytes, huge);
	if (!buffer) {
		error = -errno;
		goto close;
	}
	error = riser_dma_set_polling(dma, options->polling);
	if (!error)
		error = riser_dma_set_logic(dma, direction, options->engine, RISER_DMA_INTEGERS, first);
	if (!error && options->batch)
		error = all_at_once(dma, options, direction, buffer, size, &first, &spent);
	for (unsigned int n = 0; !error && !options->batch && n < options->count; n++)
		error = one_by_one(dma, options, direction, buffer, size, &first, &spent);
	printf("%s %s %s %zu B x %u: ", path, direction == RISER_DMA_H2D ? "h2d" : "d2h", huge ? "huge" : "small", size, options->count);
	if (options->gap && direction == RISER_DMA_H2D) {
		printf("%s\n", error == -EBADMSG ? "the gap was found" : "the gap was not found");
		error = error == -EBADMSG ? 0 : -EPROTO;
	} else if (error) {
		printf("%s\n", strerror(-error));
	} else {
		printf("%.3f Gb/s\n", (double)size * options->count * 8 / spent / 1e9);
	}
	riser_dma_buffer_free(buffer, bytes, huge);
close:
	riser_dma_close(dma);
	return error;
}

/* Returns whether there are this many bytes of huge pages. */
static bool are_huge(size_t bytes)
{
	void *buffer = riser_dma_buffer(bytes, true);

	if (buffer)
		riser_dma_buffer_free(buffer, bytes, true);
	return buffer;
}

static int tests(const char *path, const struct options *options)
{
	size_t from = options->size ? options->size : 1024, to = options->size ? options->size : 4 << 20;
	struct riser_dma *dma;
	int failed = riser_dma_open(path, &dma);

	if (failed) {
		fprintf(stderr, "%s: %s\n", path, strerror(-failed));
		return failed;
	}
	riser_dma_close(dma);
	for (int huge = 0; huge < 2; huge++)
		for (unsigned int direction = 0; direction < 2; direction++)
			for (size_t size = from; size <= to; size *= 2) {
				if (!(huge ? options->huge : options->small) || !(direction == RISER_DMA_H2D ? options->h2d : options->d2h))
					continue;
				int error = test(path, options, direction, size, huge);

				if (error)
					fprintf(stderr, "%s: %s %s %zu B: %s\n", path, direction == RISER_DMA_H2D ? "h2d" : "d2h",
						huge ? "huge" : "small", size, strerror(-error));
				failed |= error;
			}
	return failed;
}

/* Parses a count or size; false if it is invalid. */
static bool number(const char *text, unsigned long long most, unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "direction", required_argument, NULL, 'd' }, { "size", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'n' },     { "engine", required_argument, NULL, 'e' },
		{ "polling", no_argument, NULL, 'p' },	       { "batch", no_argument, NULL, 'b' },
		{ "gap", no_argument, NULL, 'g' },	       { "huge", no_argument, NULL, 'H' },
		{ "small", no_argument, NULL, 'S' },	       { "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options options = { .h2d = true, .d2h = true, .huge = true, .small = true, .count = 16 };
	unsigned long long value = 0;
	bool legal = true;
	int option, failed = 0;

	while ((option = getopt_long(argc, argv, "d:s:n:e:pbgh", names, NULL)) != -1) {
		switch (option) {
		case 'd':
			options.h2d = !strcmp(optarg, "h2d");
			options.d2h = !strcmp(optarg, "d2h");
			break;
		case 's':
			legal &= number(optarg, RISER_DMA_MAX_BYTES, &value) && value && !(value % 8);
			options.size = value;
			break;
		case 'n':
			legal &= number(optarg, UINT_MAX, &value) && value;
			options.count = (unsigned int)value;
			break;
		case 'e':
			legal &= number(optarg, UINT_MAX, &value);
			options.engine = (unsigned int)value;
			break;
		case 'p': options.polling = true; break;
		case 'b': options.batch = true; break;
		case 'g': options.gap = true; break;
		case 'H': options.small = false; break;
		case 'S': options.huge = false; break;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	}
	if (optind == argc || !legal || (options.batch && options.count > RISER_DMA_MAX_TRANSFERS) || !(options.h2d || options.d2h) ||
	    !(options.huge || options.small)) {
		fputs(usage, stderr);
		return 2;
	}
	if (options.huge && options.small && !are_huge(buffer_bytes(&options, options.size ? options.size : 4 << 20))) {
		fputs("skipped huge pages: there are none, or too few (/proc/sys/vm/nr_hugepages)\n", stderr);
		options.huge = false;
	}
	for (; optind < argc; optind++)
		failed |= tests(argv[optind], &options);
	return failed ? 1 : 0;
}

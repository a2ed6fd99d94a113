// SPDX-License-Identifier: Apache-2.0 OR MIT
// Many threads write numbered blocks until the device fails or the time is over. The program then waits for the device, and reads all blocks: each must
// contain the number of its last acknowledged write, or of a later attempted one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 32, BLOCK = 4096, BLOCKS = 256, WORDS = BLOCK / 8 };

static const char *path;
static int flags;
static time_t end;

struct part {
	unsigned number;
	uint64_t acknowledged[BLOCKS], tried[BLOCKS];
	uint64_t writes;
	int error;
};

static off_t place(const struct part *part, unsigned block)
{
	return ((off_t)block * THREADS + part->number) * BLOCK;
}

static void *write_all(void *argument)
{
	struct part *part = argument;
	uint64_t *data;
	unsigned seed = part->number;
	int fd = open(path, O_RDWR | O_DIRECT | flags);

	if (posix_memalign((void **)&data, BLOCK, BLOCK))
		abort();
	part->error = fd < 0 ? errno : 0;
	for (unsigned block = 0; block < BLOCKS; block++) {
		if (part->error || pread(fd, data, BLOCK, place(part, block)) != BLOCK) {
			// The content of the block is unknown, so any number is correct.
			part->error = part->error ? part->error : EIO;
			part->tried[block] = UINT32_MAX;
		} else {
			part->acknowledged[block] = part->tried[block] = data[0] >> 32;
		}
	}
	while (!part->error && time(NULL) < end) {
		unsigned block = rand_r(&seed) % BLOCKS;
		uint64_t number = ++part->tried[block];

		for (int n = 0; n < WORDS; n++)
			data[n] = number << 32 | (uint64_t)block << 16 | part->number;
		if (pwrite(fd, data, BLOCK, place(part, block)) != BLOCK)
			part->error = errno ? errno : EIO;
		else
			part->acknowledged[block] = number, part->writes++;
	}
	close(fd);
	free(data);
	return NULL;
}

// Opens the device as soon as it can be read. A device node may outlive its device for a while.
static int reopened(void)
{
	static _Alignas(BLOCK) char block[BLOCK];

	for (int n = 0; n < 600; n++) {
		int fd = open(path, O_RDONLY | O_DIRECT);

		if (fd >= 0 && pread(fd, block, BLOCK, 0) == BLOCK)
			return fd;
		if (fd >= 0)
			close(fd);
		usleep(100000);
	}
	return -1;
}

// Reads a block. After a failure, opens the device again and retries.
static int get(int *fd, uint64_t *data, off_t at)
{
	for (int n = 0; n < 20 && *fd >= 0; n++) {
		if (pread(*fd, data, BLOCK, at) == BLOCK)
			return 0;
		close(*fd);
		*fd = reopened();
	}
	return -1;
}

static unsigned check(const struct part *part, int *fd, uint64_t *data)
{
	unsigned wrong = 0;

	for (unsigned block = 0; block < BLOCKS; block++) {
		if (get(fd, data, place(part, block))) {
			fprintf(stderr, "part %u, block %u cannot be read\n", part->number, block);
			exit(1);
		}
		uint64_t number = data[0] >> 32, low = part->acknowledged[block], high = part->tried[block];
		uint64_t expected = number << 32 | (uint64_t)block << 16 | part->number;
		int whole = number >= low && number <= high;

		for (int n = 0; number && n < WORDS; n++)
			whole &= data[n] == expected;
		if (!whole) {
			printf("part %u, block %u: number %lu is there, %lu was acknowledged, %lu tried\n", part->number,
			       block, number, low, high);
			wrong++;
		}
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static struct part parts[THREADS];
	pthread_t threads[THREADS];
	uint64_t *data, writes = 0;
	unsigned wrong = 0, failed = 0;
	int fd = -1;

	if (argc < 3) {
		fprintf(stderr, "usage: %s DEVICE SECONDS [dsync]\n", argv[0]);
		return 2;
	}
	path = argv[1];
	end = time(NULL) + atoi(argv[2]);
	flags = argc > 3 ? O_DSYNC : 0;
	for (unsigned n = 0; n < THREADS; n++) {
		parts[n].number = n;
		if (pthread_create(&threads[n], NULL, write_all, &parts[n]))
			return 1;
	}
	for (unsigned n = 0; n < THREADS; n++) {
		pthread_join(threads[n], NULL);
		writes += parts[n].writes;
		failed += parts[n].error != 0;
	}
	printf("%lu writes were acknowledged, %u of %u threads failed\n", writes, failed, THREADS);
	fflush(stdout);
	fd = reopened();
	if (fd < 0 || posix_memalign((void **)&data, BLOCK, BLOCK)) {
		perror(path);
		return 1;
	}
	for (unsigned n = 0; n < THREADS; n++)
		wrong += check(&parts[n], &fd, data);
	printf("%u of %u blocks are wrong\n", wrong, THREADS * BLOCKS);
	return wrong ? 65 : 0;
}

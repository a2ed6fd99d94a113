// SPDX-License-Identifier: Apache-2.0 OR MIT
// Writes to BAR 0 of a function and reads it back until the file /tmp/stop exists. Maps the BAR again whenever the function is back and decodes
// memory. Prints how often it read its own value, all ones, and anything else, and how often it mapped the BAR.
//
//   traffic FUNCTION BYTES

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf gone;

// A mapping disappears together with its function.
static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(gone, 1);
}

static int is_there(const char *config)
{
	uint8_t header[6] = { 0xff };
	int fd = open(config, O_RDONLY);
	int whole = fd >= 0 && pread(fd, header, sizeof(header), 0) == sizeof(header);

	if (fd >= 0)
		close(fd);
	return whole && header[0] != 0xff && header[4] & 2;
}

static volatile uint32_t *map(const char *resource, size_t bytes)
{
	int fd = open(resource, O_RDWR | O_SYNC);
	void *bar = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	return bar == MAP_FAILED ? NULL : bar;
}

int main(int count, char **words)
{
	char config[256], resource[256];
	size_t bytes = count == 3 ? strtoul(words[2], NULL, 0) : 0;
	static unsigned long good, ones, wrong, mapped;
	static uint32_t n;
	static volatile uint32_t *bar;

	if (!bytes)
		return 2;
	snprintf(config, sizeof(config), "/sys/bus/pci/devices/%s/config", words[1]);
	snprintf(resource, sizeof(resource), "/sys/bus/pci/devices/%s/resource0", words[1]);
	signal(SIGBUS, on_fault);
	if (sigsetjmp(gone, 1))
		bar = NULL;
	while (access("/tmp/stop", F_OK)) {
		if (bar && access(resource, F_OK))
			bar = NULL;
		if (!bar) {
			if (!is_there(config) || !(bar = map(resource, bytes))) {
				usleep(1000);
				continue;
			}
			mapped++;
		}
		uint32_t want = ++n & 0x7fffffff, at = n % (bytes / 4);
		bar[at] = want;
		uint32_t got = bar[at];
		good += got == want;
		ones += got == UINT32_MAX;
		wrong += got != want && got != UINT32_MAX;
	}
	printf("good %lu ones %lu wrong %lu mapped %lu\n", good, ones, wrong, mapped);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * About fifty processes move data through one device at the same time: `many DEVICE PROCESSES` waits for all of them, `many DEVICE PROCESSES kill`
 * kills them during transfers. Prints the number of processes for each kind of end.
 */
#define _GNU_SOURCE
#include "libriser_dma.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20)
#define MOST_PROCESSES 256

/* Makes six transfers of 1 KiB to 1 MiB, or transfers forever. Returns the exit status. */
static int move(const char *path, int n, bool forever)
{
	struct riser_dma *dma;
	char *buffer = riser_dma_buffer(MOST_BYTES, false);

	if (!buffer || riser_dma_open(path, &dma))
		return 1;
	for (size_t size = 1024; size <= MOST_BYTES; size = forever && size == MOST_BYTES ? 1024 : size * 4)
		if (n % 2 ? riser_dma_send(dma, 0, buffer, size) : riser_dma_receive(dma, 0, buffer, size))
			return 2;
	return 0;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0, ended = 0, killed = 0, status;
	bool kills = argc > 3 && !strcmp(argv[3], "kill");
	struct riser_dma *dma;
	pid_t pids[MOST_PROCESSES];

	if (count < 1 || count > MOST_PROCESSES || riser_dma_open(argv[1], &dma))
		return 1;
	for (unsigned int direction = 0; direction < 2; direction++)
		riser_dma_set_logic(dma, direction, 0, RISER_DMA_PLAIN, 0);
	for (int n = 0; n < count; n++) {
		pids[n] = fork();
		if (!pids[n])
			_exit(move(argv[1], n, kills));
	}
	if (kills)
		usleep(500000);
	for (int n = 0; kills && n < count; n++)
		kill(pids[n], SIGKILL);
	for (int n = 0; n < count; n++) {
		if (waitpid(pids[n], &status, 0) < 0)
			return 1;
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
		killed += WIFSIGNALED(status);
	}
	printf("%d ended, %d killed\n", ended, killed);
	riser_dma_close(dma);
	return 0;
}

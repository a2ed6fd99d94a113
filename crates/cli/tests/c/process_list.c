/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lists the processes of a Linux kernel through an adapter to its memory: starts at init_task, follows the list in
 * task_struct, and reads pid and name of each task. Like typical programs: one dma_read per member, no retries, no cache.
 *
 *   process_list REMOTE LOCAL BUS:DEV.FN INIT_TASK TEXT_OFFSET LINEAR_OFFSET TASKS PID COMM    (numbers hexadecimal)
 *
 * A physical address is a virtual address of the kernel's image minus TEXT_OFFSET, or of its linear map minus LINEAR_OFFSET.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtlp.h>

#define COMM_BYTES 16
#define TASKS_MAX  100000

static uintptr_t text_offset, linear_offset;

static uintptr_t physical(uintptr_t virtual)
{
	return virtual >= 0xffffffff80000000 ? virtual - text_offset : virtual - linear_offset;
}

static int read_at(struct nettlp *nt, uintptr_t virtual, void *buf, size_t count)
{
	ssize_t got = dma_read(nt, physical(virtual), buf, count);

	if (got < 0)
		fprintf(stderr, "dma_read at 0x%lx: %m\n", (unsigned long)virtual);
	return got == (ssize_t)count ? 0 : -1;
}

int main(int argc, char **argv)
{
	unsigned bus, device, function;
	struct nettlp nt;

	memset(&nt, 0, sizeof(nt));
	if (argc != 10 || sscanf(argv[3], "%x:%x.%x", &bus, &device, &function) != 3)
		return 2;
	uintptr_t init_task = strtoul(argv[4], NULL, 16);
	uintptr_t tasks = strtoul(argv[7], NULL, 16), pid_at = strtoul(argv[8], NULL, 16);
	uintptr_t comm_at = strtoul(argv[9], NULL, 16);
	text_offset = strtoul(argv[5], NULL, 16);
	linear_offset = strtoul(argv[6], NULL, 16);
	inet_pton(AF_INET, argv[1], &nt.remote_addr);
	inet_pton(AF_INET, argv[2], &nt.local_addr);
	nt.requester = bus << 8 | device << 3 | function;
	nt.tag = 7;
	nt.dir = DMA_ISSUED_BY_LIBTLP;
	if (nettlp_init(&nt) < 0) {
		perror("nettlp_init");
		return 1;
	}
	uintptr_t task = init_task;
	for (int n = 0; n < TASKS_MAX; n++) {
		char comm[COMM_BYTES + 1] = "";
		uint64_t next;
		int32_t pid;

		if (read_at(&nt, task + pid_at, &pid, sizeof(pid)) < 0 ||
		    read_at(&nt, task + comm_at, comm, COMM_BYTES) < 0 ||
		    read_at(&nt, task + tasks, &next, sizeof(next)) < 0)
			return 1;
		printf("%d %s\n", pid, comm);
		task = next - tasks;
		if (task == init_task)
			return 0;
	}
	fprintf(stderr, "the list does not end\n");
	return 1;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Calls the driver at random, like a fuzzer that knows its calls. Several processes have their own files, transfers, registered memory, dmabufs
 * and rings. They use valid, nearly valid and invalid arguments, signals, forks, kills and (if the kernel supports it)
 * failing allocations. Another process resets functions, creates virtual ones, and changes settings. The program checks
 * that riser_dma.h names every error, that only bytes of transfers change, that integers from a transfer are
 * integers, and that every call and every process ends.
 *
 *	random [-v] [-a] SEED SECONDS PROCESSES	(-v: prints each call; -a: without resets and settings)
 *
 * The seed determines the actions of each process; their results depend on the other processes too. Runs in a guest as root.
 */
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds without a completed call after which a process counts as stuck. */
#define STUCK_S 120

struct shared *shared;
bool verbose;
unsigned int self;
__u64 life;
static __u64 state;

void count(__u64 *what)
{
	__atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

void draw_from(__u64 seed)
{
	state = seed;
	draw();
}

/* xorshift64* */
__u64 draw(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dULL;
}

__u64 below(__u64 limit)
{
	return (draw() >> 16) % limit;
}

bool one_in(__u64 n)
{
	return !below(n);
}

/* Returns a number that is likely to cause errors: small, near a power of two, or any. */
__u64 odd(void)
{
	switch (below(4)) {
	case 0:
		return below(4);
	case 1:
		return (1ULL << below(64)) + below(3) - 1;
	case 2:
		return -below(5000);
	default:
		return draw();
	}
}

void begin(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(shared->processes[self].doing, sizeof(shared->processes[self].doing), format, arguments);
	va_end(arguments);
	if (verbose)
		fprintf(stderr, "%u/%llu: %s\n", self, life, shared->processes[self].doing);
}

void violation(const char *format, ...)
{
	char text[300];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("violation: process %u, life %llu, step %llu, %s: %s\n", self, life,
	       shared->processes[self].steps, shared->processes[self].doing, text);
	fflush(stdout);
	__atomic_add_fetch(&shared->violations, 1, __ATOMIC_RELAXED);
}

/* ---- Resets, virtual functions, settings ---- */

static void put(const char *path, const char *format, ...)
{
	char text[64];
	va_list arguments;
	int fd;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	begin("%s to %.40s", text, strrchr(path, '/'));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	/* Refused writes are checked in the driver's own tests. */
	if (write(fd, text, strlen(text)) > 0)
		count(&shared->settings);
	close(fd);
	count(&shared->processes[self].steps);
}

static void disturb(const char *physical)
{
	static const char *const rings[] = { "host", "device", "nowhere" };
	char path[PATH_MAX + 20], function[PATH_MAX];
	unsigned int n = (unsigned int)below(DEVICES);

	snprintf(path, sizeof(path), "/sys/class/riser_dma/riser_dma%u/device", n);
	if (!realpath(path, function))
		return;
	switch (below(8)) {
	case 0 ... 1:
		snprintf(path, sizeof(path), "%s/reset", function);
		put(path, "1");
		count(&shared->resets);
		break;
	case 2:
		snprintf(path, sizeof(path), "%s/sriov_numvfs", physical);
		put(path, "%u", 0);
		put(path, "%u", (unsigned int)(1 + below(5)));
		break;
	case 3:
		snprintf(path, sizeof(path), "/sys/class/riser_dma/riser_dma%u/ring", n);
		put(path, "%s %u", rings[below(3)], (unsigned int)(one_in(4) ? odd() : 1U << below(11)));
		break;
	case 4:
		snprintf(path, sizeof(path), "/sys/class/riser_dma/riser_dma%u/%s", n, one_in(2) ? "weight" : "vf_weights");
		put(path, one_in(2) ? "%u" : "%u 3", (unsigned int)below(9));
		break;
	case 5:
		snprintf(path, sizeof(path), "/sys/class/riser_dma/riser_dma%u/max_%s_size", n, one_in(2) ? "payload" : "read_request");
		put(path, "%u", 64U << below(8));
		break;
	case 6:
		put("/sys/module/riser_dma/parameters/timeout_ms", "%u", (unsigned int)(100 + below(400)));
		put("/sys/module/riser_dma/parameters/close_timeout_ms", "%u", (unsigned int)below(300));
		put("/sys/module/riser_dma/parameters/busy_us", "%u", (unsigned int)below(200));
		break;
	default:
		if (!one_in(4))
			break;
		put("/sys/bus/pci/drivers/riser_dma/unbind", "%s", strrchr(function, '/') + 1);
		put("/sys/bus/pci/drivers/riser_dma/bind", "%s", strrchr(function, '/') + 1);
	}
}

static void administer(void)
{
	char physical[PATH_MAX];

	if (!realpath("/sys/class/riser_dma/riser_dma0/device", physical))
		_exit(1);
	for (;;) {
		disturb(physical);
		usleep((useconds_t)below(300000));
	}
}

/* ---- The first process ---- */

static struct process {
	pid_t pid;
	__u64 steps, since;
} processes[PROCESSES + 1];
static __u64 seed, lives;

static pid_t start(unsigned int n, __u64 which)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	self = n;
	life = which;
	draw_from((seed * 1000003 + n) * 1000003 + which + 1);
	if (n)
		live();
	administer();
	return 0;
}

static __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (__u64)time.tv_sec * 1000000 + (__u64)time.tv_nsec / 1000;
}

/* Prints where a process is that makes no progress. */
static void stuck(unsigned int n, pid_t pid)
{
	char path[64], line[200];
	FILE *stack;

	printf("violation: process %u has been at `%s` for %u s\n", n, shared->processes[n].doing, STUCK_S);
	snprintf(path, sizeof(path), "/proc/%d/stack", (int)pid);
	stack = fopen(path, "r");
	while (stack && fgets(line, sizeof(line), stack))
		printf("  %s", line);
	fflush(stdout);
	if (stack)
		fclose(stack);
	shared->violations++;
}

static void report(void)
{
	printf("seed %llu: %llu calls, %llu transfers, %llu looked at, %llu failures injected, %llu resets, %llu settings, %llu lives, %u violations\n",
	       seed, shared->calls, shared->transfers,
	       shared->exact, shared->injected, shared->resets, shared->settings,
	       lives, shared->violations);
	for (int n = 0; n < 200; n++)
		if (shared->errors[n])
			printf("  %s: %llu\n", n ? strerrorname_np(n) ?: "others" : "none", shared->errors[n]);
}

static void begin_life(unsigned int n)
{
	processes[n].pid = start(n, lives++);
	processes[n].since = now();
}

/* Kills the process at random, and restarts it if it has ended. */
static void look_after(unsigned int n)
{
	struct process *process = &processes[n];
	int status;

	if (n && one_in(200))
		kill(process->pid, SIGKILL);
	if (shared->processes[n].steps != process->steps) {
		process->steps = shared->processes[n].steps;
		process->since = now();
	}
	if (waitpid(process->pid, &status, WNOHANG) == process->pid) {
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
			printf("violation: process %u died of signal %d at `%s`\n", n, WTERMSIG(status), shared->processes[n].doing);
			shared->violations++;
		}
		begin_life(n);
	} else if (now() - process->since > STUCK_S * 1000000ULL) {
		stuck(n, process->pid);
		process->since = now();
	}
}

int main(int argc, char **argv)
{
	unsigned int n, first = 0, last;
	__u64 end;
	int option;

	while ((option = getopt(argc, argv, "va")) > 0) {
		verbose |= option == 'v';
		first |= option == 'a';
	}
	last = argc - optind == 3 ? (unsigned int)atoi(argv[optind + 2]) : 0;
	if (!last || last > PROCESSES) {
		fprintf(stderr, "usage: %s [-v] [-a] SEED SECONDS PROCESSES (1 to %d)\n", argv[0], PROCESSES);
		return 2;
	}
	seed = strtoull(argv[optind], NULL, 0);
	end = now() + strtoull(argv[optind + 1], NULL, 0) * 1000000;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	draw_from(seed + 1);
	for (n = first; n <= last; n++)
		begin_life(n);
	while (now() < end && shared->violations < 20) {
		usleep(20000);
		for (n = first; n <= last; n++)
			look_after(n);
	}
	for (n = first; n <= last; n++)
		kill(processes[n].pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	report();
	return shared->violations ? 1 : 0;
}

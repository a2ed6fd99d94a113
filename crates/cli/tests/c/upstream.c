/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Device software that behaves like upstream's, on plain sockets and without a library. Both ends bind and connect one UDP
 * port, and each port has one outstanding request. Any datagram that arrives is taken for the answer. Completions are concatenated
 * in whole DWs. A write of 1 or 2 bytes carries 3 bytes, the last of which are the data. Length 1024 sets the bit above its field. Data
 * of any length goes into one TLP; Length 0 means no data. The TX interrupt is sent on port 0x4003. The NIC does not answer the host's
 * reads, and blocks with a second receive buffer until the first is used. Memory cuts completions counted from the first address.
 *
 *   upstream nic   REMOTE LOCAL TAP                   the simple NIC, with one receive buffer
 *   upstream check REMOTE LOCAL ADDRESS LIMIT         writes and reads of 1 to 4096 bytes, compared; unaligned ones up to LIMIT
 *   upstream perf  REMOTE LOCAL read|write LEN THREADS COUNT ADDRESS
 *   upstream psmem REMOTE LOCAL SIZE                  memory behind BAR4, until its last byte has been read
 *   upstream cfg   REMOTE LOCAL PORT DW               one register, hexadecimal
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if.h>
#include <linux/if_tun.h>

#define NETTLP_LEN 6
#define WAIT_MS    500

static struct in_addr remote, local;
static uint16_t requester = 0x1a00;

struct context {
	int fd;
	uint8_t tag;
};

static int open_port(int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = remote};
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = local};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		perror("socket");
		exit(1);
	}
	return fd;
}

/* ---- DMA ---- */

/* Writes the NetTLP header, TLP header and address: 18 or 22 bytes. */
static size_t put_header(unsigned char *out, struct context *c, int writes, uint64_t addr, size_t count)
{
	uint64_t end = addr + count;
	unsigned dw = ((end + 3) / 4) - addr / 4;
	unsigned first = 0xf << (addr & 3) & 0xf, last = 0xf >> (-end & 3);
	int four = addr >= UINT32_MAX;
	uint64_t at = htobe64(addr & ~3ull);

	if (dw == 1) {
		first &= last;
		last = 0;
	}
	memset(out, 0, NETTLP_LEN);
	out[6] = four << 5 | writes << 6;
	out[7] = 0;
	out[8] = dw >> 8;
	out[9] = dw;
	out[10] = requester >> 8;
	out[11] = requester;
	out[12] = c->tag;
	out[13] = last << 4 | first;
	if (four)
		memcpy(out + 14, &at, 8);
	else
		memcpy(out + 14, (char *)&at + 4, 4);
	return four ? 22 : 18;
}

static ssize_t dma_read(struct context *c, uint64_t addr, void *buf, size_t count)
{
	unsigned char request[22], answer[8192];
	struct pollfd fd = {c->fd, POLLIN, 0};
	size_t got = 0, lead = addr & 3;

	if (send(c->fd, request, put_header(request, c, 0, addr, count), 0) < 0)
		return -1;
	while (got < count) {
		if (poll(&fd, 1, WAIT_MS) <= 0)
			return -1;
		ssize_t len = recv(c->fd, answer, sizeof(answer), 0);
		if (len < NETTLP_LEN + 12 || answer[6] != 0x4a) {
			errno = EBADMSG;
			return -1;
		}
		/* In whole DWs: if the address is not a multiple of 4, the data after the first completion are misplaced. */
		size_t dws = (answer[9] | (answer[8] & 3) << 8) * 4, data = dws - lead;
		if (dws == 0) {
			errno = EBADMSG;
			return -1;
		}
		if (data > count - got)
			data = count - got;
		memcpy((char *)buf + got, answer + NETTLP_LEN + 12 + lead, data);
		got += dws;
		lead = 0;
	}
	return count;
}

static ssize_t dma_write(struct context *c, uint64_t addr, const void *buf, size_t count)
{
	unsigned char tlp[22 + 4096 + 8];
	size_t header = put_header(tlp, c, 1, addr, count);
	size_t data = ((addr & 3) + count + 3) & ~3ul, lead = addr & 3;

	/* Within one DW: one padding byte for each of the first three lanes that is not enabled, followed by the data. */
	if (data == 4 && count < 4) {
		lead = !(tlp[13] & 1) + !(tlp[13] & 2) + !(tlp[13] & 4);
		data = lead + count;
	}
	memset(tlp + header, 0, data);
	memcpy(tlp + header + lead, buf, count);
	return send(c->fd, tlp, header + data, 0) < 0 ? -1 : (ssize_t)count;
}

/* ---- messaging and configuration ---- */

static ssize_t ask(uint32_t question, void *answer, size_t size)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(0x2fff), .sin_addr = remote};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd p = {fd, POLLIN, 0};
	ssize_t got = -1;

	/* The kernel may choose any source address. */
	connect(fd, (struct sockaddr *)&to, sizeof(to));
	/* Upstream sends one request without retry, and the user restarts the program. This program repeats the question. */
	for (int n = 0; n < 20 && got < 0; n++)
		if (send(fd, &question, sizeof(question), 0) > 0 && poll(&p, 1, WAIT_MS) > 0)
			got = recv(fd, answer, size, 0);
	close(fd);
	if (got < 0) {
		perror("messaging");
		exit(1);
	}
	return got;
}

static int cfg(int port, unsigned dw)
{
	unsigned char m[64] = {0x3c | dw >> 8, dw, 0, 0, 0, 0};
	struct pollfd p = {open_port(port), POLLIN, 0};

	if (send(p.fd, m, 6, 0) < 0 || poll(&p, 1, 1000) <= 0 || recv(p.fd, m, sizeof(m), 0) < 6)
		return 1;
	printf("%02x%02x%02x%02x\n", m[2], m[3], m[4], m[5]);
	return 0;
}

/* ---- check ---- */

static unsigned char byte(uint64_t addr)
{
	return addr * 31 ^ addr >> 8 ^ addr >> 16;
}

static int check(uint64_t base, size_t limit)
{
	static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 63, 64, 65, 127, 128, 129, 255, 256, 257,
				       511, 512, 513, 1000, 1023, 1024, 1500, 2047, 2048, 3000, 4095, 4096};
	struct context c = {open_port(0x3000 + 0x21), 0x21};
	unsigned char out[4096], in[4096];
	unsigned long wrong = 0, reads = 0;

	for (unsigned n = 0; n < sizeof(sizes) / sizeof(*sizes); n++) {
		for (unsigned lead = 0; lead < 4; lead++) {
			size_t size = sizes[n];
			uint64_t addr = base + n * 8192ull + lead;
			/* Reads with several completions fail at upstream's end. */
			if (lead && lead + size > limit)
				continue;
			if ((addr & 4095) + size > 4096)
				addr -= 4096 - 4;
			if ((addr & 4095) + size > 4096)
				continue;
			for (size_t i = 0; i < size; i++)
				out[i] = byte(addr + i) ^ n;
			memset(in, 0xee, size);
			if (dma_write(&c, addr, out, size) < 0 || dma_read(&c, addr, in, size) < 0) {
				fprintf(stderr, "%zu at 0x%lx: %m\n", size, (unsigned long)addr);
				return 1;
			}
			reads++;
			if (memcmp(in, out, size) != 0) {
				fprintf(stderr, "%zu at 0x%lx: wrong\n", size, (unsigned long)addr);
				wrong++;
			}
		}
	}
	printf("%lu reads, %lu wrong\n", reads, wrong);
	return wrong > 0;
}

/* ---- perf ---- */

struct load {
	struct context c;
	pthread_t thread;
	int writes;
	size_t len;
	unsigned long count, failed;
	uint64_t addr;
};

static void *work(void *arg)
{
	struct load *l = arg;
	unsigned char buf[4096] = {0};

	for (unsigned long n = 0; n < l->count; n++) {
		uint64_t addr = l->addr + n % 64 * l->len;
		ssize_t done = l->writes ? dma_write(&l->c, addr, buf, l->len) : dma_read(&l->c, addr, buf, l->len);
		l->failed += done != (ssize_t)l->len;
	}
	/* When the read is answered, the earlier posted writes have arrived. */
	l->failed += l->writes && dma_read(&l->c, l->addr, buf, 4) != 4;
	return NULL;
}

static int perf(int writes, size_t len, unsigned threads, unsigned long count, uint64_t addr)
{
	struct load loads[16];
	unsigned long failed = 0;

	for (unsigned n = 0; n < threads; n++)
		loads[n] = (struct load){{open_port(0x3000 + n), n}, 0, writes, len, count, 0, addr + n * 64 * len};
	for (unsigned n = 0; n < threads; n++)
		pthread_create(&loads[n].thread, NULL, work, &loads[n]);
	for (unsigned n = 0; n < threads; n++) {
		pthread_join(loads[n].thread, NULL);
		failed += loads[n].failed;
	}
	printf("%lu failed\n", failed);
	return failed > 0;
}

/* ---- requests of the host ---- */

static volatile sig_atomic_t ended;

static void stop(int signal)
{
	(void)signal;
	ended = 1;
}

static uint64_t address_of(unsigned char *m)
{
	int four = m[6] >> 5 & 1;
	uint64_t addr = 0;

	memcpy((char *)&addr + (four ? 0 : 4), m + 14, four ? 8 : 4);
	return be64toh(addr);
}

static unsigned char *data_of(unsigned char *m)
{
	return m + (m[6] >> 5 & 1 ? 22 : 18);
}

static size_t bytes_of(unsigned char *m)
{
	return (m[9] | (m[8] & 3) << 8) * 4;
}

/* Passes each request with its socket to `take`, until the end or until no request has arrived for 10 s. */
static void serve(const int *sockets, void (*take)(int fd, unsigned char *m, ssize_t len))
{
	struct pollfd fds[16];
	unsigned char m[8192];

	for (int n = 0; n < 16; n++)
		fds[n] = (struct pollfd){sockets[n], POLLIN, 0};
	for (int idle = 0; !ended && idle < 500; idle++) {
		if (poll(fds, 16, 20) <= 0)
			continue;
		idle = 0;
		for (int n = 0; n < 16; n++)
			if (fds[n].revents)
				take(fds[n].fd, m, recv(fds[n].fd, m, sizeof(m), 0));
	}
}

/* ---- psmem ---- */

#define PIECE 256

static struct {
	uint64_t bar4;
	size_t size;
	unsigned char *bytes;
	unsigned long reads, writes;
} mem;

/* Answers in whole DWs, as drivers read them. */
static void answer(int fd, unsigned char *m, uint64_t offset, size_t remain)
{
	unsigned char c[18 + PIECE] = {0};

	for (size_t count; remain > 0; offset += count, remain -= count) {
		count = remain < PIECE ? remain : PIECE;
		c[6] = 0x4a;
		c[8] = count / 4 >> 8;
		c[9] = count / 4;
		c[10] = requester >> 8;
		c[11] = requester;
		c[12] = remain >> 8 & 0xf;
		c[13] = remain;
		memcpy(c + 14, m + 10, 3); /* requester and tag */
		c[17] = offset & 0x7f;
		memcpy(c + 18, mem.bytes + offset, count);
		if (send(fd, c, 18 + count, 0) < 0)
			perror("psmem");
	}
}

static void remember(int fd, unsigned char *m, ssize_t len)
{
	if (len < 18)
		return;
	uint64_t offset = address_of(m) - mem.bar4;
	size_t count = bytes_of(m);
	if (offset > mem.size || count > mem.size - offset)
		return;
	if ((m[6] & 0xdf) == 0x40) {
		mem.writes++;
		memcpy(mem.bytes + offset, data_of(m), count);
	} else if ((m[6] & 0xdf) == 0x00) {
		mem.reads++;
		answer(fd, m, offset, count);
		ended = offset + count == mem.size;
	}
}

static int run_psmem(size_t size)
{
	int sockets[16];

	ask(1, &mem.bar4, sizeof(mem.bar4));
	ask(2, &requester, sizeof(requester));
	mem.size = size;
	mem.bytes = calloc(1, size);
	for (int n = 0; n < 16; n++)
		sockets[n] = open_port(0x4000 + n);
	serve(sockets, remember);
	printf("%lu reads, %lu writes\n", mem.reads, mem.writes);
	free(mem.bytes);
	return 0;
}

/* ---- the simple NIC ---- */

struct registers {
	uint64_t tx_ring, rx_ring;
	uint32_t tx_index, rx_index, enabled;
} __attribute__((packed));

struct msix {
	uint64_t addr;
	uint32_t data;
} __attribute__((packed));

static struct {
	int tap;
	uint64_t bar4;
	struct msix msix[16];
	struct context host[16], tx, rx;
	struct registers regs;
	volatile uint64_t rx_at, rx_addr; /* address of the buffer; 0 for none */
	unsigned long sent, received, lost, failed;
} nic;

static void transmit(void)
{
	uint64_t d[2];
	unsigned char frame[2048];

	/* Read the descriptor that the index names. */
	if (dma_read(&nic.tx, nic.regs.tx_ring + nic.regs.tx_index * 16ull, d, sizeof(d)) < 0 || d[1] > 2048 ||
	    dma_read(&nic.tx, d[0], frame, d[1]) < 0) {
		perror("transmit");
		/* A wait that Ctrl-C ended is not a failure. */
		nic.failed += !ended;
		return;
	}
	if (write(nic.tap, frame, d[1]) > 0)
		nic.sent++;
	dma_write(&nic.host[3], nic.msix[0].addr, &nic.msix[0].data, 4);
}

static void post(void)
{
	uint64_t at = nic.regs.rx_ring + nic.regs.rx_index * 16ull, d[2];

	if (dma_read(&nic.tx, at, d, sizeof(d)) < 0) {
		perror("post");
		nic.failed += !ended;
		return;
	}
	/* This waits in the callback, so the host's other writes wait too. */
	while (nic.rx_addr && !ended)
		usleep(1000);
	nic.rx_at = at;
	nic.rx_addr = d[0];
}

static void take(int fd, unsigned char *m, ssize_t len)
{
	(void)fd;
	if (len < 22 || (m[6] & 0xdf) != 0x40)
		return;
	uint64_t offset = address_of(m) - nic.bar4;
	size_t count = bytes_of(m);
	if (offset + count > sizeof(nic.regs))
		return;
	memcpy((char *)&nic.regs + offset, data_of(m), count);
	if (offset == 16 && nic.regs.enabled)
		transmit();
	if (offset == 20)
		post();
}

static void *from_tap(void *arg)
{
	unsigned char frame[2048];
	struct pollfd fd = {nic.tap, POLLIN, 0};

	while (!ended) {
		if (poll(&fd, 1, 20) <= 0)
			continue;
		ssize_t count = read(nic.tap, frame, sizeof(frame));
		uint64_t at = nic.rx_at, d[2] = {nic.rx_addr, count};
		if (count <= 0 || !d[0]) {
			nic.lost++;
			continue;
		}
		nic.rx_addr = 0;
		dma_write(&nic.rx, d[0], frame, count);
		dma_write(&nic.rx, at, d, sizeof(d));
		dma_write(&nic.rx, nic.msix[1].addr, &nic.msix[1].data, 4);
		nic.received++;
	}
	return arg;
}

static int run_nic(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int sockets[16];
	pthread_t tap;

	ask(1, &nic.bar4, sizeof(nic.bar4));
	ask(2, &requester, sizeof(requester));
	if (ask(3, nic.msix, sizeof(nic.msix)) != 192)
		return 1;
	nic.tap = open("/dev/net/tun", O_RDWR);
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(nic.tap, TUNSETIFF, &request) < 0) {
		perror(name);
		return 1;
	}
	for (int n = 0; n < 16; n++) {
		nic.host[n] = (struct context){open_port(0x4000 + n), n};
		sockets[n] = nic.host[n].fd;
	}
	nic.tx = (struct context){open_port(0x3000), 0};
	nic.rx = (struct context){open_port(0x3001), 1};
	signal(SIGINT, stop);
	pthread_create(&tap, NULL, from_tap, NULL);
	printf("%s\n", name);
	fflush(stdout);
	serve(sockets, take);
	pthread_join(tap, NULL);
	printf("%lu sent, %lu received, %lu lost, %lu failed\n", nic.sent, nic.received, nic.lost, nic.failed);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 5 || inet_pton(AF_INET, argv[2], &remote) != 1 || inet_pton(AF_INET, argv[3], &local) != 1)
		return 2;
	if (strcmp(argv[1], "nic") == 0)
		return run_nic(argv[4]);
	if (strcmp(argv[1], "psmem") == 0)
		return run_psmem(strtoul(argv[4], NULL, 0));
	if (strcmp(argv[1], "check") == 0 && argc == 6)
		return check(strtoull(argv[4], NULL, 0), strtoul(argv[5], NULL, 0));
	if (strcmp(argv[1], "cfg") == 0 && argc == 6)
		return cfg(strtol(argv[4], NULL, 0), strtoul(argv[5], NULL, 0));
	if (strcmp(argv[1], "perf") == 0 && argc == 9)
		return perf(argv[4][0] == 'w', strtoul(argv[5], NULL, 0), strtoul(argv[6], NULL, 0),
			    strtoul(argv[7], NULL, 0), strtoull(argv[8], NULL, 0));
	return 2;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sends arbitrary bytes to every function that reads from the network, and to every function that reads a header. A
 * thread acts as the peer: it answers with noise, and with correct answers that have flipped bits or are truncated.
 *   garbage OWN OTHER SEED ROUNDS
 * Ends after ROUNDS rounds. Equal SEEDs give equal datagrams.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libtlp.h>

static struct in_addr own, other;
static uint64_t seed;
static int rounds;
static volatile unsigned long sum; /* of all bytes passed to callbacks, so that each byte is read */

/* xorshift64: any seed but 0. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Opens the peer's socket. With `connected`, connects it to the same port of the program. */
static int peer_socket(int port, int connected)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = other};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		die("peer");
	sin.sin_addr = own;
	if (connected && connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		die("peer");
	return fd;
}

/* Writes noise, or `right` with flipped bits, or `right` truncated. Returns the length, at most `room`. */
static size_t foreign(uint64_t *state, const unsigned char *right, size_t len, unsigned char *out, size_t room)
{
	size_t n;

	if (!right || next(state) % 4 == 0) {
		n = next(state) % (next(state) % 8 == 0 ? room : 64);
		for (size_t i = 0; i < n; i++)
			out[i] = next(state);
		/* The first byte often belongs to a known type. */
		if (n > 6 && next(state) % 2) {
			static const unsigned char known[] = {0x00, 0x20, 0x40, 0x60, 0x0a, 0x4a, 0x01, 0x8e, 0x74};
			out[6] = known[next(state) % sizeof(known)];
		}
		return n;
	}
	memcpy(out, right, len);
	for (int flips = next(state) % 4; flips > 0; flips--)
		out[next(state) % len] ^= 1 << next(state) % 8;
	return next(state) % 4 == 0 ? next(state) % (len + 1) : len;
}

struct peer {
	int fd;
	uint64_t state;
	int kind; /* 0 DMA, 1 a peer whose answers repeat the request */
	int stop;
};

/* Answers each datagram with arbitrary datagrams, and then with a datagram that ends the wait. */
static void *play(void *arg)
{
	struct peer *p = arg;
	unsigned char in[5000], out[6000], right[6 + 12 + 4096];

	while (!__atomic_load_n(&p->stop, __ATOMIC_SEQ_CST)) {
		struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);

		if (poll(&pfd, 1, 20) <= 0)
			continue;
		ssize_t got = recvfrom(p->fd, in, sizeof(in), 0, (struct sockaddr *)&from, &from_len);
		if (got <= 0)
			continue;
		size_t len = got;
		memset(right, 0, sizeof(right));
		if (p->kind == 0 && got >= 18) {
			/* A Cpl or CplD that answers the request. */
			struct tlp_mr_hdr *mh = (struct tlp_mr_hdr *)(in + 6);
			struct tlp_cpl_hdr *ch = (struct tlp_cpl_hdr *)(right + 6);

			if (!tlp_is_mrd(mh->tlp.fmt_type))
				continue;
			ch->tlp.fmt_type = 0x4a;
			ch->tlp.falen = mh->tlp.falen;
			ch->requester = mh->requester;
			ch->tag = mh->tag;
			ch->lowaddr = tlp_mr_addr(mh) & 0x7f;
			tlp_set_cpl_bcnt(ch->stcnt, tlp_mr_data_length(mh));
			len = 6 + 12 + 4 * tlp_length(mh->tlp.falen);
		} else {
			memcpy(right, in, got);
		}
		for (int n = next(&p->state) % 6; n > 0; n--) {
			size_t bytes = foreign(&p->state, right, len, out, sizeof(out));
			sendto(p->fd, out, bytes, 0, (struct sockaddr *)&from, from_len);
		}
		sendto(p->fd, right, len, 0, (struct sockaddr *)&from, from_len);
	}
	return NULL;
}

static void start(struct peer *p, pthread_t *thread, int port, int connected, int kind)
{
	memset(p, 0, sizeof(*p));
	p->fd = peer_socket(port, connected);
	p->state = next(&seed);
	p->kind = kind;
	if (pthread_create(thread, NULL, play, p) != 0)
		die("pthread_create");
}

static void end(struct peer *p, pthread_t thread)
{
	__atomic_store_n(&p->stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	close(p->fd);
}

static void context(struct nettlp *nt, int dir, int tag)
{
	memset(nt, 0, sizeof(*nt));
	nt->remote_addr = other;
	nt->local_addr = own;
	nt->requester = 0x1b00;
	nt->tag = tag;
	nt->dir = dir;
	if (nettlp_init(nt) < 0)
		die("nettlp_init");
}

static void dma(void)
{
	struct peer p;
	pthread_t thread;
	struct nettlp nt;
	uint64_t state = next(&seed);

	start(&p, &thread, 0x3007, 1, 0);
	context(&nt, DMA_ISSUED_BY_LIBTLP, 7);
	for (int n = 0; n < rounds; n++) {
		size_t count = 1 + next(&state) % (n % 8 ? 300 : 4096);
		uintptr_t addr = next(&state) >> (n % 2 ? 20 : 40);
		unsigned char *buf = malloc(count);
		ssize_t got = n % 3 ? dma_read(&nt, addr, buf, count) : dma_read_aligned(&nt, addr, buf, count, 256);

		if (got != (ssize_t)count && got != -1) {
			printf("dma_read of %zu bytes returned %zd\n", count, got);
			exit(1);
		}
		memset(buf, n, count);
		if (n % 4 == 0 && dma_write(&nt, addr, buf, count) != (ssize_t)count && errno != ECONNREFUSED)
			die("dma_write");
		free(buf);
	}
	close(nt.sockfd);
	end(&p, thread);
}

static unsigned long seen;

static int on_tlp(struct nettlp *nt, struct tlp_hdr *th, void *arg)
{
	(void)nt;
	(void)arg;
	for (size_t i = 0; i < 12; i++)
		sum += ((unsigned char *)th)[i];
	seen++;
	return -1;
}

static int on_mrd(struct nettlp *nt, struct tlp_mr_hdr *mh, void *arg)
{
	sum += tlp_mr_addr(mh) + tlp_mr_data_length(mh);
	return on_tlp(nt, &mh->tlp, arg);
}

static int on_cpl(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *arg)
{
	sum += ch->lowaddr;
	/* The last datagram of the flood. */
	if (nt->tag == 3 && ch->requester == 0xabcd)
		nettlp_stop_cb();
	return on_tlp(nt, &ch->tlp, arg);
}

static int on_data(void *header, void *m, size_t count)
{
	unsigned char *data = m;

	if (count > 4096 || data < (unsigned char *)header + 12 || data + count > (unsigned char *)header + 16 + 4096) {
		printf("%zu bytes of data, %td after the header\n", count, data - (unsigned char *)header);
		exit(1);
	}
	for (size_t i = 0; i < count; i++)
		sum += data[i];
	return 0;
}

static int on_mwr(struct nettlp *nt, struct tlp_mr_hdr *mh, void *m, size_t count, void *arg)
{
	on_data(mh, m, count);
	return on_tlp(nt, &mh->tlp, arg);
}

static int on_cpld(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *m, size_t count, void *arg)
{
	on_data(ch, m, count);
	return on_tlp(nt, &ch->tlp, arg);
}

static void *flood(void *arg)
{
	int *fds = arg;
	uint64_t state = next(&seed);
	unsigned char out[6000], right[6 + 16 + 64], last[18] = {0, 0, 0, 0, 0, 0, 0x0a};

	for (int n = 0; n < rounds * 10; n++) {
		memset(right, n, sizeof(right));
		right[6] = (unsigned char[]){0x40, 0x60, 0x00, 0x4a}[n % 4];
		right[8] = right[9] = 0;
		right[9] = n % 20;
		size_t bytes = foreign(&state, right, sizeof(right), out, sizeof(out));
		send(fds[n % 2], out, bytes, 0);
		/* The rate is so low that there is room for the last datagram. */
		if (n % 64 == 0)
			usleep(100);
	}
	last[6 + 8] = 0xcd;
	last[6 + 9] = 0xab;
	/* Repeat the last datagram until it was received. fds[2] tells this. */
	while (!__atomic_load_n(&fds[2], __ATOMIC_SEQ_CST)) {
		send(fds[0], last, sizeof(last), 0);
		usleep(1000);
	}
	return NULL;
}

static void callbacks(void)
{
	struct nettlp nts[2], *nt[2] = {&nts[0], &nts[1]};
	/* The library must ignore these addresses. */
	struct nettlp_cb cb = {0xfe000000, 0xfe00ffff, on_mrd, on_mwr, on_cpl, on_cpld, on_tlp};
	int fds[3] = {peer_socket(0x4003, 1), peer_socket(0x4004, 1), 0};
	pthread_t thread;

	context(nt[0], DMA_ISSUED_BY_ADAPTER, 3);
	context(nt[1], DMA_ISSUED_BY_ADAPTER, 4);
	if (pthread_create(&thread, NULL, flood, fds) != 0)
		die("pthread_create");
	if (nettlp_run_cb(nt, 2, &cb, NULL) != 0)
		die("nettlp_run_cb");
	__atomic_store_n(&fds[2], 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	if (seen < 100) {
		printf("%lu callbacks\n", seen);
		exit(1);
	}
	for (int n = 0; n < 2; n++) {
		close(nts[n].sockfd);
		close(fds[n]);
	}
}

static void ask(void)
{
	struct peer p;
	pthread_t thread;
	struct nettlp_pcie_cfg cfg;
	struct nettlp_msix *msix = malloc(5 * sizeof(*msix));
	unsigned char *buf = malloc(7);

	start(&p, &thread, 0x2fff, 0, 1);
	for (int n = 0; n < rounds; n++) {
		nettlp_msg_get_bar4_start(other);
		nettlp_msg_get_dev_id(other);
		nettlp_msg_get_msix_table(other, msix, 5);
	}
	end(&p, thread);

	start(&p, &thread, 0x5001, 1, 1);
	memset(&cfg, 0, sizeof(cfg));
	cfg.remote_addr = other;
	cfg.local_addr = own;
	if (nettlp_pcie_cfg_init(&cfg) < 0)
		die("nettlp_pcie_cfg_init");
	for (int n = 0; n < rounds; n++) {
		nettlp_pcie_cfg_read(&cfg, n * 13 % 4090, buf, n % 8);
		nettlp_pcie_cfg_write(&cfg, n * 13 % 4090, buf, n % 8);
	}
	if (nettlp_pcie_cfg_read(&cfg, 4090, buf, 7) != -1 || errno != EINVAL)
		die("beyond configuration space");
	close(cfg.sockfd);
	end(&p, thread);
	free(msix);
	free(buf);
}

static void headers(void)
{
	uint64_t state = next(&seed);

	for (int n = 0; n < rounds * 100; n++) {
		/* The header is exactly as long as its first byte declares. */
		unsigned char first = next(&state);
		unsigned char *header = malloc(first & 0x20 ? 16 : 12);
		for (int i = 0; i < (first & 0x20 ? 16 : 12); i++)
			header[i] = next(&state);
		header[0] = first;
		struct tlp_mr_hdr *mh = (struct tlp_mr_hdr *)header;
		struct tlp_cpl_hdr *ch = (struct tlp_cpl_hdr *)header;
		sum += tlp_mr_addr(mh) + tlp_mr_data_length(mh) + (uintptr_t)tlp_mwr_data(mh);
		sum += (uintptr_t)tlp_cpld_data(ch) + tlp_cpld_data_length(ch);
		sum += tlp_calculate_fstdw(next(&state), next(&state) % 5000) + tlp_calculate_lstdw(next(&state), next(&state));
		sum += tlp_calculate_length(next(&state), next(&state));
		free(header);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5 || inet_pton(AF_INET, argv[1], &own) != 1 || inet_pton(AF_INET, argv[2], &other) != 1)
		return 2;
	seed = strtoull(argv[3], NULL, 0);
	rounds = atoi(argv[4]);
	headers();
	dma();
	callbacks();
	ask();
	printf("%llu strays\n", (unsigned long long)nettlp_strays());
	return nettlp_strays() == 0;
}

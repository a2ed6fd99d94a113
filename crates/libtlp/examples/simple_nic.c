/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simple NIC (NSDI'20 §6.2): device software whose cable is the tap interface -i, until SIGINT. BAR4, little endian:
 *
 *   +0  u64  bus address of the TX ring       +16 u32  TX index: the descriptor to send
 *   +8  u64  bus address of the RX ring       +20 u32  RX index: a descriptor whose buffer is free
 *   +24 u32  enabled: while it is 0, the rings are discarded
 *
 * Each write of the TX index sends a frame: the ring of NetTLP's driver has one descriptor, and it always writes 0.
 * A ring has up to 256 descriptors {u64 address, u64 length}; a receive buffer has 2048 bytes. MSI-X vector 0: sent, 1: received.
 *
 *   send:    the host writes the TX index; MRd descriptor, MRd frame, frame to the tap, MWr vector 0
 *   receive: the host writes the RX index; MRd descriptor; a frame from the tap: MWr frame, MWr descriptor, MWr vector 1
 *
 * One thread answers the host, with callbacks on 16 ports; one takes frames from the tap. Each has its own context.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <linux/if.h>
#include <linux/if_tun.h>

#include <libtlp.h>

#include "completion.h"
#include "options.h"

#define RING         256  /* descriptors */
#define FRAME_MIN    14   /* bytes: a header, and with a VLAN tag the most that Ethernet has, without FCS */
#define FRAME_MAX    1518
#define MAX_PAYLOAD  256  /* bytes; the path's Max_Payload_Size and Max_Read_Request_Size */
#define MAX_READ_REQ 512
#define TX_VECTOR    0
#define RX_VECTOR    1

struct descriptor {
	uint64_t addr, length;
};

struct registers {
	uint64_t tx_ring, rx_ring;
	uint32_t tx_index, rx_index, enabled;
} __attribute__((packed));

struct posted {
	uint64_t at, addr; /* of the descriptor, of its buffer */
};

struct nic {
	int tap;
	int stop[2]; /* a pipe, closed to end the tap's thread */
	uintptr_t bar4;
	struct nettlp_msix msix[2];
	struct nettlp host[16]; /* the host's requests; TX interrupts are sent on number 3 */
	struct nettlp tx, rx;   /* DMA of the callbacks' thread, and of the tap's */

	/* Used by the callbacks' thread. */
	struct registers regs;
	unsigned long sent, unplugged, failed, refused;

	/* Receive buffers: added by callbacks, taken by the tap's thread. */
	pthread_mutex_t lock;
	struct posted posted[RING];
	unsigned put, taken;

	/* Used by the tap's thread. */
	unsigned long received, lost, rx_failed;
};

static void stop(int signal)
{
	(void)signal;
	nettlp_stop_cb();
}

/* ---- send ---- */

static int transmit(struct nic *nic, uint32_t index)
{
	unsigned char frame[FRAME_MAX];
	struct descriptor d;

	if (dma_read(&nic->tx, nic->regs.tx_ring + index * sizeof(d), &d, sizeof(d)) < 0)
		return -1;
	if (d.length < FRAME_MIN || d.length > FRAME_MAX) {
		nic->refused++;
	} else {
		if (dma_read_aligned(&nic->tx, d.addr, frame, d.length, MAX_READ_REQ) < 0)
			return -1;
		/* An interface that is down takes no frame: it is lost, as on a cable. */
		if (write(nic->tap, frame, d.length) < 0)
			nic->unplugged++;
		else
			nic->sent++;
	}
	struct nettlp_msix *msix = &nic->msix[TX_VECTOR];
	return dma_write(&nic->host[3], msix->addr, &msix->data, sizeof(msix->data)) < 0 ? -1 : 0;
}

static void on_tx_index(struct nic *nic)
{
	if (nic->regs.tx_index >= RING) {
		nic->refused++;
		return;
	}
	if (transmit(nic, nic->regs.tx_index) < 0) {
		perror("simple_nic: send");
		nic->failed++;
	}
}

/* ---- receive ---- */

static void on_rx_index(struct nic *nic)
{
	struct posted p = {nic->regs.rx_ring + nic->regs.rx_index * sizeof(struct descriptor), 0};
	struct descriptor d;

	if (nic->regs.rx_index >= RING) {
		nic->refused++;
		return;
	}
	if (dma_read(&nic->tx, p.at, &d, sizeof(d)) < 0) {
		perror("simple_nic: receive descriptor");
		nic->failed++;
		return;
	}
	p.addr = d.addr;
	pthread_mutex_lock(&nic->lock);
	if (nic->put - nic->taken < RING)
		nic->posted[nic->put++ % RING] = p;
	else
		nic->refused++;
	pthread_mutex_unlock(&nic->lock);
}

static int take_posted(struct nic *nic, struct posted *p)
{
	pthread_mutex_lock(&nic->lock);
	int any = nic->put != nic->taken;
	if (any)
		*p = nic->posted[nic->taken++ % RING];
	pthread_mutex_unlock(&nic->lock);
	return any;
}

/* Uses one context, whose datagrams stay in order: the length arrives before the interrupt. */
static int receive(struct nic *nic, struct posted *p, void *frame, size_t count)
{
	struct descriptor d = {p->addr, count};
	struct nettlp_msix *msix = &nic->msix[RX_VECTOR];

	if (dma_write_aligned(&nic->rx, p->addr, frame, count, MAX_PAYLOAD) < 0)
		return -1;
	if (dma_write(&nic->rx, p->at, &d, sizeof(d)) < 0)
		return -1;
	return dma_write(&nic->rx, msix->addr, &msix->data, sizeof(msix->data)) < 0 ? -1 : 0;
}

static void *from_tap(void *arg)
{
	struct nic *nic = arg;
	struct pollfd fds[2] = {{nic->tap, POLLIN, 0}, {nic->stop[0], POLLIN, 0}};
	unsigned char frame[FRAME_MAX + 1];
	struct posted p;

	while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		ssize_t count = read(nic->tap, frame, sizeof(frame));
		if (count < 0 && errno != EINTR && errno != EAGAIN) {
			perror("simple_nic: tap interface");
			nettlp_stop_cb();
			return NULL;
		}
		if (count < FRAME_MIN || count > FRAME_MAX || !take_posted(nic, &p)) {
			nic->lost++;
		} else if (receive(nic, &p, frame, count) < 0) {
			perror("simple_nic: receive");
			nic->rx_failed++;
		} else {
			nic->received++;
		}
	}
	return NULL;
}

/* ---- callbacks ---- */

static int on_mwr(struct nettlp *nt, struct tlp_mr_hdr *mh, void *m, size_t count, void *arg)
{
	struct nic *nic = arg;
	uintptr_t offset = tlp_mr_addr(mh) - nic->bar4;

	(void)nt;
	if (offset >= sizeof(nic->regs) || count > sizeof(nic->regs) - offset) {
		nic->refused++;
		return -1;
	}
	memcpy((char *)&nic->regs + offset, m, count);
	if (!nic->regs.enabled) {
		/* A driver that sets up its rings writes this first. */
		pthread_mutex_lock(&nic->lock);
		nic->taken = nic->put;
		pthread_mutex_unlock(&nic->lock);
		return 0;
	}
	if (offset == offsetof(struct registers, tx_index))
		on_tx_index(nic);
	if (offset == offsetof(struct registers, rx_index))
		on_rx_index(nic);
	return 0;
}

static int on_mrd(struct nettlp *nt, struct tlp_mr_hdr *mh, void *arg)
{
	struct nic *nic = arg;
	uintptr_t addr = tlp_mr_addr(mh), offset = addr - nic->bar4;
	size_t count = tlp_mr_data_length(mh);
	int inside = offset < sizeof(nic->regs) && count <= sizeof(nic->regs) - offset;

	complete(nt, mh, addr, inside ? (char *)&nic->regs + offset : NULL, inside ? count : 0, count);
	return 0;
}

/* ---- start ---- */

static int open_tap(const char *name)
{
	struct ifreq request;
	int fd = open("/dev/net/tun", O_RDWR);

	memset(&request, 0, sizeof(request));
	request.ifr_flags = IFF_TAP | IFF_NO_PI;
	memcpy(request.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
	if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_context(struct nettlp *nt, struct options *o, int tag, int dir)
{
	memset(nt, 0, sizeof(*nt));
	nt->remote_addr = o->remote;
	nt->local_addr = o->local;
	nt->requester = o->requester;
	nt->tag = tag;
	nt->dir = dir;
	return nettlp_init(nt);
}

/* Reads what the driver reports, and opens the tap and all contexts. Returns the name of the step that failed, or null. */
static const char *open_nic(struct nic *nic, struct options *o)
{
	int failed = 0;

	nic->bar4 = nettlp_msg_get_bar4_start(o->remote);
	if (!nic->bar4)
		return "nettlp_msg_get_bar4_start";
	if (!o->requester)
		o->requester = nettlp_msg_get_dev_id(o->remote);
	if (nettlp_msg_get_msix_table(o->remote, nic->msix, 2) < 0)
		return "nettlp_msg_get_msix_table";
	for (int n = 0; n < 16; n++)
		failed |= open_context(&nic->host[n], o, n, DMA_ISSUED_BY_ADAPTER);
	failed |= open_context(&nic->tx, o, o->tag, DMA_ISSUED_BY_LIBTLP);
	failed |= open_context(&nic->rx, o, (o->tag + 1) % 256, DMA_ISSUED_BY_LIBTLP);
	if (failed)
		return "nettlp_init";
	nic->tap = open_tap(o->interface);
	return nic->tap < 0 ? "tap interface" : pipe(nic->stop) < 0 ? "pipe" : NULL;
}

static int run(struct nic *nic)
{
	struct nettlp *nt[16];
	struct nettlp_cb cb;
	pthread_t tap;

	for (int n = 0; n < 16; n++)
		nt[n] = &nic->host[n];
	memset(&cb, 0, sizeof(cb));
	cb.mrd = on_mrd;
	cb.mwr = on_mwr;
	if (pthread_create(&tap, NULL, from_tap, nic) != 0)
		return -1;
	int status = nettlp_run_cb(nt, 16, &cb, nic);
	close(nic->stop[1]);
	pthread_join(tap, NULL);
	return status;
}

int main(int argc, char **argv)
{
	static struct nic nic = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct options o;

	read_options(&o, argc, argv, "the simple NIC of the NetTLP paper, on a tap interface");
	if (!o.interface) {
		fprintf(stderr, "simple_nic: -i NAME is needed\n");
		return 2;
	}
	const char *failed = open_nic(&nic, &o);
	if (failed) {
		perror(failed);
		return 1;
	}
	signal(SIGINT, stop);
	printf("%s, BAR4 at 0x%lx\n", o.interface, (unsigned long)nic.bar4);
	fflush(stdout);
	int status = run(&nic);
	if (status < 0)
		perror("nettlp_run_cb");
	printf("%lu sent, %lu received, %lu lost, %lu failed, %lu refused\n", nic.sent, nic.received,
	       nic.lost + nic.unplugged, nic.failed + nic.rx_failed, nic.refused);
	return status < 0;
}

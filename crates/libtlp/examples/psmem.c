/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Pseudo memory: answers the host's accesses to BAR4, which starts at -a and has -s bytes, on all 16 ports, until SIGINT.
 * Reads outside it are answered with Unsupported Request.
 */
#include <signal.h>

#include <libtlp.h>

#include "completion.h"
#include "options.h"

#define MAX_PAYLOAD 256 /* bytes; the path's Max_Payload_Size */
#define RCB         64  /* bytes; the Read Completion Boundary */

struct psmem {
	unsigned char *mem;
	unsigned long base, size;
	unsigned long reads, writes, refused;
};

static void stop(int signal)
{
	(void)signal;
	nettlp_stop_cb();
}

static int inside(struct psmem *p, uintptr_t addr, size_t count)
{
	return addr >= p->base && addr - p->base <= p->size && count <= p->size - (addr - p->base);
}

static int on_mrd(struct nettlp *nt, struct tlp_mr_hdr *mh, void *arg)
{
	struct psmem *p = arg;
	uintptr_t addr = tlp_mr_addr(mh);
	size_t remain = tlp_mr_data_length(mh);

	if (!inside(p, addr, remain)) {
		p->refused++;
		complete(nt, mh, addr, NULL, 0, remain);
		return 0;
	}
	p->reads++;
	while (remain > 0) {
		/* Up to the last boundary that one completion can reach. */
		size_t count = remain;
		if ((addr & 3) + remain > MAX_PAYLOAD)
			count = (((addr & ~3ul) + MAX_PAYLOAD) & ~(RCB - 1ul)) - addr;
		complete(nt, mh, addr, p->mem + (addr - p->base), count, remain);
		addr += count;
		remain -= count;
	}
	return 0;
}

static int on_mwr(struct nettlp *nt, struct tlp_mr_hdr *mh, void *m, size_t count, void *arg)
{
	struct psmem *p = arg;
	uintptr_t addr = tlp_mr_addr(mh);

	(void)nt;
	if (!inside(p, addr, count)) {
		p->refused++;
		return -1;
	}
	p->writes++;
	memcpy(p->mem + (addr - p->base), m, count);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;
	struct psmem p;
	struct nettlp nts[16], *nt[16];
	struct nettlp_cb cb;

	read_options(&o, argc, argv, "pseudo memory behind BAR4 of a NetTLP adapter");
	memset(&p, 0, sizeof(p));
	p.base = o.addr ? o.addr : nettlp_msg_get_bar4_start(o.remote);
	if (!p.base) {
		perror("nettlp_msg_get_bar4_start (-a gives the address)");
		return 1;
	}
	p.size = o.size;
	p.mem = calloc(1, p.size);
	if (!p.mem) {
		perror("calloc");
		return 1;
	}
	for (int n = 0; n < 16; n++) {
		nt[n] = &nts[n];
		memset(nt[n], 0, sizeof(*nt[n]));
		nt[n]->remote_addr = o.remote;
		nt[n]->local_addr = o.local;
		nt[n]->requester = o.requester;
		nt[n]->tag = n;
		nt[n]->dir = DMA_ISSUED_BY_ADAPTER;
		if (nettlp_init(nt[n]) < 0) {
			perror("nettlp_init");
			return 1;
		}
	}
	signal(SIGINT, stop);
	memset(&cb, 0, sizeof(cb));
	cb.mrd = on_mrd;
	cb.mwr = on_mwr;
	printf("%lu bytes at 0x%lx\n", p.size, p.base);
	fflush(stdout);
	int status = nettlp_run_cb(nt, 16, &cb, &p);
	if (status < 0)
		perror("nettlp_run_cb");
	printf("%lu reads, %lu writes, %lu refused\n", p.reads, p.writes, p.refused);
	for (int n = 0; n < 16; n++)
		close(nt[n]->sockfd);
	free(p.mem);
	return status < 0;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads the memory of an adapter's host, and prints it in hexadecimal. */
#include <libtlp.h>

#include "options.h"

int main(int argc, char **argv)
{
	struct options o;
	struct nettlp nt;

	read_options(&o, argc, argv, "reads memory behind a NetTLP adapter");
	memset(&nt, 0, sizeof(nt));
	nt.remote_addr = o.remote;
	nt.local_addr = o.local;
	nt.requester = o.requester;
	nt.tag = o.tag;
	nt.dir = DMA_ISSUED_BY_LIBTLP;
	if (nettlp_init(&nt) < 0) {
		perror("nettlp_init");
		return 1;
	}

	unsigned char *buf = malloc(o.size ? o.size : 1);
	if (!buf) {
		perror("malloc");
		return 1;
	}
	ssize_t got = dma_read_aligned(&nt, o.addr, buf, o.size, 512);
	if (got < 0) {
		perror("dma_read_aligned");
		free(buf);
		return 1;
	}
	for (ssize_t n = 0; n < got; n++)
		printf("%02x%s", buf[n], n % 16 == 15 || n == got - 1 ? "\n" : " ");
	free(buf);
	close(nt.sockfd);
	return 0;
}

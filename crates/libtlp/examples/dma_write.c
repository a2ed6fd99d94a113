/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes text to the memory of an adapter's host, and reads it back: a read does not pass a write. */
#include <libtlp.h>

#include "options.h"

int main(int argc, char **argv)
{
	struct options o;
	struct nettlp nt;

	read_options(&o, argc, argv, "writes memory behind a NetTLP adapter");
	if (!o.data)
		o.data = "hello";
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

	size_t len = strlen(o.data);
	ssize_t done = dma_write_aligned(&nt, o.addr, (void *)o.data, len, 256);
	if (done < 0) {
		perror("dma_write_aligned");
		return 1;
	}
	char *back = malloc(len + 1);
	if (!back || dma_read_aligned(&nt, o.addr, back, len, 512) < 0) {
		perror("dma_read_aligned");
		free(back);
		return 1;
	}
	int same = memcmp(back, o.data, len) == 0;
	printf("%zd bytes written, %s\n", done, same ? "read back" : "read back otherwise");
	free(back);
	close(nt.sockfd);
	return same ? 0 : 1;
}

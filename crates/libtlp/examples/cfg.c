/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads -s bytes of the adapter's configuration space at -a; with -d, writes that number of -s bytes (1 to 4) before. */
#include <libtlp.h>

#include "options.h"

int main(int argc, char **argv)
{
	struct options o;
	struct nettlp_pcie_cfg cfg;
	unsigned char buf[4096];

	read_options(&o, argc, argv, "reads a NetTLP adapter's configuration space");
	if (o.addr + o.size > sizeof(buf) || (o.data && (o.size < 1 || o.size > 4))) {
		fprintf(stderr, "cfg: invalid size; expected up to 4096 bytes, and writes of 1 to 4\n");
		return 2;
	}
	memset(&cfg, 0, sizeof(cfg));
	cfg.remote_addr = o.remote;
	cfg.local_addr = o.local;
	if (nettlp_pcie_cfg_init(&cfg) < 0) {
		perror("nettlp_pcie_cfg_init");
		return 1;
	}
	if (o.data) {
		unsigned long value = strtoul(o.data, NULL, 0);
		for (unsigned n = 0; n < 4; n++)
			buf[n] = value >> 8 * n;
		if (nettlp_pcie_cfg_write(&cfg, o.addr, buf, o.size) < 0) {
			perror("nettlp_pcie_cfg_write");
			return 1;
		}
	}
	ssize_t got = nettlp_pcie_cfg_read(&cfg, o.addr, buf, o.size);
	if (got < 0) {
		perror("nettlp_pcie_cfg_read");
		return 1;
	}
	for (ssize_t n = 0; n < got; n++)
		printf("%02x%s", buf[n], n % 16 == 15 || n == got - 1 ? "\n" : " ");
	close(cfg.sockfd);
	return 0;
}

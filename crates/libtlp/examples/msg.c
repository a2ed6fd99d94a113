/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Asks the driver on the adapter's host for everything that it reports: BAR4, id, MSI-X table. */
#include <errno.h>

#include <libtlp.h>

#include "options.h"

int main(int argc, char **argv)
{
	struct options o;
	struct nettlp_msix msix[NETTLP_MAX_VEC];

	read_options(&o, argc, argv, "asks the driver on a NetTLP adapter's host");
	uintptr_t bar4 = nettlp_msg_get_bar4_start(o.remote);
	if (!bar4) {
		perror("nettlp_msg_get_bar4_start");
		return 1;
	}
	errno = 0;
	uint16_t id = nettlp_msg_get_dev_id(o.remote);
	if (!id && errno) {
		perror("nettlp_msg_get_dev_id");
		return 1;
	}
	if (nettlp_msg_get_msix_table(o.remote, msix, NETTLP_MAX_VEC) < 0) {
		perror("nettlp_msg_get_msix_table");
		return 1;
	}
	printf("BAR4 0x%lx\n", (unsigned long)bar4);
	printf("id %02x:%02x.%x\n", id >> 8, id >> 3 & 0x1f, id & 7);
	for (int n = 0; n < NETTLP_MAX_VEC; n++)
		if (msix[n].addr)
			printf("vector %d: address 0x%llx, data 0x%x\n", n, (unsigned long long)msix[n].addr,
			       msix[n].data);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prints the offset of every member of every structure of the headers, one per line. */
#include <stddef.h>
#include <stdio.h>

#include <libtlp.h>

#define SIZE(type)          printf(#type " %zu\n", sizeof(struct type))
#define AT(type, member)    printf(#type "." #member " %zu\n", offsetof(struct type, member))

int main(void)
{
	SIZE(nettlp_hdr); AT(nettlp_hdr, seq); AT(nettlp_hdr, tstamp);
	SIZE(tlp_hdr); AT(tlp_hdr, fmt_type); AT(tlp_hdr, tclass); AT(tlp_hdr, falen);
	SIZE(tlp_mr_hdr); AT(tlp_mr_hdr, tlp); AT(tlp_mr_hdr, requester); AT(tlp_mr_hdr, tag);
	SIZE(tlp_cpl_hdr); AT(tlp_cpl_hdr, tlp); AT(tlp_cpl_hdr, completer); AT(tlp_cpl_hdr, stcnt);
	AT(tlp_cpl_hdr, requester); AT(tlp_cpl_hdr, tag); AT(tlp_cpl_hdr, lowaddr);
	SIZE(nettlp); AT(nettlp, remote_addr); AT(nettlp, local_addr); AT(nettlp, requester); AT(nettlp, tag);
	AT(nettlp, dir); AT(nettlp, sockfd); AT(nettlp, port);
	SIZE(nettlp_msix); AT(nettlp_msix, addr); AT(nettlp_msix, data);
	SIZE(nettlp_pcie_cfg); AT(nettlp_pcie_cfg, remote_addr); AT(nettlp_pcie_cfg, local_addr);
	AT(nettlp_pcie_cfg, sockfd); AT(nettlp_pcie_cfg, port);
	SIZE(nettlp_cb); AT(nettlp_cb, start); AT(nettlp_cb, end); AT(nettlp_cb, mrd); AT(nettlp_cb, mwr);
	AT(nettlp_cb, cpl); AT(nettlp_cb, cpld); AT(nettlp_cb, other);

	struct tlp_mr_hdr mh = {{0, 0, 0}, 0, 0, 0xc, 0x3};
	printf("byte_enables %u\n", ((unsigned char *)&mh)[7]);
	printf("constants %d %d %d %d %d\n", LIBTLP_CPL_TIMEOUT, LIBTLP_DRAIN_TIMEOUT, LIBTLP_CFG_TIMEOUT,
	       DMA_ISSUED_BY_LIBTLP, DMA_ISSUED_BY_ADAPTER);
	return 0;
}

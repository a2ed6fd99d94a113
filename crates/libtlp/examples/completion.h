/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Completions of the host's reads, for callbacks that build them. */
#ifndef COMPLETION_H
#define COMPLETION_H

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include <libtlp.h>

/* Sends one completion: `count` bytes at `addr`, of `remain` bytes left; without data if `data` is null. */
static inline void complete(struct nettlp *nt, struct tlp_mr_hdr *mh, uintptr_t addr, const void *data, size_t count,
			    size_t remain)
{
	static const unsigned char pad[4];
	struct nettlp_hdr nh = {0, 0};
	struct tlp_cpl_hdr ch;
	struct iovec iov[5];
	int n = 2;

	memset(&ch, 0, sizeof(ch));
	tlp_set_type(ch.tlp.fmt_type, TLP_TYPE_Cpl);
	tlp_set_fmt(ch.tlp.fmt_type, TLP_FMT_3DW, data ? TLP_FMT_W_DATA : TLP_FMT_WO_DATA);
	ch.tlp.tclass = mh->tlp.tclass;
	ch.tlp.falen = htons(tlp_attr(mh->tlp.falen));
	ch.completer = htons(nt->requester);
	ch.requester = mh->requester;
	ch.tag = mh->tag;
	ch.lowaddr = addr & 0x7f;
	tlp_set_cpl_status(ch.stcnt, data ? TLP_CPL_STATUS_SC : TLP_CPL_STATUS_UR);
	tlp_set_cpl_bcnt(ch.stcnt, remain);
	iov[0] = (struct iovec){&nh, sizeof(nh)};
	iov[1] = (struct iovec){&ch, sizeof(ch)};
	if (data) {
		tlp_set_length(ch.tlp.falen, tlp_calculate_length(addr, count));
		iov[n++] = (struct iovec){(void *)pad, addr & 3};
		iov[n++] = (struct iovec){(void *)data, count};
		iov[n++] = (struct iovec){(void *)pad, -(addr + count) & 3};
	}
	if (writev(nt->sockfd, iov, n) < 0)
		perror("writev");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tests every macro of tlp.h on literal bytes; also compiled as C++. The exit status is the number of errors. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libtlp.h>

static int wrong;

#define IS(what, value) \
	do { \
		unsigned long found = (unsigned long)(what), legal = (unsigned long)(value); \
		if (found != legal) { \
			printf("%d: " #what " is 0x%lx, not 0x%lx\n", __LINE__, found, legal); \
			wrong++; \
		} \
	} while (0)

/* An MWr of 1024 DW to 0x1_0000_0000 with Relaxed Ordering, EP and TD set, requester 1b:03.5. */
static const unsigned char mwr[16] = {0x60, 0x70, 0xe0, 0x00, 0x1b, 0x1d, 0x12, 0xff, 0, 0, 0, 1, 0, 0, 0, 0};
/* A CplD of 1 DW, Unsupported Request, BCM, 4096 bytes remaining. */
static const unsigned char cpl[12] = {0x4a, 0, 0x10, 0x01, 0x01, 0x00, 0x30, 0x00, 0x1b, 0x1d, 0x12, 0x41};

static void read_them(void)
{
	struct tlp_mr_hdr mh;
	struct tlp_cpl_hdr ch;

	memcpy(&mh, mwr, sizeof(mh));
	memcpy(&ch, cpl, sizeof(ch));
	IS(tlp_fmt(mh.tlp.fmt_type), 0x60);
	IS(tlp_type(mh.tlp.fmt_type), TLP_TYPE_MWr);
	IS(tlp_is_4dw(mh.tlp.fmt_type), 1);
	IS(tlp_is_3dw(mh.tlp.fmt_type), 0);
	IS(tlp_is_w_data(mh.tlp.fmt_type), 1);
	IS(tlp_is_wo_data(mh.tlp.fmt_type), 0);
	IS(tlp_is_mwr(mh.tlp.fmt_type), 1);
	IS(tlp_is_mrd(mh.tlp.fmt_type), 0);
	IS(tlp_is_cpl(mh.tlp.fmt_type), 0);
	IS(tlp_is_mrd(0x00) && tlp_is_mrd(0x20) && !tlp_is_mrd(0x01), 1);
	IS(tlp_is_cpl(0x0a) && tlp_is_cpl(0x4a) && tlp_is_cpld(0x4a) && !tlp_is_cpld(0x0a), 1);
	IS(tlp_is_cpl(0x0b) || tlp_is_cpl(0x4b) || tlp_is_cpl(0x2a) || tlp_is_cpl(0x8a), 0);
	IS(tlp_fmt_dw(mh.tlp.fmt_type), TLP_FMT_4DW);
	IS(tlp_fmt_data(mh.tlp.fmt_type), TLP_FMT_W_DATA);
	IS(tlp_fmt_dw(0x4a), TLP_FMT_3DW);
	IS(tlp_fmt_data(0x2a), TLP_FMT_WO_DATA);
	IS(tlp_tclass(mh.tlp.tclass), 7);
	IS(tlp_tclass(0x8f), 0);
	IS(tlp_flag_digest(mh.tlp.falen), TLP_FLAG_DIGEST_MASK);
	IS(tlp_flag_ep(mh.tlp.falen), TLP_FLAG_EP_MASK);
	IS(tlp_flag_digest(ch.tlp.falen) | tlp_flag_ep(ch.tlp.falen), 0);
	IS(tlp_attr_relax(mh.tlp.falen), TLP_ATTR_RELAX_MASK);
	IS(tlp_attr_nosnp(mh.tlp.falen), 0);
	IS(tlp_attr_relax(ch.tlp.falen), 0);
	IS(tlp_attr_nosnp(ch.tlp.falen), TLP_ATTR_NOSNP_MASK);
	IS(tlp_flag(mh.tlp.falen), TLP_FLAG_TD | TLP_FLAG_EP);
	IS(tlp_attr(mh.tlp.falen), TLP_ATTR_RELAX);
	IS(tlp_length(mh.tlp.falen), 1024);
	IS(tlp_id_to_bus(mh.requester), 0x1b);
	IS(tlp_id_to_device(mh.requester), 0x1d);
	IS(tlp_id_to_function(mh.requester), 5);
	IS(tlp_bdf_to_id(0x1b, 3, 5), mh.requester);
	IS(mh.tag, 0x12);
	IS(mh.fstdw, 0xf);
	IS(mh.lstdw, 0xf);
	IS(tlp_cpl_status(ch.stcnt), TLP_CPL_STATUS_UR);
	IS(tlp_cpl_bcm(ch.stcnt), TLP_CPL_BCM);
	IS(tlp_cpl_bcnt(ch.stcnt), 4096);
	IS(tlp_attr(ch.tlp.falen), TLP_ATTR_NOSNP);
	IS(tlp_length(ch.tlp.falen), 1);
	IS(ch.lowaddr, 0x41);
}

static void write_them(void)
{
	struct tlp_mr_hdr mh;
	struct tlp_cpl_hdr ch;

	memset(&mh, 0, sizeof(mh));
	memset(&ch, 0, sizeof(ch));
	tlp_set_type(mh.tlp.fmt_type, TLP_TYPE_MWr);
	tlp_set_fmt(mh.tlp.fmt_type, TLP_FMT_4DW, TLP_FMT_W_DATA);
	tlp_set_tclass(mh.tlp.tclass, 7);
	tlp_set_length(mh.tlp.falen, 5);
	tlp_set_flag(mh.tlp.falen, TLP_FLAG_TD | TLP_FLAG_EP);
	tlp_set_attr(mh.tlp.falen, TLP_ATTR_RELAX);
	tlp_set_length(mh.tlp.falen, 1024);
	mh.requester = tlp_bdf_to_id(0x1b, 3, 5);
	mh.tag = 0x12;
	mh.fstdw = tlp_calculate_fstdw(0x100000000ul, 4096);
	mh.lstdw = tlp_calculate_lstdw(0x100000000ul, 4096);
	IS(memcmp(&mh, mwr, sizeof(mh)), 0);

	tlp_set_fmt(ch.tlp.fmt_type, TLP_FMT_3DW, TLP_FMT_W_DATA);
	tlp_set_type(ch.tlp.fmt_type, TLP_TYPE_Cpl);
	tlp_set_attr(ch.tlp.falen, TLP_ATTR_NOSNP);
	tlp_set_length(ch.tlp.falen, tlp_calculate_length(0x41, 3));
	ch.completer = tlp_bdf_to_id(1, 0, 0);
	tlp_set_cpl_status(ch.stcnt, TLP_CPL_STATUS_UR);
	tlp_set_cpl_bcm(ch.stcnt, 1);
	tlp_set_cpl_bcnt(ch.stcnt, 77);
	tlp_set_cpl_bcnt(ch.stcnt, 4096);
	ch.requester = mh.requester;
	ch.tag = mh.tag;
	ch.lowaddr = 0x41;
	IS(memcmp(&ch, cpl, sizeof(ch)), 0);
}

/* Each call changes only its bit, in a field whose other bits are all set, and in one where all are clear. */
static void one_bit_at_a_time(void)
{
	uint16_t clear = 0, set = 0xffff;
	uint8_t tclass = 0xff;

	tlp_flag_set_digest(clear);
	IS(ntohs(clear), 0x8000);
	tlp_flag_set_ep(clear);
	IS(ntohs(clear), 0xc000);
	tlp_attr_set_relax(clear);
	IS(ntohs(clear), 0xe000);
	tlp_attr_set_nosnp(clear);
	IS(ntohs(clear), 0xf000);
	tlp_flag_unset_digest(set);
	IS(ntohs(set), 0x7fff);
	tlp_flag_unset_ep(set);
	IS(ntohs(set), 0x3fff);
	tlp_attr_unset_relax(set);
	IS(ntohs(set), 0x1fff);
	tlp_attr_unset_nosnp(set);
	IS(ntohs(set), 0x0fff);
	tlp_set_tclass(tclass, 2);
	IS(tclass, 0xaf);
	IS(tlp_tclass(tclass), 2);
}

/* Upstream's constants that programs use by name. 0 is the value after memset. */
static void constants(void)
{
	enum dma_direction dir = DMA_ISSUED_BY_ADAPTER;

	IS(dir, 1);
	IS(DMA_ISSUED_BY_LIBTLP, 0);
	IS(NETTLP_CB_MAX_NTS, 16);
	IS(NETTLP_MAX_VEC, 16);
	IS(NETTLP_PCIE_CFG_PORT, 0x4001);
	IS(NETTLP_MSG_GET_BAR4_ADDR, 1);
	IS(NETTLP_MSG_GET_DEV_ID, 2);
	IS(NETTLP_MSG_GET_MSIX_TABLE, 3);
	IS(TLP_TCLASS_MASK, 0x70);
	IS(TLP_FLAG_DIGEST_MASK | TLP_FLAG_EP_MASK, TLP_FLAG_MASK);
	IS(TLP_ATTR_RELAX_MASK | TLP_ATTR_NOSNP_MASK, TLP_ATTR_MASK);
}

/*
 * Opens contexts of both directions, on addresses that only this process uses. In one context, memset has set the
 * direction.
 */
static void open_them(void)
{
	struct nettlp nt;

	memset(&nt, 0, sizeof(nt));
	nt.local_addr.s_addr = htonl(0x7f400001u | ((uint32_t)getpid() & 0x1fffff) << 1);
	nt.remote_addr = nt.local_addr;
	nt.tag = 0x15;
	IS(nettlp_init(&nt), 0);
	IS(nt.port, 0x3015);
	close(nt.sockfd);
	nt.dir = DMA_ISSUED_BY_ADAPTER;
	IS(nettlp_init(&nt), 0);
	IS(nt.port, 0x4005);
	close(nt.sockfd);
}

static void point_into_them(void)
{
	unsigned char tlp[20];

	memset(tlp, 0, sizeof(tlp));
	memcpy(tlp, mwr, sizeof(mwr));
	IS(tlp_mr_addr((struct tlp_mr_hdr *)tlp), 0x100000000ul);
	IS(tlp_mr_data_length((struct tlp_mr_hdr *)tlp), 4096);
	IS((unsigned char *)tlp_mwr_data((struct tlp_mr_hdr *)tlp) - tlp, 16);
	memcpy(tlp, cpl, sizeof(cpl));
	IS((unsigned char *)tlp_cpld_data((struct tlp_cpl_hdr *)tlp) - tlp, 13);
	IS(tlp_cpld_data_length((struct tlp_cpl_hdr *)tlp), 3);
}

int main(void)
{
	read_them();
	write_them();
	one_bit_at_a_time();
	constants();
	open_them();
	point_into_them();
	return wrong;
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * tlp.h: headers of TLPs as in a datagram, and macros and functions that read and write their fields.
 *
 * All fields of more than one byte are big endian, as on the wire (PCIe 5.0 §2.2). Macros that read such a field take
 * the field as it is in the header, for example tlp_length(falen) and tlp_id_to_bus(id). They return a number in the
 * host's byte order. Macros that set a field write big endian. The functions at the end never block and do not set
 * errno. They may be called from any thread and from signal handlers.
 *
 *   datagram:  struct nettlp_hdr, then one of
 *   MRd, MWr:  struct tlp_mr_hdr, address of 4 or 8 bytes (3 or 4 DW of header), data in whole DWs (MWr)
 *   Cpl, CplD: struct tlp_cpl_hdr, data in whole DWs (CplD)
 */
#ifndef RISER_TLP_H
#define RISER_TLP_H

#include <arpa/inet.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before every TLP: NSDI'20 §4.1. Software sets both fields to 0. */
struct nettlp_hdr {
	uint16_t seq;    /* count of the adapter's datagrams */
	uint32_t tstamp; /* the adapter's clock, ticks of 6.4 ns */
} __attribute__((packed));

/* The first DW of every TLP (PCIe 5.0 §2.2.1). */
struct tlp_hdr {
	uint8_t fmt_type; /* Fmt in bits 7:5, Type in bits 4:0 */
	uint8_t tclass;   /* Traffic Class in bits 6:4 */
	uint16_t falen;   /* TD, EP, Attr, AT and Length */
} __attribute__((packed));

/* ---- fmt_type ---- */

#define TLP_FMT_DW_MASK 0x20
#define TLP_FMT_3DW     0x00
#define TLP_FMT_4DW     0x20

#define TLP_FMT_DATA_MASK 0x40
#define TLP_FMT_WO_DATA   0x00
#define TLP_FMT_W_DATA    0x40

#define TLP_FMT_MASK   0xe0
#define TLP_FMT_PREFIX 0x80

#define TLP_TYPE_MASK   0x1f
#define TLP_TYPE_MRd    0x00
#define TLP_TYPE_MRdLk  0x01
#define TLP_TYPE_MWr    0x00
#define TLP_TYPE_IO     0x02
#define TLP_TYPE_IORd   0x02
#define TLP_TYPE_IOWr   0x02
#define TLP_TYPE_CfgRd0 0x04
#define TLP_TYPE_CfgWr0 0x04
#define TLP_TYPE_CfgRd1 0x05
#define TLP_TYPE_CfgWr1 0x05
#define TLP_TYPE_Msg    0x10
#define TLP_TYPE_Cpl    0x0a
#define TLP_TYPE_CplLk  0x0b

/* The same constants with names in capitals. */
#define TLP_TYPE_MRD    TLP_TYPE_MRd
#define TLP_TYPE_MRDLK  TLP_TYPE_MRdLk
#define TLP_TYPE_MWR    TLP_TYPE_MWr
#define TLP_TYPE_IORD   TLP_TYPE_IORd
#define TLP_TYPE_IOWR   TLP_TYPE_IOWr
#define TLP_TYPE_CFGRD0 TLP_TYPE_CfgRd0
#define TLP_TYPE_CFGWR0 TLP_TYPE_CfgWr0
#define TLP_TYPE_CFGRD1 TLP_TYPE_CfgRd1
#define TLP_TYPE_CFGWR1 TLP_TYPE_CfgWr1
#define TLP_TYPE_MSG    TLP_TYPE_Msg
#define TLP_TYPE_CPL    TLP_TYPE_Cpl
#define TLP_TYPE_CPLLK  TLP_TYPE_CplLk

#define tlp_fmt(ft)      ((ft) & TLP_FMT_MASK)
#define tlp_fmt_dw(ft)   ((ft) & TLP_FMT_DW_MASK)   /* TLP_FMT_3DW or TLP_FMT_4DW */
#define tlp_fmt_data(ft) ((ft) & TLP_FMT_DATA_MASK) /* TLP_FMT_WO_DATA or TLP_FMT_W_DATA */
#define tlp_type(ft)     ((ft) & TLP_TYPE_MASK)

/* Sets Fmt to one of TLP_FMT_3DW, _4DW and one of TLP_FMT_WO_DATA, _W_DATA; Type does not change. */
#define tlp_set_fmt(ft, dw, wd) ((ft) = (uint8_t)(((ft) & TLP_TYPE_MASK) | (dw) | (wd)))
/* Sets Type; Fmt does not change. */
#define tlp_set_type(ft, type) ((ft) = (uint8_t)(((ft) & TLP_FMT_MASK) | (type)))

#define tlp_is_3dw(ft)     (((ft) & TLP_FMT_DW_MASK) == TLP_FMT_3DW)
#define tlp_is_4dw(ft)     (((ft) & TLP_FMT_DW_MASK) == TLP_FMT_4DW)
#define tlp_is_w_data(ft)  (((ft) & TLP_FMT_DATA_MASK) == TLP_FMT_W_DATA)
#define tlp_is_wo_data(ft) (((ft) & TLP_FMT_DATA_MASK) == TLP_FMT_WO_DATA)

/* False for TLPs with prefixes. tlp_is_cpl is true for completions with and without data; tlp_is_w_data tells which. */
#define tlp_is_mrd(ft)  (((ft) & ~TLP_FMT_DW_MASK) == (TLP_FMT_WO_DATA | TLP_TYPE_MRd))
#define tlp_is_mwr(ft)  (((ft) & ~TLP_FMT_DW_MASK) == (TLP_FMT_W_DATA | TLP_TYPE_MWr))
#define tlp_is_cpl(ft)  (((ft) & ~TLP_FMT_DATA_MASK) == (TLP_FMT_3DW | TLP_TYPE_Cpl))
#define tlp_is_cpld(ft) ((ft) == (TLP_FMT_3DW | TLP_FMT_W_DATA | TLP_TYPE_Cpl))

/* ---- tclass ---- */

#define TLP_TCLASS_MASK 0x70

/* Traffic Class, 0 to 7. The macro that sets it does not change the other bits. */
#define tlp_tclass(tc) (((tc) & TLP_TCLASS_MASK) >> 4)
#define tlp_set_tclass(tc, class_) ((tc) = (uint8_t)(((tc) & ~TLP_TCLASS_MASK) | (((class_) << 4) & TLP_TCLASS_MASK)))

/* ---- falen ---- */

#define TLP_FLAG_MASK        0xc000
#define TLP_FLAG_DIGEST_MASK 0x8000
#define TLP_FLAG_EP_MASK     0x4000
#define TLP_FLAG_DIGEST TLP_FLAG_DIGEST_MASK /* TD: a digest follows the data */
#define TLP_FLAG_EP     TLP_FLAG_EP_MASK     /* EP: the data is poisoned */
#define TLP_FLAG_TD     TLP_FLAG_DIGEST
#define TLP_FLAG_POISON TLP_FLAG_EP

#define TLP_ATTR_MASK       0x3000
#define TLP_ATTR_RELAX_MASK 0x2000
#define TLP_ATTR_NOSNP_MASK 0x1000
#define TLP_ATTR_RELAX   TLP_ATTR_RELAX_MASK /* Relaxed Ordering */
#define TLP_ATTR_NOSNP   TLP_ATTR_NOSNP_MASK /* No Snoop */
#define TLP_ATTR_RELAXED TLP_ATTR_RELAX
#define TLP_ATTR_RO      TLP_ATTR_RELAX
#define TLP_ATTR_NOSNOOP TLP_ATTR_NOSNP
#define TLP_ATTR_NS      TLP_ATTR_NOSNP

#define TLP_LENGTH_MASK 0x03ff

#define tlp_flag(falen) (ntohs(falen) & TLP_FLAG_MASK)
#define tlp_attr(falen) (ntohs(falen) & TLP_ATTR_MASK)
/* Return the mask of the bit if it is set, otherwise 0. */
#define tlp_flag_digest(falen) (ntohs(falen) & TLP_FLAG_DIGEST_MASK)
#define tlp_flag_ep(falen)     (ntohs(falen) & TLP_FLAG_EP_MASK)
#define tlp_attr_relax(falen)  (ntohs(falen) & TLP_ATTR_RELAX_MASK)
#define tlp_attr_nosnp(falen)  (ntohs(falen) & TLP_ATTR_NOSNP_MASK)
/* Length in DW, 1 to 1024: 0 on the wire means 1024. */
#define tlp_length(falen) ((((ntohs(falen) & TLP_LENGTH_MASK) + 1023) & TLP_LENGTH_MASK) + 1)

#define tlp_set_flag(falen, flag) \
	((falen) = htons((uint16_t)((ntohs(falen) & ~TLP_FLAG_MASK) | ((flag) & TLP_FLAG_MASK))))
#define tlp_set_attr(falen, attr) \
	((falen) = htons((uint16_t)((ntohs(falen) & ~TLP_ATTR_MASK) | ((attr) & TLP_ATTR_MASK))))
/* Set or clear one bit, without changing the other bits. */
#define tlp_flag_set_digest(falen)   ((falen) |= htons(TLP_FLAG_DIGEST_MASK))
#define tlp_flag_unset_digest(falen) ((falen) &= htons((uint16_t)~TLP_FLAG_DIGEST_MASK))
#define tlp_flag_set_ep(falen)       ((falen) |= htons(TLP_FLAG_EP_MASK))
#define tlp_flag_unset_ep(falen)     ((falen) &= htons((uint16_t)~TLP_FLAG_EP_MASK))
#define tlp_attr_set_relax(falen)    ((falen) |= htons(TLP_ATTR_RELAX_MASK))
#define tlp_attr_unset_relax(falen)  ((falen) &= htons((uint16_t)~TLP_ATTR_RELAX_MASK))
#define tlp_attr_set_nosnp(falen)    ((falen) |= htons(TLP_ATTR_NOSNP_MASK))
#define tlp_attr_unset_nosnp(falen)  ((falen) &= htons((uint16_t)~TLP_ATTR_NOSNP_MASK))
/* Sets Length, 1 to 1024 DW; 1024 is written as 0. The other bits do not change. */
#define tlp_set_length(falen, len) \
	((falen) = htons((uint16_t)((ntohs(falen) & ~TLP_LENGTH_MASK) | ((len) & TLP_LENGTH_MASK))))

/* ---- ids: Requester ID and Completer ID as in a header ---- */

#define tlp_id_to_bus(id)      (ntohs(id) >> 8)
/* Device and function together in eight bits: 03.5 is 0x1d. With ARI, all eight bits are the function (PCIe 5.0 §6.13). */
#define tlp_id_to_device(id)   (ntohs(id) & 0x00ff)
#define tlp_id_to_function(id) (ntohs(id) & 0x0007)
#define tlp_id_to_func(id)     tlp_id_to_function(id)
/* The inverse: makes the header field from bus, device (0 to 31) and function (0 to 7). */
#define tlp_bdf_to_id(bus, device, function) \
	htons((uint16_t)((((bus) & 0xff) << 8) | (((device) & 0x1f) << 3) | ((function) & 0x7)))

/* ---- memory requests (PCIe 5.0 §2.2.7) ---- */

/* MRd and MWr. The address, 4 or 8 bytes, and the data of a MWr follow. */
struct tlp_mr_hdr {
	struct tlp_hdr tlp;
	uint16_t requester; /* Requester ID: bus, device, function */
	uint8_t tag;
#if __BYTE_ORDER == __LITTLE_ENDIAN
	uint8_t fstdw : 4; /* First DW Byte Enables: bit n is byte n of the first DW */
	uint8_t lstdw : 4; /* Last DW Byte Enables; 0 if Length is 1 */
#else
	uint8_t lstdw : 4;
	uint8_t fstdw : 4;
#endif
} __attribute__((packed));

/* ---- completions (PCIe 5.0 §2.2.9) ---- */

/* Cpl and CplD. The data of a CplD follows. */
struct tlp_cpl_hdr {
	struct tlp_hdr tlp;
	uint16_t completer; /* Completer ID */
	uint16_t stcnt;     /* Completion Status, BCM and Byte Count */
	uint16_t requester; /* Requester ID of the request that it answers */
	uint8_t tag;
	uint8_t lowaddr;    /* low 7 bits of the address of the first byte of its data */
} __attribute__((packed));

#define TLP_CPL_STATUS_MASK 0xe000
#define TLP_CPL_STATUS_SC   0x0000 /* Successful Completion */
#define TLP_CPL_STATUS_UR   0x2000 /* Unsupported Request */
#define TLP_CPL_STATUS_CRS  0x4000 /* Configuration Request Retry Status */
#define TLP_CPL_STATUS_CA   0x8000 /* Completer Abort */

#define TLP_CPL_BCM_MASK   0x1000
#define TLP_CPL_BCM        TLP_CPL_BCM_MASK
#define TLP_CPL_BCNT_MASK  0x0fff
#define TLP_CPL_COUNT_MASK TLP_CPL_BCNT_MASK

#define tlp_cpl_status(stcnt) (ntohs(stcnt) & TLP_CPL_STATUS_MASK)
#define tlp_cpl_bcm(stcnt)    (ntohs(stcnt) & TLP_CPL_BCM_MASK)
/* Remaining bytes of the request, including this completion, 1 to 4096: 0 on the wire means 4096. */
#define tlp_cpl_bcnt(stcnt) ((((ntohs(stcnt) & TLP_CPL_BCNT_MASK) + 4095) & TLP_CPL_BCNT_MASK) + 1)

#define tlp_set_cpl_status(stcnt, status) \
	((stcnt) = htons((uint16_t)((ntohs(stcnt) & ~TLP_CPL_STATUS_MASK) | ((status) & TLP_CPL_STATUS_MASK))))
#define tlp_set_cpl_bcm(stcnt, bcm) \
	((stcnt) = htons((uint16_t)((ntohs(stcnt) & ~TLP_CPL_BCM_MASK) | ((bcm) ? TLP_CPL_BCM_MASK : 0))))
/* Sets Byte Count, 1 to 4096; 4096 is written as 0. The other bits do not change. */
#define tlp_set_cpl_bcnt(stcnt, count) \
	((stcnt) = htons((uint16_t)((ntohs(stcnt) & ~TLP_CPL_BCNT_MASK) | ((count) & TLP_CPL_BCNT_MASK))))

/* ---- functions ---- */

/*
 * Return header fields of a request for `count` bytes at `addr` (PCIe 5.0 §2.2.5): First DW Byte Enables, Last DW Byte
 * Enables (0 if Length is 1), and Length in DW. `count` must be 0 to 4096, and the request must not cross a 4 KiB
 * boundary. For `count` 0, which is a zero-length request, no byte is enabled and Length is 1.
 */
int tlp_calculate_fstdw(uintptr_t addr, size_t count);
int tlp_calculate_lstdw(uintptr_t addr, size_t count);
int tlp_calculate_length(uintptr_t addr, size_t count);

/*
 * Returns the address of the first enabled byte of a memory request: the address after the header, plus the number of
 * bytes before the first enabled byte. The address must follow directly after `mh`.
 */
uintptr_t tlp_mr_addr(struct tlp_mr_hdr *mh);

/*
 * Returns the number of bytes from the first enabled byte to the last. This is the Byte Count of the first completion
 * (PCIe 5.0 §2.3.1.1). For a zero-length request, returns 1 for an MRd, as that section says, and 0 for an MWr, which
 * changes no bytes.
 */
int tlp_mr_data_length(struct tlp_mr_hdr *mh);

/* Returns a pointer to the first enabled data byte of a MWr, after header, address, and the bytes that are not enabled. */
void *tlp_mwr_data(struct tlp_mr_hdr *mh);

/*
 * Return a pointer to the first requested byte of a CplD's data, and the number of requested bytes. They start
 * directly after the 12 bytes of header, or up to 3 bytes later if Lower Address is not a multiple of 4. Their number
 * is Byte Count, or, if more completions follow, the number of bytes that this TLP holds.
 */
void *tlp_cpld_data(struct tlp_cpl_hdr *ch);
int tlp_cpld_data_length(struct tlp_cpl_hdr *ch);

#ifdef __cplusplus
}
#endif

#endif /* RISER_TLP_H */

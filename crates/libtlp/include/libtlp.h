/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libtlp.h: LibTLP, the transaction layer of a PCI Express device in software. TLPs travel in UDP datagrams to and from a
 * NetTLP adapter (NSDI'20), which may be riser's: `riser nettlp adapter`. Link with -ltlp, or ask pkg-config for libtlp.
 *
 * Threads: different contexts may be used by different threads at once. One context, and its socket, is for one thread at
 * a time. A context is a plain structure; it may be copied, but the copies share its socket and count as one. All calls
 * but nettlp_stop_cb are for threads, not for signal handlers. A signal that is handled meanwhile ends no call early.
 *
 * Errors: calls that fail set errno. Nothing waits for ever, but nettlp_run_cb, which nettlp_stop_cb ends.
 *
 * Warning: who can reach an adapter can read and write its host's memory. Keep them on a network of their own.
 */
#ifndef RISER_LIBTLP_H
#define RISER_LIBTLP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tlp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How long a DMA read waits for all its completions, and messaging for its answer; milliseconds. */
#define LIBTLP_CPL_TIMEOUT 500
/* How much longer the tag of a read that timed out stays out of use, at most; milliseconds. */
#define LIBTLP_DRAIN_TIMEOUT 500
/* How long a configuration read waits for its answer, milliseconds. */
#define LIBTLP_CFG_TIMEOUT 1000

/* First UDP port of each direction; both ends bind and connect the same port. */
#define NETTLP_LIBTLP_PORT_BASE  0x3000 /* + tag */
#define NETTLP_ADAPTER_PORT_BASE 0x4000 /* + (tag & 0xf) */
#define NETTLP_MSG_PORT          0x2fff
#define NETTLP_CFG_PORT          0x5001 /* adapters from v0.22 on */
#define NETTLP_CFG_PORT_OLD      0x4001 /* adapters before */
#define NETTLP_PCIE_CFG_PORT     NETTLP_CFG_PORT_OLD /* of programs with a socket of their own; riser answers on both */

/* What messaging is asked: a uint32_t of the host's byte order. */
#define NETTLP_MSG_GET_BAR4_ADDR  1
#define NETTLP_MSG_GET_DEV_ID     2
#define NETTLP_MSG_GET_MSIX_TABLE 3

/* Who issues the requests of a context. A context that memset has cleared is this program's. */
enum dma_direction {
	DMA_ISSUED_BY_LIBTLP = 0,  /* this program: dma_read, dma_write */
	DMA_ISSUED_BY_ADAPTER = 1  /* the adapter's host: nettlp_run_cb */
};

/*
 * A context: one tag, one UDP socket. Set the first five members, then call nettlp_init, which sets the others.
 */
struct nettlp {
	struct in_addr remote_addr; /* the adapter */
	struct in_addr local_addr;  /* this host; INADDR_ANY is any of its addresses */
	uint16_t requester;         /* Requester ID of what this program sends: bus << 8 | device << 3 | function */
	uint8_t tag;                /* tag of its requests, and what the port follows from */
	int dir;                    /* of enum dma_direction */

	int sockfd; /* bound and connected; yours to poll, write to and close(2) */
	int port;   /* UDP port of both ends */
};

/*
 * Opens the socket of `nt`: port 0x3000 + tag, or 0x4000 + (tag & 0xf) where the adapter issues the requests. Sends
 * nothing, does not block.
 *
 * Returns 0; or -1, with errno EINVAL for an unknown `dir`, EFAULT for a null pointer, or that of socket(2), bind(2)
 * (EADDRINUSE: another context has this tag on this address) or connect(2).
 */
int nettlp_init(struct nettlp *nt);

/*
 * Reads `count` bytes of the adapter's host memory at `addr` into `buf`, any address and any count; what crosses a 4 KiB
 * boundary is read by one request for each part, in turn. Blocks until all is there, for at most LIBTLP_CPL_TIMEOUT per
 * request. A completion counts only where tag, requester, lower address and byte count are those of the request; others
 * are dropped and counted (nettlp_strays).
 *
 * Returns `count`; or -1 with errno, and the bytes in `buf` are then not to be used:
 *   ETIME         completions are missing. The tag is then kept out of use until they have come, or for
 *                 LIBTLP_DRAIN_TIMEOUT: the next dma_read waits that long before it sends, so that it is never given the
 *                 data of an earlier one. A completion that comes later than both is the one that is not told apart.
 *   ECONNREFUSED  nobody listens at the adapter's address
 *   EOPNOTSUPP    Unsupported Request: no memory there, or not allowed
 *   ECONNABORTED  Completer Abort
 *   EAGAIN        Configuration Request Retry Status: ask again later
 *   EIO           the data came poisoned
 *   EFAULT        a null pointer;  EINVAL  addr + count passes the end of the address space
 * or one of send(2) or recv(2). Of a context that the adapter issues requests on, what arrives meanwhile and is no
 * completion is lost: read on a context of your own direction.
 */
ssize_t dma_read(struct nettlp *nt, uintptr_t addr, void *buf, size_t count);

/*
 * Writes `count` bytes of `buf` to the adapter's host memory at `addr`, any address and any count; one posted request for
 * each part between 4 KiB boundaries. Returns when the datagrams are with the kernel: nobody says whether they arrive.
 * Blocks only while the socket's send buffer is full, for at most LIBTLP_CPL_TIMEOUT.
 *
 * Returns `count`; or -1 with errno ECONNREFUSED (an earlier datagram found nobody there; this call has sent nothing, or
 * not all), EFAULT, EINVAL as dma_read, ETIME (the send buffer stayed full), or one of send(2).
 */
ssize_t dma_write(struct nettlp *nt, uintptr_t addr, void *buf, size_t count);

/*
 * As dma_read, by requests of at most `mrrs` bytes, the path's Max_Read_Request_Size (4 to 4096; larger is taken for 4096),
 * none across a 4 KiB boundary. Returns the total, `count`; or -1, also with EINVAL where `mrrs` is below 4.
 */
ssize_t dma_read_aligned(struct nettlp *nt, uintptr_t addr, void *buf, size_t count, size_t mrrs);

/* As dma_write, by requests of at most `mps` bytes, the path's Max_Payload_Size. Returns the total. */
ssize_t dma_write_aligned(struct nettlp *nt, uintptr_t addr, void *buf, size_t count, size_t mps);

/* Datagrams that this process has received and dropped, since none of its requests asked for them. Never blocks. */
uint64_t nettlp_strays(void);

/*
 * Writes why the last TLP among them was dropped into `text`, at most `size` bytes with the 0 at the end: field, value, legal
 * values, section and name of the rule (`riser rules NAME` explains it), and the TLP. UTF-8. `text` may be null if `size` is 0.
 *
 * Returns the length without the 0, also if it did not fit; 0 if no TLP was dropped. Never blocks.
 */
size_t nettlp_stray_reason(char *text, size_t size);

/*
 * What nettlp_run_cb calls; any may be null. `nt` is the context that the TLP came on, `arg` that of nettlp_run_cb.
 * Headers and data stand in the library's buffer, and are gone when the callback returns; what a header says was checked
 * against the datagram's length. What a callback returns is not looked at.
 *
 * `m` and `count` are the bytes that are enabled, from the first to the last: tlp_mwr_data and tlp_mr_data_length,
 * tlp_cpld_data and tlp_cpld_data_length. A MWr of up to two DW may leave out bytes between them: see fstdw and lstdw.
 */
struct nettlp_cb {
	/* The addresses that the program answers for, as it notes them for itself: the library looks at neither. */
	uintptr_t start, end;

	int (*mrd)(struct nettlp *nt, struct tlp_mr_hdr *mh, void *arg);
	int (*mwr)(struct nettlp *nt, struct tlp_mr_hdr *mh, void *m, size_t count, void *arg);
	int (*cpl)(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *arg);
	int (*cpld)(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *m, size_t count, void *arg);
	/* All others, also those with prefixes. At least 12 bytes stand at `th`. */
	int (*other)(struct nettlp *nt, struct tlp_hdr *th, void *arg);
};

/* Most contexts of one nettlp_run_cb. */
#define NETTLP_CB_MAX_NTS 16

/*
 * Waits for TLPs on the contexts nt[0] to nt[nnts - 1], 1 to 16, and calls back for each, in the calling thread. What is
 * shorter than its header says (but for the last 1 to 3 bytes of a write, which read as 0) is dropped and counted.
 * An absent peer is no error: it may come.
 *
 * Returns 0 within 50 ms of nettlp_stop_cb; or -1 with errno EINVAL (`nnts` is not 1 to 16), EFAULT (a null pointer), or
 * that of poll(2) or recv(2).
 */
int nettlp_run_cb(struct nettlp **nt, int nnts, struct nettlp_cb *cb, void *arg);

/*
 * Ends every nettlp_run_cb of this process that is running; one that begins later is not touched. Does not block; may be
 * called from callbacks, other threads and signal handlers.
 */
void nettlp_stop_cb(void);

/*
 * Asks the driver on the adapter's host, at UDP port 0x2fff of `addr`. Each blocks for at most LIBTLP_CPL_TIMEOUT, and
 * opens and closes a socket of its own. Errors: ECONNREFUSED (no driver there), ETIME, EBADMSG (an answer of another
 * length), or one of socket(2), send(2), recv(2).
 */

/* Where BAR4 begins in the host's address space; 0 with errno where that fails. */
uintptr_t nettlp_msg_get_bar4_start(struct in_addr addr);

/* The adapter's id, bus << 8 | device << 3 | function, as struct nettlp has it; 0 with errno where that fails. */
uint16_t nettlp_msg_get_dev_id(struct in_addr addr);

/* An MSI-X vector: writing `data` to `addr` interrupts the host. In the host's byte order. */
struct nettlp_msix {
	uint64_t addr;
	uint32_t data;
} __attribute__((packed));

/* Vectors that an adapter has. */
#define NETTLP_MAX_VEC 16

/* Fills msix[0] to msix[max_msix - 1], at most 16. Returns 0; or -1 with errno, EINVAL where max_msix is below 0. */
int nettlp_msg_get_msix_table(struct in_addr addr, struct nettlp_msix *msix, int max_msix);

/*
 * The adapter's configuration space. Set the addresses, then call nettlp_pcie_cfg_init, which sets the others.
 */
struct nettlp_pcie_cfg {
	struct in_addr remote_addr; /* the adapter */
	struct in_addr local_addr;  /* this host */

	int sockfd; /* bound and connected to `port`; yours to close(2) */
	int port;   /* UDP port of both ends: 0x5001, or 0x4001 where an old adapter has answered there */
};

/*
 * Opens the socket. Sends nothing, does not block. Returns 0, or -1 with errno as nettlp_init.
 */
int nettlp_pcie_cfg_init(struct nettlp_pcie_cfg *nt);

/*
 * Reads `count` bytes of configuration space, from byte address `addr` on, into `buf`, in the order of their addresses
 * (little endian); writes them from `buf`. Bytes of one DW go in one request with a byte mask. The first request asks on
 * port 0x5001, and where nobody answers on 0x4001. Reads block for at most LIBTLP_CFG_TIMEOUT a DW (the first one for
 * twice that); writes are not answered: they return when they are sent, but for the first, which reads DW 0 before, to
 * learn the port.
 *
 * Return `count`; or -1 with errno EINVAL (addr + count beyond 4096), EFAULT, ECONNREFUSED, ETIME, or one of send(2)
 * or recv(2).
 */
ssize_t nettlp_pcie_cfg_read(struct nettlp_pcie_cfg *nt, uint16_t addr, void *buf, size_t count);
ssize_t nettlp_pcie_cfg_write(struct nettlp_pcie_cfg *nt, uint16_t addr, void *buf, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* RISER_LIBTLP_H */

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libtlp.h: LibTLP, the transaction layer of a PCI Express device in software. TLPs travel in UDP datagrams to and from a
 * NetTLP adapter (NSDI'20), which may be riser's: `riser nettlp adapter`. Link with -ltlp, or ask pkg-config for libtlp.
 *
 * Threads: different threads may use different contexts at the same time. Only one thread at a time may use a context and
 * its socket. A context is a plain structure. It may be copied, but the copies share its socket and count as one context.
 * Signal handlers may call only nettlp_stop_cb. A signal that the program handles does not end a call early.
 *
 * Errors: calls that fail set errno. Every call returns within a bounded time, except nettlp_run_cb, which runs until
 * nettlp_stop_cb is called.
 *
 * Warning: every program that can send datagrams to an adapter can read and write the memory of its host. Keep adapters on
 * a private network.
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

/* Timeout of a DMA read for all its completions, and of messaging for its answer; milliseconds. */
#define LIBTLP_CPL_TIMEOUT 500
/* How much longer, at most, the tag of a timed-out read stays unused; milliseconds. */
#define LIBTLP_DRAIN_TIMEOUT 500
/* Timeout of a configuration read, milliseconds. */
#define LIBTLP_CFG_TIMEOUT 1000

/* First UDP port of each direction; both ends bind and connect the same port. */
#define NETTLP_LIBTLP_PORT_BASE  0x3000 /* + tag */
#define NETTLP_ADAPTER_PORT_BASE 0x4000 /* + (tag & 0xf) */
#define NETTLP_MSG_PORT          0x2fff
#define NETTLP_CFG_PORT          0x5001 /* adapters since v0.22 */
#define NETTLP_CFG_PORT_OLD      0x4001 /* earlier adapters */
#define NETTLP_PCIE_CFG_PORT     NETTLP_CFG_PORT_OLD /* for programs with their own socket; riser answers on both */

/* Messaging requests: a uint32_t in the host's byte order. */
#define NETTLP_MSG_GET_BAR4_ADDR  1
#define NETTLP_MSG_GET_DEV_ID     2
#define NETTLP_MSG_GET_MSIX_TABLE 3

/* Issuer of a context's requests. A context cleared by memset belongs to this program. */
enum dma_direction {
	DMA_ISSUED_BY_LIBTLP = 0,  /* this program: dma_read, dma_write */
	DMA_ISSUED_BY_ADAPTER = 1  /* the adapter's host: nettlp_run_cb */
};

/*
 * A context: one tag, one UDP socket. Set the first five members, then call nettlp_init, which sets the other members.
 */
struct nettlp {
	struct in_addr remote_addr; /* the adapter */
	struct in_addr local_addr;  /* this host; INADDR_ANY is any of its addresses */
	uint16_t requester;         /* Requester ID of this program's TLPs: bus << 8 | device << 3 | function */
	uint8_t tag;                /* tag of its requests; selects the port */
	int dir;                    /* an enum dma_direction */

	int sockfd; /* bound and connected; yours to poll, write to and close(2) */
	int port;   /* UDP port of both ends */
};

/*
 * Opens the socket of `nt`: port 0x3000 + tag, or 0x4000 + (tag & 0xf) if the adapter issues the requests. Sends nothing,
 * does not block.
 *
 * Returns 0; or -1 with errno EINVAL (unknown `dir`), EFAULT (null pointer), or an error of socket(2), bind(2) or
 * connect(2). EADDRINUSE means that another context uses this tag on this address.
 */
int nettlp_init(struct nettlp *nt);

/*
 * Reads `count` bytes of the adapter's host memory at `addr` into `buf`, for any address and any count. A range that
 * crosses 4 KiB boundaries is read by one request for each part, one after the other. Blocks until all bytes have arrived,
 * for at most LIBTLP_CPL_TIMEOUT per request. A completion is accepted only if tag, requester, lower address and byte count
 * match the request. All other datagrams are dropped and counted (nettlp_strays).
 *
 * Returns `count`; or -1 with errno, and the content of `buf` is then undefined:
 *   ETIME         completions are missing. The tag then stays unused until they have arrived, at most for
 *                 LIBTLP_DRAIN_TIMEOUT. The next dma_read waits for this before it sends a request, so that it does
 *                 not receive the data of an earlier read. Only completions that arrive after both timeouts can still
 *                 be mistaken for an answer to the next read.
 *   ECONNREFUSED  no program listens at the adapter's address
 *   EOPNOTSUPP    Unsupported Request: no memory there, or not allowed
 *   ECONNABORTED  Completer Abort
 *   EAGAIN        Configuration Request Retry Status: try again later
 *   EIO           the data was poisoned
 *   EFAULT        a null pointer;  EINVAL  addr + count exceeds the address space
 * or an error of send(2) or recv(2). If the adapter issues the requests of a context, the context loses all TLPs other than
 * completions that arrive during the read. So for reads, use a context whose requests this program issues.
 */
ssize_t dma_read(struct nettlp *nt, uintptr_t addr, void *buf, size_t count);

/*
 * Writes `count` bytes of `buf` to the adapter's host memory at `addr`, for any address and any count. Sends one posted
 * request for each part between 4 KiB boundaries. Returns when the kernel has accepted the datagrams. Their arrival is not
 * reported. Blocks only while the socket's send buffer is full, for at most LIBTLP_CPL_TIMEOUT.
 *
 * Returns `count`; or -1 with errno EFAULT or EINVAL as in dma_read, ETIME (the send buffer stayed full), ECONNREFUSED, or
 * an error of send(2). ECONNREFUSED means that no program received an earlier datagram. This call has then sent none or
 * only some of its datagrams.
 */
ssize_t dma_write(struct nettlp *nt, uintptr_t addr, void *buf, size_t count);

/*
 * Like dma_read, with requests of at most `mrrs` bytes, the path's Max_Read_Request_Size: 4 to 4096, and larger values
 * count as 4096. No request crosses a 4 KiB boundary. Returns the total, `count`; or -1. In addition to the errors of
 * dma_read, errno is EINVAL if `mrrs` is below 4.
 */
ssize_t dma_read_aligned(struct nettlp *nt, uintptr_t addr, void *buf, size_t count, size_t mrrs);

/* Like dma_write, with requests of at most `mps` bytes, the path's Max_Payload_Size. Returns the total. */
ssize_t dma_write_aligned(struct nettlp *nt, uintptr_t addr, void *buf, size_t count, size_t mps);

/* Returns the number of strays: datagrams that this process dropped because they answered no request. Never blocks. */
uint64_t nettlp_strays(void);

/*
 * Writes to `text` why the last TLP among the strays was dropped: field, value, legal values, section and name of the rule,
 * and the TLP. The command `riser rules NAME` explains the rule. The text is UTF-8, and has at most `size` bytes including
 * the final 0. `text` may be null if `size` is 0.
 *
 * Returns the length of the whole text without the final 0, even if the text did not fit. Returns 0 if no TLP was dropped.
 * Never blocks.
 */
size_t nettlp_stray_reason(char *text, size_t size);

/*
 * Callbacks of nettlp_run_cb; each may be null. `nt` is the context on which the TLP arrived, and `arg` is the argument of
 * nettlp_run_cb. Headers and data are in the library's buffer, and are invalid after the callback returns. The datagram is
 * at least as long as the header says. Return values of callbacks are ignored.
 *
 * `m` and `count` are the data from the first enabled byte to the last: for a MWr the results of tlp_mwr_data and
 * tlp_mr_data_length, for a CplD those of tlp_cpld_data and tlp_cpld_data_length. In a MWr of up to two DW, bytes in
 * between may not be enabled: see fstdw and lstdw.
 */
struct nettlp_cb {
	/* The addresses that the program serves, for its own use: the library ignores both. */
	uintptr_t start, end;

	int (*mrd)(struct nettlp *nt, struct tlp_mr_hdr *mh, void *arg);
	int (*mwr)(struct nettlp *nt, struct tlp_mr_hdr *mh, void *m, size_t count, void *arg);
	int (*cpl)(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *arg);
	int (*cpld)(struct nettlp *nt, struct tlp_cpl_hdr *ch, void *m, size_t count, void *arg);
	/* All other TLPs, including TLPs with prefixes. `th` points to at least 12 bytes. */
	int (*other)(struct nettlp *nt, struct tlp_hdr *th, void *arg);
};

/* Maximum number of contexts per nettlp_run_cb. */
#define NETTLP_CB_MAX_NTS 16

/*
 * Waits for TLPs on the contexts nt[0] to nt[nnts - 1], 1 to 16, and calls a callback for each TLP, in the calling thread.
 * A TLP that is shorter than its header says is dropped and counted. Exception: a write may lack its last 1 to 3 bytes,
 * which then read as 0. An absent peer is no error, because it may start later.
 *
 * Returns 0 within 50 ms of nettlp_stop_cb; or -1 with errno EINVAL (`nnts` is not 1 to 16), EFAULT (a null pointer), or an
 * error of poll(2) or recv(2).
 */
int nettlp_run_cb(struct nettlp **nt, int nnts, struct nettlp_cb *cb, void *arg);

/*
 * Ends all running calls of nettlp_run_cb in this process. Does not affect calls that start later. Does not block. May be
 * called from callbacks, other threads and signal handlers.
 */
void nettlp_stop_cb(void);

/*
 * Asks the driver on the adapter's host, at UDP port 0x2fff of `addr`. Each call blocks for at most LIBTLP_CPL_TIMEOUT, and
 * opens and closes its own socket. Errors: ECONNREFUSED (no driver there), ETIME (no answer), EBADMSG (the answer has
 * another length), or an error of socket(2), send(2) or recv(2).
 */

/* Returns where BAR4 starts in the host's address space; 0 with errno on failure. */
uintptr_t nettlp_msg_get_bar4_start(struct in_addr addr);

/* Returns the adapter's id, bus << 8 | device << 3 | function, as in struct nettlp; 0 with errno on failure. */
uint16_t nettlp_msg_get_dev_id(struct in_addr addr);

/* An MSI-X vector: a write of `data` to `addr` interrupts the host. Both are in the host's byte order. */
struct nettlp_msix {
	uint64_t addr;
	uint32_t data;
} __attribute__((packed));

/* Number of vectors of an adapter. */
#define NETTLP_MAX_VEC 16

/* Fills msix[0] to msix[max_msix - 1], at most 16. Returns 0; or -1 with errno, EINVAL if max_msix is below 0. */
int nettlp_msg_get_msix_table(struct in_addr addr, struct nettlp_msix *msix, int max_msix);

/*
 * The adapter's configuration space. Set the addresses, then call nettlp_pcie_cfg_init, which sets the other members.
 */
struct nettlp_pcie_cfg {
	struct in_addr remote_addr; /* the adapter */
	struct in_addr local_addr;  /* this host */

	int sockfd; /* bound and connected to `port`; yours to close(2) */
	int port;   /* UDP port of both ends: 0x5001, or 0x4001 if an old adapter answered there */
};

/*
 * Opens the socket. Sends nothing, does not block. Returns 0, or -1 with errno as in nettlp_init.
 */
int nettlp_pcie_cfg_init(struct nettlp_pcie_cfg *nt);

/*
 * nettlp_pcie_cfg_read reads `count` bytes of configuration space from byte address `addr` into `buf`, in address order
 * (little endian). nettlp_pcie_cfg_write writes `count` bytes from `buf` to configuration space. All bytes of one DW use
 * one request with a byte mask. The first request tries port 0x5001, then 0x4001 if no answer arrives. Reads block for at
 * most LIBTLP_CFG_TIMEOUT per DW, and the first read for twice that time. Writes have no answer, so they return when they
 * are sent. Only the first write waits: to find the port, it reads DW 0 before.
 *
 * Both return `count`; or -1 with errno EINVAL (addr + count above 4096), EFAULT, ECONNREFUSED, ETIME, or an error of
 * send(2) or recv(2).
 */
ssize_t nettlp_pcie_cfg_read(struct nettlp_pcie_cfg *nt, uint16_t addr, void *buf, size_t count);
ssize_t nettlp_pcie_cfg_write(struct nettlp_pcie_cfg *nt, uint16_t addr, void *buf, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* RISER_LIBTLP_H */

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A driver for the simple NIC: riser's own, and device software at a NetTLP adapter (Kuga et al.,
 * "NetTLP", NSDI'20, section 6.2).
 *
 * Registers, little-endian, in BAR 4:
 *
 *  +0   u64  bus address of the TX ring
 *  +8   u64  bus address of the RX ring
 *  +16  u32  TX index: the descriptor after the last one to send; with an adapter, the one to send
 *  +20  u32  RX index: a descriptor with a free buffer
 *  +24  u32  enabled: 0 resets the rings
 *  +28  u32  finished descriptors of the TX ring since then (not in NetTLP)
 *
 * A descriptor is a bus address and a byte count, 64 bits each. Sent frames raise
 * vector 0. Received frames raise vector 1, after the frame and its length are in
 * memory. Interrupts cannot be masked, and may be spurious: functions below a VMD
 * share a vector.
 *
 * Frames are copied to and from fixed buffers of the device, as in the simplest NICs.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/module.h>
#include <linux/msi.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>

#define REGISTERS_BAR	4
#define TX_RING		0
#define RX_RING		8
#define TX_INDEX	16
#define RX_INDEX	20
#define ENABLED		24
#define TX_DONE		28

#define ENTRIES		256
#define BUFFER_BYTES	2048
#define RING_BYTES	(ENTRIES * sizeof(struct riser_nic_descriptor))
#define MAX_IN_RING	(ENTRIES - 1)

static unsigned int tx_frames;
module_param(tx_frames, uint, 0444);
MODULE_PARM_DESC(tx_frames, "Maximum number of frames in flight (riser's NIC: 255, adapter: 1)");

static unsigned int rx_buffers;
module_param(rx_buffers, uint, 0444);
MODULE_PARM_DESC(rx_buffers, "Number of receive buffers (riser's NIC: 128, adapter: 1)");

static int tx_done = -1;
module_param(tx_done, int, 0444);
MODULE_PARM_DESC(tx_done, "Whether the NIC counts finished descriptors (riser's NIC: 1, adapter: 0)");

/* Differences between NICs. */
struct riser_nic_kind {
	u32 tx_frames, rx_buffers;
	bool names;	/* the TX index is the frame to send, not the one after it */
	bool counts;	/* it has the register TX_DONE */
};

enum { RISERS_OWN, BEHIND_AN_ADAPTER };

static const struct riser_nic_kind kinds[] = {
	[RISERS_OWN] = { .tx_frames = MAX_IN_RING, .rx_buffers = 128, .counts = true },
	[BEHIND_AN_ADAPTER] = { .tx_frames = 1, .rx_buffers = 1, .names = true },
};

struct riser_nic_descriptor {
	__le64 address, bytes;
};

/* A ring and the buffers of its descriptors, allocated while the driver is bound. */
struct riser_nic_ring {
	struct riser_nic_descriptor *descriptors;
	dma_addr_t bus;
	u8 *buffers;
	dma_addr_t buffers_bus;
	u32 entries;	/* entries in use */
	u32 next;	/* the next one to fill or check, counts without wrap */
};

static const char riser_nic_names[][ETH_GSTRING_LEN] = {
	"interrupts", "tx_doorbells", "rx_doorbells", "tx_ring_full", "tx_done_reads",
	"rx_bad_lengths", "restarts",
};

struct riser_nic_counts {
	u64 interrupts, tx_doorbells, rx_doorbells, tx_ring_full, tx_done_reads;
	u64 rx_bad_lengths, restarts;
};

struct riser_nic {
	struct net_device *dev;
	struct pci_dev *pdev;
	void __iomem *registers;
	struct riser_nic_kind kind;
	struct napi_struct napi;
	struct work_struct restart;
	struct riser_nic_ring tx, rx;
	u32 tx_done;	/* frames that the device has finished, counts like tx.next */
	int vectors;
	bool is_up;
	struct riser_nic_counts counts;
};

static u32 riser_nic_in_ring(struct riser_nic *nic)
{
	return nic->tx.next - READ_ONCE(nic->tx_done);
}

/* Frees ring entries of finished frames. */
static void riser_nic_reclaim(struct riser_nic *nic)
{
	u32 done;

	if (nic->kind.counts) {
		done = ioread32(nic->registers + TX_DONE);
		nic->counts.tx_done_reads++;
		/*
		 * A device that was removed reads as all ones, which is more frames
		 * than were ever in flight.
		 */
		if (done - nic->tx_done <= riser_nic_in_ring(nic))
			WRITE_ONCE(nic->tx_done, done);
	}
	if (riser_nic_in_ring(nic) <= nic->kind.tx_frames / 2)
		netif_wake_queue(nic->dev);
}

static netdev_tx_t riser_nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct riser_nic *nic = netdev_priv(dev);
	struct riser_nic_ring *tx = &nic->tx;
	u32 at = tx->next % tx->entries;
	struct riser_nic_descriptor *descriptor = &tx->descriptors[at];
	bool is_full;

	if (skb_put_padto(skb, ETH_ZLEN))
		return NETDEV_TX_OK;
	skb_copy_bits(skb, 0, tx->buffers + at * BUFFER_BYTES, skb->len);
	descriptor->address = cpu_to_le64(tx->buffers_bus + at * BUFFER_BYTES);
	descriptor->bytes = cpu_to_le64(skb->len);
	tx->next++;
	is_full = riser_nic_in_ring(nic) >= nic->kind.tx_frames;
	if (is_full) {
		nic->counts.tx_ring_full++;
		netif_stop_queue(dev);
	}
	/* iowrite32 is ordered after earlier writes to coherent memory. */
	if (nic->kind.names) {
		iowrite32(at, nic->registers + TX_INDEX);
		nic->counts.tx_doorbells++;
	} else if (is_full || !netdev_xmit_more()) {
		iowrite32((at + 1) % tx->entries, nic->registers + TX_INDEX);
		nic->counts.tx_doorbells++;
	}
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	skb_tx_timestamp(skb);
	dev_consume_skb_any(skb);
	/* The last interrupt may have come before the queue was stopped. */
	if (is_full && nic->kind.counts)
		riser_nic_reclaim(nic);
	return NETDEV_TX_OK;
}

/* Gives the device a buffer. */
static void riser_nic_post(struct riser_nic *nic, u32 at)
{
	struct riser_nic_descriptor *descriptor = &nic->rx.descriptors[at];

	descriptor->address = cpu_to_le64(nic->rx.buffers_bus + at * BUFFER_BYTES);
	WRITE_ONCE(descriptor->bytes, 0);
	iowrite32(at, nic->registers + RX_INDEX);
	nic->counts.rx_doorbells++;
}

static void riser_nic_receive(struct riser_nic *nic, u32 at, u64 bytes)
{
	struct net_device *dev = nic->dev;
	struct sk_buff *skb;

	if (bytes < ETH_HLEN || bytes > BUFFER_BYTES) {
		nic->counts.rx_bad_lengths++;
		dev->stats.rx_errors++;
		return;
	}
	skb = napi_alloc_skb(&nic->napi, bytes);
	if (!skb) {
		dev->stats.rx_dropped++;
		return;
	}
	skb_put_data(skb, nic->rx.buffers + at * BUFFER_BYTES, bytes);
	skb->protocol = eth_type_trans(skb, dev);
	dev_sw_netstats_rx_add(dev, bytes);
	napi_gro_receive(&nic->napi, skb);
}

static int riser_nic_poll(struct napi_struct *napi, int budget)
{
	struct riser_nic *nic = container_of(napi, struct riser_nic, napi);
	struct riser_nic_ring *rx = &nic->rx;
	int received = 0;

	if (netif_queue_stopped(nic->dev))
		riser_nic_reclaim(nic);
	while (received < budget) {
		u32 at = rx->next % rx->entries;
		u64 bytes = le64_to_cpu(READ_ONCE(rx->descriptors[at].bytes));

		if (!bytes)
			break;
		/* The frame was written before its length. */
		dma_rmb();
		riser_nic_receive(nic, at, bytes);
		riser_nic_post(nic, at);
		rx->next++;
		received++;
	}
	if (received < budget)
		napi_complete_done(napi, received);
	return received;
}

static irqreturn_t riser_nic_interrupt(int irq, void *data)
{
	struct riser_nic *nic = data;

	nic->counts.interrupts++;
	/*
	 * Without a counter, only one frame is in flight, and its vector is not shared.
	 */
	if (!nic->kind.counts && irq == pci_irq_vector(nic->pdev, 0))
		WRITE_ONCE(nic->tx_done, nic->tx.next);
	napi_schedule(&nic->napi);
	return IRQ_HANDLED;
}

static int riser_nic_alloc_ring(struct riser_nic *nic, struct riser_nic_ring *ring, u32 entries)
{
	struct device *dev = &nic->pdev->dev;

	ring->entries = entries;
	ring->descriptors = dmam_alloc_coherent(dev, RING_BYTES, &ring->bus, GFP_KERNEL);
	ring->buffers = dmam_alloc_coherent(dev, entries * BUFFER_BYTES, &ring->buffers_bus,
					    GFP_KERNEL);
	return ring->descriptors && ring->buffers ? 0 : -ENOMEM;
}

static int riser_nic_alloc_rings(struct riser_nic *nic)
{
	/*
	 * A TX index that is a count wraps at the end of the ring; an index that
	 * selects single frames does not.
	 */
	u32 entries = nic->kind.names ? nic->kind.tx_frames : ENTRIES;

	return riser_nic_alloc_ring(nic, &nic->tx, entries) ?:
	       riser_nic_alloc_ring(nic, &nic->rx, nic->kind.rx_buffers);
}

static int riser_nic_request_irqs(struct riser_nic *nic)
{
	int n, error = 0;

	for (n = 0; n < nic->vectors && !error; n++)
		error = devm_request_irq(&nic->pdev->dev, pci_irq_vector(nic->pdev, n),
					 riser_nic_interrupt, 0, KBUILD_MODNAME, nic);
	return error;
}

/*
 * Returns whether both vectors use the same message: below a VMD, all functions
 * except NVMe share one.
 */
static bool riser_nic_shares_vector(struct riser_nic *nic)
{
	struct msi_msg tx, rx;

	get_cached_msi_msg(pci_irq_vector(nic->pdev, 0), &tx);
	get_cached_msi_msg(pci_irq_vector(nic->pdev, 1), &rx);
	return tx.address_lo == rx.address_lo && tx.address_hi == rx.address_hi &&
	       tx.data == rx.data;
}

static int riser_nic_open(struct net_device *dev)
{
	struct riser_nic *nic = netdev_priv(dev);
	u32 at;

	nic->tx_done = 0;
	nic->tx.next = 0;
	nic->rx.next = 0;
	memset(nic->tx.descriptors, 0, RING_BYTES);
	memset(nic->rx.descriptors, 0, RING_BYTES);
	nic->is_up = true;
	napi_enable(&nic->napi);
	pci_set_master(nic->pdev);
	lo_hi_writeq(nic->tx.bus, nic->registers + TX_RING);
	lo_hi_writeq(nic->rx.bus, nic->registers + RX_RING);
	iowrite32(1, nic->registers + ENABLED);
	for (at = 0; at < nic->rx.entries; at++)
		riser_nic_post(nic, at);
	netif_carrier_on(dev);
	netif_start_queue(dev);
	return 0;
}

static int riser_nic_stop(struct net_device *dev)
{
	struct riser_nic *nic = netdev_priv(dev);

	/* An error has stopped it already. */
	if (!nic->is_up)
		return 0;
	nic->is_up = false;
	netif_tx_disable(dev);
	netif_carrier_off(dev);
	/* No more buffers are given to the device. */
	napi_disable(&nic->napi);
	iowrite32(0, nic->registers + ENABLED);
	/*
	 * A frame may still be on its way to memory; clearing bus mastering stops new ones. Device
	 * software at an adapter would lose its host.
	 */
	if (!nic->kind.names)
		pci_clear_master(nic->pdev);
	return 0;
}

static void riser_nic_restart(struct work_struct *work)
{
	struct riser_nic *nic = container_of(work, struct riser_nic, restart);

	rtnl_lock();
	if (netif_running(nic->dev) && netif_device_present(nic->dev)) {
		nic->counts.restarts++;
		dev_close(nic->dev);
		dev_open(nic->dev, NULL);
	}
	rtnl_unlock();
}

static void riser_nic_tx_timeout(struct net_device *dev, unsigned int queue)
{
	struct riser_nic *nic = netdev_priv(dev);

	dev->stats.tx_errors++;
	schedule_work(&nic->restart);
}

static const struct net_device_ops riser_nic_ops = {
	.ndo_open = riser_nic_open,
	.ndo_stop = riser_nic_stop,
	.ndo_start_xmit = riser_nic_xmit,
	.ndo_tx_timeout = riser_nic_tx_timeout,
	.ndo_get_stats64 = dev_get_tstats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void riser_nic_get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
				    struct kernel_ethtool_ringparam *more,
				    struct netlink_ext_ack *ack)
{
	struct riser_nic *nic = netdev_priv(dev);

	ring->tx_max_pending = MAX_IN_RING;
	ring->rx_max_pending = MAX_IN_RING;
	ring->tx_pending = nic->kind.tx_frames;
	ring->rx_pending = nic->kind.rx_buffers;
}

static int riser_nic_get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(riser_nic_names) : -EOPNOTSUPP;
}

static void riser_nic_get_strings(struct net_device *dev, u32 set, u8 *to)
{
	if (set == ETH_SS_STATS)
		memcpy(to, riser_nic_names, sizeof(riser_nic_names));
}

static void riser_nic_get_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *to)
{
	struct riser_nic *nic = netdev_priv(dev);

	BUILD_BUG_ON(sizeof(nic->counts) != ARRAY_SIZE(riser_nic_names) * sizeof(u64));
	memcpy(to, &nic->counts, sizeof(nic->counts));
}

static const struct ethtool_ops riser_nic_ethtool = {
	.get_link = ethtool_op_get_link,
	.get_ringparam = riser_nic_get_ringparam,
	.get_sset_count = riser_nic_get_sset_count,
	.get_strings = riser_nic_get_strings,
	.get_ethtool_stats = riser_nic_get_stats,
	.get_ts_info = ethtool_op_get_ts_info,
};

/* Sets the kind, with changes by module parameters. */
static int riser_nic_set_kind(struct riser_nic *nic, unsigned long number)
{
	struct riser_nic_kind *kind = &nic->kind;

	*kind = kinds[number];
	if (tx_frames)
		kind->tx_frames = tx_frames;
	if (rx_buffers)
		kind->rx_buffers = rx_buffers;
	if (tx_done >= 0)
		kind->counts = tx_done;
	if (kind->tx_frames > MAX_IN_RING || kind->rx_buffers > MAX_IN_RING)
		return dev_err_probe(&nic->pdev->dev, -EINVAL,
				     "tx_frames, rx_buffers: expected 1 to %d\n", MAX_IN_RING);
	if (!kind->counts && kind->tx_frames > 1)
		return dev_err_probe(&nic->pdev->dev, -EINVAL,
				     "tx_frames of %u, expected 1 without tx_done\n",
				     kind->tx_frames);
	return 0;
}

static int riser_nic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct net_device *dev = devm_alloc_etherdev(&pdev->dev, sizeof(struct riser_nic));
	struct riser_nic *nic;
	int error;

	if (!dev)
		return -ENOMEM;
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->pdev = pdev;
	INIT_WORK(&nic->restart, riser_nic_restart);
	error = riser_nic_set_kind(nic, id->driver_data);
	if (!error)
		error = pcim_enable_device(pdev);
	if (!error)
		error = pcim_iomap_regions(pdev, BIT(REGISTERS_BAR), KBUILD_MODNAME);
	if (!error)
		error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	nic->registers = pcim_iomap_table(pdev)[REGISTERS_BAR];
	nic->vectors = pci_alloc_irq_vectors(pdev, 1, 2, PCI_IRQ_MSIX | PCI_IRQ_MSI);
	if (nic->vectors < 0)
		return nic->vectors;
	if (nic->vectors < 2 && !nic->kind.counts)
		return dev_err_probe(&pdev->dev, -EINVAL, "only one vector and no tx_done\n");
	dev->tstats = devm_netdev_alloc_pcpu_stats(&pdev->dev, struct pcpu_sw_netstats);
	if (!dev->tstats)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, &pdev->dev);
	dev->netdev_ops = &riser_nic_ops;
	dev->ethtool_ops = &riser_nic_ethtool;
	dev->watchdog_timeo = 5 * HZ;
	/* The NIC has no MAC address. */
	eth_hw_addr_random(dev);
	netif_napi_add(dev, &nic->napi, riser_nic_poll);
	netif_carrier_off(dev);
	pci_set_drvdata(pdev, nic);
	error = riser_nic_alloc_rings(nic);
	if (!error)
		error = riser_nic_request_irqs(nic);
	if (error)
		return error;
	/*
	 * A received frame would be treated as a sent frame, and the buffer would be
	 * reused too early.
	 */
	if (!nic->kind.counts && riser_nic_shares_vector(nic))
		return dev_err_probe(&pdev->dev, -EINVAL, "shared vectors and no tx_done\n");
	/* Device software reads its vectors once, before the interface is up. */
	if (nic->kind.names)
		pci_set_master(pdev);
	error = pci_save_state(pdev);
	return error ? error : register_netdev(dev);
}

static void riser_nic_remove(struct pci_dev *pdev)
{
	struct riser_nic *nic = pci_get_drvdata(pdev);

	unregister_netdev(nic->dev);
	cancel_work_sync(&nic->restart);
	/* Before the rings are freed. */
	pci_clear_master(pdev);
}

static pci_ers_result_t riser_nic_error(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct riser_nic *nic = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	rtnl_lock();
	netif_device_detach(nic->dev);
	if (netif_running(nic->dev))
		riser_nic_stop(nic->dev);
	rtnl_unlock();
	if (state == pci_channel_io_frozen)
		return PCI_ERS_RESULT_NEED_RESET;
	return PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t riser_nic_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	if (pci_device_is_present(pdev))
		return PCI_ERS_RESULT_RECOVERED;
	return PCI_ERS_RESULT_DISCONNECT;
}

static void riser_nic_resume(struct pci_dev *pdev)
{
	struct riser_nic *nic = pci_get_drvdata(pdev);

	rtnl_lock();
	if (!netif_device_present(nic->dev)) {
		if (!netif_running(nic->dev) || !riser_nic_open(nic->dev))
			netif_device_attach(nic->dev);
	}
	rtnl_unlock();
}

static const struct pci_error_handlers riser_nic_errors = {
	.error_detected = riser_nic_error,
	.slot_reset = riser_nic_slot_reset,
	.resume = riser_nic_resume,
};

static const struct pci_device_id riser_nic_ids[] = {
	{ PCI_DEVICE(0x7269, 0x0002), .driver_data = RISERS_OWN },
	{ PCI_DEVICE(0x3776, 0x8022), .driver_data = BEHIND_AN_ADAPTER },
	{ }
};
MODULE_DEVICE_TABLE(pci, riser_nic_ids);

static struct pci_driver riser_nic_driver = {
	.name = KBUILD_MODNAME,
	.id_table = riser_nic_ids,
	.probe = riser_nic_probe,
	.remove = riser_nic_remove,
	.err_handler = &riser_nic_errors,
};
module_pci_driver(riser_nic_driver);

MODULE_DESCRIPTION("Driver for the simple NIC, riser's own or at a NetTLP adapter");
MODULE_LICENSE("Dual MIT/GPL");

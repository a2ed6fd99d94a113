// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type 1 functions of a lab (configuration spaces of root ports and switch ports), and the switches.

use crate::BuildError;
use crate::channels;
use crate::links;
use crate::schema::{self, Hanging, Lab};
use crate::tree::Tree;
use config::cap::pcie::AtomicSupport;
use config::{
    AcsLayout, Builder, ConfigSpace, DpcLayout, Identity, MsiLayout, PcieLayout, PortType, SlotLayout,
};
use endpoint::TlpPort;
use fabric::{
    HostId, LinkConfig, PortArbitration, Switch, SwitchConfig, SwitchEnd, SwitchPortConfig, SwitchSlot,
    SwitchTiming,
};
use link::{CreditLimit, FlowControlMode, PortConfig};
use std::collections::BTreeMap;
use tlp::{Class, Duration, Mps, PayloadPool, Rcb, Vc};

/// PCI-to-PCI bridge (`PCI Code and ID Assignment`, base class 06h, sub-class 04h).
const BRIDGE_CLASS: u32 = 0x06_0400;

/// Completion credits of a switch port unless the lab sets them. Unlike an endpoint, a switch may have to store
/// completions before it forwards them. Its buffers are therefore finite, with the most credits that unscaled flow
/// control can advertise.
const COMPLETION_CREDITS: CreditLimit = CreditLimit::finite(127, 2047);

/// The configuration space of the port of `kind` at `end` of its link. `number` distinguishes the ports of a switch or root complex;
/// `has_interrupts` adds MSI.
pub(crate) fn space(
    kind: PortType,
    end: &PortConfig,
    number: u8,
    slot: Option<SlotLayout>,
    rcb: Rcb,
    has_interrupts: bool,
) -> Result<ConfigSpace, BuildError> {
    let device = match kind {
        PortType::RootPort => 0x0100,
        PortType::Upstream => 0x0101,
        _ => 0x0102,
    };
    let identity = Identity { vendor: plug::VENDOR, device, class: BRIDGE_CLASS, ..Identity::default() };
    let pcie = PcieLayout {
        port: kind,
        mps_supported: end.mps,
        ten_bit_tag: true,
        ari_forwarding: kind.is_above_link(),
        atomic_routing: true,
        // The root complex executes AtomicOps on memory; a switch only forwards them (`PCIe 5.0 §6.15`).
        atomics: if kind == PortType::RootPort { AtomicSupport::all() } else { AtomicSupport::empty() },
        end_end_prefixes: 4,
        rate: end.rate,
        width: end.width,
        port_number: number,
        slot,
        rcb,
        ..PcieLayout::port(kind)
    };
    let builder = Builder::type1(identity).power_management();
    let builder = if has_interrupts { builder.msi(MsiLayout { vectors: 1 }) } else { builder };
    let builder = builder.pcie(pcie).advanced_error_reporting();
    let builder = if kind.is_above_link() { with_port_services(builder, kind) } else { builder };
    let builder = builder.link_capabilities();
    Ok(match channels::layout(end) {
        Some(layout) => builder.virtual_channels(layout),
        None => builder,
    }
    .build()?)
}

/// Bytes of the longest non-posted request with data that a bridge port must accept: an AtomicOp, because all bridges
/// route AtomicOps.
pub(crate) const LONGEST_NON_POSTED: u32 = 32;

/// Adds the capabilities of ports above links: Access Control Services and Downstream Port Containment, both disabled after reset.
fn with_port_services(builder: Builder, kind: PortType) -> Builder {
    let containment = DpcLayout { interrupt_message: 0, root_port: kind == PortType::RootPort };
    builder.access_control(AcsLayout::port(32)).downstream_port_containment(containment)
}

/// The root port functions of a host, in order. `rcb` comes from the host's profile.
pub(crate) fn root_ports(
    tree: &Tree,
    host: HostId,
    links: &[LinkConfig],
    rcb: Rcb,
) -> Result<Vec<ConfigSpace>, BuildError> {
    let port = |(n, link): (usize, usize)| {
        // Slot numbers are unique below a host (`PCIe 5.0 §7.5.3.9`): first those of root ports, then those of each switch.
        let slot = slot_layout(tree, n + 1, Some(link));
        let link = &links[link];
        let (rcb, has_interrupts) = (link.rcb.unwrap_or(rcb), tree.has_interrupts(host));
        space(PortType::RootPort, &link.root, n as u8 + 1, Some(slot), rcb, has_interrupts)
    };
    tree.root_links(host).enumerate().map(port).collect()
}

/// Gives the port of a switch finite completion buffers, unless the lab sets others.
pub(crate) fn bound_completions(end: &mut PortConfig) {
    let credits = &mut end.rx_buffer[Class::Completion.index()];
    credits.header = credits.header.or(COMPLETION_CREDITS.header);
    credits.data = credits.data.or(COMPLETION_CREDITS.data);
}

/// The switches of `lab`, each with its link; `below` are the links of all slots, then of all switches. `designs` are the ports of switches that
/// are not riser's. A place that a request
/// [keeps](Switch::keep_places) becomes free after `place_timeout`.
pub(crate) fn switches(
    lab: &Lab,
    tree: &Tree,
    below: &[LinkConfig],
    place_timeout: Duration,
    payloads: &PayloadPool,
    designs: Vec<Option<Vec<Box<dyn TlpPort>>>>,
) -> Result<Vec<SwitchSlot>, BuildError> {
    let slot = |((n, switch), design): ((usize, &schema::Switch), Option<_>)| {
        let (link, above) = (below[lab.slot.len() + n].clone(), tree.switches[n]);
        if let Some(ports) = design {
            return Ok(SwitchSlot { link, above, switch: SwitchEnd::Design(ports) });
        }
        let name = switch.name.get_ref();
        let config = switch_config(switch, n, tree, below, &link, payloads);
        let mut built =
            Switch::new(config?).map_err(|error| BuildError::Switch { name: name.clone(), error })?;
        if switch.keep_places {
            let until =
                switch.keep_places_until.as_ref().map_or_else(Default::default, |until| *until.get_ref());
            built.keep_places(until, place_timeout);
        }
        Ok(SwitchSlot { link, above, switch: built.into() })
    };
    lab.switch.iter().enumerate().zip(designs).map(slot).collect()
}

fn switch_config(
    switch: &schema::Switch,
    n: usize,
    tree: &Tree,
    below: &[LinkConfig],
    link: &LinkConfig,
    payloads: &PayloadPool,
) -> Result<SwitchConfig, BuildError> {
    let first_slot = tree.first_slot_number(n);
    let downstream = (1..=tree.downstream_ports[n]).map(|port| {
        let hanging = tree.below(n, port);
        // An unused port is configured like the upstream port.
        let end = hanging.map_or(&link.device, |n| &below[n].root);
        port_config(PortType::Downstream, end, port, Some(slot_layout(tree, first_slot + port - 1, hanging)))
    });
    Ok(SwitchConfig {
        upstream: port_config(PortType::Upstream, &link.device, 0, None)?,
        downstream: downstream.collect::<Result<_, BuildError>>()?,
        timing: SwitchTiming {
            latency: Duration::from_ns(*switch.latency_ns.get_ref()),
            mode: switch.forwarding,
        },
        arbitration: match (&switch.arbitration, &switch.weights) {
            (schema::PortArbitration::Weighted, Some(weights)) => {
                PortArbitration::Weighted(weights.get_ref().clone())
            }
            _ => PortArbitration::RoundRobin,
        },
        payloads: payloads.clone(),
    })
}

fn port_config(
    kind: PortType,
    end: &PortConfig,
    port: usize,
    slot: Option<SlotLayout>,
) -> Result<SwitchPortConfig, BuildError> {
    Ok(SwitchPortConfig {
        space: space(kind, end, port as u8, slot, Rcb::default(), true)?,
        buffer_tlps: buffer_tlps(end),
        rate: end.rate,
        width: end.width,
    })
}

/// Slot layout of the port above link `n`; `number` is the physical slot number.
fn slot_layout(tree: &Tree, number: usize, link: Option<usize>) -> SlotLayout {
    let of = |all: &[bool]| link.is_some_and(|n| all.get(n).copied().unwrap_or(false));
    let (hot_plug, controls) = (of(&tree.hot_plug), of(&tree.controls));
    SlotLayout {
        number: number as u16,
        hot_plug,
        // With an attention button, a card that is removed without notice is reported as an error.
        surprise: hot_plug && !controls,
        attention_button: controls,
        attention_indicator: controls,
        power_indicator: controls,
        power_controller: controls,
        no_command_completed: true,
        occupied: link.is_some(),
        ..SlotLayout::default()
    }
}

/// Number of TLPs of each class that the receive buffer at `end` can hold.
fn buffer_tlps(end: &PortConfig) -> [u32; 3] {
    if let FlowControlMode::None { buffer_tlps } = end.flow_control {
        return [u32::from(buffer_tlps); 3];
    }
    Class::ALL.map(|class| {
        let of = |vc: Vc| end.vc_buffers.get(&vc).map(|b| b[class.index()]);
        let others = Vc::all().filter(|vc| *vc != Vc::VC0).filter_map(of);
        let limits = std::iter::once(end.rx_buffer[class.index()]).chain(others);
        limits.map(|l| u32::from(l.header.unwrap_or(u16::MAX))).sum()
    })
}

/// The links of all slots, then of all switches. Each end of the link has the receive buffers of its component.
pub(crate) fn all_links(lab: &Lab, tree: &Tree) -> Vec<LinkConfig> {
    let link = |(n, own): (usize, Hanging<'_>)| {
        let mut link = links::config(&lab.link, own.link);
        if !tree.is_at_root(n) {
            bound_completions(&mut link.root);
        }
        if n >= lab.slot.len() {
            bound_completions(&mut link.device);
        }
        link
    };
    lab.hanging().enumerate().map(link).collect()
}

/// Max_Payload_Size on the path of each slot, as enumeration will set it ([`MpsPolicy::Path`](host::firmware::MpsPolicy)). `links` is
/// from [`all_links`].
pub(crate) fn path_mps(tree: &Tree, links: &[LinkConfig]) -> Vec<Mps> {
    let least = least_mps(tree, links);
    (0..tree.slots.len()).map(|n| least.get(&tree.root_link(n)).copied().unwrap_or_default()).collect()
}

/// The largest Max_Payload_Size that all parts below a root port support, by the number of the root port's link. It is
/// the minimum over all links below the port, and 128 B if a switch port there has a hot-plug slot. `links` is from
/// [`all_links`].
pub(crate) fn least_mps(tree: &Tree, links: &[LinkConfig]) -> BTreeMap<usize, Mps> {
    let mut least: BTreeMap<usize, Mps> = BTreeMap::new();
    for (n, link) in links.iter().enumerate() {
        let own = if tree.hot_plug[n] && !tree.is_at_root(n) {
            Mps::default()
        } else {
            link.root.mps.min(link.device.mps)
        };
        let of_port = least.entry(tree.root_link(n)).or_insert(own);
        *of_port = own.min(*of_port);
    }
    least
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the link tables of a lab to the two ports of a link, and to link events.

use crate::channels;
use crate::link_schema::VirtualChannel;
use crate::schema::{Credits, FlowControl, Lab, Link, ReplayCursor, ReplayTimer};
pub use crate::wrong::LinkFault;
use config::PcieLayout;
use fabric::{LinkChange, LinkConfig, LinkEvent, LinkId};
use link::{ConfigError, FlowControlMode, PortConfig, ReplayTimerRule};
use plug::values::Gen;
use tlp::{Class, Duration, Mps, Rate, Time, Vc, Width};

/// Default propagation delay: about 30 cm at 6.7 ps/mm, a signal on common board material.
const DEFAULT_PROPAGATION: Duration = Duration::from_ps(2_000);
/// Longest propagation delay: about 200 m of fibre. REPLAY_TIMER, 6 us at 32 GT/s, must be longer than the round trip.
const MAX_PROPAGATION: Duration = Duration::from_us(1);
/// Default number of TLPs that a receiver without flow control holds (IISWC'18, §VI).
const DEFAULT_PORT_BUFFER: u16 = 16;
/// Longest retrain time: the limit for Recovery (`PCIe 5.0 §4.2.6.4.1`, 24 ms).
const MAX_RETRAIN_NS: u64 = 24_000_000;

/// Merges two link tables key by key; keys of `own` override keys of `common`.
pub fn merge(common: &Link, own: &Link) -> Link {
    Link {
        generation: own.generation.or(common.generation),
        lanes: own.lanes.or(common.lanes),
        mps_bytes: own.mps_bytes.or(common.mps_bytes),
        mrrs_bytes: own.mrrs_bytes.or(common.mrrs_bytes),
        rcb_bytes: own.rcb_bytes.or(common.rcb_bytes),
        propagation_ps: own.propagation_ps.or(common.propagation_ps),
        bit_error_rate: own.bit_error_rate.or(common.bit_error_rate),
        root_credits: own.root_credits.or(common.root_credits),
        device_credits: own.device_credits.or(common.device_credits),
        replay_buffer_tlps: own.replay_buffer_tlps.or(common.replay_buffer_tlps),
        replay_buffer_bytes: own.replay_buffer_bytes.or(common.replay_buffer_bytes),
        // Either of these keys replaces the other.
        ack_latency_symbols: own
            .ack_latency_symbols
            .or(common.ack_latency_symbols.filter(|_| own.ack_line_bytes.is_none())),
        ack_line_bytes: own
            .ack_line_bytes
            .or(common.ack_line_bytes.filter(|_| own.ack_latency_symbols.is_none())),
        ack_factor: own.ack_factor.or(common.ack_factor),
        update_fc_symbols: own.update_fc_symbols.or(common.update_fc_symbols),
        vc: own.vc.clone().or(common.vc.clone()),
        vc_arbitration: own.vc_arbitration.or(common.vc_arbitration),
        low_priority_vc: own.low_priority_vc.or(common.low_priority_vc),
        scaled_flow_control: own.scaled_flow_control.or(common.scaled_flow_control),
        flow_control: own.flow_control.or(common.flow_control),
        port_buffer_tlps: own.port_buffer_tlps.or(common.port_buffer_tlps),
        replay_cursor: own.replay_cursor.or(common.replay_cursor),
        replay_timer: own.replay_timer.or(common.replay_timer),
        replay_timer_symbols: own.replay_timer_symbols.or(common.replay_timer_symbols),
        retrain_ns: own.retrain_ns.or(common.retrain_ns),
    }
}

/// Checks the keys of a link. Returns an error for each key that [`config()`] cannot use, with the legal values.
pub fn check(common: &Link, own: &Link) -> Vec<LinkFault> {
    let link = merge(common, own);
    let mut faults = Vec::new();
    let bounded = [
        ("retrain_ns", link.retrain_ns, MAX_RETRAIN_NS),
        ("propagation_ps", link.propagation_ps, MAX_PROPAGATION.as_ps()),
    ];
    for (key, given, most) in bounded {
        let beyond = given.filter(|given| *given > most);
        faults.extend(beyond.map(|n| LinkFault::new(key, format!("{key} of {n}, expected 0 to {most}"))));
    }
    if let Some(bytes) = link.ack_line_bytes.filter(|bytes| !(1..=4096).contains(bytes)) {
        let message = format!("ack_line_bytes of {bytes}, expected 1 to 4096");
        faults.push(LinkFault::new("ack_line_bytes", message));
    }
    if let Some(factor) = link.ack_factor.filter(|factor| !(0.1..=100.0).contains(factor)) {
        // The Ack latency that follows from it would be another error.
        faults.push(LinkFault::new("ack_factor", format!("ack_factor of {factor}, expected 0.1 to 100")));
        return faults;
    }
    if let Err(fault) = channels::of(&link) {
        faults.push(fault);
        return faults;
    }
    let ends = config(common, own);
    for (end, port) in [("root", &ends.root), ("device", &ends.device)] {
        let Err(error) = port.validate() else { continue };
        let fault = fault_of(&error, end, &link);
        // Errors that both ends have are reported once.
        if !faults.iter().any(|f| f.keys == fault.keys) {
            faults.push(fault);
        }
    }
    faults
}

/// Errors of a link with too little buffer for non-posted data. Its root side must accept requests with `above` bytes of data, its
/// device side with `below`.
pub(crate) fn check_non_posted(common: &Link, own: &Link, above: u32, below: u32) -> Vec<LinkFault> {
    let (link, ends) = (merge(common, own), config(common, own));
    let ends = [("root", &ends.root, above), ("device", &ends.device, below)];
    let fault = |(end, port, bytes): (&str, &PortConfig, u32)| {
        Some(fault_of(&port.validate_non_posted(bytes).err()?, end, &link))
    };
    ends.into_iter().filter_map(fault).collect()
}

fn fault_of(error: &ConfigError, end: &str, link: &Link) -> LinkFault {
    LinkFault { keys: keys_of(error, end, link), message: format!("{end} side: {error}{}", hint(error)) }
}

/// The keys that an error of the port at `end` may concern.
pub(crate) fn keys_of(error: &ConfigError, end: &str, link: &Link) -> Vec<Vec<String>> {
    let key = match error {
        ConfigError::HeaderCredits { vc, class, .. } => return credit_keys(*vc, *class, "header", end, link),
        ConfigError::DataCredits { vc, class, .. } => return credit_keys(*vc, *class, "data", end, link),
        ConfigError::UnusedVc(_) | ConfigError::NoPhase(_) => "vc",
        ConfigError::UncreditedVcs(_) => "flow_control",
        ConfigError::NoBuffer => "port_buffer_tlps",
        ConfigError::ReplayTlps(_) => "replay_buffer_tlps",
        ConfigError::ReplayBytes { .. } => "replay_buffer_bytes",
        ConfigError::ReplayTimer(_) => "replay_timer_symbols",
        ConfigError::ReplayTimerRate(_) => "replay_timer",
        ConfigError::Latency { what: "Ack", .. } if link.ack_latency_symbols.is_none() => "ack_line_bytes",
        ConfigError::Latency { what: "Ack", .. } => "ack_latency_symbols",
        ConfigError::ReplayCursor => "replay_cursor",
        ConfigError::Latency { .. } => "update_fc_symbols",
        _ => return Vec::new(),
    };
    vec![vec![key.to_owned()]]
}

/// Keys of credits: in the channel's own table, otherwise in the link's. Too few credits may also result from a Max_Payload_Size
/// that was set alone.
fn credit_keys(vc: Vc, class: Class, unit: &str, end: &str, link: &Link) -> Vec<Vec<String>> {
    let class = match class {
        Class::Posted => "posted",
        Class::NonPosted => "non_posted",
        Class::Completion => "completion",
    };
    let own = [format!("{end}_credits"), format!("{class}_{unit}")].to_vec();
    let table = link.vc.iter().flatten().position(|table| usize::from(table.id) == vc.index());
    let of_channel = table.map(|n| [vec!["vc".to_owned(), n.to_string()], own.clone()].concat());
    of_channel.into_iter().chain([own, vec!["mps_bytes".to_owned()]]).collect()
}

/// Explains after errors of credits how a lab writes infinite credits.
fn hint(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::HeaderCredits { .. } | ConfigError::DataCredits { .. } => "; infinite is written 0",
        _ => "",
    }
}

/// Returns the link of a slot, for keys that [`check`] accepts.
pub fn config(common: &Link, own: &Link) -> LinkConfig {
    let link = merge(common, own);
    LinkConfig {
        root: port(&link, link.root_credits, |vc| vc.root_credits),
        device: port(&link, link.device_credits, |vc| vc.device_credits),
        propagation: link.propagation_ps.map_or(DEFAULT_PROPAGATION, Duration::from_ps),
        rcb: link.rcb_bytes.map(|r| r.0),
        bit_error_rate: link.bit_error_rate.map_or(0, |p| p.0),
    }
}

/// Returns a warning if an end of the link to `name` replays TLPs before their Acks can arrive.
pub(crate) fn replays_early(name: &str, link: &LinkConfig) -> Option<String> {
    let ends = [(&link.root, &link.device), (&link.device, &link.root)];
    ends.into_iter().find_map(|(port, other)| {
        let (timeout, trip) = (port.replay_timeout(), port.ack_round_trip(other, link.propagation));
        (timeout < trip).then(|| {
            format!(
                "link of `{name}`: REPLAY_TIMER of {timeout} is shorter than the round trip of {trip} (both ways, Ack latency limit \
                 and Ack): received TLPs are replayed (PCIe 5.0 §3.6.2.1)"
            )
        })
    })
}

/// Max_Payload_Size of both ends; 256 B by default.
pub fn mps(link: &Link) -> Mps {
    // 256 bytes are always supported.
    link.mps_bytes.map(|m| m.0).or(Mps::new(256).ok()).unwrap_or_default()
}

/// PCI Express capability of a function on `link`.
pub fn layout(link: &LinkConfig) -> PcieLayout {
    PcieLayout {
        mps_supported: link.device.mps,
        ten_bit_tag: true,
        rate: link.device.rate,
        width: link.device.width,
        ..PcieLayout::default()
    }
}

fn port(
    link: &Link,
    credits: Option<Credits>,
    of_channel: impl Fn(&VirtualChannel) -> Option<Credits>,
) -> PortConfig {
    let rate = link.generation.map_or(Rate::Gt8, |Gen(rate)| rate);
    // Eight lanes are always supported.
    let width = link.lanes.map(|l| l.0).or(Width::new(8)).unwrap_or(Width::ALL[0]);
    let mut config = PortConfig::new(rate, width, mps(link));
    if let Some(credits) = credits {
        channels::apply_credits(&mut config.rx_buffer, credits);
    }
    (config.vc_buffers, config.rx_buffer) = channels::buffers(link, config.rx_buffer, of_channel);
    let channels = channels::of(link).unwrap_or_default();
    (config.tc_vc, config.arbitration) = (channels.map, channels.arbitration);
    set_protocol(&mut config, link);
    if let Some(tlps) = link.replay_buffer_tlps {
        config.replay_buffer_tlps = tlps;
    }
    if let Some(bytes) = link.replay_buffer_bytes {
        config.replay_buffer_bytes = bytes;
    }
    config.ack_latency_symbols = link.ack_latency_symbols.or_else(|| ack_by_formula(link, width));
    config.update_fc_symbols = link.update_fc_symbols;
    config
}

/// Returns the Ack latency that `ack_line_bytes` gives, in symbol times: the formula of `PCIe 5.0 §3.6.3.1` without internal
/// delay.
fn ack_by_formula(link: &Link, width: Width) -> Option<u32> {
    /// Header and framing of a request with three DW of header (IISWC'18, Table I).
    const OVERHEAD: f64 = 20.0;
    let lanes = width.lanes();
    let factor = link.ack_factor.unwrap_or(match lanes {
        0..=4 => 1.4,
        5..=8 => 2.5,
        _ => 3.0,
    });
    let bytes = f64::from(link.ack_line_bytes?) + OVERHEAD;
    Some((bytes * factor / f64::from(lanes)) as u32)
}

fn set_protocol(config: &mut PortConfig, link: &Link) {
    config.scaled_flow_control = link.scaled_flow_control.unwrap_or(false);
    if link.flow_control == Some(FlowControl::None) {
        let buffer_tlps = link.port_buffer_tlps.unwrap_or(DEFAULT_PORT_BUFFER);
        // The REPLAY_TIMER of this link follows from the Ack latency limit, for any rule that the lab's other links
        // use.
        config.flow_control = FlowControlMode::None { buffer_tlps };
        if link.replay_cursor == Some(ReplayCursor::Position) {
            config.replay_cursor = link::ReplayCursor::Position;
        }
    } else if link.replay_timer == Some(ReplayTimer::Rev3) {
        config.replay_timer = ReplayTimerRule::Rev3;
    } else if let Some(symbols) = link.replay_timer_symbols {
        config.replay_timer = ReplayTimerRule::Rev4 { symbols };
    }
    if let Some(ns) = link.retrain_ns {
        config.retrain = Duration::from_ns(ns.min(MAX_RETRAIN_NS));
    }
}

/// The link events of `lab`. Unknown slots have already been rejected.
pub(crate) fn changes(lab: &Lab) -> Vec<LinkEvent> {
    let event = |change: &crate::link_schema::LinkChange| {
        let n = lab.slot.iter().position(|s| s.name.get_ref() == change.slot.get_ref())?;
        let own = config(&lab.link, &lab.slot[n].link).root;
        Some(LinkEvent {
            at: Time::ZERO + Duration::from_us(change.at_us),
            link: LinkId(n as u32),
            change: LinkChange::Speed {
                rate: change.generation.as_ref().map_or(own.rate, |given| given.get_ref().0),
                width: change.lanes.as_ref().map_or(own.width, |given| given.get_ref().0),
            },
        })
    };
    lab.link_event.iter().filter_map(event).collect()
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the keys of a lab's link tables to the two ports of a link.

use crate::channels;
use crate::link_schema::VirtualChannel;
use crate::schema::{Credits, FlowControl, Link, ReplayTimer};
use crate::values::Gen;
use config::PcieLayout;
use fabric::LinkConfig;
use link::{CreditLimit, FlowControlMode, PortConfig, ReplayTimerRule};
use tlp::{Class, Duration, Mps, Rate, Width};

/// Time of flight where the lab says nothing: about 30 cm at 6.7 ps/mm, signals on common board material.
const DEFAULT_PROPAGATION: Duration = Duration::from_ps(2_000);
/// TLPs that a receiver without flow control holds where the lab says nothing (IISWC'18, §VI).
const DEFAULT_PORT_BUFFER: u16 = 16;
/// The longest retrain: as long as Recovery may take (`PCIe 5.0 §4.2.6.4.1`, 24 ms).
const MAX_RETRAIN_NS: u64 = 24_000_000;

/// `own` where it says something, else `common`, key by key.
#[must_use]
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
        ack_latency_symbols: own.ack_latency_symbols.or(common.ack_latency_symbols),
        update_fc_symbols: own.update_fc_symbols.or(common.update_fc_symbols),
        vc: own.vc.clone().or(common.vc.clone()),
        vc_arbitration: own.vc_arbitration.or(common.vc_arbitration),
        low_priority_vc: own.low_priority_vc.or(common.low_priority_vc),
        scaled_flow_control: own.scaled_flow_control.or(common.scaled_flow_control),
        flow_control: own.flow_control.or(common.flow_control),
        port_buffer_tlps: own.port_buffer_tlps.or(common.port_buffer_tlps),
        replay_timer: own.replay_timer.or(common.replay_timer),
        replay_timer_symbols: own.replay_timer_symbols.or(common.replay_timer_symbols),
        retrain_ns: own.retrain_ns.or(common.retrain_ns),
    }
}

/// What [`config()`] cannot make a link of, and the legal values.
///
/// # Errors
/// The first key that cannot be.
pub fn check(common: &Link, own: &Link) -> Result<(), String> {
    let link = merge(common, own);
    channels::of(&link)?;
    match link.retrain_ns {
        Some(ns) if ns > MAX_RETRAIN_NS => {
            return Err(format!("retrain_ns of {ns}: legal are 0 to {MAX_RETRAIN_NS}"));
        }
        _ => {}
    }
    let ends = config(common, own);
    for (end, port) in [("root", &ends.root), ("device", &ends.device)] {
        port.validate().map_err(|error| format!("{end} side: {error}"))?;
    }
    Ok(())
}

/// The link that a slot hangs on, of keys that [`check`] allows.
#[must_use]
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

/// Max_Payload_Size of both ends: 256 B where the lab says nothing.
#[must_use]
pub fn mps(link: &Link) -> Mps {
    // 256 bytes are always legal.
    link.mps_bytes.map(|m| m.0).or(Mps::new(256).ok()).unwrap_or_default()
}

/// What a function on `link` says of it in its PCI Express capability.
#[must_use]
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
    // Eight lanes are always legal.
    let width = link.lanes.map(|l| l.0).or(Width::new(8)).unwrap_or(Width::ALL[0]);
    let mut config = PortConfig::new(rate, width, mps(link));
    if let Some(credits) = credits {
        apply_credits(&mut config.rx_buffer, credits);
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
    config.ack_latency_symbols = link.ack_latency_symbols;
    config.update_fc_symbols = link.update_fc_symbols;
    config
}

fn set_protocol(config: &mut PortConfig, link: &Link) {
    config.scaled_flow_control = link.scaled_flow_control.unwrap_or(false);
    if link.flow_control == Some(FlowControl::None) {
        let buffer_tlps = link.port_buffer_tlps.unwrap_or(DEFAULT_PORT_BUFFER);
        config.flow_control = FlowControlMode::None { buffer_tlps };
    }
    if link.replay_timer == Some(ReplayTimer::Rev3) {
        config.replay_timer = ReplayTimerRule::Rev3;
    } else if let Some(symbols) = link.replay_timer_symbols {
        config.replay_timer = ReplayTimerRule::Rev4 { symbols };
    }
    if let Some(ns) = link.retrain_ns {
        config.retrain = Duration::from_ns(ns.min(MAX_RETRAIN_NS));
    }
}

pub(crate) fn apply_credits(limits: &mut [CreditLimit; 3], credits: Credits) {
    apply(&mut limits[Class::Posted.index()], credits.posted_header, credits.posted_data);
    apply(&mut limits[Class::NonPosted.index()], credits.non_posted_header, credits.non_posted_data);
    apply(&mut limits[Class::Completion.index()], credits.completion_header, credits.completion_data);
}

/// Zero is infinite.
fn apply(limit: &mut CreditLimit, header: Option<u16>, data: Option<u16>) {
    let credits = |n: u16| (n != 0).then_some(n);
    if let Some(header) = header {
        limit.header = credits(header);
    }
    if let Some(data) = data {
        limit.data = credits(data);
    }
}

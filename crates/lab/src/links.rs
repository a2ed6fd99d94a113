// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the keys of a lab's link tables to the two ports of a link.

use crate::schema::{Credits, Link};
use crate::values::Gen;
use config::PcieLayout;
use fabric::LinkConfig;
use link::{CreditLimit, PortConfig};
use tlp::{Class, Duration, Mps, Rate, Width};

/// Time of flight where the lab says nothing: about 30 cm at 6.7 ps/mm, signals on common board material.
const DEFAULT_PROPAGATION: Duration = Duration::from_ps(2_000);

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
    }
}

/// The link that a slot hangs on.
#[must_use]
pub fn config(common: &Link, own: &Link) -> LinkConfig {
    let link = merge(common, own);
    LinkConfig {
        root: port(&link, link.root_credits),
        device: port(&link, link.device_credits),
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

fn port(link: &Link, credits: Option<Credits>) -> PortConfig {
    let rate = link.generation.map_or(Rate::Gt8, |Gen(rate)| rate);
    // Eight lanes are always legal.
    let width = link.lanes.map(|l| l.0).or(Width::new(8)).unwrap_or(Width::ALL[0]);
    let mut config = PortConfig::new(rate, width, mps(link));
    if let Some(credits) = credits {
        let limits = &mut config.rx_buffer;
        apply(&mut limits[Class::Posted.index()], credits.posted_header, credits.posted_data);
        apply(&mut limits[Class::NonPosted.index()], credits.non_posted_header, credits.non_posted_data);
        apply(&mut limits[Class::Completion.index()], credits.completion_header, credits.completion_data);
    }
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

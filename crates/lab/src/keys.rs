// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single keys of a lab file, each by itself: what types do not say of their legal values. Never looks from one key at another, so
//! that it holds for a file too in which other keys are wrong.

use crate::error::FileError;
use crate::flow_schema::Flow;
use crate::read::{Checked, Place, found};
use crate::schema::{Host, Lab, LinkChange, PcieBench, Slot};
use toml::Spanned;

/// The latest change of a link, in microseconds: virtual time ends at 213 days.
const MAX_EVENT_US: u64 = 1_000_000_000_000;
/// Bytes of the largest memory BAR of a device that ships.
const MAX_BAR_BYTES: u64 = 1 << 28;

/// What is wrong with the keys of `lab`.
pub(crate) fn check(place: &Place<'_>, lab: &Lab) -> Vec<FileError> {
    let latency = |ns: &Spanned<u64>| place.range(ns.span(), "latency_ns", *ns.get_ref(), 0..1_000_001);
    let mut errors = found([check_version(place, lab)]);
    errors.extend(check_host(place, &lab.host));
    errors.extend(lab.slot.iter().flat_map(|slot| check_slot(place, slot)));
    errors.extend(lab.switch.iter().filter_map(|switch| latency(&switch.latency_ns).err()));
    errors.extend(lab.link_event.iter().filter_map(|change| check_time(place, change).err()));
    errors
}

fn check_version(place: &Place<'_>, lab: &Lab) -> Checked {
    match *lab.version.get_ref() {
        1 => Ok(()),
        n => place.error(lab.version.span(), format!("version {n}: this riser reads version 1")),
    }
}

fn check_host(place: &Place<'_>, host: &Host) -> Vec<FileError> {
    let (low, high) = (&host.low_memory_mib, &host.high_memory_mib);
    found([
        place.range(low.span(), "low_memory_mib", u64::from(*low.get_ref()), 1..2049),
        place.range(high.span(), "high_memory_mib", u64::from(*high.get_ref()), 0..131_073),
    ])
}

fn check_time(place: &Place<'_>, change: &LinkChange) -> Checked {
    let late = format!("at_us of {}: legal are 0 to {MAX_EVENT_US}", change.at_us);
    if change.at_us > MAX_EVENT_US { place.error(change.slot.span(), late) } else { Ok(()) }
}

fn check_slot(place: &Place<'_>, slot: &Slot) -> Vec<FileError> {
    let mut errors = check_model(place, slot);
    if let Some(tags) = &slot.tags {
        errors.extend(place.range(tags.span(), "tags", u64::from(*tags.get_ref()), 1..769).err());
    }
    if let Some(us) = &slot.completion_timeout_us {
        errors.extend(place.range(us.span(), "completion_timeout_us", *us.get_ref(), 50..50_001).err());
    }
    errors
}

/// The settings of the slot's device.
fn check_model(place: &Place<'_>, slot: &Slot) -> Vec<FileError> {
    let mut errors = Vec::new();
    if let Some(memory) = &slot.memory {
        let (size, span) = (*memory.size_bytes.get_ref(), memory.size_bytes.span());
        if !size.is_power_of_two() || !(16..=MAX_BAR_BYTES).contains(&size) {
            let message = format!("size_bytes of {size}: legal are powers of two, 16 to 2^28");
            errors.extend(found([place.error(span, message)]));
        }
    }
    if let Some(nic) = &slot.simple_nic {
        errors.extend(found([
            place.range(nic.bar.span(), "bar", u64::from(*nic.bar.get_ref()), 0..6),
            place.range(nic.ping_bytes.span(), "ping_bytes", u64::from(*nic.ping_bytes.get_ref()), 0..1473),
        ]));
    }
    if let Some(bench) = &slot.pcie_bench {
        errors.extend(check_bench(place, bench));
    }
    if let Some(counter) = &slot.counter {
        let n = &counter.outstanding;
        errors.extend(place.range(n.span(), "outstanding", u64::from(*n.get_ref()), 1..257).err());
    }
    if let Some(replay) = &slot.replay {
        errors.extend(check_window(place, &replay.window_bytes).err());
    }
    errors.extend(
        slot.traffic.iter().flat_map(|traffic| &traffic.flow).flat_map(|flow| check_flow(place, flow)),
    );
    errors
}

fn check_bench(place: &Place<'_>, bench: &PcieBench) -> Vec<FileError> {
    let (size, offset, device) = (&bench.size_bytes, &bench.host_offset_bytes, &bench.device_offset_bytes);
    let window = &bench.window_bytes;
    let wide = |n: &Spanned<u32>| u64::from(*n.get_ref());
    let sizes = place
        .range(size.span(), "size_bytes", wide(size), 1..4097)
        .and_then(|()| place.range(offset.span(), "host_offset_bytes", wide(offset), 0..64))
        .and_then(|()| {
            let (bytes, start) = (wide(size), wide(offset));
            let message =
                format!("size_bytes {bytes} at host_offset_bytes {start}: a transfer never crosses 4 KiB");
            if bytes + start > 4096 { place.error(size.span(), message) } else { Ok(()) }
        });
    let outstanding = bench.outstanding.as_ref();
    found([
        sizes,
        place.range(device.span(), "device_offset_bytes", wide(device), 0..64),
        place.range(window.span(), "window_bytes", *window.get_ref(), 4096..(1 << 30) + 1),
        outstanding
            .map_or(Ok(()), |n| place.range(n.span(), "outstanding", u64::from(*n.get_ref()), 1..1025)),
    ])
}

/// The window of a replay.
fn check_window(place: &Place<'_>, bytes: &Spanned<u64>) -> Checked {
    let window = *bytes.get_ref();
    if !window.is_power_of_two() || !(4096..=1 << 30).contains(&window) {
        let message = format!("window_bytes of {window}: legal are powers of two, 4096 to 2^30");
        return place.error(bytes.span(), message);
    }
    Ok(())
}

fn check_flow(place: &Place<'_>, flow: &Flow) -> Vec<FileError> {
    let (outstanding, window) = (&flow.outstanding, &flow.window_bytes);
    found([
        place.range(flow.tc.span(), "tc", u64::from(*flow.tc.get_ref()), 0..8),
        place.range(flow.size_bytes.span(), "size_bytes", u64::from(*flow.size_bytes.get_ref()), 0..4097),
        place.range(flow.count.span(), "count", *flow.count.get_ref(), 1..1_000_000_000_001),
        place.range(outstanding.span(), "outstanding", u64::from(*outstanding.get_ref()), 1..1025),
        place.range(window.span(), "window_bytes", *window.get_ref(), 4096..(1 << 30) + 1),
    ])
}

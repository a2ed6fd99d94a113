// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs device software until it is stopped. If the adapter goes away, waits for an adapter and starts a new device.

use super::target::Target;
use crate::carrier::Carrier;
use crate::net::{AnyCarrier, Clock};
use crate::requester::Counters;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use thiserror::Error;
use tlp::rules::Refusal;
use tlp::{Duration, Time};

/// Maximum time of a turn, so that the caller's flag is seen.
pub(super) const MAX_TURN: Duration = Duration::from_ms(100);
/// Time between two checks of the adapter.
const WATCH: std::time::Duration = std::time::Duration::from_millis(200);

/// A counter, by name.
pub type Count = (&'static str, u64);

/// Returns the counters of reads over ports.
pub(super) fn read_counts(reads: &Counters) -> [Count; 3] {
    [
        ("reads_asked_again", reads.retried),
        ("reads_timed_out", reads.timed_out),
        ("late_completions", reads.late),
    ]
}

/// A device that serves the requests of an adapter's host.
pub trait DeviceSoftware {
    /// Returns the carrier of its TLPs.
    fn carrier(&self) -> &AnyCarrier;

    /// Returns the reasons why TLPs were refused, and why reads were not completed.
    fn refusals(&self) -> Vec<Refusal>;

    /// Handles pending events. If no event is pending, waits for an event for at most 100 ms.
    ///
    /// # Errors
    /// The carrier or the device fails.
    fn turn(&mut self, clock: Clock) -> Result<(), SoftwareError>;
}

/// Reason why device software ends.
#[derive(Debug, Error)]
pub enum SoftwareError {
    /// The carrier fails.
    #[error(transparent)]
    Carrier(#[from] io::Error),
    /// The device fails.
    #[error("{0}")]
    Device(String),
}

/// A finished run of device software.
#[derive(Debug)]
pub struct SoftwareRun {
    /// Number of times that the adapter came back.
    pub came_back: u64,
    /// True if the TLPs of the last device were sent in a session.
    pub is_session: bool,
    /// The error that ended the run, if it was not stopped.
    pub result: Result<(), SoftwareError>,
}

/// Runs `device` until `stop` is set or it fails. If the adapter goes away, drops the device, waits for an adapter
/// and continues with the device that `attach` returns. Calls `ended` for each device, with its time, and with true
/// if the adapter has gone away.
pub fn run<D: DeviceSoftware, E>(
    mut device: D,
    target: &Target,
    stop: &AtomicBool,
    attach: impl Fn() -> Result<D, E>,
    mut ended: impl FnMut(&D, Time, bool),
) -> SoftwareRun {
    let (flag, mut came_back) = (watch(target.clone()), 0);
    loop {
        let (is_session, clock) = (device.carrier().is_reliable(), Clock::new());
        let result = serve(&mut device, &flag, stop, clock);
        let has_gone = matches!(result, Ok(true));
        ended(&device, clock.now(), has_gone);
        if !has_gone {
            return SoftwareRun { came_back, is_session, result: result.map(drop) };
        }
        // The next device needs the ports of this device.
        drop(device);
        let Some(next) = attach_again(target, stop, &attach) else {
            return SoftwareRun { came_back, is_session, result: Ok(()) };
        };
        device = next;
        came_back += 1;
        flag.store(false, Ordering::Relaxed);
    }
}

/// Calls `attach` as soon as an adapter answers. Returns `None` if `stop` is set before.
fn attach_again<D, E>(target: &Target, stop: &AtomicBool, attach: impl Fn() -> Result<D, E>) -> Option<D> {
    while !stop.load(Ordering::Relaxed) {
        // A session is tried only if an adapter answers.
        if target.is_present()
            && let Ok(device) = attach()
        {
            return Some(device);
        }
        thread::sleep(WATCH);
    }
    None
}

/// Watches until the process ends whether the adapter answers. This is needed because over ports, an adapter that
/// has come back does not announce itself. Sets the flag when it has come back.
fn watch(target: Target) -> Arc<AtomicBool> {
    let came_back = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&came_back);
    thread::spawn(move || {
        let mut was_away = false;
        loop {
            thread::sleep(WATCH);
            let is_present = target.is_present();
            if is_present && was_away {
                flag.store(true, Ordering::Relaxed);
            }
            was_away = !is_present;
        }
    });
    came_back
}

/// Serves until `stop` is set. Returns true before that if the session has ended, or if a new adapter answers,
/// because it does not know this device.
fn serve(
    device: &mut impl DeviceSoftware,
    came_back: &AtomicBool,
    stop: &AtomicBool,
    clock: Clock,
) -> Result<bool, SoftwareError> {
    let is_session = device.carrier().is_reliable();
    while !stop.load(Ordering::Relaxed) {
        if came_back.swap(false, Ordering::Relaxed) && !is_session {
            return Ok(true);
        }
        match device.turn(clock) {
            // The cause is probably the signal that sets the flag.
            Err(SoftwareError::Carrier(e)) if e.kind() == ErrorKind::Interrupted => {}
            // No adapter is there. The watch reports when an adapter is there again.
            Err(SoftwareError::Carrier(e)) if e.kind() == ErrorKind::ConnectionRefused && !is_session => {}
            Err(SoftwareError::Carrier(e)) if is_session && is_end_of_session(e.kind()) => return Ok(true),
            done => done?,
        }
    }
    Ok(false)
}

const fn is_end_of_session(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::TimedOut)
}

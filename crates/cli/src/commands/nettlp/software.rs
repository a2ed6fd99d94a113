// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all device software has to know of the adapter that it is behind: where it stands, and whether it is still there. Never carries
//! a TLP.

use super::way::WayArgs;
use crate::failure::Failure;
use nettlp::client::control::ControlError;
use nettlp::device_host::Place;
use nettlp::net::AnyCarrier;
use nettlp::requester::Rest;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Duration;

/// How long a turn waits at most: until Ctrl-C is looked for again.
pub(super) const LONGEST: Duration = Duration::from_ms(100);
/// Tags: those of reads that are asked again rest for a while, so there are more than are used at once.
const TAGS: RangeInclusive<u16> = 0..=255;
/// How often the adapter is asked whether it is still there.
const WATCH: std::time::Duration = std::time::Duration::from_millis(200);

/// The way to an adapter, and where its host says that the device stands.
pub(super) struct Behind {
    pub(super) carrier: AnyCarrier,
    pub(super) place: Place,
    pub(super) rest: Rest,
}

impl Behind {
    pub(super) fn is_session(&self) -> bool {
        is_session(&self.carrier)
    }

    /// For what people read.
    pub(super) fn way(&self) -> &'static str {
        if self.is_session() { "a session" } else { "a port per tag" }
    }
}

pub(super) fn is_session(carrier: &AnyCarrier) -> bool {
    matches!(carrier, AnyCarrier::Session(_))
}

impl WayArgs {
    /// Goes there as device software.
    pub(super) fn behind(&self) -> Result<Behind, Failure> {
        let carrier = self.open(TAGS, true)?;
        let place = self.place().map_err(|e| Failure::Run(e.to_string()))?;
        let rest = if self.remote().is_loopback() { Rest::LOOPBACK } else { Rest::NETWORK };
        Ok(Behind { carrier, place, rest })
    }

    /// The device's ID and BAR first: who asks for the vectors has its sockets open by then.
    fn place(&self) -> Result<Place, ControlError> {
        let mut driver = self.messaging()?;
        Ok(Place { id: driver.device_id()?, address: driver.bar4_start()?, vectors: driver.msix_table()? })
    }

    /// What `plug_in` makes, as soon as an adapter answers; none where it is told to stop before.
    pub(super) fn again<T>(&self, stop: &AtomicBool, plug_in: impl Fn() -> Result<T, Failure>) -> Option<T> {
        while !stop.load(Ordering::Relaxed) {
            // First, so that a session is tried where somebody is there.
            let is_there = self.messaging().and_then(|mut driver| driver.device_id()).is_ok();
            if is_there && let Ok(made) = plug_in() {
                return Some(made);
            }
            std::thread::sleep(WATCH);
        }
        None
    }
}

/// Whether the adapter was away: asked by a thread of its own, since over ports nothing else tells.
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Asks until the process ends. To ask for the ID alone makes nobody device software.
    pub(super) fn start(way: WayArgs) -> Watch {
        let came_back = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&came_back);
        std::thread::spawn(move || {
            let mut was_away = false;
            loop {
                std::thread::sleep(WATCH);
                let is_there = way.messaging().and_then(|mut driver| driver.device_id()).is_ok();
                if is_there && was_away {
                    told.store(true, Ordering::Relaxed);
                }
                was_away = !is_there;
            }
        });
        Watch(came_back)
    }

    /// Whether it has come back since this was asked last.
    pub(super) fn came_back(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Why nothing more is carried.
pub(super) enum Ended {
    /// It was told to stop.
    Stopped,
    /// The adapter that it knows has gone: the session has ended, or another adapter is there, which knows nothing of this device.
    Gone,
}

/// Takes turns until it is told to stop, or the adapter has gone. A turn carries what is there, and waits for more.
pub(super) fn carry(
    session: bool,
    watch: &Watch,
    stop: &AtomicBool,
    mut turn: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<Ended> {
    while !stop.load(Ordering::Relaxed) {
        if watch.came_back() && !session {
            return Ok(Ended::Gone);
        }
        match turn() {
            // A signal: most likely the one that ends this.
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // Nobody is there now; what it will be when somebody is, the watch tells.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && !session => {}
            Err(e) if session && is_end_of_session(e.kind()) => return Ok(Ended::Gone),
            done => done?,
        }
    }
    Ok(Ended::Stopped)
}

const fn is_end_of_session(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::TimedOut)
}

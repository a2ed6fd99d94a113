// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab behind an adapter on the loopback, whose host's requests a program on another thread serves.

use super::super::PaperError;
use super::loopback::{Loopback, failed};
use capture::encap::PortScheme;
use nettlp::adapter::{Adapter, AdapterSettings};
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use session::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tlp::{Bdf, Duration, Time};
use worlds::adapter::{LabBackend, Timing};

/// Time after which a lab that has not ended is given up.
const PATIENCE: Duration = Duration::from_ms(20_000);

/// Serves the lab of `session` at `at` until `is_done`, in real time. `device` runs on its own thread until its flag is set.
/// Returns the lab, and the result of `device`.
///
/// # Errors
/// The lab or the device software fails, or does not end.
pub(super) fn run_served<T: Send>(
    session: Session,
    at: Loopback,
    device: impl FnOnce(&AtomicBool) -> Result<T, PaperError> + Send,
    is_done: impl Fn(&LabBackend) -> bool,
) -> Result<(LabBackend, T), PaperError> {
    let backend = LabBackend::new(session, Timing::On).map_err(failed)?;
    let mut sockets = AdapterSockets::bind(&AdapterOptions::new(at.adapter)).map_err(failed)?;
    let (allow, scheme) = (at.allow()?, PortScheme::Paper);
    let settings = AdapterSettings { allow, id: Bdf::default(), device: Some(at.device), scheme };
    let mut adapter = Adapter::new(settings, backend);
    let stop = AtomicBool::new(false);
    let (served, software) = thread::scope(|scope| {
        let software = scope.spawn(|| device(&stop));
        let served = serve(&mut sockets, &mut adapter, Clock::new(), false, |adapter, _, now| {
            let over = now > Time::ZERO + PATIENCE || software.is_finished();
            !over && adapter.backend().failure().is_none() && !is_done(adapter.backend())
        });
        stop.store(true, Ordering::Relaxed);
        (served, software.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let result = software?;
    served.map_err(failed)?;
    let mut backend = None;
    _ = adapter.map(|lab| backend = Some(lab));
    let backend = backend.ok_or_else(|| failed("the adapter has no lab"))?;
    match backend.failure() {
        Some(why) => Err(failed(why)),
        None if is_done(&backend) => Ok((backend, result)),
        None => Err(failed("the lab behind the adapter has not ended within 20 s")),
    }
}

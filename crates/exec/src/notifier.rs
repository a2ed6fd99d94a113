// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notifications. A device that was not called uses them to ask for a poll, because another device has changed shared
//! state.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Devices that have notified and were not polled since, each once.
#[derive(Default)]
struct Pending {
    order: Vec<u16>,
    is_pending: Vec<bool>,
}

#[derive(Default)]
struct Common {
    any: AtomicBool,
    pending: Mutex<Pending>,
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notifier of one device; clones notify for the same device. A device notifies whenever the results of `Device::ready` or
/// `Device::poll_timeout` may have changed without a call of the device.
#[derive(Clone)]
pub struct Notifier {
    number: u16,
    common: Arc<Common>,
}

impl Notifier {
    /// Asks for the device to be polled again.
    pub fn notify(&self) {
        let pending = &mut *self.common.lock();
        let Some(is_pending) = pending.is_pending.get_mut(usize::from(self.number)) else { return };
        if !std::mem::replace(is_pending, true) {
            pending.order.push(self.number);
            self.common.any.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notifier({})", self.number)
    }
}

/// The notifiers of the devices that have the same driver, by number. The driver uses them.
pub struct Notifiers(Arc<Common>);

impl Notifiers {
    /// Returns notifiers for devices 0 to `count` - 1.
    pub fn new(count: u16) -> Notifiers {
        let pending =
            Pending { order: Vec::with_capacity(count.into()), is_pending: vec![false; count.into()] };
        Notifiers(Arc::new(Common { any: AtomicBool::new(false), pending: Mutex::new(pending) }))
    }

    /// Returns the notifier of device `number`. A number beyond the last device has no effect.
    pub fn notifier(&self, number: u16) -> Notifier {
        Notifier { number, common: Arc::clone(&self.0) }
    }

    /// True if a device has notified.
    pub fn any(&self) -> bool {
        self.0.any.load(Ordering::Acquire)
    }

    /// Takes the device that has notified last. The device can notify again from now on.
    #[inline]
    pub fn take(&self) -> Option<u16> {
        if self.any() { self.take_one() } else { None }
    }

    #[cold]
    fn take_one(&self) -> Option<u16> {
        let pending = &mut *self.0.lock();
        let number = pending.order.pop()?;
        pending.is_pending[usize::from(number)] = false;
        self.0.any.store(!pending.order.is_empty(), Ordering::Release);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifier_reports_each_event_once() {
        let notifiers = Notifiers::new(3);
        let (one, two) = (notifiers.notifier(1), notifiers.notifier(2));
        assert!(!notifiers.any() && notifiers.take().is_none());
        one.notify();
        two.notify();
        one.clone().notify();
        notifiers.notifier(3).notify();
        let mut pending: Vec<u16> = std::iter::from_fn(|| notifiers.take()).collect();
        pending.sort_unstable();
        assert_eq!(pending, [1, 2]);
        one.notify();
        assert_eq!((notifiers.take(), notifiers.any()), (Some(1), false));
    }
}

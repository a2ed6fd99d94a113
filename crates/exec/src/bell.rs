// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a device asks to be asked again though nobody has called it, since another device changed what they share.
//! Never asks itself: whoever drives the devices does.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The devices that have rung and were not asked since, each once.
#[derive(Default)]
struct Rung {
    order: Vec<u16>,
    there: Vec<bool>,
}

#[derive(Default)]
struct Board {
    any: AtomicBool,
    rung: Mutex<Rung>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bell of one device; clones are the same bell. A device rings it wherever the answers of `Device::ready` or
/// `Device::poll_timeout` may have changed without a call of it.
#[derive(Clone)]
pub struct Bell {
    number: u16,
    board: Arc<Board>,
}

impl Bell {
    /// Asks for the device to be asked again.
    pub fn ring(&self) {
        let rung = &mut *self.board.lock();
        let Some(there) = rung.there.get_mut(usize::from(self.number)) else { return };
        if !std::mem::replace(there, true) {
            rung.order.push(self.number);
            self.board.any.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bell({})", self.number)
    }
}

/// The bells of devices that are driven together, by number, as whoever drives them sees them.
pub struct Bells(Arc<Board>);

impl Bells {
    /// Bells for devices 0 to `count` - 1.
    pub fn new(count: u16) -> Bells {
        let rung = Rung { order: Vec::with_capacity(count.into()), there: vec![false; count.into()] };
        Bells(Arc::new(Board { any: AtomicBool::new(false), rung: Mutex::new(rung) }))
    }

    /// The bell of device `number`; one beyond the last rings unheard.
    pub fn bell(&self, number: u16) -> Bell {
        Bell { number, board: Arc::clone(&self.0) }
    }

    /// True where a bell was rung.
    pub fn any(&self) -> bool {
        self.0.any.load(Ordering::Acquire)
    }

    /// Takes the last bell that was rung; it may be rung again from now on.
    pub fn take(&mut self) -> Option<u16> {
        if self.any() { self.take_one() } else { None }
    }

    #[cold]
    fn take_one(&self) -> Option<u16> {
        let rung = &mut *self.0.lock();
        let number = rung.order.pop()?;
        rung.there[usize::from(number)] = false;
        self.0.any.store(!rung.order.is_empty(), Ordering::Release);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_there_once() {
        let mut bells = Bells::new(3);
        let (one, two) = (bells.bell(1), bells.bell(2));
        assert!(!bells.any() && bells.take().is_none());
        one.ring();
        two.ring();
        one.clone().ring();
        bells.bell(3).ring();
        let mut rung: Vec<u16> = std::iter::from_fn(|| bells.take()).collect();
        rung.sort_unstable();
        assert_eq!(rung, [1, 2]);
        one.ring();
        assert_eq!((bells.take(), bells.any()), (Some(1), false));
    }
}

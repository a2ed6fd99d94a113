// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that draw on one pool of tags. They send one TLP each, round robin, so that every function gets tags. If
//! software has enabled fewer tags for some functions, these functions may be unable to use any of the free tags. Such
//! functions are recorded and go first when a tag is freed. Otherwise the others would take it every time. This module
//! does not record which tags are free.

use super::Endpoint;
use device::seam::Ready;
use tlp::{Class, TcSet, Time, Tlp};

impl Endpoint {
    /// Polls a function for a non-posted TLP, with a tag of the pool if it has one for the function.
    #[inline(never)]
    pub(super) fn poll_with_pool(&mut self, now: Time, room: TcSet, index: usize) -> Option<Tlp> {
        let (function, shared) = (&mut self.front.functions[index], &mut self.front.shared);
        let range = function.settings.tags;
        let pool = shared.tags.as_mut();
        let lent = pool.and_then(|pool| pool.lend(&mut function.behind.reads.tags, range, None));
        let tlp = function.poll_non_posted(now, shared, room);
        let Some(pool) = &mut shared.tags else { return tlp };
        pool.finish_lending(&mut function.behind.reads.tags, lent);
        if lent.is_none() && pool.has_free() && function.settings.bus_master {
            self.pass_over(index);
        }
        tlp
    }

    #[cold]
    fn pass_over(&mut self, index: usize) {
        if !self.passed_over.contains(&(index as u16)) && self.wants_to_ask(index) {
            self.passed_over.push_back(index as u16);
        }
    }

    /// Returns whether a function may have a non-posted TLP to send.
    fn wants_to_ask(&self, index: usize) -> bool {
        let ready = self.front.functions[index].ready(self.front.shared.several_channels);
        ready.contains(Ready::output(Class::NonPosted))
    }

    /// Returns the next non-posted TLP of a function that was passed over and may have a tag now, longest waiting
    /// first. A function that has sent such a TLP, or has no more of them, is treated like the others again.
    #[cold]
    pub(super) fn next_of_passed_over(&mut self, now: Time, room: TcSet) -> Option<Tlp> {
        let mut at = 0;
        while let Some(&number) = self.passed_over.get(at) {
            let index = usize::from(number);
            let function = &self.front.functions[index];
            let pool = self.front.shared.tags.as_ref()?;
            if function.settings.bus_master && pool.offer(function.settings.tags).is_none() {
                at += 1;
                continue;
            }
            let held = function.holds_posted();
            let tlp = self.poll_with_pool(now, room, index);
            self.touch_posted(now, index, held);
            if tlp.is_none() && self.wants_to_ask(index) {
                at += 1;
                continue;
            }
            self.passed_over.remove(at);
            if tlp.is_some() {
                return tlp;
            }
        }
        None
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that draw on one pool of tags. They take turns as all do, a TLP each, so that each gets a tag in turn. Where software
//! has enabled fewer tags for some, those that are left may be none of theirs: they are noted, and go first when one comes back, or
//! others would take it for ever. Never knows which tags are free.

use super::Endpoint;
use device::seam::Ready;
use tlp::{Class, TcSet, Time, Tlp};

impl Endpoint {
    /// Asks a function for a non-posted TLP, with a tag of the pool, where that has one for it.
    #[inline(never)]
    pub(super) fn poll_with_pool(&mut self, now: Time, room: TcSet, index: usize) -> Option<Tlp> {
        let (function, shared) = (&mut self.front.functions[index], &mut self.front.shared);
        let range = function.settings.tags;
        let pool = shared.tags.as_mut();
        let lent = pool.and_then(|pool| pool.lend(&mut function.behind.reads.tags, range, None));
        let tlp = function.poll_non_posted(now, shared, room);
        let Some(pool) = &mut shared.tags else { return tlp };
        pool.settle(&mut function.behind.reads.tags, lent);
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

    /// True where a function may have a non-posted TLP to send.
    fn wants_to_ask(&self, index: usize) -> bool {
        let may_find = self.front.functions[index].may_find(self.front.shared.several_channels);
        may_find.contains(Ready::output(Class::NonPosted))
    }

    /// The next non-posted TLP of a function that was passed over and may have a tag now, the first of them first. One that has
    /// sent one, or has none left, is a function like others again.
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

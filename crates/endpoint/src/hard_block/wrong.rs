// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong TLPs of a design that are sent unchanged, as by a vendor's block without a checker. The design decides which,
//! by [`TlpDesign::sends_wrong`].

use super::{DesignInput, HardBlock, RefusedTlp, TlpDesign, refused_tag};
use tlp::{Body, Class, Limits, Mps, Repr, TcSet, Time, Tlp, rules};

/// Checks the form of a TLP like its receiver.
pub(super) fn check(tlp: &Tlp, mps: Mps) -> Result<(), RefusedTlp> {
    let limits = Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes: 4 };
    rules::check_received(tlp, &limits).map_err(RefusedTlp::Malformed)
}

impl<D: TlpDesign> HardBlock<D> {
    /// Checks the form of a TLP of `function` like its receiver.
    pub(super) fn check_form(&self, function: u16, tlp: &Tlp) -> Result<(), RefusedTlp> {
        let at = self.front.functions.get(usize::from(function));
        let at = at.ok_or(RefusedTlp::NoFunction(function))?;
        check(tlp, at.settings.mps)
    }

    /// Sends a TLP unchanged except for the ID of its function, and tracks a request. Returns the TLP if the function
    /// may not issue requests.
    pub(super) fn send_wrong(
        &mut self,
        now: Time,
        function: u16,
        mut tlp: Tlp,
        why: RefusedTlp,
    ) -> Option<Tlp> {
        if let Err(gated) = self.prepare(now, function, &mut tlp) {
            self.refuse(now, function, tlp, gated);
            return None;
        }
        self.front.shared.counters.wrong_outputs += 1;
        self.design.handle(now, DesignInput::SentWrong { tlp: tlp.clone(), why });
        Some(tlp)
    }

    fn prepare(&mut self, now: Time, function: u16, tlp: &mut Tlp) -> Result<(), RefusedTlp> {
        let shared = &mut self.front.shared;
        let at = self.front.functions.get_mut(usize::from(function));
        let at = at.ok_or(RefusedTlp::NoFunction(function))?;
        let settings = &at.settings;
        let is_gated = !matches!(tlp.repr.body, Body::Message(_) | Body::Completion(_));
        if is_gated && !settings.bus_master {
            shared.counters.blocked_by_bus_master += 1;
            return Err(RefusedTlp::Gated(settings.not_bus_master()));
        }
        let (id, (_, tag)) = (at.id(shared), tlp.repr.transaction());
        let as_parsed = tlp.repr;
        if tlp.is_malformed() {
            tlp.sign_malformed(id, tag, &shared.pool);
        } else {
            tlp.repr.attr &= settings.attributes;
            tlp.repr.td = false;
            match &mut tlp.repr.body {
                Body::Completion(completion) => completion.completer = id,
                _ => tlp.repr.set_transaction(id, tag),
            }
        }
        if tlp.class() != Class::NonPosted {
            return Ok(());
        }
        let deadline = settings.completion_timeout.map_or(Time::MAX, |timeout| now + timeout);
        let (tags, mut followed) = (settings.tags, Repr { attr: tlp.repr.attr, ..as_parsed });
        let lent = shared.tags.as_mut().and_then(|pool| pool.lend(&mut at.behind.tags, tags, Some(tag)));
        let is_followed = at.behind.issue(id, Some(tag), deadline, &mut followed)
            || (shared.tags.is_none() && at.behind.issue_again(id, deadline, &mut followed));
        if let Some(pool) = &mut shared.tags {
            pool.finish_lending(&mut at.behind.tags, lent);
        }
        // A request with a tag that is not the function's cannot be tracked.
        if is_followed { Ok(()) } else { Err(refused_tag(tag, tags)) }
    }
}

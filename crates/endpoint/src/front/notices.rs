// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices of the link's port: errors of the layers below, which the functions log, and link down or up (`PCIe 5.0
//! §6.2`, §2.9). This module does not define errors.

use super::{Front, FunctionBackend};
use crate::port::detected_error;
use config::ErrorReport;
use device::seam::ResetKind;
use link::Notice;
use tlp::{Rate, Time, Width};

impl<B: FunctionBackend> Front<B> {
    #[cold]
    pub(crate) fn notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Down { .. } => self.link_down(now),
            Notice::Up { rate, width } | Notice::Retrained { rate, width } => self.link_up(rate, width),
            Notice::Negotiating { pending } => {
                self.functions[0].config.set_negotiation_pending(pending);
            }
            error => {
                if let Some((error, header)) = detected_error(error) {
                    self.log_in_all(ErrorReport::new(error).header(header));
                }
            }
        }
    }

    /// Ends outstanding requests with an error and resets all functions (`PCIe 5.0 §2.9.1`). Later actions of the
    /// devices on these requests have no effect. The port above logs Surprise Down (§3.2.1).
    fn link_down(&mut self, now: Time) {
        self.shared.counters.link_downs += u64::from(std::mem::take(&mut self.shared.link_is_up));
        for function in &mut self.functions {
            function.behind.link_down(now, &mut self.shared);
        }
        self.reset(now, ResetKind::Hot);
    }

    fn link_up(&mut self, rate: Rate, width: Width) {
        self.shared.link_is_up = true;
        for function in &mut self.functions[..self.physical] {
            function.config.set_link_status(rate, width, true, false);
        }
    }
}

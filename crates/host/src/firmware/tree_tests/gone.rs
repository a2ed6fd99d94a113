// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that are removed during enumeration: other devices are not affected (`PCIe 5.0 §2.3.2`: absent functions read
//! as ones).

use super::mock::Serve;
use super::*;
use crate::{HostInput, HostOutput};
use tlp::PayloadPool;

/// A host where everything below the second root port is removed before a given configuration request.
struct Leaving {
    host: Host,
    at: u64,
    /// The outstanding request is never answered: it ends by Completion Timeout.
    times_out: bool,
    /// The device is inserted again immediately, which looks like a reset.
    returns: bool,
}

impl Serve for Leaving {
    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> Option<HostInput> {
        let id = match output {
            HostOutput::ConfigRead { id, .. } | HostOutput::ConfigWrite { id, .. } => id,
            other => return self.host.serve(pool, other),
        };
        let below_second = |output: &HostOutput| match output {
            HostOutput::ConfigRead { function, .. } | HostOutput::ConfigWrite { function, .. } => {
                function.bus() > 1
            }
            _ => false,
        };
        if self.host.requests < self.at || self.at == 0 || !below_second(&output) {
            return self.host.serve(pool, output);
        }
        self.at = 0;
        let port = self.host.functions.get_mut(&0x10).unwrap();
        port.below = if self.returns { switch().below } else { Default::default() };
        if !self.times_out {
            return self.host.serve(pool, output);
        }
        Some(HostInput::Done { id, result: Err(HostError::CompletionTimeout) })
    }
}

fn card() -> Node {
    Node::endpoint().bar(0, 0b100, 4096).msi(2)
}

fn switch() -> Node {
    one_switch([card(), card()])
}

fn host() -> Host {
    Host::new([Node::root_port().with(0, card()), switch()])
}

#[test]
fn removal_during_enumeration_does_not_affect_others() {
    let mut calm = host();
    let whole = found(&mut calm, &HostMap::default());
    assert_eq!(whole.len(), 9 - 1, "{:?}", ids(&whole));
    let steady = bdf("01:00.0");
    for (times_out, returns) in [(false, false), (true, false), (true, true)] {
        for at in 1..=calm.requests {
            let mut leaving = Leaving { host: host(), at, times_out, returns };
            let map = HostMap::default();
            let (system, _) = run(&mut leaving, |cpu| async move { enumerate_host(&cpu, &map).await });
            let context = format!("request {at}, {times_out}, {returns}");
            let system = system.unwrap_or_else(|e| panic!("{context}: {e}"));
            let there = system.get(steady).unwrap_or_else(|| panic!("{context}: {:?}", ids(&system)));
            assert_eq!(there.found.vectors, 4, "{context}");
            if leaving.at == 0 && !returns {
                let below = ids(&system).into_iter().filter(|id| !id.starts_with("00:") && id != "01:00.0");
                assert_eq!(below.count(), 0, "{context}: {:?}", ids(&system));
            }
        }
    }
}

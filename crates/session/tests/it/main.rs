// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-session`, one module per subject.

mod atomics;
mod captures;
mod channels;
#[path = "../../../../fuzz/checks_record.rs"]
mod checks_record;
mod completions;
mod early_end;
mod external;
mod fault_reports;
mod faults;
mod host_model;
mod hotplug;
mod hotplug_rig;
mod hotplug_switches;
mod kinds;
mod links;
mod nfp6000;
mod one_slot;
mod own_model;
mod packet_nic;
mod paths;
mod progress;
mod seeds;
mod settings;
mod sriov;
mod tags;
mod transactions;

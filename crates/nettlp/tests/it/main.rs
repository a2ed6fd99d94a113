// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-nettlp`, one module per subject.

// Names used by the checks of the fuzz targets.
extern crate capture as riser_capture;
extern crate tlp as riser_tlp;

mod adapter;
#[path = "../../../../fuzz/checks_nettlp.rs"]
mod checks_nettlp;
#[path = "../../../../fuzz/checks_psmem.rs"]
mod checks_psmem;
#[path = "../../../../fuzz/checks_requester.rs"]
mod checks_requester;
#[path = "../../../../fuzz/checks_runs.rs"]
mod checks_runs;
#[path = "../../../../fuzz/checks_session.rs"]
mod checks_session;
#[path = "../../../../fuzz/checks_snic.rs"]
mod checks_snic;
mod client;
mod common;
mod datagrams;
mod device_reads;
mod device_way;
mod flood;
mod lossy_path;
mod lossy_sockets;
mod namespaces;
mod psmem;
mod requester_seeds;
mod scripts;
mod session_seeds;
mod sessions;
mod snic_scripts;
mod sockets;

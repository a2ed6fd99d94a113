// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-cli`, one module per subject.

mod arguments;
#[cfg(target_os = "linux")]
mod bench_device;
#[cfg(target_os = "linux")]
mod bench_driver;
mod captures;
mod common;
mod compare;
mod compatibility;
#[cfg(target_os = "linux")]
mod conformance;
mod decode;
mod dma_driver;
#[cfg(unix)]
mod docs;
mod drawings;
mod endpoint_test;
#[cfg(target_os = "linux")]
mod environments;
#[cfg(target_os = "linux")]
mod environments_rtl;
mod fit;
mod foreign;
#[cfg(target_os = "linux")]
mod gallery;
mod guest;
#[cfg(target_os = "linux")]
mod guest_clock;
mod guest_direct;
#[cfg(target_os = "linux")]
mod guest_ends;
#[cfg(target_os = "linux")]
mod guest_mmio;
#[cfg(target_os = "linux")]
mod guest_nettlp;
mod help;
mod layers;
mod live;
#[cfg(unix)]
mod lspci;
mod model;
#[cfg(target_os = "linux")]
mod native;
mod nettlp_adapter;
#[cfg(unix)]
mod nettlp_client;
mod nettlp_device;
#[cfg(unix)]
mod new;
mod nic;
mod nvme;
mod outputs;
mod paper;
mod passthrough;
#[cfg(unix)]
mod pictures;
mod psmem;
#[cfg(target_os = "linux")]
mod random_writes;
#[cfg(target_os = "linux")]
mod release;
mod rtl;
mod rtl_endpoint;
mod rtl_root;
mod rtl_switch;
mod run;
mod schema;
mod shells;
mod snic;
#[cfg(unix)]
mod suite;
#[cfg(unix)]
mod sweep;
mod torture;
mod trace;
mod trace_page;
mod upstream;
mod usage;

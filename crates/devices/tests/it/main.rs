// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-devices`, one module per subject.

// Names that the checks of the fuzz targets use.
extern crate config as riser_config;
extern crate device as riser_device;
extern crate plug as riser_plug;
extern crate tlp as riser_tlp;

mod allocations;
#[path = "../../../../fuzz/checks_endpoint_test.rs"]
mod checks_endpoint_test;
#[path = "../../../../fuzz/checks_nic.rs"]
mod checks_nic;
#[path = "../../../../fuzz/checks_nvme.rs"]
mod checks_nvme;
mod clock;
mod common;
mod dma_engine;
mod endpoint;
mod endpoint_test;
mod intel_82574;
mod intel_82574_link;
mod memory;
mod nvme;
mod packet_nic;
mod pcie_bench;
mod registers;
mod replay;
mod simple_nic;
mod traffic;

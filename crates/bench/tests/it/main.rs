// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-bench`, one module per subject.

mod agreement;
mod breakdown;
#[path = "../../../../fuzz/checks_results.rs"]
mod checks_results;
mod compare;
mod credits;
mod dma_engine;
mod fidelity;
mod fit;
mod host_modes;
mod loop_back;
mod own_model;
mod papers;
mod papers_live;
mod seeds;
mod steady;
mod suite;

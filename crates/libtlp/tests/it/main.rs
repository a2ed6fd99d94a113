// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-libtlp`, one module per subject.

mod common;
mod dma;
mod programs;

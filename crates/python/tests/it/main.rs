// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-python`, one module per subject.

mod python;

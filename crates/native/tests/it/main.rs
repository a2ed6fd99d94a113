// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `riser-native`, one module per subject.

mod layout;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page of sweeps is generated.

#[test]
fn sweep_page_is_current() {
    testkit::generated("docs/reference/sweep.md", &riser_sweep::reference::page());
}

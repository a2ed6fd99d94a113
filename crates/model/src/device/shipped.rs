// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped devices, each a file in `crates/model/nics`.

/// A shipped description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shipped {
    /// Name by which it is selected.
    pub name: &'static str,
    /// Title in charts, from pcie-bench's Figure 1.
    pub title: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// All shipped descriptions: those of Figure 1 of pcie-bench (SIGCOMM'18).
pub const SHIPPED: [Shipped; 3] = [
    Shipped { name: "simple", title: "Simple NIC", text: include_str!("../../nics/simple.toml") },
    Shipped {
        name: "82599-kernel",
        title: "Modern NIC (kernel driver)",
        text: include_str!("../../nics/82599-kernel.toml"),
    },
    Shipped {
        name: "82599-dpdk",
        title: "Modern NIC (DPDK driver)",
        text: include_str!("../../nics/82599-dpdk.toml"),
    },
];

impl Shipped {
    /// Returns the description `name`.
    pub fn find(name: &str) -> Option<&'static Shipped> {
        SHIPPED.iter().find(|s| s.name == name)
    }
}

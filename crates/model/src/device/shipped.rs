// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices that ship, each a file in `crates/model/nics`. Never changes a figure of theirs.

/// A description that ships.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shipped {
    /// By which it is asked for.
    pub name: &'static str,
    /// What pictures call it: the words of pcie-bench's Figure 1.
    pub title: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All descriptions that ship, as Figure 1 of pcie-bench (SIGCOMM'18) has them.
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
    /// The one called `name`.
    pub fn find(name: &str) -> Option<&'static Shipped> {
        SHIPPED.iter().find(|s| s.name == name)
    }
}

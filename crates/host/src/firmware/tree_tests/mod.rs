// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of enumeration with trees of configuration spaces, without a fabric.

mod gone;
mod mock;
mod place;
mod property;
mod real;
mod set_up;
mod walk;

use super::*;
use mock::{Host, Node, run};
use tlp::Time;

/// Enumerates this host by this map.
fn enumerate_on(host: &mut Host, map: &HostMap) -> (Result<System, String>, Time) {
    let map = map.clone();
    run(host, |cpu| async move { enumerate_host(&cpu, &map).await })
}

fn found(host: &mut Host, map: &HostMap) -> System {
    enumerate_on(host, map).0.unwrap_or_else(|e| panic!("{e}"))
}

fn bdf(text: &str) -> Bdf {
    text.parse().unwrap()
}

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

/// All functions, as text.
fn ids(system: &System) -> Vec<String> {
    system.functions().map(|f| f.bdf().to_string()).collect()
}

/// A root port above a switch with these endpoints below its ports.
fn one_switch(endpoints: impl IntoIterator<Item = Node>) -> Node {
    Node::root_port().with(0, Node::switch(endpoints.into_iter().map(|e| Node::downstream().with(0, e))))
}

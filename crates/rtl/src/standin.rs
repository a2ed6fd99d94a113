// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes Verilog: the stand-in module for the block, with the ports of the user's instance, and the top module around the user's
//! design.

use crate::block::{Port, Role, Shape};
use crate::design::{Design, is_name};
use crate::source::Instance;
use std::fmt::Write;

/// Module around the design; its first clock is the block's user clock.
pub(crate) const TOP: &str = "riser_top";

/// Code that runs at an edge of the block.
const EDGE: &str = include_str!("../verilog/edge.v");

/// A port of the instance that the block does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unfit {
    pub(crate) line: usize,
    pub(crate) port: String,
}

/// Returns the stand-in for the block of this instance; with `waves`, it has the TLPs as signals.
///
/// # Errors
/// The first port of the instance that the block does not have.
pub(crate) fn block(module: &str, shape: Shape, instance: &Instance, waves: bool) -> Result<String, Unfit> {
    let find = |name: &str| shape.kind.ports().find(|port| port.name == name);
    let mut ports = Vec::new();
    for connection in &instance.connections {
        let unfit = || Unfit { line: connection.line, port: connection.port.clone() };
        ports.push(find(&connection.port).ok_or_else(unfit)?);
    }
    let has = |port: &Port| ports.iter().any(|other| other.name == port.name);
    let declared: Vec<String> = ports.iter().map(|port| declaration(shape, port)).collect();
    let [read, driven] = shape.sizes();
    // The first port of a table is at bit 0, which comes last in a concatenation.
    let value = |(port, _): (Port, u16)| match port.role {
        Role::Read(_, value) if !has(&port) => format!("{}'d{value}", shape.bits(port.width)),
        _ => port.name.to_owned(),
    };
    let mut values: Vec<String> = shape.read().map(value).collect();
    values.reverse();
    let (values, last_read, last_driven) = (values.join(", "), read - 1, driven - 1);
    let mut text = format!(
        "module {module}{} (\n    {}\n);\n\
         import \"DPI-C\" function bit riser_edge(input bit [{last_read}:0] read, output bit [{last_driven}:0] driven);\n\
         wire riser_clock = {TOP}.riser_clock[0];\n\
         wire [{last_read}:0] riser_read = {{{values}}};\n\
         bit [{last_read}:0] riser_before;\n\
         bit [{last_driven}:0] riser_driven, riser_next;\n{EDGE}",
        parameters(instance),
        declared.join(",\n    "),
    );
    for (port, at) in shape.driven().filter(|(port, _)| has(port)) {
        let bits = shape.bits(port.width);
        _ = writeln!(text, "assign {} = riser_driven[{at} +: {bits}];", port.name);
    }
    // The design is in reset until the first edge.
    for (port, at) in shape.driven().filter(|(port, _)| port.name.starts_with("user_reset")) {
        _ = writeln!(text, "initial riser_driven[{at}] = 1'b1; // {}", port.name);
    }
    for port in &ports {
        match port.role {
            Role::Clock => _ = writeln!(text, "assign {} = riser_clock;", port.name),
            Role::Constant(value) => {
                _ = writeln!(text, "assign {} = {}'d{value};", port.name, shape.bits(port.width));
            }
            _ => {}
        }
    }
    if waves {
        text += include_str!("../verilog/shown.v");
    }
    text += "endmodule\n";
    Ok(text)
}

/// Returns the parameters that the instance sets. These parameters are ignored: the settings are in the design's file.
fn parameters(instance: &Instance) -> String {
    let all: Vec<String> = instance.parameters.iter().map(|p| format!("parameter {} = 0", p.port)).collect();
    if all.is_empty() { String::new() } else { format!(" #({})", all.join(", ")) }
}

fn declaration(shape: Shape, port: &Port) -> String {
    let direction = if port.role.is_input() { "input" } else { "output" };
    match shape.bits(port.width) {
        1 => format!("{direction} wire {}", port.name),
        bits => format!("{direction} wire [{}:0] {}", bits - 1, port.name),
    }
}

/// Returns the top module: clocks, the reset of the slot, and the other connections.
pub(crate) fn top(design: &Design) -> String {
    let clocks = design.clocks.len() + 1;
    let mut connections = Vec::new();
    for (n, clock) in (1..).zip(&design.clocks) {
        connections.extend(clock.ports.iter().map(|port| format!(".{port}(riser_clock[{n}])")));
    }
    let reset = &design.reset;
    connections.extend(reset.active_low.iter().map(|port| format!(".{port}(riser_reset_n)")));
    connections.extend(reset.active_high.iter().map(|port| format!(".{port}(~riser_reset_n)")));
    // The name refers to another port. Without a connection to this port, the name would be a new net without a driver.
    let tied = |value: &str| match is_name(value) {
        true => format!("riser_design.{value}"),
        false => value.to_owned(),
    };
    connections.extend(design.ties.iter().map(|(port, value)| format!(".{port}({})", tied(value))));
    let parameters: Vec<String> =
        design.parameters.iter().map(|(name, value)| format!(".{name}({value})")).collect();
    let parameters =
        if parameters.is_empty() { String::new() } else { format!(" #({})", parameters.join(", ")) };
    format!(
        "module {TOP} (input wire [{}:0] riser_clock, input wire riser_reset_n, input wire riser_asks);\n{}{parameters} riser_design (\n    {}\n);\nendmodule\n",
        clocks - 1,
        design.top,
        connections.join(",\n    ")
    )
}

/// Returns stand-ins for the vendor's primitives that the sources do not contain. Each output of a clock manager is the
/// design's clock of the same frequency, or no clock if the design has no such clock.
pub(crate) fn primitives(design: &Design) -> String {
    let mut pick = String::from("1'b0");
    let frequencies =
        std::iter::once(design.block.user_clock_hz).chain(design.clocks.iter().map(|c| c.frequency_hz));
    for (n, hz) in (0..).zip(frequencies) {
        // The frequency may differ by one part in a thousand, because periods are given in thousandths of a nanosecond.
        pick = format!(
            "(KHZ * 1000.0 > {hz}.0 * 0.999 && KHZ * 1000.0 < {hz}.0 * 1.001) ? {TOP}.riser_clock[{n}] : {pick}"
        );
    }
    include_str!("../verilog/primitives.v").replace("RISER_CLOCK", &pick)
}

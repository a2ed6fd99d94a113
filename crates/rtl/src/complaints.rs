// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses Verilator's warnings from its log: `%Warning-KIND: file:line:column: what`.

use std::fs;
use std::path::Path;

/// File with the output of Verilator.
pub(crate) const LOG: &str = "verilator.log";

/// A warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Complaint<'a> {
    pub(crate) kind: &'a str,
    pub(crate) path: &'a str,
    pub(crate) line: usize,
    pub(crate) what: &'a str,
}

/// Returns all warnings of a log, in order.
pub(crate) fn complaints(log: &str) -> impl Iterator<Item = Complaint<'_>> {
    log.lines().filter_map(|line| {
        let (kind, rest) = line.strip_prefix("%Warning-")?.split_once(": ")?;
        // A path may contain a colon followed by a blank.
        rest.match_indices(": ").find_map(|(end, _)| {
            let mut parts = rest[..end].rsplitn(3, ':');
            let (column, line, path) = (parts.next()?, parts.next()?, parts.next()?);
            let (Ok(line), Ok(_)) = (line.parse(), column.parse::<usize>()) else { return None };
            Some(Complaint { kind, path, line, what: &rest[end + 2..] })
        })
    })
}

impl<'a> Complaint<'a> {
    /// Returns true if an input is connected to a narrower signal, or the data of a stream to a signal of another width. Other mismatches are
    /// usually intended: constants are extended, wider signals are cut, and a design may use only some bits of a wide output.
    pub(crate) fn is_misfit(&self) -> bool {
        let bits = |before: &str| self.word(before)?.parse::<u32>().ok();
        let is_data =
            self.port().is_some_and(|port| ["tdata", "tkeep"].iter().any(|data| port.ends_with(data)));
        let (expects, generates) = (bits(" expects "), bits(" generates "));
        // Verilator calls a constant of type `int`, which has 32 bits, a variable.
        let is_data = is_data && !(generates == Some(32) && expects < generates);
        let is_narrow = self.what.contains("Input port connection '") && generates < expects;
        let is_constant = self.what.contains("connection's CONST ");
        self.kind.starts_with("WIDTH") && !is_constant && (is_narrow || (is_data && generates != expects))
    }

    /// Returns the instance port that the warning names.
    pub(crate) fn port(&self) -> Option<&'a str> {
        self.word("port connection '")
    }

    /// Returns the word after the text `before`, up to a blank or a quotation mark.
    fn word(&self, before: &str) -> Option<&'a str> {
        self.what.split_once(before)?.1.split([' ', '\'']).next()
    }
}

/// Returns why a design has ended, with the combinational loops that may be the cause. The log is next to the library `library`.
pub(crate) fn explained(why: String, library: &Path) -> String {
    let log = || fs::read_to_string(library.with_file_name(LOG)).unwrap_or_default();
    let loops = if why.contains("did not converge") { loops(&log()) } else { Vec::new() };
    if loops.is_empty() { why } else { format!("{why} Loops without a register: {}", loops.join(", ")) }
}

/// Returns signal loops without a register, each with its location.
fn loops(log: &str) -> Vec<String> {
    let signal = |c: Complaint<'_>| {
        let name = c.what.rsplit('\'').nth(1).unwrap_or(c.what);
        format!("{name} ({}:{})", c.path, c.line)
    };
    complaints(log).filter(|c| c.kind == "UNOPTFLAT").map(signal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "%Warning-WIDTH: a/b.v:12:3: Input port connection 's_axis_tx_tkeep' expects 8 bits on the pin connection, but pin connection's VARREF 'k' generates 4 bits.\n\
        \x20                : ... In instance riser_top\n\
        %Warning-WIDTH: a/b.v:13:3: Input port connection 'cfg_dsn' expects 64 bits on the pin connection, but pin connection's CONST '1'h0' generates 1 bits.\n\
        %Warning-WIDTH: a/b.v:14:3: Input port connection 's_axis_rq_tuser' expects 62 bits on the pin connection, but pin connection's VARREF 'u' generates 256 bits.\n\
        %Warning-WIDTH: a/b.v:15:3: Output port connection 's_axis_rq_tready' expects 4 bits on the pin connection, but pin connection's VARREF 'r' generates 1 bits.\n\
        %Warning-WIDTH: a/b.v:16:3: Output port connection 'm_axis_rc_tdata' expects 128 bits on the pin connection, but pin connection's VARREF 'd' generates 256 bits.\n\
        %Warning-WIDTH: a/b.v:17:3: Input port connection 's_axis_rq_tkeep' expects 8 bits on the pin connection, but pin connection's VARREF 'ALL' generates 32 bits.\n\
        %Warning-UNOPTFLAT: a/b.v:20:8: Signal unoptimizable: Circular combinational logic: 'riser_top.riser_design.a'\n\
        %Warning-WIDTH: a: b/c.v:21:3: Input port connection 's_axis_tx_tkeep' expects 8 bits on the pin connection, but pin connection's VARREF 'k' generates 4 bits.\n\
        %Warning-: odd\n%Warning-X: no place\n";

    #[test]
    fn parses_warnings_line_by_line() {
        let misfits: Vec<(&str, usize)> =
            complaints(LOG).filter(Complaint::is_misfit).map(|c| (c.path, c.line)).collect();
        assert_eq!(misfits, [("a/b.v", 12), ("a/b.v", 16), ("a: b/c.v", 21)]);
        assert_eq!(loops(LOG), ["riser_top.riser_design.a (a/b.v:20)"]);
    }
}

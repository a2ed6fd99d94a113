// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers with the name of the things that they count.

/// Formats a count with its noun: `1 row`, `2 rows`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

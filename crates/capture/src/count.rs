// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers with the name of the things that they count.

use std::fmt;

/// A number of things with their name in the singular, printed as `1 TLP`, `2 TLPs`.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub u64, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

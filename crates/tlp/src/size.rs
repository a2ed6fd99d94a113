// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes that both ends of a link agree on, in bytes.

use core::fmt;

/// A size that the specification does not define.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeError {
    what: &'static str,
    bytes: u32,
    legal: &'static str,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes: expected {}", self.what, self.bytes, self.legal)
    }
}

impl core::error::Error for SizeError {}

macro_rules! size {
    ($(#[$doc:meta])* $name:ident, $what:literal, $min:literal, $max:literal, $legal:literal, $default:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(u16);

        impl $name {
            /// The size of this many bytes.
            ///
            /// # Errors
            /// If the specification has no encoding for it.
            pub const fn new(bytes: u32) -> Result<$name, SizeError> {
                if bytes.is_power_of_two() && bytes >= $min && bytes <= $max {
                    Ok($name(bytes as u16))
                } else {
                    Err(SizeError { what: $what, bytes, legal: $legal })
                }
            }

            /// The size in bytes.
            #[must_use]
            pub const fn bytes(self) -> u32 {
                self.0 as u32
            }
        }

        impl Default for $name {
            /// The value after reset.
            fn default() -> $name {
                $name($default)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} B", self.0)
            }
        }
    };
}

size!(
    /// Max_Payload_Size (`PCIe 5.0 §7.5.3.4`): the longest data of one TLP.
    Mps, "Max_Payload_Size", 128, 4096, "128, 256, 512, 1024, 2048, 4096", 128
);
size!(
    /// Max_Read_Request_Size (`PCIe 5.0 §7.5.3.4`): the most that one memory read asks for.
    Mrrs, "Max_Read_Request_Size", 128, 4096, "128, 256, 512, 1024, 2048, 4096", 512
);
size!(
    /// Read Completion Boundary (`PCIe 5.0 §2.3.1.1`): where completions of one read may be cut.
    Rcb, "Read Completion Boundary", 64, 128, "64, 128", 64
);

macro_rules! encoded {
    ($($name:ident)*) => { $(
        impl $name {
            /// The Device Control encoding, 0 (128 B) to 5 (4096 B).
            #[must_use]
            pub const fn encoding(self) -> u8 {
                (self.0.trailing_zeros() - 7) as u8
            }

            /// The size of a Device Control encoding; `None` for the reserved 6 and 7.
            pub const fn from_encoding(code: u8) -> Option<$name> {
                if code <= 5 { Some($name(128 << code)) } else { None }
            }
        }
    )* };
}

encoded!(Mps Mrrs);

impl Rcb {
    /// The boundary of every completer but a root complex, which has 64 or 128 B (`PCIe 5.0 §2.3.1.1`).
    pub const ENDPOINT: Rcb = Rcb(128);
}

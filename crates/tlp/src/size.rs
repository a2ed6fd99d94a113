// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes in bytes that both ends of a link must agree on.

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
            /// The size of `bytes` bytes.
            ///
            /// # Errors
            /// If the specification has no encoding for this size.
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
    /// Max_Payload_Size (`PCIe 5.0 §7.5.3.4`): the maximum data of one TLP.
    Mps, "Max_Payload_Size", 128, 4096, "128, 256, 512, 1024, 2048, 4096", 128
);
size!(
    /// Max_Read_Request_Size (`PCIe 5.0 §7.5.3.4`): the maximum that one memory read may request.
    Mrrs, "Max_Read_Request_Size", 128, 4096, "128, 256, 512, 1024, 2048, 4096", 512
);
size!(
    /// Read Completion Boundary (`PCIe 5.0 §2.3.1.1`): completions of a read may be split only at multiples of it.
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
    /// The boundary of every completer except root complexes, which use 64 or 128 B (`PCIe 5.0 §2.3.1.1`).
    pub const ENDPOINT: Rcb = Rcb(128);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Digests that detect changes of a file.

/// Returns the 64-bit FNV-1a hash in hexadecimal. The digest detects accidental changes of a file, not forgeries.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", hash(bytes))
}

/// Returns the 64-bit FNV-1a hash.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test values of FNV-1a.
    #[test]
    fn digest_matches_published_fnv_1a_values() {
        assert_eq!(digest(b""), "cbf29ce484222325");
        assert_eq!(digest(b"a"), "af63dc4c8601ec8c");
        assert_eq!(digest(b"foobar"), "85944171f73967e8");
    }
}

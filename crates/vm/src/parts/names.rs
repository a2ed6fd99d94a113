// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of parts in the cache, and files that identify each.

use super::{KERNELS, WATCHED_KERNEL};

/// The package that every guest needs.
pub(super) const BUSYBOX: &str = "busybox-static";
/// Prefix of the name of an incomplete part.
pub(super) const UNFINISHED: &str = "unfinished-";

/// Returns whether riser gives this name to a part, or to an incomplete part. Older versions made `programs-`.
pub(super) fn is_name(name: &str) -> bool {
    content(name.strip_prefix(UNFINISHED).unwrap_or(name)).is_some()
}

/// Returns files that identify a part with this name: a part has at least one of them. Returns `None` if no part has
/// such a name.
pub(super) fn content(name: &str) -> Option<Vec<String>> {
    let (kind, rest) = name.split_once('-')?;
    let is_version = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.');
    let files: &[&str] = match kind {
        "qemu" if rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) => &["usr/bin/qemu-system-x86_64"],
        "kernel" if rest == WATCHED_KERNEL => &["wanted"],
        "kernel" if KERNELS.iter().any(|(known, _)| *known == rest) => &["bzImage", "vmlinux"],
        "source" if rest == WATCHED_KERNEL => &["usr/src/linux"],
        "builder" if is_version(rest) => &["usr/bin/make"],
        "linux" if rest.strip_prefix("source-").is_some_and(is_version) => {
            return Some(vec![format!("{name}.tar.xz")]);
        }
        "packages" | "programs" if rest.contains(BUSYBOX) => {
            return Some(vec![format!("packages/{BUSYBOX}")]);
        }
        _ => return None,
    };
    Some(files.iter().map(|file| (*file).to_owned()).collect())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs for the guest: busybox, and packages with all that they depend on, ready to be put into an initramfs.

use super::apt::Apt;
use super::{GUEST_ARCHITECTURE, GUEST_RELEASE, Parts};
use crate::error::Result;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The package without which no guest runs.
pub const BUSYBOX: &str = "busybox-static";

/// What a guest that has no service manager, no users and no package manager has no use for, and which packages drag in: groups of
/// beginnings of names. A group is left out unless a package of it is asked for.
pub(crate) const LEFT_OUT: [&[&str]; 4] = [
    &["systemd", "libsystemd-shared", "dbus", "init-system-helpers"],
    &["dpkg", "debconf", "tar", "adduser", "passwd", "ucf", "sensible-utils", "media-types", "tzdata"],
    &["python3", "libpython3"],
    &["perl", "libperl"],
];

/// A folder with one folder for each package.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(crate) folder: PathBuf,
    pub(crate) named: BTreeSet<String>,
}

impl Programs {
    /// Whether the guest has a use for a package: it was asked for, or is of no group that is left out, or of one of which a package
    /// was asked for.
    pub(crate) fn wants(&self, package: &str) -> bool {
        let is_of = |group: &[&str], package: &str| group.iter().any(|start| package.starts_with(start));
        LEFT_OUT
            .iter()
            .filter(|group| is_of(group, package))
            .all(|group| self.named.iter().any(|named| is_of(group, named)))
    }
}

impl Parts<'_> {
    /// Debian's packages of these names, beside busybox, for the guest.
    ///
    /// # Errors
    /// There is none of a name, or they cannot be fetched.
    pub fn programs(&mut self, packages: &[&str]) -> Result<Programs> {
        let mut named: BTreeSet<String> = packages.iter().map(|name| (*name).to_owned()).collect();
        named.insert(BUSYBOX.to_owned());
        for name in &named {
            check(name)?;
        }
        let names: Vec<&str> = named.iter().map(String::as_str).collect();
        let part = format!("programs-{}", names.join("-"));
        let instead = "files of your own, by a folder that the guest sees (--share DIR)";
        let folder = self.fetch(&part, &names.join(", "), instead, |sources, folder, watch| {
            let apt = Apt::open(&folder.join("apt"), GUEST_RELEASE, GUEST_ARCHITECTURE, sources, watch)?;
            apt.unpack(&names, Some(GUEST_RELEASE), &folder.join("packages"), watch)
        })?;
        Ok(Programs { folder: folder.join("packages"), named })
    }
}

/// A name of a package, by Debian Policy §5.6.1, so that it is no option of apt's and no path.
fn check(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match starts && name.len() >= 2 && name.chars().all(legal) {
        true => Ok(()),
        false => Err(crate::error::Error::Option(format!(
            "{name:?} is no name of a Debian package: small letters, digits, + - . are legal, a letter or digit first"
        ))),
    }
}

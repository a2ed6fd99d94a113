// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs for the guest: busybox, and packages with all that they depend on, ready to be put into an initramfs.

use super::apt::Apt;
use super::{GUEST_ARCHITECTURE, GUEST_RELEASE, Parts, of_part};
use crate::error::{Context, Error, Result, bad_file, read};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The package without which no guest runs.
const BUSYBOX: &str = "busybox-static";
/// What every guest has beside it: a shell that finds programs by the path alone (busybox's takes some of its own first), and what loads modules.
const ALWAYS: [&str; 3] = [BUSYBOX, "bash", "kmod"];

/// Bytes of the name of a folder in the cache, with room for what stands before it.
const LONGEST_NAME: usize = 200;

/// What a guest that has no service manager, no users and no package manager has no use for, and which packages drag in: groups of
/// beginnings of names. A group is left out unless a package of it is asked for.
const LEFT_OUT: [&[&str]; 4] = [
    &["systemd", "libsystemd-shared", "dbus", "init-system-helpers"],
    &["dpkg", "debconf", "tar", "adduser", "passwd", "ucf", "sensible-utils", "media-types", "tzdata"],
    &["python3", "libpython3"],
    &["perl", "libperl"],
];

/// Programs for the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// A busybox that needs no libraries.
    pub(crate) busybox: PathBuf,
    /// Folders of packages, in the order of their names.
    pub(crate) packages: Vec<PathBuf>,
}

impl Programs {
    /// A busybox of the user's, and nothing else. It must need no libraries.
    ///
    /// # Errors
    /// It is not there, or no program of x86-64, or one that needs libraries.
    pub fn busybox(path: &Path) -> Result<Programs> {
        Programs::new(path.to_owned(), Vec::new())
    }

    fn new(busybox: PathBuf, packages: Vec<PathBuf>) -> Result<Programs> {
        let path = &busybox;
        match crate::parts::qemu::interpreter(&read(path)?) {
            Ok(None) => Ok(Programs { busybox, packages }),
            Ok(Some(loader)) => {
                let why = format!(
                    "it needs libraries (its loader is {loader}); a busybox that is linked statically is expected"
                );
                Err(bad_file(path, why))
            }
            Err(why) => Err(bad_file(path, why)),
        }
    }

    /// The file of busybox.
    pub fn busybox_path(&self) -> &Path {
        &self.busybox
    }

    /// Those of a folder with one folder for each package.
    fn of_packages(folder: &Path, named: &BTreeSet<&str>) -> Result<Programs> {
        let busybox = folder.join(BUSYBOX);
        let files = ["usr/bin/busybox", "bin/busybox"].map(|path| busybox.join(path));
        let file = files.into_iter().find(|file| file.is_file());
        let file = file.ok_or_else(|| bad_file(&busybox, "the package has no program busybox"))?;
        let mut packages = Vec::new();
        let what = || folder.display().to_string();
        for entry in fs::read_dir(folder).context(what)? {
            let entry = entry.context(what)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != BUSYBOX && is_wanted(&name, named) {
                packages.push(entry.path());
            }
        }
        packages.sort();
        Programs::new(file, packages)
    }
}

/// Whether the guest has a use for a package: it is of no group that is left out, or of one of which a package was asked for.
fn is_wanted(package: &str, named: &BTreeSet<&str>) -> bool {
    let is_of = |group: &[&str], package: &str| group.iter().any(|start| package.starts_with(start));
    let mut groups = LEFT_OUT.iter().filter(|group| is_of(group, package));
    groups.all(|group| named.iter().any(|named| is_of(group, named)))
}

impl Parts<'_> {
    /// Debian's packages of these names, with all that they depend on, beside busybox, bash and kmod. What their scripts would do
    /// where they are installed is not done.
    ///
    /// # Errors
    /// There is none of a name, or they cannot be fetched.
    pub fn programs(&mut self, packages: &[&str]) -> Result<Programs> {
        let named: BTreeSet<&str> = packages.iter().copied().chain(ALWAYS).collect();
        named.iter().try_for_each(|name| check(name))?;
        let names: Vec<&str> = named.iter().copied().collect();
        let part = format!("programs-{}", names.join("_"));
        if part.len() > LONGEST_NAME {
            return Err(Error::Option(format!(
                "{} packages with names of {} bytes: {LONGEST_NAME} are legal in all",
                names.len(),
                part.len()
            )));
        }
        let what = format!("the guest's programs ({})", names.join(", "));
        let instead = "a busybox that is linked statically (--busybox FILE), and what it lacks in a folder that the guest sees (--share DIR)";
        let folder = self.fetch(&part, &what, instead, |sources, folder, watch| {
            let apt = Apt::open(&folder.join("apt"), GUEST_RELEASE, GUEST_ARCHITECTURE, sources, watch)?;
            apt.unpack(&names, Some(GUEST_RELEASE), &folder.join("packages"), watch)
        })?;
        of_part(&folder, Programs::of_packages(&folder.join("packages"), &named))
    }
}

/// A name of a package, by Debian Policy §5.6.1, so that it is no option of apt's and no path.
pub(super) fn check(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match starts && name.len() >= 2 && name.chars().all(legal) {
        true => Ok(()),
        false => Err(Error::Option(format!(
            "{name:?} is no name of a Debian package: small letters, digits, + - . are legal, a letter or digit first"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_has_no_use_for_stays_outside_unless_it_is_asked_for() {
        for (package, named, expected) in [
            ("libc6", vec!["fio"], true),
            ("fio", vec!["fio"], true),
            ("systemd", vec!["fio"], false),
            ("python3.13-minimal", vec!["fio"], false),
            ("libpython3.13-stdlib", vec!["python3"], true),
            ("python3.13-minimal", vec!["libpython3-stdlib"], true),
            ("perl-base", vec!["python3"], false),
            ("tar", vec!["tar"], true),
        ] {
            assert_eq!(
                is_wanted(package, &named.iter().copied().collect()),
                expected,
                "{package} of {named:?}"
            );
        }
    }

    #[test]
    fn names_of_packages_are_no_options_and_no_paths() {
        for good in ["nvme-cli", "libstdc++6", "g++", "0ad", "a1"] {
            check(good).unwrap();
        }
        for bad in
            ["", "a", "-o", "--allow-unauthenticated", "../x", "a/b", "A", "a b", "a:amd64", "a=1", "\u{e9}a"]
        {
            assert!(check(bad).unwrap_err().to_string().contains("is no name of a Debian package"), "{bad}");
        }
    }
}

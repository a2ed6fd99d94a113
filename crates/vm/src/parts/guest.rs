// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs for the guest: busybox and packages with all their dependencies, ready for an initramfs.

use super::apt::{Apt, Package};
use super::cache::{Part, Use};
use super::names::BUSYBOX;
use super::{GUEST_ARCHITECTURE, GUEST_RELEASE, Parts, of_part};
use crate::error::{Context, Error, Result, bad_file, read};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Packages of every guest, in addition to its own: busybox, a shell that finds programs only by the path (busybox's
/// shell prefers its own programs), and the module tools.
const ALWAYS: [&str; 3] = [BUSYBOX, "bash", "kmod"];

/// Maximum length of a cache folder's name in bytes, with room for a prefix.
const LONGEST_NAME: usize = 200;

/// Packages that others depend on, but that a guest without service manager and package manager does not need. Each group lists prefixes of
/// names. A group is omitted unless one of its packages is requested. No group contains libraries.
const LEFT_OUT: [&[&str]; 4] = [
    &["systemd", "dbus", "init-system-helpers"],
    &["dpkg", "debconf", "tar", "adduser", "passwd", "ucf", "sensible-utils", "media-types", "tzdata"],
    &["python3"],
    &["perl"],
];

/// Programs for the guest.
#[derive(Clone, Debug)]
pub struct Programs {
    /// A statically linked busybox.
    pub(crate) busybox: PathBuf,
    /// Folders of packages, in the order of their names.
    pub(crate) packages: Vec<PathBuf>,
    pub(crate) used: Use,
}

impl Programs {
    /// Uses only a busybox of the user, which must be statically linked.
    ///
    /// # Errors
    /// If the file does not exist, is not an x86-64 program, or needs libraries.
    pub fn busybox(path: &Path) -> Result<Programs> {
        Programs::new(path.to_owned(), Vec::new())
    }

    fn new(busybox: PathBuf, packages: Vec<PathBuf>) -> Result<Programs> {
        let path = &busybox;
        match crate::parts::qemu::interpreter(&read(path)?) {
            Ok(None) => Ok(Programs { busybox, packages, used: Use::default() }),
            Ok(Some(loader)) => {
                let why = format!(
                    "it needs libraries (its loader is {loader}), expected a statically linked busybox"
                );
                Err(bad_file(path, why))
            }
            Err(error) => Err(bad_file(path, crate::parts::qemu::no_program(&error))),
        }
    }

    /// Returns the file of busybox.
    pub fn busybox_path(&self) -> &Path {
        &self.busybox
    }

    /// Returns the programs in a folder with one folder per package.
    fn of_packages(folder: &Path) -> Result<Programs> {
        let busybox = folder.join(BUSYBOX);
        let files = ["usr/bin/busybox", "bin/busybox"].map(|path| busybox.join(path));
        let file = files.into_iter().find(|file| file.is_file());
        let file = file.ok_or_else(|| bad_file(&busybox, "no program busybox in the package"))?;
        let mut packages = Vec::new();
        let what = || folder.display().to_string();
        for entry in fs::read_dir(folder).context(what)? {
            let entry = entry.context(what)?;
            if entry.file_name() != BUSYBOX {
                packages.push(entry.path());
            }
        }
        packages.sort();
        Programs::new(file, packages)
    }
}

/// Returns the names of packages that the guest needs: the named packages and their dependencies. Omitted groups are
/// left out, and also packages that only these groups depend on.
fn wanted<'a>(packages: &'a [Package], named: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut wanted = BTreeSet::new();
    let mut needs: Vec<&str> = named.iter().copied().collect();
    while let Some(need) = needs.pop() {
        let is_meant = |package: &&Package| {
            package.name == need || package.provides.iter().any(|name| name.as_str() == need)
        };
        for package in packages.iter().filter(is_meant) {
            if is_of_use(&package.name, named) && wanted.insert(package.name.as_str()) {
                needs.extend(package.needs.iter().map(String::as_str));
            }
        }
    }
    wanted
}

/// Returns whether a package is in no omitted group, or in a group of which a package was requested.
fn is_of_use(package: &str, named: &BTreeSet<&str>) -> bool {
    let is_of = |group: &[&str], package: &str| group.iter().any(|start| package.starts_with(start));
    let mut groups = LEFT_OUT.iter().filter(|group| is_of(group, package));
    groups.all(|group| named.iter().any(|named| is_of(group, named)))
}

impl Parts<'_> {
    /// Returns the Debian packages with these names and all their dependencies, and busybox, bash and kmod. Installation scripts of packages do
    /// not run.
    ///
    /// # Errors
    /// If there is no such package, or they cannot be fetched.
    pub fn programs(&mut self, packages: &[&str]) -> Result<Programs> {
        let named: BTreeSet<&str> = packages.iter().copied().chain(ALWAYS).collect();
        named.iter().try_for_each(|name| check(name))?;
        let names: Vec<&str> = named.iter().copied().collect();
        let part = format!("packages-{}", names.join("_"));
        if part.len() > LONGEST_NAME {
            return Err(Error::Option(format!(
                "{} packages with names of {} bytes in all, expected at most {LONGEST_NAME}",
                names.len(),
                part.len()
            )));
        }
        let what = format!("the guest's programs ({})", names.join(", "));
        let instead = "a statically linked busybox (--busybox FILE), and other programs in a shared folder (--share DIR)";
        let Part { folder, used } = self.fetch(&part, &what, instead, |sources, folder, watch| {
            let apt = Apt::open(&folder.join("apt"), GUEST_RELEASE, GUEST_ARCHITECTURE, sources, watch)?;
            let packages = folder.join("packages");
            apt.unpack(&names, Some(GUEST_RELEASE), &packages, watch)?;
            let fetched = fetched(&packages)?;
            let shown = apt.show(&fetched, watch)?;
            let wanted = wanted(&shown, &named);
            for name in fetched.iter().filter(|name| !wanted.contains(name.as_str())) {
                let unused = packages.join(name);
                fs::remove_dir_all(&unused).context(|| unused.display().to_string())?;
            }
            Ok(())
        })?;
        let programs = of_part(&folder, Programs::of_packages(&folder.join("packages")))?;
        Ok(Programs { used, ..programs })
    }
}

/// Returns the names of the package folders in a folder.
fn fetched(folder: &Path) -> Result<Vec<String>> {
    let what = || folder.display().to_string();
    let entries = fs::read_dir(folder).context(what)?;
    entries.map(|entry| Ok(entry.context(what)?.file_name().to_string_lossy().into_owned())).collect()
}

/// Checks a package name by Debian Policy §5.6.1, so that it is not an option of apt and not a path.
pub(super) fn check(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match starts && name.len() >= 2 && name.chars().all(legal) {
        true => Ok(()),
        false => Err(Error::Option(format!(
            "{name:?}: invalid name of a Debian package, expected small letters, digits, + - . with a letter or digit first"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_unneeded_packages_unless_requested() {
        for (package, named, expected) in [
            ("libc6", vec!["fio"], true),
            ("fio", vec!["fio"], true),
            ("systemd", vec!["fio"], false),
            ("python3.13-minimal", vec!["fio"], false),
            ("libpython3.13-stdlib", vec!["fio"], true),
            ("python3.13-minimal", vec!["python3"], true),
            ("perl-base", vec!["python3"], false),
            ("tar", vec!["tar"], true),
        ] {
            assert_eq!(
                is_of_use(package, &named.iter().copied().collect()),
                expected,
                "{package} of {named:?}"
            );
        }
    }

    #[test]
    fn libraries_that_a_kept_package_depends_on_are_kept() {
        let package = |name: &str, needs: &[&str], provides: &[&str]| Package {
            name: name.to_owned(),
            needs: needs.iter().map(ToString::to_string).collect(),
            provides: provides.iter().map(ToString::to_string).collect(),
        };
        let all = [
            package("udev", &["libsystemd-shared", "systemd | systemd-standalone", "libcap2"], &[]),
            package("libsystemd-shared", &["libc6"], &[]),
            package("systemd", &["libcryptsetup12"], &[]),
            package("libcryptsetup12", &[], &[]),
            package("libcap2-t64", &[], &["libcap2"]),
            package("libc6", &["libgcc-s1"], &[]),
            package("libgcc-s1", &["libc6"], &[]),
            package("gdb", &["libpython3.13"], &[]),
            package("libpython3.13", &["libpython3.13-stdlib"], &[]),
            package("libpython3.13-stdlib", &["media-types"], &[]),
            package("media-types", &[], &[]),
            package("fio", &["python3"], &[]),
            package("python3", &["libpython3-stdlib"], &[]),
            package("libpython3-stdlib", &[], &[]),
        ];
        for (named, expected) in [
            (vec!["udev"], vec!["libc6", "libcap2-t64", "libgcc-s1", "libsystemd-shared", "udev"]),
            (vec!["gdb"], vec!["gdb", "libpython3.13", "libpython3.13-stdlib"]),
            (vec!["fio"], vec!["fio"]),
            (vec!["fio", "python3"], vec!["fio", "libpython3-stdlib", "python3"]),
        ] {
            let found = wanted(&all, &named.iter().copied().collect());
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{named:?}");
        }
    }

    #[test]
    fn rejects_invalid_package_names() {
        for good in ["nvme-cli", "libstdc++6", "g++", "0ad", "a1"] {
            check(good).unwrap();
        }
        for bad in
            ["", "a", "-o", "--allow-unauthenticated", "../x", "a/b", "A", "a b", "a:amd64", "a=1", "\u{e9}a"]
        {
            assert!(
                check(bad).unwrap_err().to_string().contains("invalid name of a Debian package"),
                "{bad}"
            );
        }
    }
}

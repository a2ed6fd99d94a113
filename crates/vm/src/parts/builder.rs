// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds modules for one of the guest's kernels, with the compiler of that kernel and its headers or its build tree.
//! Compiler and headers are in a separate root, in which `make` runs in a user namespace. The build needs no root, and
//! does not use the compiler or the headers of the host.

use super::apt::Apt;
use super::cache::{Part, Use};
use super::command::{exists, run, tethered};
use super::qemu::merge;
use super::{GUEST_ARCHITECTURE, KERNELS, Parts, WATCHED_KERNEL, guest};
use crate::error::{Context, Error, Result, bad_file};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Programs that Kbuild needs in addition to the compiler, and `sparse` for `make C=1`.
pub(super) const TOOLS: [&str; 15] = [
    "base-files",
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "gawk",
    "grep",
    "gzip",
    "make",
    "perl",
    "sed",
    "sparse",
    "tar",
    "xz-utils",
];
/// Folders that are links into `/usr` in Debian. Packages of some releases contain them as folders.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Interval between two checks whether make has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Path of the user's folder in the root.
const SOURCE: &str = "/src";

/// Files that list the modules of a folder.
const KBUILD: [&str; 2] = ["Kbuild", "Makefile"];

/// Run in the root: extracts files from the archive $1 at [`BUILD`] into one folder, each by its base name.
const EXTRACT: &str = "package=$1; shift; for file; do shift; set -- \"$@\" \"$package/$file\"; done
exec tar -xf /build/$package.tar.xz -C /src --no-same-owner --transform='s,.*/,,' \"$@\"";

/// Path of the kernel's build tree in the root.
pub(super) const BUILD: &str = "/build";

/// Executes a command in the root $1, with the folder $2 as [`SOURCE`] and $3 as [`BUILD`]; empty arguments are skipped. (In Debian,
/// `chroot` is in /usr/sbin, which is not in the PATH of ordinary users.)
const ENTER: &str = "root=$1 source=$2 build=$3 PATH=$PATH:/usr/sbin:/sbin; shift 3
{ [ -z \"$source\" ] || mount --bind \"$source\" \"$root/src\"; } && { [ -z \"$build\" ] || { mkdir -p \"$root/build\" && mount --bind \"$build\" \"$root/build\"; }; } &&
mount --rbind /dev \"$root/dev\" && mount --rbind /proc \"$root/proc\" && mount -t tmpfs tmp \"$root/tmp\" &&
exec chroot \"$root\" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/tmp LC_ALL=C \"$@\"";

/// A namespace in which a user is root. The mounts of the command are private, and its processes end with it.
const NAMESPACE: [&str; 7] =
    ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"];

/// Returns a command that executes its further arguments in the root. The command ends with the thread that started it.
pub(super) fn inside(root: &Path, source: Option<&Path>, build: Option<&Path>) -> Command {
    let named = |folder: Option<&Path>| folder.unwrap_or(Path::new("")).to_owned();
    let mut command = tethered(NAMESPACE[0]);
    command.args(&NAMESPACE[1..]).args(["sh", "-c", ENTER, "sh"]).arg(root);
    command.arg(named(source)).arg(named(build));
    command
}

/// Builds modules for one kernel.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) root: PathBuf,
    /// Build tree of the kernel. If `None`, the root has its headers.
    pub(super) build: Option<PathBuf>,
    /// Output of `uname -r` in the kernel that the modules are built for.
    pub release: String,
    /// Locks of the kernel and the root.
    pub(super) _used: [Use; 2],
}

impl Parts<'_> {
    /// Returns a builder of modules for a kernel of [`Parts::kernel`], in its cached version.
    ///
    /// # Errors
    /// If there is no kernel of this name, its headers or compiler cannot be fetched, or users may not create namespaces.
    pub fn builder(&mut self, name: &str) -> Result<Builder> {
        if name == WATCHED_KERNEL {
            return self.watched_builder();
        }
        let kernel = self.kernel(name)?;
        let folder = self.sources.cache.folder().join(format!("kernel-{name}"));
        let release = match kernel.release {
            Some(release) => Some(release),
            None => crate::kernel::open(&folder.join("bzImage"))?.release,
        };
        let release = release.ok_or_else(|| bad_file(&folder, "the kernel image has no release"))?;
        guest::check(&release)?;
        self.check_namespaces()?;
        let suite = KERNELS.iter().find(|(known, _)| *known == name).map_or("", |(_, suite)| *suite);
        let instead = format!(
            "your own headers to `make -C`; or, if Debian has only headers of a newer kernel, remove {}, so that riser fetches the newer kernel",
            folder.display()
        );
        let what = format!("headers and compiler of Linux {release}");
        let Part { folder: root, used } =
            self.fetch(&format!("builder-{release}"), &what, &instead, |sources, folder, watch| {
                let apt = Apt::open(&folder.join("apt"), suite, GUEST_ARCHITECTURE, sources, watch)?;
                let headers = format!("linux-headers-{release}");
                // Omit the kernel image, which is a dependency of the headers.
                let needed = apt.dependencies(&headers, watch)?;
                let needed =
                    needed.iter().map(String::as_str).filter(|name| !name.starts_with("linux-image"));
                let needed: Vec<&str> = needed.chain(TOOLS).collect();
                let packages = folder.join("packages");
                apt.unpack(&[&headers], None, &packages, watch)?;
                apt.unpack(&needed, Some(suite), &packages, watch)?;
                Ok(settle(&packages, folder)?)
            })?;
        Ok(Builder { root, build: None, release, _used: [kernel.used, used] })
    }

    /// Fails before any fetch if users may not create namespaces, or programs in the cache cannot run.
    pub(super) fn check_namespaces(&mut self) -> Result<()> {
        self.sources.cache.check_programs()?;
        if !exists(NAMESPACE[0]) {
            let why = format!(
                "building needs the program {} (of util-linux), which is not on the path",
                NAMESPACE[0]
            );
            return Err(Error::Option(why));
        }
        let mut command = tethered(NAMESPACE[0]);
        command.args(&NAMESPACE[1..]).arg("true");
        let tried = run(command, &mut self.watch, |watch| watch.look())?;
        match tried.status.success() {
            true => Ok(()),
            false => Err(Error::Option(format!(
                "building needs a user namespace, which this system does not allow ({}): see user_namespaces(7), or build in a virtual machine \
                 that does",
                tried.complaint()
            ))),
        }
    }
}

impl Parts<'_> {
    /// Copies source files of a Debian kernel into a folder, each by its base name. Existing files are kept. Writes a
    /// `Kbuild` for them if the folder has neither a `Kbuild` nor a `Makefile`; files below `tools/` are programs, and
    /// are not in the `Kbuild`.
    ///
    /// # Errors
    /// If there is no kernel of this name, its source or the tools to unpack it cannot be fetched, or it has no such file.
    pub fn copy_source(
        &mut self,
        builder: &Builder,
        kernel: &str,
        files: &[String],
        to: &Path,
    ) -> Result<()> {
        if let Some(wrong) = files.iter().find(|file| !is_source(file)) {
            return Err(Error::Option(format!(
                "{wrong:?}: expected a path in the kernel's source, such as drivers/misc/pci_endpoint_test.c"
            )));
        }
        fs::create_dir_all(to).context(|| to.display().to_string())?;
        let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
        let missing: Vec<&String> = files.iter().filter(|file| !to.join(name(file)).exists()).collect();
        if !missing.is_empty() {
            let version = kernel.split('-').next().unwrap_or(kernel);
            let archive = self.source_archive(version)?;
            let to = fs::canonicalize(to).context(|| to.display().to_string())?;
            let mut command = inside(&builder.root, Some(&to), Some(&archive.folder));
            command.args(["sh", "-c", EXTRACT, "sh", &format!("linux-source-{version}")]).args(&missing);
            self.watch.step(&format!(
                "looking for {} in the source, which takes half a minute",
                listed(&missing)
            ))?;
            let finished = run(command, &mut self.watch, |watch| watch.look())?;
            if !finished.status.success() {
                let why = finished.complaint();
                return Err(Error::Option(format!(
                    "{}: not in Debian's source of Linux {version}: {why}",
                    listed(&missing)
                )));
            }
        }
        let modules = files.iter().filter(|file| file.ends_with(".c") && !file.starts_with("tools/"));
        let objects: String =
            modules.map(|file| format!("obj-m += {}.o\n", name(file).trim_end_matches(".c"))).collect();
        match KBUILD.iter().any(|name| to.join(name).is_file()) {
            true => Ok(()),
            false => fs::write(to.join(KBUILD[0]), objects).context(|| to.display().to_string()),
        }
    }

    /// Returns the folder with the archive of a kernel's source.
    fn source_archive(&mut self, version: &str) -> Result<Part> {
        let suite = KERNELS.iter().find(|(known, _)| *known == version).map_or("", |(_, suite)| *suite);
        let package = format!("linux-source-{version}");
        let instead = "your own files in the folder";
        self.fetch(&package, &format!("the source of Linux {version}"), instead, |sources, folder, watch| {
            let apt = Apt::open(&folder.join("apt"), suite, GUEST_ARCHITECTURE, sources, watch)?;
            apt.unpack(&[&package], None, &folder.join("packages"), watch)?;
            let file = format!("{package}.tar.xz");
            let from = folder.join("packages").join(&package).join("usr/src").join(&file);
            fs::rename(&from, folder.join(&file)).context(|| from.display().to_string())?;
            let packages = folder.join("packages");
            Ok(fs::remove_dir_all(&packages).context(|| packages.display().to_string())?)
        })
    }
}

impl Builder {
    /// Builds the modules of a folder with `make`, whose output goes to standard error. Returns their paths.
    ///
    /// # Errors
    /// If the folder has no `Kbuild` or `Makefile`, or make fails; [`Error::Stopped`] if `stop` is set first.
    pub fn build(&self, folder: &Path, arguments: &[String], stop: &AtomicBool) -> Result<Vec<PathBuf>> {
        let mut make = self.make(folder, arguments)?;
        let what = || "make".to_owned();
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().context(what)?;
        let mut child = make.stdin(Stdio::null()).stdout(stderr).spawn().context(what)?;
        let status = loop {
            match child.try_wait().context(what)? {
                Some(status) => break status,
                None if stop.load(Ordering::Relaxed) => {
                    // An error means that make has ended.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(Error::Stopped);
                }
                None => thread::sleep(LOOK),
            }
        };
        match status.success() {
            true => Ok(modules(folder)),
            false => Err(Error::Build(format!("{}: make failed ({status})", folder.display()))),
        }
    }

    /// Returns the `make` command for a folder, which is mounted at [`SOURCE`]. It ends with the thread that started it.
    fn make(&self, folder: &Path, arguments: &[String]) -> Result<Command> {
        if !KBUILD.iter().any(|name| folder.join(name).is_file()) {
            return Err(bad_file(folder, "expected a folder with the Kbuild or Makefile of a module"));
        }
        let folder = fs::canonicalize(folder).context(|| folder.display().to_string())?;
        let mut command = inside(&self.root, Some(&folder), self.build.as_deref());
        let tree = match self.build {
            Some(_) => BUILD.to_owned(),
            None => format!("/usr/src/linux-headers-{}", self.release),
        };
        command.args(["make", "-C", &tree, &format!("M={SOURCE}")]).args(arguments);
        Ok(command)
    }
}

/// Returns the modules that make has listed. Each line is an object or a module, with the path of the folder inside the namespace.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_to_string(folder.join("modules.order")).unwrap_or_default();
    let inside = |line: &str| Path::new(line).strip_prefix(SOURCE).map(Path::to_owned);
    let paths = listed.lines().map(|line| inside(line).unwrap_or_else(|_| line.into()));
    paths.map(|path| folder.join(path.with_extension("ko"))).filter(|path| path.is_file()).collect()
}

fn listed(files: &[&String]) -> String {
    files.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns whether `file` is a plain relative path, not an option and not a path to elsewhere.
fn is_source(file: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "+-._/".contains(c);
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    file.chars().all(legal) && !file.starts_with('-') && file.split('/').all(is_plain)
}

/// Merges packages into one root.
pub(super) fn settle(packages: &Path, root: &Path) -> Result<()> {
    let make = |path: PathBuf| fs::create_dir_all(&path).context(|| path.display().to_string());
    for name in MERGED {
        make(root.join("usr").join(name))?;
        let link = root.join(name);
        symlink(format!("usr/{name}"), &link).context(|| link.display().to_string())?;
    }
    for package in fs::read_dir(packages).context(|| packages.display().to_string())? {
        let package = package.context(|| packages.display().to_string())?;
        merge(&package.path(), root)?;
    }
    for name in ["src", "build", "dev", "proc", "tmp"] {
        make(root.join(name))?;
    }
    // Replaces the work of package scripts, which do not run.
    let awk = root.join("usr/bin/awk");
    symlink("gawk", &awk).context(|| awk.display().to_string())?;
    for unused in ["packages", "usr/share/doc", "usr/share/man", "usr/share/locale"] {
        let path = root.join(unused);
        if path.is_dir() {
            fs::remove_dir_all(&path).context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel with debug checks (KASAN, lockdep, kmemleak and others), which Debian does not offer. It is built from Debian's source with
//! Debian's compiler. The build tree stays in the cache, so that an interrupted build can continue, and modules can be built for it.

use super::apt::Apt;
use super::builder::{BUILD, Builder, TOOLS, inside, settle};
use super::cache::{Part, Use};
use super::command::{Finished, run};
use super::{GUEST_ARCHITECTURE, Kernel, Parts, WATCHED_KERNEL, Watch};
use crate::error::{Context, Error, Result, bad_file, read};
use crate::kernel::Image;
use crate::modules::Modules;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

/// Source package, Debian release, and parts of the source that are not needed.
const PACKAGE: &str = "linux-source-6.12";
const RELEASE: &str = "trixie";
const LEFT_OUT: [&str; 3] = ["*/Documentation/*/*", "*/drivers/gpu/*.[ch]", "*/tools/testing/*"];
/// Tools for building a kernel, in addition to those for modules.
const MORE_TOOLS: [&str; 6] = ["bc", "bison", "flex", "gcc", "libc6-dev", "libelf-dev"];
/// The kernel's configuration: all enabled options, except options that others imply.
const CONFIGURATION: &str = include_str!("watched.config");
/// File in the tree with the configuration of the complete build.
const BUILT: &str = "built";
/// Approximate build time in minutes of one processor.
const MINUTES: usize = 15;
/// Approximate number of lines that make prints in a full build.
const LINES: usize = 1660;

/// Run in the root: unpacks the source $1 without the paths in the further arguments.
const UNPACK: &str =
    "cd /usr/src; package=$1; shift; for out; do set -- \"$@\" --exclude=\"$out\"; shift; done
tar -xf $package.tar.xz \"$@\" && mv $package linux && rm $package.tar.xz";

/// Run in the root: configures if the configuration has changed, then builds everything with $1 jobs. `memcmp` runs
/// before KASAN's shadow memory exists, because QEMU enters the kernel at PVH; so this function is not instrumented.
const MAKE: &str = "cd /usr/src/linux
cmp -s /build/wanted /build/configured || { make O=/build KCONFIG_ALLCONFIG=/build/wanted allnoconfig && cp /build/wanted /build/configured; } &&
exec make O=/build -j \"$1\" KASAN_SANITIZE_string.o=n vmlinux modules";

impl Parts<'_> {
    /// Builds [`WATCHED_KERNEL`] if it has not been built yet. The build takes 15 minutes of one processor. Continues
    /// an interrupted build.
    ///
    /// # Errors
    /// If its source or compiler cannot be fetched, users may not create namespaces, or the build fails.
    pub fn build_kernel(&mut self) -> Result<Kernel> {
        if is_built(&self.tree()) {
            return self.watched_kernel();
        }
        self.check_namespaces()?;
        let root = self.source()?;
        let tree = self.tree();
        let _lock = self.sources.cache.lock(
            "lock-debug",
            &format!("builds Linux {WATCHED_KERNEL}"),
            &mut self.watch,
        )?;
        // Another run may have built the kernel before this run got the lock.
        if !is_built(&tree) {
            fs::create_dir_all(&tree).context(|| tree.display().to_string())?;
            let _used = Use::of(&tree);
            build(&root.folder, &tree, &mut self.watch)?;
        }
        self.watched_kernel()
    }

    fn tree(&self) -> PathBuf {
        self.sources.cache.folder().join(format!("kernel-{WATCHED_KERNEL}"))
    }

    /// Returns the root with the source and the tools.
    fn source(&mut self) -> Result<Part> {
        let what = format!("the source and compiler of Linux {WATCHED_KERNEL}");
        let instead = "your own kernel (--kernel FILE)";
        self.fetch(&format!("source-{WATCHED_KERNEL}"), &what, instead, |sources, folder, watch| {
            let apt = Apt::open(&folder.join("apt"), RELEASE, GUEST_ARCHITECTURE, sources, watch)?;
            let packages: Vec<&str> = TOOLS.into_iter().chain(MORE_TOOLS).chain([PACKAGE]).collect();
            apt.unpack(&packages, Some(RELEASE), &folder.join("packages"), watch)?;
            settle(&folder.join("packages"), folder)?;
            watch.step("unpacking the source, 600 MB")?;
            let mut command = inside(folder, None, None);
            command.args(["sh", "-c", UNPACK, "sh", PACKAGE]).args(LEFT_OUT);
            let finished = run(command, watch, |watch| watch.look())?;
            Ok(succeeded(&finished, || finished.complaint())?)
        })
    }

    /// Returns the built kernel.
    pub(super) fn watched_kernel(&self) -> Result<Kernel> {
        let tree = self.tree();
        let part = self.sources.cache.get(&format!("kernel-{WATCHED_KERNEL}")).filter(|_| is_built(&tree));
        let Some(part) = part else {
            return Err(Error::Option(format!(
                "Linux {WATCHED_KERNEL} is not built yet, or was built with another configuration: run `riser guest kernel {WATCHED_KERNEL}` once"
            )));
        };
        let modules = Modules::below(&tree.join("modules"))?;
        let (release, used) = (Some(release(&tree)?), part.used);
        Ok(Kernel { image: Image::File(tree.join("vmlinux")), modules, release, used })
    }

    /// Returns a builder of modules for this kernel.
    pub(super) fn watched_builder(&mut self) -> Result<Builder> {
        let kernel = self.watched_kernel()?;
        self.check_namespaces()?;
        let (Part { folder: root, used }, tree) = (self.source()?, self.tree());
        Ok(Builder { root, release: release(&tree)?, build: Some(tree), _used: [kernel.used, used] })
    }
}

/// Returns whether the build is complete and has the current configuration.
fn is_built(tree: &Path) -> bool {
    fs::read_to_string(tree.join(BUILT)).is_ok_and(|of| of == CONFIGURATION)
}

fn release(tree: &Path) -> Result<String> {
    let release = read(&tree.join("include/config/kernel.release"))?;
    Ok(String::from_utf8_lossy(&release).trim().to_owned())
}

/// Builds the kernel in the tree. The output of make goes to `log` there.
fn build(root: &Path, tree: &Path, watch: &mut Watch) -> Result<()> {
    let _ = fs::remove_file(tree.join(BUILT));
    let write = |name: &str| {
        fs::write(tree.join(name), CONFIGURATION).context(|| format!("{name} in {}", tree.display()))
    };
    write("wanted")?;
    let log = tree.join("log");
    let what = || log.display().to_string();
    fs::write(&log, "").context(what)?;
    let mut lines = Lines(File::open(&log).context(what)?, 0);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut command = inside(root, None, Some(tree));
    command.args(["sh", "-c", &format!("{{ {MAKE}; }} >{BUILD}/log 2>&1"), "sh"]).arg(processors.to_string());
    let finished = run(command, watch, |watch| {
        let (done, minutes) = (lines.count(), MINUTES.div_ceil(processors));
        watch.step(&format!(
            "building Linux {WATCHED_KERNEL}, about {minutes} minutes: {done} of about {LINES} steps"
        ))
    })?;
    succeeded(&finished, || {
        format!("make failed; {} ends with:\n{}{}", what(), end(&log), finished.complaint())
    })?;
    check(tree)?;
    settle_modules(tree)?;
    write(BUILT)
}

fn succeeded(finished: &Finished, why: impl FnOnce() -> String) -> Result<()> {
    match finished.status.success() {
        true => Ok(()),
        false => Err(Error::Build(why())),
    }
}

/// Returns the last lines of a file.
fn end(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].iter().map(|line| format!("{line}\n")).collect()
}

/// Checks that the kernel's configuration has all requested lines: make silently drops a line whose dependencies are off.
fn check(tree: &Path) -> Result<()> {
    let path = tree.join(".config");
    let made = read(&path)?;
    let made = String::from_utf8_lossy(&made);
    let is_setting = |line: &&str| line.starts_with("CONFIG_") || line.starts_with("# CONFIG_");
    match CONFIGURATION.lines().filter(is_setting).find(|line| !made.lines().any(|other| other == *line)) {
        None => Ok(()),
        Some(line) => Err(bad_file(&path, format!("no {line:?}, which was requested"))),
    }
}

/// Copies the lists of modules, all built in, to a folder like `/lib/modules/VERSION`.
fn settle_modules(tree: &Path) -> Result<()> {
    let folder = tree.join("modules");
    fs::create_dir_all(&folder).context(|| folder.display().to_string())?;
    for list in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        fs::copy(tree.join(list), folder.join(list)).context(|| format!("{list} in {}", tree.display()))?;
    }
    Ok(())
}

/// Counts the lines of a growing file.
struct Lines(File, usize);

impl Lines {
    fn count(&mut self) -> usize {
        let mut bytes = Vec::new();
        // Unread data are counted later.
        let _ = self.0.read_to_end(&mut bytes);
        self.1 += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.1
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a machine: an emulator, kernels, programs for the guest. They come from Debian's packages or from files of the user.
//! Each package is fetched once, into a [`Cache`].

mod apt;
mod builder;
mod cache;
pub(crate) mod command;
mod entries;
mod guest;
mod names;
mod qemu;
mod watched;

pub use builder::Builder;
pub use cache::Cache;
pub(crate) use cache::Use;
pub use entries::Entry;
pub use guest::Programs;
pub use qemu::{Qemu, Version};

use crate::error::{Context, Error, Result, bad_file};
use crate::kernel::{self, Image};
use crate::modules::Modules;
use apt::{Apt, Failure};
use cache::Part;
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel with debug checks: its name, next to `6.12`.
pub const WATCHED_KERNEL: &str = "6.12-debug";

/// Progress of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A step has started.
    Step(&'a str),
    /// Progress of the step's download.
    Bytes {
        /// Bytes downloaded.
        done: u64,
        /// Total bytes.
        total: u64,
    },
    /// Nothing has changed; this lets the caller stop the fetch.
    Waiting,
}

/// The caller's progress function, which can stop the work.
pub(crate) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> bool,
    /// The last step reported, so that it is not reported twice.
    step: String,
}

impl Watch<'_> {
    fn tell(&mut self, progress: Progress) -> Result<()> {
        match (self.tell)(progress) {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    fn step(&mut self, step: &str) -> Result<()> {
        if self.step == step {
            return self.look();
        }
        step.clone_into(&mut self.step);
        self.tell(Progress::Step(step))
    }

    fn bytes(&mut self, done: u64, total: u64) -> Result<()> {
        self.tell(Progress::Bytes { done, total })
    }

    fn look(&mut self) -> Result<()> {
        self.tell(Progress::Waiting)
    }
}

/// Sources of parts.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Cache for parts.
    pub cache: Cache,
    /// A mirror of Debian's archive. Default: the mirror in the host's package sources.
    pub mirror: Option<String>,
    /// The keys of Debian's archive. Default: those of the package debian-archive-keyring.
    pub keyring: Option<PathBuf>,
}

/// Debian's kernels that have a short name.
const KERNELS: [(&str, &str); 2] = [("6.1", "bookworm"), ("6.12", "trixie")];

/// The default kernel.
pub const DEFAULT_KERNEL: &str = "6.1";

/// The Debian release of the guest's programs.
const GUEST_RELEASE: &str = "trixie";

/// Debian's name of the guest's architecture.
const GUEST_ARCHITECTURE: &str = "amd64";

/// A kernel with its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The image that QEMU boots.
    pub image: Image,
    /// The kernel's modules; empty for a user's kernel without modules.
    pub modules: Modules,
    /// Output of `uname -r`, if the image contains it. Modules must be built for this release.
    pub release: Option<String>,
    pub(crate) used: Use,
}

/// Access to parts, which are fetched if missing.
pub struct Parts<'a> {
    sources: Sources,
    watch: Watch<'a>,
}

impl<'a> Parts<'a> {
    /// Creates access to parts of these sources. Calls `progress` at least ten times a second during work. If the
    /// function returns false, the work ends with [`Error::Stopped`].
    pub fn new(sources: Sources, progress: &'a mut dyn FnMut(Progress) -> bool) -> Parts<'a> {
        Parts { sources, watch: Watch { tell: progress, step: String::new() } }
    }

    /// Returns a Debian kernel, `6.1` or `6.12`, or [`WATCHED_KERNEL`] as built by [`Parts::build_kernel`].
    ///
    /// # Errors
    /// If there is no kernel of this name, it cannot be fetched, or it has not been built.
    pub fn kernel(&mut self, name: &str) -> Result<Kernel> {
        if name == WATCHED_KERNEL {
            return self.watched_kernel();
        }
        let Some((_, release)) = KERNELS.iter().find(|(known, _)| *known == name) else {
            let known = KERNELS.map(|(known, _)| known).join(", ");
            return Err(Error::Option(format!(
                "unknown kernel {name:?}, expected {known}, {WATCHED_KERNEL}, or the file of a bzImage or vmlinux"
            )));
        };
        let part = self.fetch(
            &format!("kernel-{name}"),
            &format!("Linux {name}"),
            "your own kernel (--kernel FILE, with its modules: --modules DIR)",
            |sources, folder, watch| {
                let apt = Apt::open(&folder.join("apt"), release, GUEST_ARCHITECTURE, sources, watch)?;
                let package = apt.first_dependency("linux-image-amd64", watch)?;
                apt.unpack(&[&package], None, &folder.join("packages"), watch)?;
                watch.step("unpacking the kernel")?;
                settle_kernel(&folder.join("packages").join(&package), folder).map_err(Failure::Other)
            },
        )?;
        of_part(&part.folder, settled_kernel(&part))
    }

    /// Returns a part of this name; fetches it into the cache if missing.
    fn fetch(
        &mut self,
        name: &str,
        what: &str,
        instead: &str,
        fill: impl FnOnce(&Sources, &Path, &mut Watch) -> std::result::Result<(), Failure>,
    ) -> Result<Part> {
        let sources = &self.sources;
        sources.cache.part(name, &mut self.watch, |folder, watch| {
            watch.step(&format!("fetching {what} into {}", sources.cache.folder().display()))?;
            fill(sources, folder, watch).map_err(|failure| match failure {
                Failure::Why(why) => command::no_fetch(what, why, instead),
                Failure::Other(error) => error,
            })?;
            let apt = folder.join("apt");
            fs::remove_dir_all(&apt).context(|| apt.display().to_string())
        })
    }
}

/// Returns the kernel in a folder of [`settle_kernel`].
fn settled_kernel(Part { folder, used }: &Part) -> Result<Kernel> {
    let modules = Modules::below(&folder.join("modules"))?;
    let vmlinux = folder.join("vmlinux");
    let image = if vmlinux.exists() { vmlinux } else { folder.join("bzImage") };
    kernel::check_length(&image)?;
    // The file was written when the kernel was unpacked. Without this release, modules are only compared with each
    // other.
    let release = fs::read_to_string(folder.join("release")).ok();
    Ok(Kernel { image: Image::File(image), modules, release, used: used.clone() })
}

/// Adds the folder of the part to an error.
fn of_part<T>(folder: &Path, part: Result<T>) -> Result<T> {
    part.map_err(|error| match error {
        Error::Io { .. } | Error::File { .. } => {
            Error::Part { folder: folder.to_owned(), why: error.to_string() }
        }
        error => error,
    })
}

impl Kernel {
    /// Opens a kernel of the user: a bzImage or vmlinux, and the folder of its modules, such as `/lib/modules/VERSION`. Without
    /// modules, the kernel must have virtio over PCI and virtio consoles built in.
    ///
    /// # Errors
    /// If a file is missing or not a kernel.
    pub fn open(image: &Path, modules: Option<&Path>) -> Result<Kernel> {
        let modules = modules.map(Modules::below).transpose()?.unwrap_or_default();
        let kernel::Opened { image, release } = kernel::open(image)?;
        Ok(Kernel { image, modules, release, used: Use::default() })
    }
}

/// Extracts image, unpacked, and modules from a kernel's package.
fn settle_kernel(package: &Path, folder: &Path) -> Result<()> {
    let rename =
        |from: &Path, to: &str| fs::rename(from, folder.join(to)).context(|| from.display().to_string());
    let only = |folder: PathBuf, start: &str| -> Result<PathBuf> {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found =
            entries.filter(|path| path.file_name().unwrap_or_default().to_string_lossy().starts_with(start));
        found
            .next()
            .ok_or_else(|| bad_file(&folder, format!("no file of the package starts with {start:?} there")))
    };
    let bzimage = only(package.join("boot"), "vmlinuz-")?;
    rename(&bzimage, "bzImage")?;
    let modules = ["usr/lib/modules", "lib/modules"].map(|path| package.join(path));
    let modules = modules.iter().find(|path| path.is_dir()).unwrap_or(&modules[0]);
    rename(&only(modules.clone(), "")?, "modules")?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).context(|| path.display().to_string())
    };
    let opened = kernel::open(&folder.join("bzImage"))?;
    if let Some(release) = opened.release {
        write("release", release.as_bytes())?;
    }
    if let Image::Unpacked(bytes) = opened.image {
        write("vmlinux", &bytes)?;
    }
    let packages = folder.join("packages");
    fs::remove_dir_all(&packages).context(|| packages.display().to_string())
}

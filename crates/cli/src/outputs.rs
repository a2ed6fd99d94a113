// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write. All that a command reads and writes is looked at together before it begins: two outputs are
//! never one file, an output is never an input, and a file that is there stays unless `--force` is given. A file appears
//! whole or not at all: it is written beside its place, as `NAME.??????.part`, and takes its name when it is done. What can
//! hold no file (a pipe, a terminal, `-` for standard output) is written directly.
//!
//! - [`place`]: which file a path means.
//!
//! Never asks which bytes a file holds.

mod place;

use crate::failure::Failure;
use crate::{interrupt, output};
use place::{Named, Target};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Mode bits of a new file, less what the umask takes.
const NEW_FILE: u32 = 0o666;
/// Files of an input folder that are looked at.
const MAX_INPUTS: usize = 1 << 16;

/// What a command reads and writes.
pub(crate) struct Outputs {
    force: bool,
    inputs: Vec<Named>,
    claimed: Vec<(String, Named)>,
    standard: Option<Named>,
}

/// A place that a command may write to: nothing is there yet.
pub(crate) struct Place {
    path: PathBuf,
    target: Target,
    force: bool,
}

/// A file that is being written. One that is dropped before [`finish`](Self::finish) was never there.
pub(crate) struct Output {
    path: PathBuf,
    to: To,
}

enum To {
    Direct(File),
    Whole(Part),
}

/// A file that does not have its name yet.
struct Part {
    file: WorkFile,
    target: PathBuf,
    force: bool,
}

impl Outputs {
    /// Of a command that writes over files only where `force` says so.
    pub(crate) fn new(force: bool) -> Outputs {
        let standard = output::standard().and_then(|file| file.metadata()).ok();
        let standard = standard.and_then(|about| Named::of_stream(&about));
        Outputs { force, inputs: Vec::new(), claimed: Vec::new(), standard }
    }

    /// The command reads this file (`-`: standard input), or the files of this folder and those in it.
    pub(crate) fn reads(&mut self, path: &Path) {
        if path.is_dir() {
            let mut left = MAX_INPUTS;
            self.reads_folder(path, 2, &mut left);
        } else if path == Path::new("-") {
            let about = io::stdin().as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
            self.inputs.extend(about.ok().and_then(|about| Named::of_stream(&about)));
        } else {
            self.inputs.extend(Named::of(path));
        }
    }

    /// Results stand in a folder, or one level below. What is no result is not read, so it may be written.
    fn reads_folder(&mut self, folder: &Path, levels: usize, left: &mut usize) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            *left = left.saturating_sub(1);
            if *left == 0 {
                return;
            }
            if levels > 1 && path.is_dir() {
                self.reads_folder(&path, levels - 1, left);
            } else if path.extension().is_some_and(|e| e == "csv") {
                self.inputs.extend(Named::of(&path));
            }
        }
    }

    /// The place that an argument names, where it was given: see [`claim`](Self::claim).
    pub(crate) fn claim_if(&mut self, flag: &str, path: Option<&Path>) -> Result<Option<Place>, Failure> {
        path.map(|path| self.claim(flag, path)).transpose()
    }

    /// The place that the argument `flag` names. All of a command are claimed before the first is opened.
    ///
    /// # Errors
    /// Where it is an input, another output, or a file that may not be written over.
    pub(crate) fn claim(&mut self, flag: &str, path: &Path) -> Result<Place, Failure> {
        let target = place::target(path, self.standard.as_ref()).map_err(|e| failed(path, &e))?;
        if let Some(named) = target.named() {
            self.reserve(flag, path, named)?;
        }
        match &target {
            Target::File { there: Some(_), .. } if !self.force => {
                return Err(Failure::Run(format!("{} exists: --force overwrites it", path.display())));
            }
            Target::Standard => output::divert(),
            _ => {}
        }
        Ok(Place { path: path.to_owned(), target, force: self.force })
    }

    /// A file that the command writes by itself: no other output may be there.
    pub(crate) fn claim_own(&mut self, flag: &str, path: &Path) -> Result<(), Failure> {
        Named::of(path).map_or(Ok(()), |named| self.reserve(flag, path, named))
    }

    fn reserve(&mut self, flag: &str, path: &Path, named: Named) -> Result<(), Failure> {
        let shown = format!("{flag} {}", path.display());
        if self.inputs.iter().any(|input| input.is(&named)) {
            let why = "it is an input of this command, which is not overwritten";
            return Err(Failure::usage(format!("{shown}: {why}")));
        }
        if self.standard.as_ref().is_some_and(|out| out.is(&named)) {
            let why = "standard output goes there too: legal are two different files, or `-` for both";
            return Err(Failure::usage(format!("{shown}: {why}")));
        }
        if let Some((other, _)) = self.claimed.iter().find(|(_, other)| other.is(&named)) {
            let why = "one file for two outputs: legal are different ones";
            return Err(Failure::usage(format!("{other} and {shown}: {why}")));
        }
        self.claimed.push((shown, named));
        Ok(())
    }
}

impl Place {
    /// Begins to write, in folders that are made where they are not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(self) -> Result<Output, Failure> {
        let Place { path, target, force } = self;
        let to = match target {
            Target::Standard => output::standard().map(To::Direct),
            Target::Device(_) => OpenOptions::new().write(true).open(&path).map(To::Direct),
            Target::File { path: target, .. } => Part::begin(target, force).map(To::Whole),
        };
        let to = to.map_err(|e| failed(&path, &e))?;
        Ok(Output { path, to })
    }

    /// Writes `text`, and no more.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        let mut output = self.open()?;
        output.write_all(text.as_bytes()).map_err(|e| output.failed(&e))?;
        output.finish()
    }
}

impl Output {
    /// It is whole: it takes its name.
    ///
    /// # Errors
    /// Those of the file system; a file that has come there meanwhile, where it may not be written over.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let done = match &mut self.to {
            To::Direct(file) => file.flush(),
            To::Whole(part) => part.finish(),
        };
        done.map_err(|e| self.failed(&e))
    }

    /// A file that writes to the same place, for what must own what it writes to.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn writer(&self) -> io::Result<File> {
        match &self.to {
            To::Direct(file) => file.try_clone(),
            To::Whole(part) => part.file.file()?.try_clone(),
        }
    }

    /// What an error of writing it is to the user: none where its reader has left.
    pub(crate) fn failed(&self, error: &io::Error) -> Failure {
        failed(&self.path, error)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Direct(file) => file.write(bytes),
            To::Whole(part) => part.file.file()?.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Direct(file) => file.flush(),
            To::Whole(part) => part.file.file()?.flush(),
        }
    }
}

impl Part {
    fn begin(target: PathBuf, force: bool) -> io::Result<Part> {
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let mut prefix = target.file_name().unwrap_or_default().to_os_string();
        prefix.push(".");
        let file = WorkFile::begin(folder, &prefix, ".part")?;
        if let Ok(old) = fs::metadata(&target) {
            file.file()?.set_permissions(old.permissions())?;
        }
        Ok(Part { file, target, force })
    }

    fn finish(&mut self) -> io::Result<()> {
        let path = self.file.path().to_owned();
        let Some(file) = self.file.0.take() else { return Ok(()) };
        let named = match self.force {
            true => file.persist(&self.target),
            false => file.persist_noclobber(&self.target),
        };
        forget(&path);
        named.map(drop).map_err(|e| e.error)
    }
}

/// A file that is gone when the command ends, however it ends.
pub(crate) struct WorkFile(Option<NamedTempFile>);

impl WorkFile {
    /// In the system's folder for such files.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn new() -> io::Result<WorkFile> {
        WorkFile::begin(&std::env::temp_dir(), OsStr::new("riser."), "")
    }

    fn begin(folder: &Path, prefix: &OsStr, suffix: &str) -> io::Result<WorkFile> {
        interrupt::watch()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).suffix(suffix).permissions(fs::Permissions::from_mode(NEW_FILE));
        // A signal finds it in the list, or not in the folder.
        let mut unfinished = unfinished();
        let file = builder.tempfile_in(folder)?;
        unfinished.push(file.path().to_owned());
        Ok(WorkFile(Some(file)))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), NamedTempFile::path)
    }

    fn file(&self) -> io::Result<&File> {
        let ended = || io::Error::other("it has ended before");
        self.0.as_ref().map(NamedTempFile::as_file).ok_or_else(ended)
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        forget(self.path());
    }
}

/// Files that go where a signal ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(path: &Path) {
    unfinished().retain(|other| other != path);
}

/// Takes away what was not finished: the process ends.
pub(crate) fn take_away() {
    for path in unfinished().drain(..) {
        let _ = fs::remove_file(path);
    }
}

/// What an error at a file is to the user; none where the reader of an output has left.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
        io::ErrorKind::AlreadyExists => {
            Failure::Run(format!("{} exists: --force overwrites it", path.display()))
        }
        _ => Failure::Run(format!("{}: {error}", path.display())),
    }
}

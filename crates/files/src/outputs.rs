// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims of outputs, and outputs that are being written.

use crate::part::{self, Part};
use crate::place::{self, Named, Target};
use crate::{Error, Result, pipe};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of files of an input folder that are checked.
const MAX_INPUTS: usize = 1 << 16;

/// True if standard output carries a file that the command writes.
static DIVERTED: AtomicBool = AtomicBool::new(false);

/// True if standard output carries a file, so that reports go to standard error.
pub fn is_diverted() -> bool {
    DIVERTED.load(Ordering::Relaxed)
}

/// Standard output as a file.
fn standard() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Prints a line for the user, such as that riser waits for the reader of a pipe.
pub type Note = fn(&dyn Display);

/// Inputs and outputs of a command.
pub struct Outputs {
    force: bool,
    /// Prints a line for the user.
    pub note: Note,
    inputs: Vec<Named>,
    claimed: Vec<(String, Named)>,
    standard: Option<Named>,
}

/// An output of a command that has been checked but not created.
pub struct ClaimedOutput {
    path: PathBuf,
    target: Target,
    force: bool,
    note: Note,
    part: Option<Part>,
}

/// A file that is being written. A drop before [`finish`](Self::finish) removes the file.
pub struct Output {
    path: PathBuf,
    to: To,
}

enum To {
    Direct(File),
    Whole(Part),
}

impl Outputs {
    /// Starts without inputs and outputs. With `force`, existing files may be overwritten.
    pub fn new(force: bool, note: Note) -> Outputs {
        let standard = standard().and_then(|file| file.metadata()).ok();
        let standard = standard.and_then(|about| Named::of_stream(&about));
        Outputs { force, note, inputs: Vec::new(), claimed: Vec::new(), standard }
    }

    /// Adds an input: this file (`-`: standard input), or the result files of this folder and of its subfolders.
    pub fn reads(&mut self, path: &Path) {
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

    /// Adds the `.csv` files of a folder and of the folders in it. Other files are not read, and may be written.
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

    /// Claims the path of an optional argument: see [`claim`](Self::claim).
    pub fn claim_if(&mut self, flag: &str, path: Option<&Path>) -> Result<Option<ClaimedOutput>> {
        path.map(|path| self.claim(flag, path)).transpose()
    }

    /// Claims the path that the argument `flag` names. A command claims all its outputs before it opens the first.
    ///
    /// # Errors
    /// The path is an input, another output, or an existing file that must not be overwritten.
    pub fn claim(&mut self, flag: &str, path: &Path) -> Result<ClaimedOutput> {
        let target = place::target(path, self.standard.as_ref()).map_err(|e| failed(path, &e))?;
        if let Some(named) = target.named() {
            self.reserve(flag, path, named)?;
        }
        match &target {
            Target::File { there: Some(_), .. } if !self.force => {
                return Err(Error::File(format!("{} exists: --force overwrites it", path.display())));
            }
            // Write access to the folder would allow replacing a file that is itself read-only.
            Target::File { path: there, there: Some(_) } => {
                may_write(there).map_err(|e| Error::File(refused(path, &e)))?;
            }
            Target::Standard => DIVERTED.store(true, Ordering::Relaxed),
            _ => {}
        }
        let &mut Outputs { force, note, .. } = self;
        Ok(ClaimedOutput { path: path.to_owned(), target, force, note, part: None })
    }

    /// Claims a file that the command does not write through this module, so that no other output can have this path.
    pub fn claim_own(&mut self, flag: &str, path: &Path) -> Result<()> {
        Named::of(path).map_or(Ok(()), |named| self.reserve(flag, path, named))
    }

    fn reserve(&mut self, flag: &str, path: &Path, named: Named) -> Result<()> {
        let shown = format!("{flag} {}", path.display());
        if self.inputs.iter().any(|input| input.is(&named)) {
            let why = "the file is an input of this command, and is not overwritten";
            return Err(Error::Usage(format!("{shown}: {why}")));
        }
        if self.standard.as_ref().is_some_and(|out| out.is(&named)) {
            let why = "standard output also goes to this file, expected two different files, or `-` for both";
            return Err(Error::Usage(format!("{shown}: {why}")));
        }
        if let Some((other, _)) = self.claimed.iter().find(|(_, other)| other.is(&named)) {
            let why = "two outputs to one file, expected different files";
            return Err(Error::Usage(format!("{other} and {shown}: {why}")));
        }
        self.claimed.push((shown, named));
        Ok(())
    }
}

impl ClaimedOutput {
    /// Creates the unfinished file and its folders, so that a command without write access fails before it starts its
    /// work. Pipes are left to [`open`](Self::open), which waits for a reader.
    ///
    /// # Errors
    /// Errors of the file system; another run is writing the file.
    pub fn prepare(mut self) -> Result<ClaimedOutput> {
        if let Target::File { path, .. } = &self.target {
            self.part = Some(Part::begin(path.clone(), self.force).map_err(|e| failed(&self.path, &e))?);
        }
        Ok(self)
    }

    /// Removes the unfinished files of killed runs that were writing this output.
    pub fn remove_leftovers(&self) {
        if let Target::File { path, .. } = &self.target {
            part::remove_leftovers(path);
        }
    }

    /// Opens the output for writing. Missing folders are created.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(self) -> Result<Output> {
        let ClaimedOutput { path, target, force, note, part } = self;
        let to = match target {
            Target::Standard => standard().map(To::Direct),
            // A pipe. Opening a pipe without a reader would block.
            Target::Device(Some(_)) => Ok(To::Direct(pipe::open(&path, note)?)),
            Target::Device(None) => OpenOptions::new().write(true).open(&path).map(To::Direct),
            Target::File { path: target, .. } => {
                part.map_or_else(|| Part::begin(target, force), Ok).map(To::Whole)
            }
        };
        let to = to.map_err(|e| failed(&path, &e))?;
        Ok(Output { path, to })
    }

    /// Opens the output, writes it with `write`, and completes it.
    ///
    /// # Errors
    /// Those of `write` and of the file system.
    pub fn fill(self, write: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<()> {
        let mut output = self.open()?;
        write(&mut output).map_err(|e| output.failed(&e))?;
        output.finish()
    }

    /// Writes `text` as the whole output.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(self, text: &str) -> Result<()> {
        self.fill(|output| output.write_all(text.as_bytes()))
    }
}

impl Output {
    /// Completes the output: a file gets its name.
    ///
    /// # Errors
    /// Errors of the file system; another file has appeared under the name, and must not be overwritten.
    pub fn finish(mut self) -> Result<()> {
        let done = match &mut self.to {
            To::Direct(file) => file.flush(),
            To::Whole(part) => part.finish(),
        };
        done.map_err(|e| self.failed(&e))
    }

    /// Returns another handle to the same output, for code that needs an owned file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn writer(&self) -> io::Result<File> {
        match &self.to {
            To::Direct(file) => file.try_clone(),
            To::Whole(part) => part.file()?.try_clone(),
        }
    }

    /// Returns the failure for a write error. A reader that has closed a pipe is no error for the user.
    pub fn failed(&self, error: &io::Error) -> Error {
        failed(&self.path, error)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Direct(file) => file.write(bytes),
            To::Whole(part) => part.file()?.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Direct(file) => file.flush(),
            To::Whole(part) => part.file()?.flush(),
        }
    }
}

/// Returns the failure for an I/O error of a file. A closed reader of an output is no error for the user.
pub fn failed(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::ReaderLeft,
        io::ErrorKind::AlreadyExists => {
            Error::File(format!("{} exists: --force overwrites it", path.display()))
        }
        _ => Error::File(format!("{}: {error}", path.display())),
    }
}

/// # Errors
/// This process may not write to the file.
fn may_write(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn refused(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}: --force overwrites only writable files", path.display())
}

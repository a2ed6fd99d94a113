// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write. A command names all its inputs and outputs here before it starts. Two outputs are never
//! the same file, an output is never an input, and an existing file is kept unless `--force` is given. A file appears
//! only when complete: riser writes `NAME.??????.part` in the same folder, and renames it at the end. Pipes, terminals
//! and `-` for standard output cannot hold a file, and are written directly.
//!
//! - [`place`]: resolves paths to files. - [`part`]: files that are not complete yet. - [`pipe`]: pipes that wait for
//!   their readers.
//!
//! The content of files is not checked here.

mod part;
mod pipe;
mod place;

pub(crate) use part::WorkFile;

use crate::failure::Failure;
use crate::output;
use part::Part;
use place::{Named, Target};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Maximum number of files of an input folder that are checked.
const MAX_INPUTS: usize = 1 << 16;

/// Inputs and outputs of a command.
pub(crate) struct Outputs {
    force: bool,
    inputs: Vec<Named>,
    claimed: Vec<(String, Named)>,
    standard: Option<Named>,
}

/// An output of a command that has been checked but not created.
pub(crate) struct ClaimedOutput {
    path: PathBuf,
    target: Target,
    force: bool,
    part: Option<Part>,
}

/// A file that is being written. A drop before [`finish`](Self::finish) removes the file.
pub(crate) struct Output {
    path: PathBuf,
    to: To,
}

enum To {
    Direct(File),
    Whole(Part),
}

impl Outputs {
    /// Starts without inputs and outputs. With `force`, existing files may be overwritten.
    pub(crate) fn new(force: bool) -> Outputs {
        let standard = output::standard().and_then(|file| file.metadata()).ok();
        let standard = standard.and_then(|about| Named::of_stream(&about));
        Outputs { force, inputs: Vec::new(), claimed: Vec::new(), standard }
    }

    /// Adds an input: this file (`-`: standard input), or the result files of this folder and of its subfolders.
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
    pub(crate) fn claim_if(
        &mut self,
        flag: &str,
        path: Option<&Path>,
    ) -> Result<Option<ClaimedOutput>, Failure> {
        path.map(|path| self.claim(flag, path)).transpose()
    }

    /// Claims the path that the argument `flag` names. A command claims all its outputs before it opens the first.
    ///
    /// # Errors
    /// The path is an input, another output, or an existing file that must not be overwritten.
    pub(crate) fn claim(&mut self, flag: &str, path: &Path) -> Result<ClaimedOutput, Failure> {
        let target = place::target(path, self.standard.as_ref()).map_err(|e| failed(path, &e))?;
        if let Some(named) = target.named() {
            self.reserve(flag, path, named)?;
        }
        match &target {
            Target::File { there: Some(_), .. } if !self.force => {
                return Err(Failure::Run(format!("{} exists: --force overwrites it", path.display())));
            }
            // Write access to the folder would allow replacing a file that is itself read-only.
            Target::File { path: there, there: Some(_) } => {
                may_write(there).map_err(|e| Failure::Run(refused(path, &e)))?;
            }
            Target::Standard => output::divert(),
            _ => {}
        }
        Ok(ClaimedOutput { path: path.to_owned(), target, force: self.force, part: None })
    }

    /// Claims a file that the command does not write through this module, so that no other output can have this path.
    pub(crate) fn claim_own(&mut self, flag: &str, path: &Path) -> Result<(), Failure> {
        Named::of(path).map_or(Ok(()), |named| self.reserve(flag, path, named))
    }

    fn reserve(&mut self, flag: &str, path: &Path, named: Named) -> Result<(), Failure> {
        let shown = format!("{flag} {}", path.display());
        if self.inputs.iter().any(|input| input.is(&named)) {
            let why = "the file is an input of this command, and is not overwritten";
            return Err(Failure::usage(format!("{shown}: {why}")));
        }
        if self.standard.as_ref().is_some_and(|out| out.is(&named)) {
            let why = "standard output also goes to this file, expected two different files, or `-` for both";
            return Err(Failure::usage(format!("{shown}: {why}")));
        }
        if let Some((other, _)) = self.claimed.iter().find(|(_, other)| other.is(&named)) {
            let why = "two outputs to one file, expected different files";
            return Err(Failure::usage(format!("{other} and {shown}: {why}")));
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
    pub(crate) fn prepare(mut self) -> Result<ClaimedOutput, Failure> {
        if let Target::File { path, .. } = &self.target {
            self.part = Some(Part::begin(path.clone(), self.force).map_err(|e| failed(&self.path, &e))?);
        }
        Ok(self)
    }

    /// Opens the output for writing. Missing folders are created.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(self) -> Result<Output, Failure> {
        let ClaimedOutput { path, target, force, part } = self;
        let to = match target {
            Target::Standard => output::standard().map(To::Direct),
            // A pipe. Opening a pipe without a reader would block.
            Target::Device(Some(_)) => Ok(To::Direct(pipe::open(&path)?)),
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
    pub(crate) fn fill(self, write: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<(), Failure> {
        let mut output = self.open()?;
        write(&mut output).map_err(|e| output.failed(&e))?;
        output.finish()
    }

    /// Writes `text` as the whole output.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        self.fill(|output| output.write_all(text.as_bytes()))
    }
}

impl Output {
    /// Completes the output: a file gets its name.
    ///
    /// # Errors
    /// Errors of the file system; another file has appeared under the name, and must not be overwritten.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
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
    pub(crate) fn writer(&self) -> io::Result<File> {
        match &self.to {
            To::Direct(file) => file.try_clone(),
            To::Whole(part) => part.file()?.try_clone(),
        }
    }

    /// Returns the failure for a write error. A reader that has closed a pipe is no error for the user.
    pub(crate) fn failed(&self, error: &io::Error) -> Failure {
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
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
        io::ErrorKind::AlreadyExists => {
            Failure::Run(format!("{} exists: --force overwrites it", path.display()))
        }
        _ => Failure::Run(format!("{}: {error}", path.display())),
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

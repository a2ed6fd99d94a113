// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write. All that a command reads and writes is looked at together before it begins: two outputs are
//! never one file, an output is never an input, and a file that is there stays unless `--force` is given. A file appears
//! whole or not at all: it is written beside its place, as `NAME.??????.part`, and takes its name when it is done. What can
//! hold no file (a pipe, a terminal, `-` for standard output) is written directly.
//!
//! - [`place`]: which file a path means. - [`part`]: files that do not have their names yet. - [`pipe`]: pipes that wait for
//!   their readers.
//!
//! Never asks which bytes a file holds.

mod part;
mod pipe;
mod place;

pub(crate) use part::{WorkFile, take_away};

use crate::failure::Failure;
use crate::output;
use part::Part;
use place::{Named, Target};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

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
    part: Option<Part>,
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
            // Who may write to a folder may put another file in place of one that is not theirs to write.
            Target::File { path: there, there: Some(_) } => {
                may_write(there).map_err(|e| Failure::Run(refused(path, &e)))?;
            }
            Target::Standard => output::divert(),
            _ => {}
        }
        Ok(Place { path: path.to_owned(), target, force: self.force, part: None })
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
    /// Creates the unfinished file and its folders, so that a command without write access fails before its work. Pipes are left to
    /// [`open`](Self::open), which waits for a reader.
    ///
    /// # Errors
    /// Those of the file system; another run writes the file.
    pub(crate) fn prepare(mut self) -> Result<Place, Failure> {
        if let Target::File { path, .. } = &self.target {
            self.part = Some(Part::begin(path.clone(), self.force).map_err(|e| failed(&self.path, &e))?);
        }
        Ok(self)
    }

    /// Begins to write, in folders that are made where they are not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(self) -> Result<Output, Failure> {
        let Place { path, target, force, part } = self;
        let to = match target {
            Target::Standard => output::standard().map(To::Direct),
            // A pipe; what is read by nobody has no end of waiting.
            Target::Device(Some(_)) => Ok(To::Direct(pipe::open(&path)?)),
            Target::Device(None) => OpenOptions::new().write(true).open(&path).map(To::Direct),
            Target::File { path: target, .. } => {
                part.map_or_else(|| Part::begin(target, force), Ok).map(To::Whole)
            }
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
            To::Whole(part) => part.file()?.try_clone(),
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

/// # Errors
/// Where this process may not write to the file.
fn may_write(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn refused(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}: --force overwrites only what may be written to", path.display())
}

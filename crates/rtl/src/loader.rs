// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a library made by `riser rtl build`, and calls it. This is the only file of the crate with `unsafe`. Independent of the meaning
//! of the signals.

#![allow(unsafe_code, reason = "the library of a design is called here")]

use crate::complaints::explained;
use crate::library::LibraryFile;
use crate::shown::WORDS;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;
use thiserror::Error;
use tlp::Time;

/// Version of the interface between riser and a library.
pub(crate) const ABI: u32 = 5;
const ENTRY: &str = "riser_rtl_entry";
const ERROR_BYTES: usize = 1024;

/// The block's side of an edge of the user clock.
pub(crate) trait Edges {
    /// Counts edges that were skipped.
    fn pass(&mut self, edges: u64);

    /// Handles an edge at `time`: takes the values read, and sets those to drive.
    fn edge(&mut self, time: Time, read: &[u32], driven: &mut [u32]) -> Answer;
}

/// Instructions for the edges after this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    /// Stop the run here until the block's outputs have been handled.
    pub(crate) stops: bool,
    /// If an edge reads the same values as this edge and the previous one, it changes nothing, so it may be skipped.
    pub(crate) rests: bool,
}

/// A time with edges of clocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eval {
    /// Levels of the clocks from this time on, one bit per clock.
    pub(crate) clocks: u32,
    pub(crate) time_ps: u64,
}

type RawEdge = unsafe extern "C" fn(
    user: *mut c_void,
    time_ps: u64,
    passed: u64,
    read: *const u32,
    driven: *mut u32,
) -> u32;

#[repr(C)]
struct RawRun {
    evals: *const Eval,
    count: usize,
    reset_until_ps: u64,
    edge: RawEdge,
    user: *mut c_void,
    words: [usize; 2],
    done: usize,
    passed: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Ops {
    abi: u32,
    size: u32,
    fingerprint: *const c_char,
    create: unsafe extern "C" fn(seed: u64, error: *mut c_char, len: usize) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    run: unsafe extern "C" fn(
        model: *mut c_void,
        run: *mut RawRun,
        fresh: u8,
        error: *mut c_char,
        len: usize,
    ) -> c_int,
    waves: unsafe extern "C" fn(*mut c_void, path: *const c_char, from_ps: u64, to_ps: u64) -> c_int,
    replay: unsafe extern "C" fn(
        model: *mut c_void,
        evals: *const Eval,
        count: usize,
        reset_until_ps: u64,
        driven: *const u32,
        words: usize,
        error: *mut c_char,
        len: usize,
    ) -> c_int,
    show: unsafe extern "C" fn(*mut c_void, words: *const u32),
}

/// Reason why a library cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LoadError {
    /// The file is not a library that can be loaded.
    #[error("{}: {why}; run `{command}`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
        /// The command that builds it.
        command: String,
    },
    /// The file is damaged. Has the reason, and the command that builds it.
    #[error("{0}; run `{1}` again")]
    Broken(String, String),
    /// The file is from another build. Has its path, and the command that builds it.
    #[error("{}: built by another riser or from another version of the design; run `{}` again", .0.display(), .1)]
    Other(PathBuf, String),
    /// The library cannot create the design.
    #[error("{}: {why}", path.display())]
    Create {
        /// The library.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// A library, loaded until the process ends.
pub(crate) struct Loaded {
    path: PathBuf,
    ops: Ops,
}

impl Loaded {
    /// Checks a library without loading it. The code of the library does not run.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open) that can be seen in the file's bytes.
    pub(crate) fn look(file: &LibraryFile) -> Result<(), LoadError> {
        file.check_built()?;
        let bytes = std::fs::read(&file.path).map_err(|e| file.not_opened(e.to_string()))?;
        let fingerprint = file.fingerprint.as_bytes();
        let is_there = bytes.windows(fingerprint.len()).any(|bytes| bytes == fingerprint);
        is_there.then_some(()).ok_or_else(|| file.other())
    }

    /// Loads a library.
    ///
    /// # Errors
    /// If the file is not a library, or belongs to another build.
    pub(crate) fn open(file: &LibraryFile) -> Result<Rc<Loaded>, LoadError> {
        file.check_built()?;
        // SAFETY: initialisers of the library run; the caller has allowed its code to run.
        let library = unsafe { Library::open(Some(&file.path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| file.not_opened(e.to_string()))?;
        // SAFETY: only libraries of `riser rtl build` have this symbol, and there it has this type.
        let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const Ops>(ENTRY.as_bytes()) };
        let entry = entry.map_err(|_| file.not_opened(format!("no symbol {ENTRY}")))?;
        // SAFETY: the shim defines the function with this contract.
        let ops = unsafe { entry() };
        if ops.is_null() {
            return Err(file.other());
        }
        // SAFETY: in every version two words come first, its number and its size.
        let [abi, size] = unsafe { ops.cast::<[u32; 2]>().read_unaligned() };
        if abi != ABI || size as usize != size_of::<Ops>() {
            return Err(file.other());
        }
        // SAFETY: the library declares that it has this size.
        let ops = unsafe { ops.read_unaligned() };
        // SAFETY: a constant of the library, which is never unloaded.
        if unsafe { CStr::from_ptr(ops.fingerprint) }.to_bytes() != file.fingerprint.as_bytes() {
            return Err(file.other());
        }
        std::mem::forget(library);
        Ok(Rc::new(Loaded { path: file.path.clone(), ops }))
    }
}

impl LibraryFile {
    fn not_opened(&self, why: String) -> LoadError {
        LoadError::Open { path: self.path.clone(), why, command: self.command.clone() }
    }

    fn other(&self) -> LoadError {
        LoadError::Other(self.path.clone(), self.command.clone())
    }

    /// Checks that the library exists and is complete.
    fn check_built(&self) -> Result<(), LoadError> {
        if !self.path.exists() {
            return Err(self.not_opened("not built".to_owned()));
        }
        if !self.path.is_file() {
            return Err(self.not_opened("it is not a regular file".to_owned()));
        }
        // The error names the path.
        let whole = native::check_whole(&self.path);
        whole.map_err(|e| LoadError::Broken(e.to_string(), self.command.clone()))
    }
}

/// Reason why a design does not continue.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// The design has ended: `$fatal`, or a loop that does not settle. Has the message of the library.
    #[error("{0}")]
    Ended(String),
    /// There are too few recorded words for the edges of the user clock.
    #[error("{edges} edges, but {words} words")]
    TooFewWords {
        /// Number of edges.
        edges: usize,
        /// Number of words.
        words: usize,
    },
}

/// Reason why waves cannot be written to a file.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum WavesError {
    /// The file has other contents.
    #[error(
        "the file exists, and is not a waveform file (FST); expected a new name, or the name of a waveform file"
    )]
    OtherFile,
    /// The name is not a C string.
    #[error("the file name contains a zero byte")]
    ZeroByte,
    /// The library was built without waves. Has the command that builds it.
    #[error("the library has no waves; run `{0}`")]
    NoWaves(String),
    /// The file cannot be written.
    #[error("the file cannot be written")]
    Unwritable,
}

/// Start of an FST file: type and length of its first block.
const WAVES: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0x01, 0x49];

/// Returns an error if writing waves would overwrite another kind of file.
fn check_waves(path: &Path) -> Result<(), WavesError> {
    // The file does not exist, or is empty.
    if fs::metadata(path).map_or(true, |about| about.is_file() && about.len() == 0) {
        return Ok(());
    }
    let mut head = [0; WAVES.len()];
    let is_waves = path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head == WAVES;
    match is_waves {
        true => Ok(()),
        false => Err(WavesError::OtherFile),
    }
}

/// A running design.
pub(crate) struct Instance {
    library: Rc<Loaded>,
    model: NonNull<c_void>,
    error: Box<[c_char; ERROR_BYTES]>,
}

/// The block that is called at an edge, with the sizes of both vectors in words.
struct EdgeCall<'a> {
    block: &'a mut dyn Edges,
    words: [usize; 2],
}

/// Called by the library during [`Instance::run`].
unsafe extern "C" fn on_edge(
    user: *mut c_void,
    time_ps: u64,
    passed: u64,
    read: *const u32,
    driven: *mut u32,
) -> u32 {
    // SAFETY: `run` has passed the address of this value, and the value lives until the library returns. There is no
    // other reference to it.
    let asked = unsafe { &mut *user.cast::<EdgeCall<'_>>() };
    // SAFETY: the stand-in's vectors have these sizes, from the same table.
    let read = unsafe { std::slice::from_raw_parts(read, asked.words[0]) };
    // SAFETY: as above, and the two are different variables of the library.
    let driven = unsafe { std::slice::from_raw_parts_mut(driven, asked.words[1]) };
    asked.block.pass(passed);
    let Answer { stops, rests } = asked.block.edge(Time::from_ps(time_ps), read, driven);
    u32::from(stops) | u32::from(rests) << 1
}

impl Instance {
    /// Creates an instance. Registers without a reset get values that are drawn from `seed`.
    ///
    /// # Errors
    /// The error of the library.
    pub(crate) fn create(library: &Rc<Loaded>, seed: u64) -> Result<Instance, LoadError> {
        let mut error = Box::new([0; ERROR_BYTES]);
        // SAFETY: the buffer has the given length.
        let model = unsafe { (library.ops.create)(seed, error.as_mut_ptr(), error.len()) };
        let why = || LoadError::Create {
            path: library.path.clone(),
            why: explained(text(&error[..]), &library.path),
        };
        let model = NonNull::new(model).ok_or_else(why)?;
        Ok(Instance { library: Rc::clone(library), model, error })
    }

    /// Evaluates these times, in reset before `reset_until`, up to the edge at which the block stops. `words` are the sizes of both
    /// vectors of an edge. `fresh`: the block has new inputs since the last run. Returns the number of times that were evaluated.
    ///
    /// # Errors
    /// The reason why the design cannot continue: `$fatal`, or a loop that does not settle.
    pub(crate) fn run(
        &mut self,
        evals: &[Eval],
        reset_until: Time,
        words: [usize; 2],
        block: &mut dyn Edges,
        fresh: bool,
    ) -> Result<usize, RunError> {
        let mut asked = EdgeCall { block, words };
        let mut run = RawRun {
            evals: evals.as_ptr(),
            count: evals.len(),
            reset_until_ps: reset_until.as_ps(),
            edge: on_edge,
            user: (&raw mut asked).cast(),
            words,
            done: 0,
            passed: 0,
        };
        let (model, len) = (self.model.as_ptr(), self.error.len());
        // SAFETY: the model is alive, the buffer has the given length, and `evals` and `asked` outlive the call.
        let failed = unsafe {
            (self.library.ops.run)(model, &raw mut run, fresh.into(), self.error.as_mut_ptr(), len)
        };
        if failed != 0 {
            return Err(self.ended());
        }
        asked.block.pass(run.passed);
        Ok(run.done)
    }

    /// Evaluates all of `evals`, and drives `words` words of `driven` after each edge of the user clock: this is what a
    /// C++ program would do that has only these inputs.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), and also if `driven` is too short.
    pub(crate) fn replay(
        &mut self,
        evals: &[Eval],
        reset_until: Time,
        driven: &[u32],
        words: usize,
    ) -> Result<(), RunError> {
        let rises = |pair: &[Eval]| pair[1].clocks & 1 == 1 && pair[0].clocks & 1 == 0;
        let first = usize::from(evals.first().is_some_and(|eval| eval.clocks & 1 == 1));
        let edges = first + evals.windows(2).filter(|pair| rises(pair)).count();
        if driven.len() < edges * words {
            return Err(RunError::TooFewWords { edges, words: driven.len() });
        }
        let (model, error) = (self.model.as_ptr(), &mut self.error);
        let (count, len) = (evals.len(), error.len());
        // SAFETY: the model is alive, the buffer has the given length, and the check ensures that both slices are as long as the library
        // reads.
        let failed = unsafe {
            (self.library.ops.replay)(
                model,
                evals.as_ptr(),
                count,
                reset_until.as_ps(),
                driven.as_ptr(),
                words,
                error.as_mut_ptr(),
                len,
            )
        };
        if failed == 0 { Ok(()) } else { Err(self.ended()) }
    }

    /// Returns the library's reason why it has ended.
    fn ended(&self) -> RunError {
        RunError::Ended(explained(text(&self.error[..]), &self.library.path))
    }

    /// Shows these words in the waves from the next edge.
    pub(crate) fn show(&mut self, words: &[u32; WORDS]) {
        // SAFETY: the model is alive, and the library copies this many words.
        unsafe { (self.library.ops.show)(self.model.as_ptr(), words.as_ptr()) }
    }

    /// Writes all signals to a file from `from` until `to`. `command` builds the library with waves.
    ///
    /// # Errors
    /// If the file cannot be created, a file of another kind exists, or the library was built without waves.
    pub(crate) fn waves(
        &mut self,
        path: &Path,
        [from, to]: [Time; 2],
        command: &str,
    ) -> Result<(), WavesError> {
        check_waves(path)?;
        let path = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| WavesError::ZeroByte)?;
        // SAFETY: the model is alive, and the name ends with a zero byte.
        let opened =
            unsafe { (self.library.ops.waves)(self.model.as_ptr(), path.as_ptr(), from.as_ps(), to.as_ps()) };
        match opened {
            0 => Ok(()),
            2 => Err(WavesError::NoWaves(command.to_owned())),
            _ => Err(WavesError::Unwritable),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the model is alive until here.
        unsafe { (self.library.ops.destroy)(self.model.as_ptr()) }
    }
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|c| c.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs `work` with a folder as working directory, from which a design reads its files.
pub(crate) fn in_folder<T>(folder: &Path, work: impl FnOnce() -> T) -> std::io::Result<T> {
    let before = std::env::current_dir()?;
    std::env::set_current_dir(if folder == Path::new("") { Path::new(".") } else { folder })?;
    let done = work();
    std::env::set_current_dir(before)?;
    Ok(done)
}

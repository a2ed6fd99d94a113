// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a library that `riser rtl build` has made, and calls it: the one file of this crate with `unsafe`. Never knows what the signals
//! mean.

#![allow(unsafe_code, reason = "the library of a design is called here")]

use crate::complaints::explained;
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

/// Version of what stands between riser and a library.
pub(crate) const ABI: u32 = 5;
const ENTRY: &str = "riser_rtl_entry";
const ERROR_BYTES: usize = 1024;

/// What the block does at an edge of the user clock at which it is asked.
pub(crate) trait Edges {
    /// At this time, behind so many edges that it was not asked at: what it reads, and is to drive.
    fn edge(&mut self, time: Time, passed: u64, read: &[u32], driven: &mut [u32]) -> Answer;
}

/// What is to come behind an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    /// Nothing, until what has come of it is taken.
    pub(crate) stops: bool,
    /// An edge that reads the same as this one and that before changes nothing: it need not be asked.
    pub(crate) rests: bool,
}

/// A time at which clocks have edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eval {
    /// Their levels from then on, a bit for each.
    pub(crate) clocks: u32,
    pub(crate) time_ps: u64,
}

/// What was done in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// How many of its times.
    pub(crate) evals: usize,
    /// Edges in the end that the block was not asked at.
    pub(crate) passed: u64,
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

/// Why a library is none that can be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum LoadError {
    #[error("{}: {why}: `riser rtl build` makes it", path.display())]
    Open { path: PathBuf, why: String },
    #[error("{0}: `riser rtl build` makes it anew")]
    Broken(String),
    #[error("{}: it is of another riser or of another version of the design: `riser rtl build` makes it anew", .0.display())]
    Other(PathBuf),
    #[error("{}: {why}", path.display())]
    Create { path: PathBuf, why: String },
}

/// A library, loaded for good.
pub(crate) struct Loaded {
    path: PathBuf,
    ops: Ops,
}

impl Loaded {
    /// Looks at the library at `path` without loading it: no code of it runs.
    ///
    /// # Errors
    /// As of [`open`](Self::open), as far as its bytes show.
    pub(crate) fn look(path: &Path, fingerprint: &str) -> Result<(), LoadError> {
        let said = |why: String| LoadError::Open { path: path.to_owned(), why };
        check_built(path)?;
        let bytes = std::fs::read(path).map_err(|e| said(e.to_string()))?;
        let mut all = bytes.windows(fingerprint.len());
        let is_there = all.any(|bytes| bytes == fingerprint.as_bytes());
        is_there.then_some(()).ok_or_else(|| LoadError::Other(path.to_owned()))
    }

    /// Loads the library at `path`, which must have this fingerprint.
    ///
    /// # Errors
    /// If it is none, or of another build.
    pub(crate) fn open(path: &Path, fingerprint: &str) -> Result<Rc<Loaded>, LoadError> {
        let said = |why: String| LoadError::Open { path: path.to_owned(), why };
        check_built(path)?;
        // SAFETY: initialisers of the library run: whoever asked for it has allowed its code to.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| said(e.to_string()))?;
        // SAFETY: only libraries of `riser rtl build` have this symbol, and it has this type there.
        let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const Ops>(ENTRY.as_bytes()) };
        let entry = entry.map_err(|_| said(format!("no symbol {ENTRY}")))?;
        // SAFETY: as the shim has it.
        let ops = unsafe { entry() };
        let other = || LoadError::Other(path.to_owned());
        if ops.is_null() {
            return Err(other());
        }
        // SAFETY: every version begins with two words, its number and its size.
        let [abi, size] = unsafe { ops.cast::<[u32; 2]>().read_unaligned() };
        if abi != ABI || size as usize != size_of::<Ops>() {
            return Err(other());
        }
        // SAFETY: it says that it is as large as this.
        let ops = unsafe { ops.read_unaligned() };
        // SAFETY: a constant of the library's, which is never unloaded.
        if unsafe { CStr::from_ptr(ops.fingerprint) }.to_bytes() != fingerprint.as_bytes() {
            return Err(other());
        }
        std::mem::forget(library);
        Ok(Rc::new(Loaded { path: path.to_owned(), ops }))
    }
}

/// Checks that there is a library, and that it is whole.
fn check_built(path: &Path) -> Result<(), LoadError> {
    if !path.exists() {
        return Err(LoadError::Open { path: path.to_owned(), why: "it is not built".to_owned() });
    }
    if !path.is_file() {
        return Err(LoadError::Open { path: path.to_owned(), why: "it is no file".to_owned() });
    }
    // Its error names the path.
    let whole = native::check_whole(path);
    whole.map_err(|e| LoadError::Broken(e.to_string()))
}

/// What a file of waves begins with: the type and the length of its first block.
const WAVES: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0x01, 0x49];

/// Refuses to write waves over what are none.
fn check_waves(path: &Path) -> Result<(), String> {
    // None is there, or an empty one.
    if fs::metadata(path).map_or(true, |about| about.is_file() && about.len() == 0) {
        return Ok(());
    }
    let mut head = [0; WAVES.len()];
    let is_waves = path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head == WAVES;
    match is_waves {
        true => Ok(()),
        false => {
            Err("it is there, and holds no waves (FST): legal is a new name, or that of a file of waves"
                .into())
        }
    }
}

/// A design that runs.
pub(crate) struct Instance {
    library: Rc<Loaded>,
    model: NonNull<c_void>,
    error: Box<[c_char; ERROR_BYTES]>,
}

/// Who is asked at an edge.
struct Asked<'a> {
    block: &'a mut dyn Edges,
    words: [usize; 2],
}

/// Called by the library, out of [`Instance::run`].
unsafe extern "C" fn on_edge(
    user: *mut c_void,
    time_ps: u64,
    passed: u64,
    read: *const u32,
    driven: *mut u32,
) -> u32 {
    // SAFETY: `run` has given the address of this, which it keeps until the library returns; nobody else has it meanwhile.
    let asked = unsafe { &mut *user.cast::<Asked<'_>>() };
    // SAFETY: the stand-in's vectors have these sizes, by the same table.
    let read = unsafe { std::slice::from_raw_parts(read, asked.words[0]) };
    // SAFETY: as above, and the two are different variables of the library's.
    let driven = unsafe { std::slice::from_raw_parts_mut(driven, asked.words[1]) };
    let Answer { stops, rests } = asked.block.edge(Time::from_ps(time_ps), passed, read, driven);
    u32::from(stops) | u32::from(rests) << 1
}

impl Instance {
    /// Makes one; what no reset sets has values drawn from `seed`.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn create(library: &Rc<Loaded>, seed: u64) -> Result<Instance, LoadError> {
        let mut error = Box::new([0; ERROR_BYTES]);
        // SAFETY: the buffer is as long as is said.
        let model = unsafe { (library.ops.create)(seed, error.as_mut_ptr(), error.len()) };
        let why = || LoadError::Create {
            path: library.path.clone(),
            why: explained(text(&error[..]), &library.path),
        };
        let model = NonNull::new(model).ok_or_else(why)?;
        Ok(Instance { library: Rc::clone(library), model, error })
    }

    /// Does what is to be done at these times, in reset before `reset_until`, up to the one behind which the block wants nothing;
    /// `words` are those of both vectors of an edge. `fresh`: something has come for the block since the last run.
    ///
    /// # Errors
    /// Why the design cannot go on: `$fatal`, a loop that does not settle.
    pub(crate) fn run(
        &mut self,
        evals: &[Eval],
        reset_until: Time,
        words: [usize; 2],
        block: &mut dyn Edges,
        fresh: bool,
    ) -> Result<Done, String> {
        let mut asked = Asked { block, words };
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
        // SAFETY: the model is alive, the buffer as long as is said, and `evals` and `asked` outlive the call.
        let failed = unsafe {
            (self.library.ops.run)(model, &raw mut run, fresh.into(), self.error.as_mut_ptr(), len)
        };
        let done = Done { evals: run.done, passed: run.passed };
        if failed == 0 { Ok(done) } else { Err(self.ended()) }
    }

    /// Does all of `evals`, where the block drives `words` words of `driven` from each edge of the user clock on: what a program in C++
    /// would do that has nothing but these.
    ///
    /// # Errors
    /// As of [`run`](Self::run), and where `driven` ends too soon.
    pub(crate) fn replay(
        &mut self,
        evals: &[Eval],
        reset_until: Time,
        driven: &[u32],
        words: usize,
    ) -> Result<(), String> {
        let rises = |pair: &[Eval]| pair[1].clocks & 1 == 1 && pair[0].clocks & 1 == 0;
        let first = usize::from(evals.first().is_some_and(|eval| eval.clocks & 1 == 1));
        let edges = first + evals.windows(2).filter(|pair| rises(pair)).count();
        if driven.len() < edges * words {
            return Err(format!("{edges} edges, and {} words", driven.len()));
        }
        let (model, error) = (self.model.as_ptr(), &mut self.error);
        let (count, len) = (evals.len(), error.len());
        // SAFETY: the model is alive, the buffer as long as is said, and both slices as long as the library reads them, by the check.
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

    /// Why it has ended, as the library says.
    fn ended(&self) -> String {
        explained(text(&self.error[..]), &self.library.path)
    }

    /// Shows these words in the waves from the next edge on.
    pub(crate) fn show(&mut self, words: &[u32; WORDS]) {
        // SAFETY: the model is alive, and the library copies as many words.
        unsafe { (self.library.ops.show)(self.model.as_ptr(), words.as_ptr()) }
    }

    /// Writes all signals into this file from `from` on, until `to`.
    ///
    /// # Errors
    /// If the file cannot be made, another one is there, or the library was built without waves.
    pub(crate) fn waves(&mut self, path: &Path, [from, to]: [Time; 2]) -> Result<(), String> {
        check_waves(path)?;
        let path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| "a name of a file without zero bytes is legal".to_owned())?;
        // SAFETY: the model is alive, and the name ends with a zero.
        let opened =
            unsafe { (self.library.ops.waves)(self.model.as_ptr(), path.as_ptr(), from.as_ps(), to.as_ps()) };
        match opened {
            0 => Ok(()),
            2 => Err("the library has no waves: `riser rtl build --waves` makes one that has".to_owned()),
            _ => Err("the file cannot be written".to_owned()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: it is alive until here.
        unsafe { (self.library.ops.destroy)(self.model.as_ptr()) }
    }
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|c| c.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a library that `riser rtl build` has made, and calls it: the one file of this crate with `unsafe`. Never knows what the signals
//! mean.

#![allow(unsafe_code, reason = "the library of a design is called here")]

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;
use thiserror::Error;

/// Version of what stands between riser and a library.
pub(crate) const ABI: u32 = 1;
const ENTRY: &str = "riser_rtl_entry";
const ERROR_BYTES: usize = 1024;

/// Called at an edge of the user clock: what the block reads, and what it is to drive.
pub(crate) type Edge<'a> = &'a mut dyn FnMut(&[u32], &mut [u32]);

type RawEdge = unsafe extern "C" fn(user: *mut c_void, read: *const u32, driven: *mut u32);

#[repr(C)]
#[derive(Clone, Copy)]
struct Ops {
    abi: u32,
    size: u32,
    fingerprint: *const c_char,
    create: unsafe extern "C" fn(seed: u64, error: *mut c_char, len: usize) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    eval: unsafe extern "C" fn(
        model: *mut c_void,
        clocks: u32,
        reset_n: u8,
        time_ps: u64,
        edge: RawEdge,
        user: *mut c_void,
        error: *mut c_char,
        len: usize,
    ) -> c_int,
    waves: unsafe extern "C" fn(*mut c_void, path: *const c_char) -> c_int,
}

/// Why a library is none that can be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum LoadError {
    #[error("{}: {why}: `riser rtl build` makes it", path.display())]
    Open { path: PathBuf, why: String },
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
    /// Loads the library at `path`, which must have this fingerprint.
    ///
    /// # Errors
    /// Where it is none, or of another build.
    pub(crate) fn open(path: &Path, fingerprint: &str) -> Result<Rc<Loaded>, LoadError> {
        let said = |why: String| LoadError::Open { path: path.to_owned(), why };
        native::check_whole(path).map_err(|e| said(e.to_string()))?;
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

/// A design that runs.
pub(crate) struct Instance {
    library: Rc<Loaded>,
    model: NonNull<c_void>,
}

/// Vectors of an edge, and who is asked.
struct Asked<'a> {
    edge: Edge<'a>,
    words: [usize; 2],
}

/// Called by the library, out of [`Instance::eval`].
unsafe extern "C" fn on_edge(user: *mut c_void, read: *const u32, driven: *mut u32) {
    // SAFETY: `eval` has given the address of this, which it keeps until the library returns; nobody else has it meanwhile.
    let asked = unsafe { &mut *user.cast::<Asked<'_>>() };
    // SAFETY: the stand-in's vectors have these sizes, by the same table.
    let read = unsafe { std::slice::from_raw_parts(read, asked.words[0]) };
    // SAFETY: as above, and the two are different variables of the library's.
    let driven = unsafe { std::slice::from_raw_parts_mut(driven, asked.words[1]) };
    (asked.edge)(read, driven);
}

impl Instance {
    /// Makes one; what no reset sets has values drawn from `seed`.
    ///
    /// # Errors
    /// What the library says.
    pub(crate) fn create(library: &Rc<Loaded>, seed: u64) -> Result<Instance, LoadError> {
        let mut error = [0; ERROR_BYTES];
        // SAFETY: the buffer is as long as is said.
        let model = unsafe { (library.ops.create)(seed, error.as_mut_ptr(), error.len()) };
        let why = || LoadError::Create { path: library.path.clone(), why: text(&error) };
        let model = NonNull::new(model).ok_or_else(why)?;
        Ok(Instance { library: Rc::clone(library), model })
    }

    /// Takes these levels of the clocks and of the reset at this time; `words` are those of both vectors of an edge.
    ///
    /// # Errors
    /// Why the design cannot go on: `$fatal`, a loop that does not settle.
    pub(crate) fn eval(
        &mut self,
        clocks: u32,
        reset_n: bool,
        time_ps: u64,
        words: [usize; 2],
        edge: Edge<'_>,
    ) -> Result<(), String> {
        let mut error = [0; ERROR_BYTES];
        let mut asked = Asked { edge, words };
        let user = (&raw mut asked).cast();
        let (model, len) = (self.model.as_ptr(), error.len());
        // SAFETY: the model is alive, the buffer as long as is said, and `asked` outlives the call.
        let failed = unsafe {
            (self.library.ops.eval)(
                model,
                clocks,
                reset_n.into(),
                time_ps,
                on_edge,
                user,
                error.as_mut_ptr(),
                len,
            )
        };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }

    /// Writes all signals into this file from now on.
    ///
    /// # Errors
    /// Where the file cannot be made, or the library was built without waves.
    pub(crate) fn waves(&mut self, path: &Path) -> Result<(), String> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| "a name of a file without zero bytes is legal".to_owned())?;
        // SAFETY: the model is alive, and the name ends with a zero.
        match unsafe { (self.library.ops.waves)(self.model.as_ptr(), path.as_ptr()) } {
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

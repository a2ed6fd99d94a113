// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a library and calls it: the only file of this crate with `unsafe`. It copies the results of a call
//! immediately; [`guard`](crate::guard) checks them. The only pointer of the library that is kept is the pointer to the
//! device.

#![allow(unsafe_code, reason = "foreign code is called here")]

use crate::abi::{self, Ops, kind};
use crate::misuse::{MAX_BYTES, Misuse};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::Endianness;
use object::read::elf::ElfFile64;
use object::read::{Object, ObjectSegment};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use thiserror::Error;

/// Symbol of the entry point.
const ENTRY: &str = "riser_device_entry";
/// Size of the buffer for an error text of `create`.
const ERROR_BYTES: usize = 512;

/// Error while loading a library or creating its device.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LoadError {
    /// The library cannot be loaded.
    #[error("{}: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error text of the system.
        why: String,
    },
    /// The file is not a complete shared library in this machine's format.
    #[error("{}: not a complete shared library: {why}", path.display())]
    NotWhole {
        /// The file.
        path: PathBuf,
        /// The reason why it is not.
        why: String,
    },
    /// The library has no entry point.
    #[error("{}: no symbol {ENTRY}, expected a library that defines it as in riser_device.h", .0.display())]
    NoEntry(PathBuf),
    /// The library does not support this version of the ABI.
    #[error("{}: {ENTRY} returned NULL: the library does not support version {} of the ABI, which this riser uses", .0.display(), abi::ABI)]
    NoOps(PathBuf),
    /// The library's functions are for another version of the ABI.
    #[error("{}: version {found} of the ABI with {size} B of functions, expected version {} with {} B", path.display(), abi::ABI, size_of::<Ops>())]
    Version {
        /// The file.
        path: PathBuf,
        /// `abi`.
        found: u32,
        /// `size`.
        size: u32,
    },
    /// A required function is missing.
    #[error("{}: no function {function}: create, destroy, reset, read, write, dma_done and poll_output are required, and timer if there is next_timer", path.display())]
    NoFunction {
        /// The file.
        path: PathBuf,
        /// Name of the function.
        function: &'static str,
    },
    /// `create` rejected the settings.
    #[error("{}: create: {why}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Error text of `create`.
        why: String,
    },
}

/// A loaded library. The library is never unloaded, because it may have running threads.
pub(crate) struct Loaded {
    path: PathBuf,
    ops: Ops,
}

impl Loaded {
    /// Loads the library at `path` and runs its initializers.
    ///
    /// # Errors
    /// If it is not a device library of this ABI version.
    pub(crate) fn open(path: &Path) -> Result<Rc<Loaded>, LoadError> {
        check_whole(path)?;
        let said = |e: libloading::Error| LoadError::Open { path: path.to_owned(), why: text(&e) };
        // SAFETY: initializers of the library run: the caller has allowed its code to run.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(said)?;
        // SAFETY: the header gives the type of this symbol. A library that defines the symbol with another type
        // violates the interface.
        let entry = unsafe { library.get::<abi::Entry>(ENTRY.as_bytes()) };
        let entry = entry.map_err(|_| LoadError::NoEntry(path.to_owned()))?;
        // SAFETY: the call is as the header defines it.
        let ops = unsafe { entry(abi::ABI) };
        if ops.is_null() {
            return Err(LoadError::NoOps(path.to_owned()));
        }
        // SAFETY: in every version, the structure begins with two words, its version and its size.
        let [found, size] = unsafe { ops.cast::<[u32; 2]>().read_unaligned() };
        if found != abi::ABI || size as usize != size_of::<Ops>() {
            return Err(LoadError::Version { path: path.to_owned(), found, size });
        }
        // SAFETY: the structure has the size of `Ops`.
        let ops = unsafe { ops.read_unaligned() };
        std::mem::forget(library);
        let loaded = Loaded { path: path.to_owned(), ops };
        match loaded.missing() {
            Some(function) => Err(LoadError::NoFunction { path: path.to_owned(), function }),
            None => Ok(Rc::new(loaded)),
        }
    }

    /// Returns the first required function that is missing.
    fn missing(&self) -> Option<&'static str> {
        let Ops { create, destroy, reset, read, write, dma_done, timer, poll_output, next_timer, .. } =
            self.ops;
        let needed = [
            ("create", create.is_some()),
            ("destroy", destroy.is_some()),
            ("reset", reset.is_some()),
            ("read", read.is_some()),
            ("write", write.is_some()),
            ("dma_done", dma_done.is_some()),
            ("poll_output", poll_output.is_some()),
            ("timer", timer.is_some() || next_timer.is_none()),
        ];
        needed.into_iter().find(|(_, is_there)| !is_there).map(|(name, _)| name)
    }
}

/// Checks that the file has all segments of the library: the system's loader crashes on a truncated file.
///
/// # Errors
/// [`LoadError::NotWhole`]
pub fn check_whole(path: &Path) -> Result<(), LoadError> {
    let not_whole = |why: String| LoadError::NotWhole { path: path.to_owned(), why };
    let bytes = std::fs::read(path).map_err(|e| not_whole(e.to_string()))?;
    let elf = ElfFile64::<Endianness>::parse(&*bytes).map_err(|e| not_whole(e.to_string()))?;
    elf.segments().try_for_each(|segment| segment.data().map(drop)).map_err(|e| not_whole(e.to_string()))
}

/// Returns the system's error if there is one, otherwise the error of the loader.
fn text(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(why) => why.to_string(),
        None => error.to_string(),
    }
}

/// Bytes of an output, or only their number if they are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Bytes {
    Carried(Vec<u8>),
    Counted(u32),
}

/// An output of a device, copied. Only its length was checked, against [`MAX_BYTES`].
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    Write(abi::DmaWrite, Bytes),
    Read(abi::DmaRead),
    Atomic(abi::DmaAtomic, Bytes),
    Complete(abi::Completion, Bytes),
    Abandon(u32),
    Interrupt(u32),
    Intx(bool),
    Pme,
    Message(abi::SendMessage, Bytes),
}

/// A device of a library.
pub(crate) struct Instance {
    library: Rc<Loaded>,
    device: abi::DevicePointer,
}

/// An input of a device.
pub(crate) enum Handing<'a> {
    Reset(u32),
    Read(&'a abi::Read),
    Write(&'a abi::Write),
    DmaDone(&'a abi::DmaDone),
    Atomic(&'a abi::Atomic),
    Config(&'a abi::Config),
    Message(&'a abi::Message),
    Timer,
}

impl Instance {
    /// Creates a device with these settings.
    ///
    /// # Errors
    /// The library's own error text.
    pub(crate) fn create(library: &Rc<Loaded>, settings: &str) -> Result<Instance, LoadError> {
        let refused = |why: String| LoadError::Create { path: library.path.clone(), why };
        let settings = CString::new(settings).map_err(|_| refused("settings contain a zero byte".into()))?;
        let mut error = [0u8; ERROR_BYTES];
        let create = library.ops.create.ok_or_else(|| refused("the function is missing".into()))?;
        // SAFETY: the call is as the header defines it; both texts live until it returns.
        let device = unsafe { create(settings.as_ptr(), error.as_mut_ptr().cast(), ERROR_BYTES) };
        if device.is_null() {
            // Terminates a text that fills the whole buffer.
            error[ERROR_BYTES - 1] = 0;
            let why = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default();
            return Err(refused(if why.is_empty() { "no reason given".into() } else { why.into_owned() }));
        }
        Ok(Instance { library: library.clone(), device })
    }

    /// The library.
    pub(crate) fn path(&self) -> &Path {
        &self.library.path
    }

    /// Passes an input to the device. Returns false if the library does not handle this kind of input.
    pub(crate) fn hand(&mut self, now_ps: u64, what: &Handing<'_>) -> bool {
        let (ops, device) = (&self.library.ops, self.device);
        /// Calls a function for an input, if the library has this function.
        macro_rules! call {
            ($function:expr $(, $argument:expr)*) => {
                match $function {
                    // SAFETY: the device belongs to the library and is alive; the input lives until the call returns.
                    Some(function) => unsafe { function(device, now_ps $(, $argument)*) },
                    None => return false,
                }
            };
        }
        match *what {
            Handing::Reset(kind) => call!(ops.reset, kind),
            Handing::Read(read) => call!(ops.read, read),
            Handing::Write(write) => call!(ops.write, write),
            Handing::DmaDone(done) => call!(ops.dma_done, done),
            Handing::Atomic(atomic) => call!(ops.atomic, atomic),
            Handing::Config(config) => call!(ops.config, config),
            Handing::Message(message) => call!(ops.message, message),
            Handing::Timer => call!(ops.timer),
        }
        true
    }

    /// Polls the next output of a class.
    ///
    /// # Errors
    /// The output is invalid, with the reason.
    pub(crate) fn poll_output(&mut self, now_ps: u64, class: u32) -> Result<Option<Handed>, Misuse> {
        let Some(poll) = self.library.ops.poll_output else { return Ok(None) };
        // The largest member of the union: bytes that the device does not write are zero.
        let atomic = abi::DmaAtomic {
            address: 0,
            id: 0,
            length: 0,
            tc: 0,
            attr: 0,
            op: 0,
            reserved: [0; 5],
            operands: std::ptr::null(),
        };
        let mut output = abi::Output { kind: 0, reserved: 0, body: abi::OutputBody { atomic } };
        // SAFETY: the call is as the header defines it; the output lives until it returns.
        if unsafe { poll(self.device, now_ps, class, &raw mut output) } == 0 {
            return Ok(None);
        }
        handed(&output).map(Some)
    }

    /// Returns the next request that the device has taken, if any. The outer `None` means that the library takes each
    /// request immediately.
    pub(crate) fn poll_taken(&mut self) -> Option<Option<u32>> {
        let poll = self.library.ops.poll_taken?;
        let mut token = 0;
        // SAFETY: the call is as the header defines it; the token lives until it returns.
        let is_one = unsafe { poll(self.device, &raw mut token) } != 0;
        Some(is_one.then_some(token))
    }

    /// Returns when to call the device's timer.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        let next = self.library.ops.next_timer?;
        // SAFETY: the call is as the header defines it.
        Some(unsafe { next(self.device) }).filter(|time| *time != abi::NEVER)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.ops.destroy {
            // SAFETY: the device belongs to the library, is alive, and is not used again.
            unsafe { destroy(self.device) }
        }
    }
}

/// Converts an output according to its kind.
fn handed(output: &abi::Output) -> Result<Handed, Misuse> {
    let body = &output.body;
    // SAFETY: the whole union is initialized, with zeros or by the device; any bits are valid for each of its types.
    unsafe {
        Ok(match output.kind {
            kind::WRITE => {
                Handed::Write(body.write, bytes("write", body.write.data, body.write.length, true)?)
            }
            kind::READ => Handed::Read(body.read),
            kind::ATOMIC => {
                Handed::Atomic(body.atomic, bytes("atomic", body.atomic.operands, body.atomic.length, false)?)
            }
            kind::COMPLETE => {
                let abi::Completion { data, length, .. } = body.completion;
                Handed::Complete(body.completion, bytes("completion", data, length, true)?)
            }
            kind::ABANDON => Handed::Abandon(body.word),
            kind::INTERRUPT => Handed::Interrupt(body.word),
            kind::INTX => Handed::Intx(body.word != 0),
            kind::PME => Handed::Pme,
            kind::SEND_MESSAGE => Handed::Message(
                body.message,
                bytes("message", body.message.data, body.message.length, false)?,
            ),
            other => return Err(Misuse::Kind(other)),
        })
    }
}

/// Copies `length` bytes at `data`.
fn bytes(what: &'static str, data: *const u8, length: u32, may_count: bool) -> Result<Bytes, Misuse> {
    match (data.is_null(), length) {
        (_, bytes) if bytes > MAX_BYTES => Err(Misuse::Length { what, bytes }),
        (_, 0) => Ok(Bytes::Carried(Vec::new())),
        (true, length) if may_count => Ok(Bytes::Counted(length)),
        (true, bytes) => Err(Misuse::NoData { what, bytes }),
        (false, length) => {
            // SAFETY: the header requires that the device's pointer leads to this many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(data, length as usize) };
            Ok(Bytes::Carried(bytes.to_vec()))
        }
    }
}

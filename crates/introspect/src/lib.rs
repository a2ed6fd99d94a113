// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a running Linux kernel (x86-64) from outside, through its physical memory: NetTLP section 6.3.
//!
//! The crate needs no information about the build of the kernel. [`find`] locates the kernel in memory at any place
//! that KASLR selects. The kernel's own [`Btf`] gives the offsets of structure members. Then [`Kernel::tasks`]
//! walks the list of processes, and [`Code::of`] walks the page tables of one process.
//!
//! The kernel keeps running and may be hostile. All data that was read is checked, and every walk is bounded.
//! Inconsistent data gives an [`Error`], never a panic.

mod btf;
mod cache;
mod code;
mod find;
mod kernel;
mod layout;
mod marks;
mod pages;
mod report;
mod tasks;

pub use btf::{Btf, BtfError};
pub use code::{Code, CodeRun, Gap};
pub use find::{Progress, Search, find};
pub use kernel::Kernel;
pub use layout::Layout;
pub use pages::{Levels, Missing};
pub use report::{KernelReport, task_table};
pub use tasks::Task;

use std::ops::Range;
use thiserror::Error;

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// All bytes were read.
    Read,
    /// There is no memory, or it may not be read: Unsupported Request or Completer Abort.
    Refused,
}

/// Physical memory of the machine, accessed by DMA or through a file.
pub trait PhysicalMemory {
    /// Error after which no more reads are made.
    type Error;

    /// Reads from a physical address. The contents of `data` are undefined unless the answer is [`Answer::Read`].
    ///
    /// # Errors
    /// Reading cannot continue, because there was no answer or an interruption.
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<Answer, Self::Error>;
}

/// Error while reading a kernel.
#[derive(Debug, Error)]
pub enum Error<E> {
    /// Reading failed.
    #[error(transparent)]
    Memory(E),
    /// The first read was refused.
    #[error(
        "no memory can be read: the read at {0:#x} was refused; check that the adapter is a bus master and that no IOMMU blocks it"
    )]
    NothingReadable(u64),
    /// A read of memory that the kernel points to was refused.
    #[error("read of memory at {0:#x} was refused")]
    Refused(u64),
    /// No `init_task` was found.
    #[error("no Linux kernel was found in {} MiB of memory{}", .searched_bytes >> 20, hint(*.btfs))]
    NoKernel {
        /// Size of the searched memory.
        searched_bytes: u64,
        /// Number of BTFs found.
        btfs: usize,
    },
    /// The address of the first task in the direct map is not in a memory range.
    #[error("no readable memory has the first process, which is at the kernel's address {0:#x}")]
    NoDirectMap(u64),
    /// The type information does not describe a kernel's structures.
    #[error(transparent)]
    Btf(BtfError),
    /// An address of the kernel is neither in its image nor in its direct map.
    #[error("{what} at {address:#x} is neither in the kernel's image nor in its direct map")]
    Untranslatable {
        /// Meaning of the address.
        what: &'static str,
        /// Virtual address of the kernel.
        address: u64,
    },
    /// The list of tasks changed during every attempt to read it, or is damaged.
    #[error("the list of processes was inconsistent in all {0} attempts, last at {1:#x}")]
    Torn(u32, u64),
    /// There is no such process.
    #[error("no process has PID {0}")]
    NoProcess(i32),
    /// The process is a kernel thread, which has no user code.
    #[error("PID {0} ({1}) is a kernel thread and has no user code")]
    KernelThread(i32, String),
    /// The process ended or started another program during the read.
    #[error("PID {0} ended or started another program during the read")]
    Ended(i32),
    /// The page tables do not map the kernel's own memory.
    #[error("the page tables at {0:#x} do not map the kernel's own memory, with 4 levels or with 5")]
    NoPageTables(u64),
    /// The range of the code is invalid.
    #[error("PID {pid}: invalid code range {:#x}-{:#x}", .area.start, .area.end)]
    NoCode {
        /// The process.
        pid: i32,
        /// From `start_code` to `end_code`.
        area: Range<u64>,
    },
}

fn hint(btfs: usize) -> &'static str {
    match btfs {
        0 => " and no type information (BTF): a kernel without CONFIG_DEBUG_INFO_BTF needs a file with it",
        _ => ", but type information (BTF) was found",
    }
}

impl<E> From<BtfError> for Error<E> {
    fn from(error: BtfError) -> Error<E> {
        Error::Btf(error)
    }
}

impl Answer {
    /// Turns a refused read into an error.
    fn expect<E>(self, address: u64) -> Result<(), Error<E>> {
        match self {
            Answer::Read => Ok(()),
            Answer::Refused => Err(Error::Refused(address)),
        }
    }
}

/// Returns the little-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
